// The options of mechanisms: an option that several of them have means the same in each, and values out of range are
// refused.
#include "layers/attention/options.h"

#include <gtest/gtest.h>

#include <map>

#include "layers/attention/mechanism.h"
#include "tests/message_of.h"

namespace bochner {
namespace {

using test::message_of;

// Programs show each name once, for all mechanisms that have it.
TEST(MechanismOptions, OfOneNameAreTheSameInEachMechanism) {
  std::map<std::string, std::pair<std::string, std::vector<std::string>>> seen;  // what the first one says
  int repeated = 0;
  for (const MechanismInfo& info : mechanisms()) {
    MechanismOptions options = info.defaults();
    for (const Option& option : options.list()) {
      const std::vector<std::string> said = {std::to_string(option.target().index()), option.text(), option.rule(),
                                             option.help()};
      const auto [first, is_new] = seen.insert({option.name(), {info.name, said}});
      repeated += is_new ? 0 : 1;
      EXPECT_EQ(said, first->second.second)
          << option.name() << " of " << info.name << " and of " << first->second.first;
      EXPECT_FALSE(option.help().empty()) << option.name();
    }
  }
  EXPECT_GT(seen.size(), 20U);
  EXPECT_GT(repeated, 100);
}

TEST(MechanismOptions, OutOfRangeAreRefusedInCode) {
  int tried = 0;
  for (const MechanismInfo& info : mechanisms()) {
    MechanismOptions options = info.defaults();
    for (const Option& option : options.list()) {
      for (const char* text : {"-3", "0", "1.5", "99999999999", "no-such-text"}) {
        const std::string before = options.text(option.name());
        try {
          MechanismOptions(options).set(option.name(), text);
        } catch (const Error& error) {
          ++tried;
          const std::string start = info.name + ": " + option.name() + ": ";
          EXPECT_EQ(std::string(error.what()).substr(0, start.size()), start);
          EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
        }
        EXPECT_EQ(options.text(option.name()), before);
      }
    }
  }
  EXPECT_GT(tried, 300);
}

TEST(MechanismOptions, AnErrorNamesMechanismOptionValueAndRange) {
  EXPECT_EQ(message_of([] {
              MechanismOptions("skyformer", {{"features", 0}});
            }),
            "skyformer: features: 0 is not at least 1 and at most 1048576");
  EXPECT_EQ(message_of([] {
              MechanismOptions("skyformer", {{"gamma", -0.5}});
            }),
            "skyformer: gamma: -0.5 is not above 0");
  EXPECT_EQ(message_of([] {
              MechanismOptions("softmax", {{"dropout", 1}});
            }),
            "softmax: dropout: 1 is not at least 0 and below 1");
  EXPECT_EQ(message_of([] {
              MechanismOptions("performer", {{"coupling", "givans"}});
            }),
            "performer: coupling: there is no 'givans'; did you mean 'givens'? Valid: independent, orthogonal, "
            "hadamard, givens");
  EXPECT_EQ(message_of([] {
              MechanismOptions("softmax", {{"features", 8}});
            }).substr(0, 40),
            "softmax: there is no option 'features'; ");
  EXPECT_EQ(message_of([] {
              MechanismOptions("reformer", {{"hash", 8}});
            }),
            "reformer: there is no option 'hash'; did you mean 'hashes'? Valid: block, length, as, hashes");
  EXPECT_NE(message_of([] { MechanismOptions("perfomer"); }).find("the nearest is 'performer'"), std::string::npos);
}

TEST(MechanismOptions, ValuesThatAListChangedAreCheckedWhereTheMechanismIsMade) {
  struct Widths {
    double width = 1;
    void options(OptionList& list) { list("width", width, "a width").above(0); }
  };
  Generator init(1);
  EXPECT_EQ(message_of([&] { make_mechanism({}, 1, 4, MechanismOptions::of("softmax", Widths{-1}), init); }),
            "softmax: width: -1 is not above 0");
}

TEST(MechanismOptions, AConvolutionSpansAnOddNumber) {
  Generator init(1);
  const MechanismOptions even = MechanismOptions("nystromformer").set_known({{"convolution", 4}});
  EXPECT_EQ(message_of([&] { make_mechanism({}, 1, 4, even, init); }),
            "nystromformer: convolution=4: an odd number of positions, or 0 for none");
}

TEST(MechanismOptions, CopiesHaveValuesOfTheirOwn) {
  MechanismOptions first("skyformer", {{"features", 16}, {"kernel", "softmax"}});
  MechanismOptions second = first;
  second.set("features", 32).set("exact-inverse", true);
  EXPECT_EQ(first.text("features"), "16");
  EXPECT_EQ(first.text("exact-inverse"), "false");
  EXPECT_EQ(second.text("features"), "32");
  EXPECT_EQ(second.text("kernel"), "softmax");
  first.list().at("gamma").assign("0.5");
  EXPECT_EQ(first.text("gamma"), "0.5");
  EXPECT_EQ(second.text("gamma"), "0.1");
  second = MechanismOptions("none");
  EXPECT_EQ(second.name(), "none");
  EXPECT_EQ(second.names(), std::vector<std::string>());
}

TEST(MechanismOptions, SetKnownLeavesOutWhatTheMechanismDoesNotHave) {
  const Settings settings = {{"features", 16}, {"block", 4}};
  EXPECT_EQ(MechanismOptions("performer").set_known(settings).text("features"), "16");
  EXPECT_EQ(MechanismOptions("local").set_known(settings).text("block"), "4");
  EXPECT_FALSE(MechanismOptions("local").set_known(settings).has("features"));
  EXPECT_EQ(message_of([] {
              MechanismOptions("local").set_known({{"block", 0}});
            }),
            "local: block: 0 is not at least 1 and at most 1048576");
}

TEST(MechanismOptions, TheModelGivesALengthWhereNoneWasSaid) {
  EXPECT_EQ(MechanismOptions("linformer").set_default_length(50).text("length"), "50");
  EXPECT_EQ(MechanismOptions("linformer", {{"length", 80}}).set_default_length(50).text("length"), "80");
  EXPECT_FALSE(MechanismOptions("softmax").set_default_length(50).has("length"));
  Generator init(1);
  EXPECT_EQ(message_of([&] { make_mechanism({}, 1, 4, "linformer", init); }),
            "linformer: its projections belong to positions; give the option length");
}

}  // namespace
}  // namespace bochner

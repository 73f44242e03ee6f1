// Options of a struct: their texts, their ranges, and what errors say. Numbers and lists are also tested through the
// configs of programs, in tests/experiments/config/config_test.cpp.
#include "engine/option.h"

#include <gtest/gtest.h>

#include "engine/error.h"
#include "tests/message_of.h"

namespace bochner {
namespace {

using test::message_of;

struct KernelChoice {
  enum class Shape { gaussian, cauchy, laplace };
  Shape shape = Shape::cauchy;
  int64_t features = 8;
  double width = 0.5;
  bool shared = false;
  void options(OptionList& list) {
    list("shape", shape, {{"gaussian", Shape::gaussian}, {"cauchy", Shape::cauchy}}, "form of the kernel");
    list("features", features, "number of features").at_least(1);
    list("width", width, "width of the kernel").above(0).below(2);
    list("shared", shared, "one for all heads");
  }
};

OptionList list_of(KernelChoice& kernel, const std::string& owner = "") {
  OptionList list(owner);
  kernel.options(list);
  return list;
}

TEST(Options, AreReadFromTextAndWrittenAsText) {
  KernelChoice kernel;
  OptionList list = list_of(kernel);
  EXPECT_EQ(list.names(), (std::vector<std::string>{"shape", "features", "width", "shared"}));
  EXPECT_EQ(list.at("shape").text(), "cauchy");
  EXPECT_EQ(list.at("width").text(), "0.5");
  EXPECT_FALSE(list.at("width").was_given());
  list.at("shape").assign(" gaussian ");
  list.at("features").assign("16");
  list.at("width").assign("1e-1");
  list.at("shared").assign("yes");
  EXPECT_EQ(kernel.shape, KernelChoice::Shape::gaussian);
  EXPECT_EQ(kernel.features, 16);
  EXPECT_EQ(kernel.width, 0.1);
  EXPECT_TRUE(kernel.shared);
  EXPECT_TRUE(list.at("width").was_given());
  EXPECT_EQ(list.at("shared").text(), "true");
  EXPECT_EQ(list.at("features").number(), 16);
  EXPECT_EQ(list.at("shape").number(), std::nullopt);
  EXPECT_EQ(list.find("heads"), nullptr);
}

TEST(Options, NameTheirRange) {
  KernelChoice kernel;
  OptionList list = list_of(kernel);
  EXPECT_EQ(list.at("shape").rule(), "one of gaussian, cauchy");
  EXPECT_EQ(list.at("features").rule(), "at least 1");
  EXPECT_EQ(list.at("width").rule(), "above 0 and below 2");
  EXPECT_EQ(list.at("shared").rule(), "");
}

TEST(Options, AnErrorNamesOwnerOptionValueAndRange) {
  KernelChoice kernel;
  OptionList list = list_of(kernel, "performer");
  const auto assigned = [&](const char* name, const char* text) {
    return message_of([&] { list.at(name).assign(text); });
  };
  EXPECT_EQ(assigned("features", "0"), "performer: features: 0 is not at least 1");
  EXPECT_EQ(assigned("features", "8.5"), "performer: features: '8.5' is not a whole number");
  EXPECT_EQ(assigned("features", "2000000000"),
            "performer: features: 2000000000 is more than 1000000000, the most that a whole number may be here");
  EXPECT_EQ(assigned("width", "2"), "performer: width: 2 is not above 0 and below 2");
  EXPECT_EQ(assigned("width", "nan"), "performer: width: 'nan' is not a finite number");
  EXPECT_EQ(assigned("shape", "gausian"),
            "performer: shape: there is no 'gausian'; did you mean 'gaussian'? Valid: gaussian, cauchy");
  EXPECT_EQ(assigned("shared", "perhaps"), "performer: shared: 'perhaps' is neither true nor false");
  EXPECT_EQ(assigned("feature", "8").substr(0, 68),
            "performer: there is no option 'feature'; did you mean 'features'? Va");
  EXPECT_EQ(kernel.features, 8) << "a refused text changed the value";
  EXPECT_EQ(kernel.shape, KernelChoice::Shape::cauchy);
}

TEST(Options, ATextWithBoundsMayAlsoBeANumber) {
  std::string share = "0.5";
  OptionList list;
  list("share", share, "of the whole").one_of({"half", "0.5"}).above(0).below(1);
  EXPECT_EQ(list.at("share").rule(), "one of half, 0.5, or a number above 0 and below 1");
  for (const char* text : {"half", "0.3", "1e-2"}) {
    list.at("share").assign(text);
    EXPECT_EQ(share, text);
  }
  for (const char* text : {"1", "0", "nan", "0.3x", ""}) {
    EXPECT_EQ(message_of([&] { list.at("share").assign(text); }).find("share: there is no '" + std::string(text) + "'"),
              0U);
  }
  EXPECT_EQ(message_of([&] { list.at("share").assign("2 of 3"); }),
            "share: there is no '2 of 3'; valid: half, 0.5, or a number above 0 and below 1");
  list.validate();
  share = "2";
  EXPECT_EQ(message_of([&] { list.validate(); }).find("share: there is no '2'"), 0U);
}

TEST(Options, AFlagMayNameWhatElseIsTaken) {
  bool resume = false;
  OptionList list;
  list("resume", resume, "go on").one_of({"true", "false", "auto"});
  EXPECT_EQ(message_of([&] { list.at("resume").assign("ato"); }),
            "resume: there is no 'ato'; did you mean 'auto'? Valid: true, false, auto");
  list.at("resume").assign("yes");
  EXPECT_TRUE(resume);
}

TEST(Options, ValuesSetByCodeAreChecked) {
  KernelChoice kernel;
  EXPECT_NO_THROW(list_of(kernel).validate());
  kernel.width = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(message_of([&] { list_of(kernel, "k").validate(); }), "k: width: nan is not above 0 and below 2");
  kernel = {};
  kernel.shape = KernelChoice::Shape::laplace;  // which has no text
  EXPECT_EQ(message_of([&] { list_of(kernel, "k").validate(); }),
            "k: shape: a value of its type that is not one of gaussian, cauchy");
}

TEST(Options, ANameGivenTwiceIsOurMistake) {
  KernelChoice kernel;
  OptionList list = list_of(kernel);
  EXPECT_THROW(list("width", kernel.width, "again"), InternalError);
}

}  // namespace
}  // namespace bochner

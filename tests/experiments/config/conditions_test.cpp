// Options that count only in combination with others.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "experiments/common/config/fields.h"
#include "experiments/common/program/settings.h"
#include "tests/message_of.h"

namespace bochner {
namespace {

TEST(Config, AnOptionThatCountsOnlyWithAnotherIsRefusedWithoutIt) {
  struct Tables {
    std::string folder;
    std::string format = "text";
    void fields(Fields& f) {
      f("folder", folder, "where the tables are");
      f("format", format, "of the tables").one_of({"text", "html"}).only("with --folder", [this] {
        return !folder.empty();
      });
    }
  };
  const auto assign = [](const std::vector<std::string>& arguments) {
    Tables tables;
    Fields fields = Fields::of(tables);
    EXPECT_NE(options_text(fields).find("one of text, html; only with --folder"), std::string::npos);
    assign_arguments(fields, arguments);
    return tables.format;
  };
  EXPECT_EQ(assign({}), "text");
  EXPECT_EQ(assign({"--format=html", "--folder=a"}), "html");
  EXPECT_EQ(test::message_of([&] { assign({"--format=html"}); }),
            "--format: leave it out; it counts only with --folder, and would change nothing here");
}

TEST(Config, ConditionsOfAPartAndOfItsFieldsAddUp) {
  struct Tables {
    std::string folder;
    bool html = false;
    std::string style = "plain";
    void fields(Fields& f) {
      f("folder", folder, "where the tables are");
      f("html", html, "as a page");
      const size_t before = f.all().size();
      f("style", style, "of the page").only("with --html", [this] { return html; });
      f.only_behind(before, "with --folder", [this] { return !folder.empty(); });
    }
  };
  const auto said = [](const std::vector<std::string>& arguments) {
    Tables tables;
    Fields fields = Fields::of(tables);
    EXPECT_NE(options_text(fields).find("of the page; only with --folder, and with --html"), std::string::npos);
    return test::message_of([&] { assign_arguments(fields, arguments); });
  };
  EXPECT_EQ(said({"--style=a", "--html"}),
            "--style: leave it out; it counts only with --folder, and would change nothing here");
  EXPECT_EQ(said({"--style=a", "--folder=b"}),
            "--style: leave it out; it counts only with --html, and would change nothing here");
  EXPECT_EQ(said({"--style=a", "--folder=b", "--html"}), "no error");
}

TEST(Config, AnOptionThatStandsAloneLetsNoOtherChangeNothing) {
  struct Tables {
    std::string folder;
    std::string format = "text";
    int64_t steps = 1;
    void fields(Fields& f) {
      f("folder", folder, "where the tables are");
      f("format", format, "of the tables");
      f("steps", steps, "of a run");
      f.alone("folder", {"format"}, [this] { return !folder.empty(); });
    }
  };
  const auto said = [](const std::vector<std::string>& arguments) {
    Tables tables;
    Fields fields = Fields::of(tables);
    return test::message_of([&] { assign_arguments(fields, arguments); });
  };
  EXPECT_EQ(said({"--folder=a", "--format=html"}), "no error");
  EXPECT_EQ(said({"--format=html", "--steps=2"}), "no error");
  EXPECT_EQ(said({"--folder=a", "--steps=2"}), "--steps: leave it out; beside --folder it would change nothing");
}

TEST(Config, OfSeveralRunsOneMustReadAnOption) {
  const Refusals softmax = {{"features", "no features"}, {"kernel", "no kernel"}};
  const Refusals performer = {{"kernel", "no kernel of performer"}};
  EXPECT_EQ(test::message_of([&] { require_effect(std::vector{softmax}); }), "no features");
  EXPECT_EQ(test::message_of([&] { require_effect(std::vector{softmax, performer}); }), "no kernel");
  EXPECT_NO_THROW(require_effect(std::vector{softmax, performer, Refusals()}));
}

}  // namespace
}  // namespace bochner

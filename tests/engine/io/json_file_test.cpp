#include "engine/io/json_file.h"

#include <chrono>
#include <nlohmann/json.hpp>

#include "tests/engine/io/io_test.h"

namespace bochner {
namespace {

using test::message_of;
using test::TemporaryFolder;

class JsonFile : public ::testing::Test {
 protected:
  /// What is reported about a file with this text, after its name.
  std::string refusal(const std::string& text) const {
    const std::filesystem::path path = folder_ / "a.json";
    write_file_atomically(path, text);
    const std::string message = message_of([&] { read_json_object(path, 1 << 24); });
    EXPECT_EQ(message_of([&] { parse_json(text, path.string()); }), message) << text.substr(0, 100);
    return message.starts_with(path.string() + ": ") ? message.substr(path.string().size() + 2) : message;
  }

  TemporaryFolder folder_;
};

TEST_F(JsonFile, KeepsTheOrderOfMembersWhereItIsAsked) {
  EXPECT_EQ(refusal(R"({"b": [1, {"c": null}], "a": "x"})"), "no error");
  EXPECT_EQ(parse_json(R"({"b": 1, "a": 2})", "f").dump(), R"({"b":1,"a":2})");
  EXPECT_EQ(parse_json("[1]", "f").size(), 1U);
}

TEST_F(JsonFile, RefusesWhatWouldOverflowTheStackOrHideSomething) {
  EXPECT_EQ(refusal(std::string(1'000'000, '[')), "nested too deep");
  std::string many = "[{}";
  for (int i = 0; i < 2'000'000; ++i) many += ",{}";
  EXPECT_EQ(refusal(many + "]"), "more than 2000000 objects and lists");
  std::string deep = "1";
  for (int i = 0; i < 60; ++i) deep = "{\"a\":" + deep + "}";
  EXPECT_EQ(refusal(deep), "nested too deep");
  EXPECT_EQ(refusal("{\"a\": 1, \"a\": 2}"), "'a' comes twice");
  EXPECT_EQ(refusal(std::string("{}\0{", 4)), "a zero byte; this is no JSON");
}

// The time used to grow with the square of their number, and was minutes here.
TEST_F(JsonFile, ManySiblingsTakeNoTime) {
  std::string objects = "{}";
  for (int i = 0; i < 100'000; ++i) objects += ",{}";
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(refusal("{\"junk\": [" + objects + "]}"), "no error");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

TEST_F(JsonFile, ShowsForeignTextOnOneShortLine) {
  const std::string wide(1'000'000, 'x');
  const std::string escape = "\\u001b[31m";
  for (const std::string& name : {wide, escape}) {
    const std::string member = fmt::format("\"{}\": 1", name);
    const std::string twice = refusal(fmt::format("{{{0}, {0}}}", member));
    EXPECT_NE(twice.find(" comes twice"), std::string::npos) << twice;
    EXPECT_LT(twice.size(), 120U);
    EXPECT_EQ(twice.find('\x1b'), std::string::npos) << twice;
  }
  const std::string broken = refusal("{\"a\":\n \"\x7f" + wide);
  EXPECT_TRUE(broken.starts_with("parse error at line 2, column ")) << broken;
  EXPECT_LT(broken.size(), 160U);
  const nlohmann::json object = {{"a", "\x1b[31m" + wide}, {"b", {1, 2}}};
  const JsonMembers members(object, "f");
  for (const auto& [message, start] :
       {std::pair{message_of([&] { members.flag("a", false); }), "f: a is \"\\u001b[31mxxx"},
        {message_of([&] { members.number("a", 0, 1, 0); }), "f: a is \"\\u001b[31mxxx"},
        {message_of([&] { members.real("a", 0, 1, 0); }), "f: a is \"\\u001b[31mxxx"},
        {message_of([&] { members.require("a", "y"); }), "f: a is '\\x1b[31mxxx"},
        {message_of([&] { members.text("b", ""); }), "f: b is [1,2], no text"}}) {
    EXPECT_TRUE(message.starts_with(start)) << message;
    EXPECT_LT(message.size(), 160U);
  }
}

}  // namespace
}  // namespace bochner

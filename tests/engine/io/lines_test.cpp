// Lines of a source that delivers its bytes in pieces of any size.
#include "engine/io/lines.h"

#include <gtest/gtest.h>

namespace bochner {
namespace {

/// Delivers `step` bytes at a time.
class Drops final : public ByteSource {
 public:
  Drops(std::string text, size_t step) : text_(std::move(text)), step_(step) {}
  size_t read(std::span<std::byte> to) override {
    const size_t count = std::min({step_, to.size(), text_.size() - at_});
    std::copy_n(bytes_of(text_).begin() + static_cast<std::ptrdiff_t>(at_), count, to.begin());
    at_ += count;
    return count;
  }
  const std::string& name() const override { return name_; }

 private:
  std::string text_, name_ = "drops";
  size_t step_, at_ = 0;
};

TEST(Lines, AreTheSameHoweverTheBytesCome) {
  const std::string longer(200'000, 'x');
  const std::string text = "a\n\r\n\nb\r\nc\rd\n" + longer + "\nlast";
  for (const size_t step : {size_t{1}, size_t{3}, size_t{65536}, size_t{1'000'000}}) {
    Drops source(text, step);
    Lines lines(source);
    std::vector<std::string> found;
    while (const auto line = lines.next()) found.emplace_back(*line);
    EXPECT_EQ(found, (std::vector<std::string>{"a", "", "", "b", "c\rd", longer, "last"})) << step;
    EXPECT_FALSE(lines.next());
  }
  Drops empty("", 1);
  EXPECT_FALSE(Lines(empty).next());
  const std::vector<std::string_view> whole = lines_of(text);
  EXPECT_EQ(whole, (std::vector<std::string_view>{"a", "", "", "b", "c\rd", longer, "last"}));
  EXPECT_TRUE(lines_of("").empty());
  EXPECT_EQ(lines_of("\n"), std::vector<std::string_view>{""});
}

TEST(Lines, AreTrimmedOfBlanksAndTabs) {
  EXPECT_EQ(trimmed(" \ta b\t "), "a b");
  EXPECT_EQ(trimmed(" \r"), "\r");
  EXPECT_EQ(trimmed("\t "), "");
}

}  // namespace
}  // namespace bochner

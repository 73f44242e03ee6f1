// Texts read byte by byte, as in the Long Range Arena: byte b is token b + 1, so that 0 is left for padding. Bytes stay
// bytes, whether they are UTF-8 or not.
//
//   const auto texts = std::make_shared<Texts>();
//   texts->add("some review");
//   ByteTexts data("text train", texts, {0}, {1});     // one example: text 0, of class 1
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/dataset.h"

namespace bochner::text {

/// Ids 1 ... 256, and 0 for padding.
inline constexpr int64_t kByteVocabulary = 257;

/// Texts end to end in memory.
struct Texts {
  std::string bytes;
  std::vector<int64_t> offsets = {0};  ///< of each text, and the end

  int64_t count() const { return static_cast<int64_t>(offsets.size()) - 1; }
  void add(std::string_view text) {
    bytes += text;
    offsets.push_back(static_cast<int64_t>(bytes.size()));
  }
  std::string_view operator[](int64_t i) const {
    const auto begin = static_cast<size_t>(offsets[static_cast<size_t>(i)]);
    return std::string_view(bytes).substr(begin, static_cast<size_t>(offsets[static_cast<size_t>(i) + 1]) - begin);
  }
};

/// Examples of one or several texts. Examples and data sets may share texts.
class ByteTexts final : public Dataset {
 public:
  /// Sequence s of example i is text which[i * sequences + s].
  ByteTexts(std::string name, std::shared_ptr<const Texts> texts, std::vector<int64_t> which,
            std::vector<int32_t> labels, int sequences = 1);

  const std::string& name() const override { return name_; }
  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  int sequences() const override { return sequences_; }
  int64_t length(int64_t example, int sequence = 0) const override {
    return static_cast<int64_t>(text(example, sequence).size());
  }
  void copy_tokens(int64_t example, int sequence, std::span<int64_t> ids) const override;
  int64_t label(int64_t example) const override;
  /// Which of the texts it is.
  int64_t number(int64_t example, int sequence = 0) const;
  /// The text itself.
  std::string_view text(int64_t example, int sequence = 0) const;

 private:
  void check(int64_t example) const;

  std::string name_;
  std::shared_ptr<const Texts> texts_;
  std::vector<int64_t> which_;
  std::vector<int32_t> labels_;
  int sequences_;
};

}  // namespace bochner::text

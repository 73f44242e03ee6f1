// What BERT's normaliser makes of each character: nothing, a space, a word of its own, or letters of a word,
// lower-cased and without accents if requested. Equal to BertNormalizer and BertPreTokenizer of Hugging Face's
// tokenizers 0.20.3.
//
// The steps are: control characters are dropped and white space becomes a space; Chinese characters stand alone; NFD,
// and marks (Mn) are dropped; lower case; punctuation stands alone. All steps except the order of marks in NFD depend
// on one character only, so a table holds the result.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bochner {

struct BertNormalizerOptions {
  bool clean_text = true;     ///< drops control characters
  bool split_chinese = true;  ///< each Chinese character is a word
  bool strip_accents = true;
  bool lower_case = true;
};

/// The table for one set of options, about 2 MB.
class BertCharacters {
 public:
  enum class Kind : uint8_t {
    itself,    ///< a letter that stays as it is
    letters,   ///< bytes() go to the word
    drop,      ///< is ignored
    barrier,   ///< is ignored, but marks are not reordered across it
    space,     ///< ends the word
    alone,     ///< ends the word; bytes() are a word of their own
    sequence,  ///< several of these: steps()
  };
  struct Entry {
    Kind kind;
    uint8_t count;    ///< of bytes, or of steps
    uint32_t offset;  ///< of bytes, or of steps
  };
  /// One character of a sequence: never a sequence itself.
  struct Step {
    Kind kind;
    uint8_t combining_class;  ///< other than 0: a mark that is kept and put in order
    uint8_t count;
    uint32_t offset;
  };

  explicit BertCharacters(const BertNormalizerOptions& options);

  const Entry& operator[](uint32_t code) const {
    return entries_[static_cast<size_t>(pages_[code >> 8U]) * 256 + (code & 0xFFU)];
  }
  std::string_view bytes(const Entry& entry) const { return std::string_view(pool_).substr(entry.offset, entry.count); }
  std::string_view bytes(const Step& step) const { return std::string_view(pool_).substr(step.offset, step.count); }
  const Step* steps(const Entry& entry) const { return steps_.data() + entry.offset; }

 private:
  uint16_t page_of(uint32_t page, const BertNormalizerOptions& options);
  Entry entry_of(uint32_t code, const BertNormalizerOptions& options);
  void add_bytes(uint32_t code, bool lower_case, Step& step);

  std::array<uint16_t, 0x1100> pages_{};
  std::vector<Entry> entries_;
  std::vector<Step> steps_;
  std::string pool_;
};

}  // namespace bochner

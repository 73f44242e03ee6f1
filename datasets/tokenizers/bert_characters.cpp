#include "datasets/tokenizers/bert_characters.h"

#include <utf8proc.h>

#include <algorithm>
#include <cctype>
#include <span>

#include "datasets/tokenizers/unicode_differences.h"
#include "datasets/tokenizers/utf8.h"
#include "engine/error.h"

namespace bochner {
namespace {

using unicode::CodeRange;

constexpr uint32_t kUnassigned = 0x400;
constexpr uint32_t kPrivate = 0xF00;
constexpr int kParts = 32;  // the most characters that NFD makes of one is 4, of NFKD 18

bool is_in(uint32_t code, std::span<const CodeRange> ranges) {
  const auto past = std::upper_bound(ranges.begin(), ranges.end(), code,
                                     [](uint32_t c, const CodeRange& range) { return c < range.first; });
  return past != ranges.begin() && code <= std::prev(past)->last;
}

utf8proc_category_t category(uint32_t code) { return utf8proc_category(static_cast<utf8proc_int32_t>(code)); }

bool is_space(uint32_t code) {
  const auto kind = category(code);
  return (code >= 0x9 && code <= 0xD) || code == 0x85 || kind == UTF8PROC_CATEGORY_ZS || kind == UTF8PROC_CATEGORY_ZL ||
         kind == UTF8PROC_CATEGORY_ZP;
}

/// Whether cleaning drops the character. Unassigned characters are kept, those for private use are not.
bool is_control(uint32_t code) {
  if (code == 0 || code == 0xFFFD) return true;
  if (code == '\t' || code == '\n' || code == '\r') return false;
  const auto kind = category(code);
  const bool other = kind == UTF8PROC_CATEGORY_CC || kind == UTF8PROC_CATEGORY_CF || kind == UTF8PROC_CATEGORY_CO;
  return other && !is_in(code, unicode::kFormatKept);
}

bool is_chinese(uint32_t code) {
  constexpr CodeRange kChinese[] = {{0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},  {0x20000, 0x2A6DF},
                                    {0x2A700, 0x2B81F}, {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F}};
  return is_in(code, kChinese);
}

bool is_accent(uint32_t code) {
  if (category(code) == UTF8PROC_CATEGORY_MN) return !is_in(code, unicode::kMarkKept);
  return is_in(code, unicode::kMarkDropped);
}

bool is_punctuation(uint32_t code) {
  if (code < 0x80) return std::ispunct(static_cast<int>(code)) != 0;
  const auto kind = category(code);
  if (kind >= UTF8PROC_CATEGORY_PC && kind <= UTF8PROC_CATEGORY_PO) return !is_in(code, unicode::kPunctuationNot);
  return is_in(code, unicode::kPunctuationToo);
}

uint8_t combining_class(uint32_t code) {
  if (is_in(code, unicode::kStarters)) return 0;
  const auto* property = utf8proc_get_property(static_cast<utf8proc_int32_t>(code));
  return static_cast<uint8_t>(property->combining_class);
}

/// NFD of one character, or the character itself, in `to`.
std::span<const utf8proc_int32_t> decomposed(uint32_t code, bool nfd, std::span<utf8proc_int32_t, kParts> to) {
  to[0] = static_cast<utf8proc_int32_t>(code);
  if (!nfd || is_in(code, unicode::kWhole)) return to.first(1);
  int boundary = 0;
  const auto flags = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);
  const auto count = utf8proc_decompose_char(to[0], to.data(), kParts, flags, &boundary);
  BOCHNER_ASSERT(count > 0 && count <= kParts);
  return to.first(static_cast<size_t>(count));
}

uint32_t small_letter(uint32_t code) {
  return static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code)));
}

/// The one capital whose small letter is two characters: i and the dot above.
constexpr uint32_t kCapitalIWithDot = 0x130;

/// What happens to a character of NFD; its bytes are those of no character yet.
BertCharacters::Step step_of(uint32_t code, const BertNormalizerOptions& options, bool chinese) {
  using Kind = BertCharacters::Kind;
  const uint8_t order = options.strip_accents ? combining_class(code) : 0;
  if (options.strip_accents && is_accent(code)) return {order == 0 ? Kind::barrier : Kind::drop, 0, 0, 0};
  if (is_space(code)) return {Kind::space, order, 0, 0};
  return {chinese || is_punctuation(code) ? Kind::alone : Kind::letters, order, 0, 0};
}

}  // namespace

void BertCharacters::add_bytes(uint32_t code, bool lower_case, Step& step) {
  step.offset = static_cast<uint32_t>(pool_.size());
  if (lower_case && code == kCapitalIWithDot) {
    pool_ += "i\xCC\x87";
  } else {
    unicode::append(lower_case ? small_letter(code) : code, pool_);
  }
  step.count = static_cast<uint8_t>(pool_.size() - step.offset);
}

BertCharacters::Entry BertCharacters::entry_of(uint32_t code, const BertNormalizerOptions& options) {
  if (options.clean_text && is_control(code)) return {Kind::drop, 0, 0};
  if (options.clean_text && is_space(code)) return {Kind::space, 0, 0};
  const bool chinese = options.split_chinese && is_chinese(code);
  std::array<utf8proc_int32_t, kParts> to;
  std::array<Step, kParts> all;
  const auto parts = decomposed(code, options.strip_accents, to);
  const std::span<Step> steps = std::span(all).first(parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto part = static_cast<uint32_t>(parts[i]);
    steps[i] = step_of(part, options, chinese);
    const bool stays = options.lower_case ? small_letter(part) == code && part != kCapitalIWithDot : part == code;
    if (steps.size() == 1 && steps[i].kind == Kind::letters && steps[i].combining_class == 0 && stays) {
      return {Kind::itself, 0, 0};
    }
    if (steps[i].kind == Kind::letters || steps[i].kind == Kind::alone) add_bytes(part, options.lower_case, steps[i]);
  }
  const bool plain = std::all_of(steps.begin(), steps.end(), [](const Step& s) { return s.combining_class == 0; });
  if (plain && steps.size() == 1) return {steps[0].kind, steps[0].count, steps[0].offset};
  if (plain &&
      steps[0].kind == Kind::letters) {  // a letter and accents, or several letters, whose bytes are consecutive
    const auto joins = [](const Step& s) { return s.kind != Kind::space && s.kind != Kind::alone; };
    if (std::all_of(steps.begin(), steps.end(), joins)) {
      const auto count = static_cast<uint8_t>(pool_.size() - steps[0].offset);
      return {Kind::letters, count, steps[0].offset};
    }
  }
  const Entry entry{Kind::sequence, static_cast<uint8_t>(steps.size()), static_cast<uint32_t>(steps_.size())};
  steps_.insert(steps_.end(), steps.begin(), steps.end());
  return entry;
}

uint16_t BertCharacters::page_of(uint32_t page, const BertNormalizerOptions& options) {
  std::array<Entry, 256> entries;
  bool itself = true;
  for (uint32_t i = 0; i < 256; ++i) {
    entries[i] = entry_of(page * 256 + i, options);
    itself = itself && entries[i].kind == Kind::itself;
  }
  if (itself && page != kUnassigned) return pages_[kUnassigned];
  entries_.insert(entries_.end(), entries.begin(), entries.end());
  return static_cast<uint16_t>(entries_.size() / 256 - 1);
}

BertCharacters::BertCharacters(const BertNormalizerOptions& options) {
  // Planes 4 to 13 are not assigned, 15 and 16 are for private use but for the last two characters of each.
  pages_[kUnassigned] = page_of(kUnassigned, options);
  pages_[kPrivate] = page_of(kPrivate, options);
  for (uint32_t page = 0; page < pages_.size(); ++page) {
    if (page >= 0x400 && page < 0xE00) {
      pages_[page] = pages_[kUnassigned];
    } else if (page >= 0xF00 && (page & 0xFFU) != 0xFF) {
      pages_[page] = pages_[kPrivate];
    } else {
      pages_[page] = page_of(page, options);
    }
  }
}

}  // namespace bochner

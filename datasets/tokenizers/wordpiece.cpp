#include "datasets/tokenizers/wordpiece.h"

#include <algorithm>
#include <cstring>

#include "datasets/tokenizers/utf8.h"
#include "engine/error.h"

namespace bochner {
namespace {

BertNormalizerOptions normalizer_of(const WordpieceOptions& options) {
  return {.clean_text = options.clean_text,
          .split_chinese = options.split_chinese,
          .strip_accents = options.strip_accents.value_or(options.lower_case),
          .lower_case = options.lower_case};
}

constexpr size_t kShort = 15;                ///< the most bytes of a word that is remembered
constexpr size_t kKnown = size_t{1} << 15U;  ///< entries for them: 1 MiB

uint64_t read_word(const char* from) {
  uint64_t value = 0;
  std::memcpy(&value, from, sizeof value);
  return value;
}

}  // namespace

Wordpiece::Wordpiece(WordpieceVocabulary vocabulary, bool special_in_text)
    : vocabulary_(std::move(vocabulary)), characters_(normalizer_of(vocabulary_.options)) {
  const std::string& prefix = vocabulary_.options.prefix;
  size_t bytes = 0;
  for (const std::string& piece : vocabulary_.pieces) bytes += piece.size() * (piece.starts_with(prefix) ? 2 : 1);
  trie_ = std::make_unique<PieceTrie>(bytes);
  size_ = static_cast<int64_t>(vocabulary_.pieces.size());
  for (size_t id = 0; id < vocabulary_.pieces.size(); ++id) {
    const std::string& piece = vocabulary_.pieces[id];
    if (piece.empty()) continue;
    trie_->add(0, piece, static_cast<int32_t>(id));
    if (piece.starts_with(prefix) && piece.size() > prefix.size()) {
      trie_->add(1, std::string_view(piece).substr(prefix.size()), static_cast<int32_t>(id));
    }
  }
  for (uint32_t c = 0; c < 0x80; ++c) {
    const BertCharacters::Entry& entry = characters_[c];
    letters_[c] = static_cast<char>(c);
    switch (entry.kind) {
      case BertCharacters::Kind::itself:
        plain_[c] = Byte::letter;
        break;
      case BertCharacters::Kind::letters:
        plain_[c] = Byte::letter;
        letters_[c] = characters_.bytes(entry).front();
        BOCHNER_ASSERT(entry.count == 1);
        break;
      case BertCharacters::Kind::drop:
        plain_[c] = Byte::drop;
        break;
      case BertCharacters::Kind::space:
        plain_[c] = Byte::space;
        break;
      case BertCharacters::Kind::alone:
        plain_[c] = Byte::alone;
        break;
      default:
        plain_[c] = Byte::other;
    }
  }
  std::fill(plain_.begin() + 0x80, plain_.end(), Byte::other);
  bytes_ = plain_;
  for (const AddedToken& token : vocabulary_.added) {
    size_ = std::max<int64_t>(size_, token.id + 1);
    if (token.special && !special_in_text) continue;
    added_.push_back(token);
    bytes_[static_cast<uint8_t>(token.text.front())] = Byte::token;
  }
  std::stable_sort(added_.begin(), added_.end(),
                   [](const AddedToken& a, const AddedToken& b) { return a.text.size() > b.text.size(); });
}

std::string_view Wordpiece::token(int64_t id) const {
  if (id >= 0 && id < static_cast<int64_t>(vocabulary_.pieces.size())) {
    const std::string& piece = vocabulary_.pieces[static_cast<size_t>(id)];
    if (!piece.empty()) return piece;
  }
  for (const AddedToken& added : vocabulary_.added) {
    if (added.id == id) return added.text;
  }
  fail("{}: there is no token of id {}", vocabulary_.file, id);
}

const AddedToken* Wordpiece::added_at(std::string_view text) const {
  const auto found =
      std::find_if(added_.begin(), added_.end(), [&](auto& token) { return text.starts_with(token.text); });
  return found == added_.end() ? nullptr : &*found;
}

std::string told_of_replaced(int64_t count) {
  if (count == 1) return "1 place was not UTF-8; it was read as U+FFFD";
  return fmt::format("{} places were not UTF-8; each was read as U+FFFD", count);
}

Wordpiece::Encoder::Encoder(const Wordpiece& tokenizer) : tokenizer_(tokenizer), known_(kKnown) {
  // A character has 4 bytes at most: what is longer than this has more characters than are allowed.
  capacity_ = 4 * static_cast<size_t>(tokenizer.vocabulary_.options.longest_word) + 1;
  word_.resize(capacity_ + 32);
}

void Wordpiece::Encoder::put(std::string_view bytes) {
  if (size_ < capacity_) {
    std::memcpy(word_.data() + size_, bytes.data(), bytes.size());  // a character's letters: 16 bytes at most
    size_ += bytes.size();
  }
}

/// NFD: the marks after a letter are in the order of their classes; those of equal classes keep their order.
void Wordpiece::Encoder::put_mark(std::string_view bytes, uint8_t combining_class) {
  if (size_ >= capacity_) return;
  size_t place = marks_.size();
  while (place > 0 && marks_[place - 1].first > combining_class) --place;
  const size_t at = place < marks_.size() ? marks_[place].second : size_;
  std::memmove(word_.data() + at + bytes.size(), word_.data() + at, size_ - at);
  std::memcpy(word_.data() + at, bytes.data(), bytes.size());
  size_ += bytes.size();
  for (size_t i = place; i < marks_.size(); ++i) marks_[i].second += bytes.size();
  marks_.insert(marks_.begin() + static_cast<std::ptrdiff_t>(place), {combining_class, at});
}

template <class Take>
void Wordpiece::Encoder::end_word(const Take& take) {
  marks_.clear();
  if (size_ == 0) return;
  take.word(std::string_view(word_.data(), size_));
  size_ = 0;
}

template <class Take>
void Wordpiece::Encoder::step(const BertCharacters::Step& step, const Take& take) {
  using Kind = BertCharacters::Kind;
  const std::string_view bytes = tokenizer_.characters_.bytes(step);
  if (step.kind == Kind::letters && step.combining_class != 0) {
    put_mark(bytes, step.combining_class);
  } else if (step.kind == Kind::letters) {
    marks_.clear();
    put(bytes);
  } else if (step.kind == Kind::barrier) {
    marks_.clear();
  } else if (step.kind != Kind::drop) {
    end_word(take);
    if (step.kind == Kind::alone) {
      put(bytes);
      end_word(take);
    }
  }
}

template <class Take>
void Wordpiece::Encoder::character(uint32_t code, std::string_view itself, const Take& take) {
  using Kind = BertCharacters::Kind;
  const BertCharacters& characters = tokenizer_.characters_;
  const BertCharacters::Entry& entry = characters[code];
  switch (entry.kind) {
    case Kind::itself:
      marks_.clear();
      put(itself);
      break;
    case Kind::sequence:
      for (int i = 0; i < entry.count; ++i) step(characters.steps(entry)[i], take);
      break;
    default:
      step({entry.kind, 0, entry.count, entry.offset}, take);
  }
}

template <class Take>
void Wordpiece::Encoder::scan(std::string_view text, const Take& take) {
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto rest = [&] { return std::string_view(at, static_cast<size_t>(end - at)); };
  const auto kind_at = [&] { return tokenizer_.bytes_[static_cast<uint8_t>(*at)]; };
  const auto put_letters = [&] {
    const char* const letters = tokenizer_.letters_.data();
    const char* const stop =
        at + std::min<ptrdiff_t>(end - at, static_cast<ptrdiff_t>(capacity_ - std::min(size_, capacity_)));
    char* to = word_.data() + size_;
    marks_.clear();
    while (at < stop && kind_at() == Byte::letter) *to++ = letters[static_cast<uint8_t>(*at++)];
    size_ = static_cast<size_t>(to - word_.data());
    if (at == stop) {  // too long to be known
      while (at < end && kind_at() == Byte::letter) ++at;
    }
  };
  while (at < end) {
    Byte kind = kind_at();
    if (kind == Byte::token) {
      if (const AddedToken* token = tokenizer_.added_at(rest())) {
        end_word(take);
        take.token(token->id);
        at += token->text.size();
        continue;
      }
      kind = tokenizer_.plain_[static_cast<uint8_t>(*at)];
      if (kind == Byte::letter) {  // one, as the next may begin a token
        marks_.clear();
        put(std::string_view(tokenizer_.letters_.data() + static_cast<uint8_t>(*at), 1));
        ++at;
        continue;
      }
    }
    switch (kind) {
      case Byte::letter:
        put_letters();
        break;
      case Byte::drop:
        ++at;
        break;
      case Byte::space:
        end_word(take);
        ++at;
        break;
      case Byte::alone:
        end_word(take);
        take.word(std::string_view(at, 1));
        ++at;
        break;
      default: {
        const unicode::Decoded next = unicode::decode(rest());
        replaced_ += next.valid ? 0 : 1;
        character(next.code, next.valid ? std::string_view(at, next.bytes) : "\xEF\xBF\xBD", take);
        at += next.bytes;
      }
    }
  }
  end_word(take);
}

void Wordpiece::Encoder::append_pieces(std::string_view word, std::vector<int32_t>& ids) const {
  const WordpieceVocabulary& vocabulary = tokenizer_.vocabulary_;
  const auto longest = static_cast<size_t>(vocabulary.options.longest_word);
  const size_t before = ids.size();
  bool known = word.size() <= longest || unicode::characters(word) <= vocabulary.options.longest_word;
  for (int tree = 0; known && !word.empty(); tree = 1) {
    const auto [id, length] = tokenizer_.trie_->longest(tree, word);
    known = length > 0;
    ids.push_back(id);
    word.remove_prefix(length);
  }
  if (!known) {  // a word with an unknown piece is unknown as a whole
    ids.resize(before);
    ids.push_back(vocabulary.unknown);
  }
}

void Wordpiece::Encoder::append_word(std::string_view word, std::vector<int32_t>& ids) {
  if (word.size() > kShort) {
    append_pieces(word, ids);
    return;
  }
  std::array<char, 16> key{};
  std::memcpy(key.data(), word.data(), word.size());
  key[kShort] = static_cast<char>(word.size());
  const uint64_t low = read_word(key.data());
  const uint64_t high = read_word(key.data() + 8);
  const uint64_t mixed = (low ^ (high * 0x9E3779B97F4A7C15U)) * 0xD6E8FEB86659FD93U;
  Known& known = known_[(mixed >> 40U) % kKnown];
  if (known.low != low || known.high != high) {
    const size_t before = ids.size();
    append_pieces(word, ids);
    const size_t count = ids.size() - before;
    if (count <= known.ids.size()) {
      known.low = low;
      known.high = high;
      known.count = static_cast<int32_t>(count);
      std::copy(ids.begin() + static_cast<std::ptrdiff_t>(before), ids.end(), known.ids.begin());
    }
    return;
  }
  ids.push_back(known.ids[0]);
  for (int32_t i = 1; i < known.count; ++i) ids.push_back(known.ids[static_cast<size_t>(i)]);
}

void Wordpiece::Encoder::append(std::string_view text, std::vector<int32_t>& ids) {
  struct Take {
    Encoder& encoder;
    std::vector<int32_t>& ids;
    void word(std::string_view bytes) const { encoder.append_word(bytes, ids); }
    void token(int32_t id) const { ids.push_back(id); }
  };
  scan(text, Take{*this, ids});
}

std::vector<std::string> Wordpiece::Encoder::words(std::string_view text) {
  struct Take {
    const Wordpiece& tokenizer;
    std::vector<std::string>& words;
    void word(std::string_view bytes) const { words.emplace_back(bytes); }
    void token(int32_t id) const { words.emplace_back(tokenizer.token(id)); }
  };
  std::vector<std::string> words;
  scan(text, Take{tokenizer_, words});
  return words;
}

std::pair<int64_t, int64_t> truncated_lengths(int64_t first, int64_t second, int64_t longest) {
  if (first + second <= longest) return {first, second};
  const int64_t shorter = std::min(first, second);
  const int64_t half = longest / 2;
  if (shorter > half) return first > second ? std::pair{longest - half, half} : std::pair{half, longest - half};
  return first > second ? std::pair{longest - shorter, shorter} : std::pair{shorter, longest - shorter};
}

Encoding Wordpiece::Encoder::encode(std::string_view text, const EncodeOptions& options) {
  const WordpieceVocabulary& vocabulary = tokenizer_.vocabulary_;
  if (options.longest < 0) fail("at most {} ids: a limit is a positive number, or 0 for none", options.longest);
  if (options.special && options.longest > 0 && options.longest < 2) {
    fail("at most {} ids of a text are too few: [CLS] and [SEP] alone take 2", options.longest);
  }
  Encoding result;
  if (options.special) result.ids.push_back(vocabulary.begin);
  append(text, result.ids);
  if (options.longest > 0) {
    const auto most = static_cast<size_t>(options.longest - (options.special ? 1 : 0));
    result.ids.resize(std::min(result.ids.size(), most));
  }
  if (options.special) result.ids.push_back(vocabulary.end);
  result.types.resize(result.ids.size(), 0);
  return result;
}

Encoding Wordpiece::Encoder::encode_pair(std::string_view first, std::string_view second,
                                         const EncodeOptions& options) {
  const WordpieceVocabulary& vocabulary = tokenizer_.vocabulary_;
  if (options.longest < 0) fail("at most {} ids: a limit is a positive number, or 0 for none", options.longest);
  if (options.special && options.longest > 0 && options.longest < 3) {
    fail("at most {} ids of a pair are too few: [CLS] and two [SEP] alone take 3", options.longest);
  }
  std::vector<int32_t> a;
  std::vector<int32_t> b;
  append(first, a);
  append(second, b);
  if (options.longest > 0) {
    const auto [keep_a, keep_b] = truncated_lengths(static_cast<int64_t>(a.size()), static_cast<int64_t>(b.size()),
                                                    options.longest - (options.special ? 3 : 0));
    a.resize(static_cast<size_t>(keep_a));
    b.resize(static_cast<size_t>(keep_b));
  }
  Encoding result;
  if (options.special) result.ids.push_back(vocabulary.begin);
  result.ids.insert(result.ids.end(), a.begin(), a.end());
  if (options.special) result.ids.push_back(vocabulary.end);
  result.types.resize(result.ids.size(), 0);
  result.ids.insert(result.ids.end(), b.begin(), b.end());
  if (options.special) result.ids.push_back(vocabulary.end);
  result.types.resize(result.ids.size(), 1);
  return result;
}

}  // namespace bochner

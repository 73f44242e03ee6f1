#include "datasets/tokenizers/wordpiece_training.h"

#include <algorithm>
#include <queue>
#include <set>

#include "datasets/tokenizers/utf8.h"
#include "engine/error.h"
#include "engine/io/file.h"

namespace bochner {
namespace {

const char* const kSpecial[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};

WordpieceVocabulary special_tokens(const WordpieceOptions& options) {
  WordpieceVocabulary vocabulary;
  vocabulary.file = "the special tokens";
  vocabulary.options = options;
  vocabulary.pieces.assign(std::begin(kSpecial), std::end(kSpecial));
  vocabulary.padding = 0;
  vocabulary.unknown = 1;
  vocabulary.begin = 2;
  vocabulary.end = 3;
  vocabulary.mask = 4;
  return vocabulary;
}

std::vector<std::string_view> characters_of(std::string_view word) {
  std::vector<std::string_view> result;
  while (!word.empty()) {
    const size_t bytes = unicode::decode(word).bytes;
    result.push_back(word.substr(0, bytes));
    word.remove_prefix(bytes);
  }
  return result;
}

struct Word {
  std::vector<int32_t> pieces;
  int64_t count = 0;
};

using Pair = std::pair<int32_t, int32_t>;

struct PairHash {
  size_t operator()(const Pair& pair) const {
    const auto both = (static_cast<uint64_t>(pair.first) << 32U) | static_cast<uint32_t>(pair.second);
    return (both * 0x9E3779B97F4A7C15U) >> 16U;
  }
};

struct Pieces {
  std::vector<std::string> texts;  ///< by number
  std::unordered_map<std::string, int32_t> numbers;

  /// The number of a piece; a new number if the piece is new.
  int32_t number(const std::string& text) {
    const auto [at, is_new] = numbers.emplace(text, static_cast<int32_t>(texts.size()));
    if (is_new) texts.push_back(text);
    return at->second;
  }
};

/// Joins pairs of pieces in words.
class Joining {
 public:
  Joining(std::vector<Word> words, Pieces& pieces, std::string prefix)
      : words_(std::move(words)), pieces_(pieces), prefix_(std::move(prefix)), first_(LowerPriority{&pieces}) {
    for (size_t i = 0; i < words_.size(); ++i) count(i, 1);
    push_changed();
  }

  /// Joins the most frequent pair into one piece; false if no pair occurs `least` times.
  bool join(int64_t least) {
    while (!first_.empty()) {
      const QueuedPair top = first_.top();
      first_.pop();
      const auto found = pairs_.find(top.pair);
      const int64_t now = found == pairs_.end() ? 0 : found->second.count;
      if (now != top.count) {  // it has become rarer since
        if (now > 0) first_.push({now, top.pair});
        continue;
      }
      if (now < least) return false;
      merge(top.pair, found->second.words);
      return true;
    }
    return false;
  }

 private:
  struct Occurrences {
    int64_t count = 0;
    std::vector<uint32_t> words;  ///< where it is or was
  };
  struct QueuedPair {
    int64_t count;
    Pair pair;
  };
  struct LowerPriority {
    const Pieces* pieces;
    bool operator()(const QueuedPair& a, const QueuedPair& b) const {
      if (a.count != b.count) return a.count < b.count;
      const auto text = [&](int32_t number) -> const std::string& {
        return pieces->texts[static_cast<size_t>(number)];
      };
      if (a.pair.first != b.pair.first) return text(a.pair.first) > text(b.pair.first);
      return text(a.pair.second) > text(b.pair.second);
    }
  };

  void count(size_t index, int64_t sign) {
    const Word& word = words_[index];
    for (size_t i = 1; i < word.pieces.size(); ++i) {
      const Pair pair{word.pieces[i - 1], word.pieces[i]};
      Occurrences& at = pairs_[pair];
      at.count += sign * word.count;
      if (sign > 0) {
        const auto number = static_cast<uint32_t>(index);
        if (at.words.empty() || at.words.back() != number) at.words.push_back(number);
        changed_.insert(pair);
      }
    }
  }

  void push_changed() {
    for (const Pair& pair : changed_) first_.push({pairs_[pair].count, pair});
    changed_.clear();
  }

  void merge(const Pair& pair, std::vector<uint32_t> where) {
    std::sort(where.begin(), where.end());
    where.erase(std::unique(where.begin(), where.end()), where.end());
    const std::string text = pieces_.texts[static_cast<size_t>(pair.first)] +
                             pieces_.texts[static_cast<size_t>(pair.second)].substr(prefix_.size());
    const int32_t joined = pieces_.number(text);
    for (const uint32_t index : where) {
      std::vector<int32_t>& old = words_[index].pieces;
      std::vector<int32_t> now;
      for (size_t i = 0; i < old.size(); ++i) {
        const bool both = i + 1 < old.size() && old[i] == pair.first && old[i + 1] == pair.second;
        now.push_back(both ? joined : old[i]);
        i += both ? 1 : 0;
      }
      if (now.size() == old.size()) continue;
      count(index, -1);
      old = std::move(now);
      count(index, 1);
    }
    pairs_.erase(pair);
    changed_.erase(pair);
    push_changed();
  }

  std::vector<Word> words_;
  Pieces& pieces_;
  std::string prefix_;
  std::unordered_map<Pair, Occurrences, PairHash> pairs_;
  std::priority_queue<QueuedPair, std::vector<QueuedPair>, LowerPriority> first_;
  std::set<Pair> changed_;
};

}  // namespace

WordpieceTraining::WordpieceTraining(const WordpieceTrainingOptions& options)
    : options_(options), splitter_(special_tokens(options.text)), encoder_(splitter_) {
  if (options.size < 6 || options.size > 2'000'000)
    fail("a vocabulary of {} tokens; 6 to 2000000 can be made", options.size);
  if (options.least_count < 1) fail("pairs that come at least {} times: 1 is the least", options.least_count);
  if (options.characters < 1) fail("at most {} characters: 1 is the least", options.characters);
}

void WordpieceTraining::add(std::string_view text) {
  for (std::string& word : encoder_.words(text)) {
    ++count_;
    if (unicode::characters(word) <= options_.text.longest_word) ++counts_[std::move(word)];
  }
}

std::vector<std::string> WordpieceTraining::tokens() const {
  const std::vector<std::pair<std::string, int64_t>> sorted = [&] {
    std::vector<std::pair<std::string, int64_t>> words(counts_.begin(), counts_.end());
    std::sort(words.begin(), words.end());
    return words;
  }();
  std::unordered_map<std::string_view, int64_t> counts;
  for (const auto& [word, count] : sorted) {
    for (const std::string_view c : characters_of(word)) counts[c] += count;
  }
  std::vector<std::pair<int64_t, std::string_view>> frequent;
  for (const auto& [c, count] : counts) frequent.emplace_back(-count, c);
  std::sort(frequent.begin(), frequent.end());
  frequent.resize(std::min(frequent.size(), static_cast<size_t>(options_.characters)));
  std::set<std::string_view> kept;
  for (const auto& [count, c] : frequent) kept.insert(c);

  const std::string& prefix = options_.text.prefix;
  std::set<std::string> continuing;
  std::vector<const std::pair<std::string, int64_t>*> used;
  for (const auto& entry : sorted) {
    const auto parts = characters_of(entry.first);
    if (!std::all_of(parts.begin(), parts.end(), [&](std::string_view c) { return kept.contains(c); })) continue;
    used.push_back(&entry);
    for (size_t i = 1; i < parts.size(); ++i) continuing.insert(prefix + std::string(parts[i]));
  }
  Pieces pieces;
  for (const char* special : kSpecial) pieces.number(special);
  for (const std::string_view c : kept) pieces.number(std::string(c));
  for (const std::string& c : continuing) pieces.number(c);
  const auto size = static_cast<size_t>(options_.size);
  if (pieces.texts.size() > size) {
    fail("a vocabulary of {} tokens has no room for the {} special tokens and single characters of this text", size,
         pieces.texts.size());
  }
  std::vector<Word> words;
  for (const auto* entry : used) {
    Word word;
    word.count = entry->second;
    for (const std::string_view c : characters_of(entry->first)) {
      word.pieces.push_back(pieces.numbers.at((word.pieces.empty() ? "" : prefix) + std::string(c)));
    }
    words.push_back(std::move(word));
  }
  Joining joining(std::move(words), pieces, prefix);
  while (pieces.texts.size() < size && joining.join(options_.least_count)) {
  }
  return pieces.texts;
}

std::string vocabulary_text(const std::vector<std::string>& tokens) {
  std::string text;
  for (const std::string& token : tokens) text += token + "\n";
  return text;
}

void write_vocabulary(const std::filesystem::path& path, const std::vector<std::string>& tokens) {
  write_file_atomically(path, vocabulary_text(tokens));
}

}  // namespace bochner

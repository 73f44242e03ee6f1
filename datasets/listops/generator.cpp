#include "datasets/listops/generator.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>
#include <unordered_set>

#include "engine/parallel.h"
#include "engine/philox.h"

namespace bochner::listops {
namespace {

// Trees are drawn in blocks, each from its own stream, and the results are taken in the order of the blocks, whatever
// number is drawn at once.
constexpr int64_t kTreesPerBlock = 512;
constexpr int64_t kBlocksPerRound = 64;
/// The search ends after this many trees in a row without a new expression.
constexpr int64_t kPatience = 2'000'000;

constexpr int64_t kLongest = 1'000'000;
constexpr int64_t kMostExpressions = 10'000'000;

constexpr std::string_view kNames[] = {"[MIN", "[MAX", "[MED", "[SM"};

int apply(Operator op, std::vector<uint8_t>::iterator begin, std::vector<uint8_t>::iterator end) {
  switch (op) {
    case Operator::min:
      return *std::min_element(begin, end);
    case Operator::max:
      return *std::max_element(begin, end);
    case Operator::sm:
      return std::accumulate(begin, end, 0) % 10;
    case Operator::med:
      break;
  }
  std::sort(begin, end);
  const auto middle = begin + (end - begin) / 2;
  return (end - begin) % 2 == 1 ? *middle : (*(middle - 1) + *middle) / 2;
}

std::vector<Expression> draw_block(const GeneratorOptions& options, int64_t block) {
  Sampler sampler(options, Generator(options.seed).fork(static_cast<uint64_t>(block)));
  std::vector<Expression> trees;
  Expression tree;
  for (int64_t i = 0; i < kTreesPerBlock; ++i) {
    if (sampler.draw(tree)) trees.push_back(std::move(tree));
  }
  return trees;
}

}  // namespace

void check(const GeneratorOptions& options) {
  const auto within = [](const char* name, int64_t value, int64_t low, int64_t high) {
    if (value < low || value > high) fail("listops: {} is {}, outside {} ... {}", name, value, low, high);
  };
  within("the depth", options.max_depth, 1, kLongest);
  within("the number of arguments", options.max_args, 2, kLongest);
  within("the shortest length", options.min_length, 0, kLongest);
  within("the longest length", options.max_length, 2, kLongest);
  within("the number of training expressions", options.train, 1, kMostExpressions);
  within("the number of validation expressions", options.valid, 1, kMostExpressions);
  within("the number of test expressions", options.test, 1, kMostExpressions);
  if (options.max_length < options.min_length + 2) {
    fail("listops: expressions must be longer than {} tokens and shorter than {}; no length is", options.min_length,
         options.max_length);
  }
  if (!(options.value_probability >= 0 && options.value_probability <= 1)) {
    fail("listops: the probability {} of a value lies outside [0, 1]", options.value_probability);
  }
  if (options.operators.empty()) fail("listops: the list of operators is empty");
}

// ---- one tree

int Expression::value() const {
  std::vector<uint8_t> values;                    // of arguments whose operator is still open
  std::vector<std::pair<Operator, size_t>> open;  // an operator, and where its arguments begin
  for (const char c : codes_) {
    const auto code = static_cast<uint8_t>(c);
    if (code < kOperator) {
      values.push_back(code);
    } else if (code < kEnd) {
      open.emplace_back(static_cast<Operator>(code - kOperator), values.size());
    } else {
      const auto [op, first] = open.back();
      open.pop_back();
      const int value = apply(op, values.begin() + static_cast<ptrdiff_t>(first), values.end());
      values.resize(first);
      values.push_back(static_cast<uint8_t>(value));
    }
  }
  BOCHNER_ASSERT(open.empty() && values.size() == 1);
  return values.front();
}

void Expression::write(std::string& text) const {
  // How many arguments an operator has must be known when its parentheses are opened: a first pass counts them.
  std::vector<uint32_t> arguments(codes_.size(), 0);
  std::vector<size_t> open;
  for (size_t i = 0; i < codes_.size(); ++i) {
    const auto code = static_cast<uint8_t>(codes_[i]);
    if (code == kEnd) {
      open.pop_back();
      continue;
    }
    if (!open.empty()) ++arguments[open.back()];
    if (code >= kOperator) open.push_back(i);
  }
  int64_t depth = 0;
  for (size_t i = 0; i < codes_.size(); ++i) {
    const auto code = static_cast<uint8_t>(codes_[i]);
    if (code == kEnd) {
      text += "] )";
      --depth;
    } else if (code >= kOperator) {
      for (uint32_t k = 0; k <= arguments[i]; ++k) text += "( ";
      text += kNames[code - kOperator];
      ++depth;
      text += ' ';
      continue;
    } else {
      text += static_cast<char>('0' + code);
    }
    if (depth > 0) text += " ) ";  // an argument is complete
  }
}

std::string Expression::str() const {
  std::string text;
  write(text);
  return text;
}

// ---- drawing

Sampler::Sampler(const GeneratorOptions& options, const Generator& generator)
    : options_(options),
      operator_below_(static_cast<uint64_t>(std::llround((1 - options.value_probability) * 0x1p32))),
      seed_(generator.seed()),
      place_(generator.offset() / 4) {
  check(options_);
  BOCHNER_ASSERT(generator.offset() % 4 == 0);
}

uint32_t Sampler::word() {
  if (used_ == kWords) {
    philox_batch(seed_, place_, words_);
    place_ += kPhiloxBatch;
    used_ = 0;
  }
  return words_[used_++];
}

/// Uniform in [0, bound), without bias, as Generator::below.
uint32_t Sampler::below(uint32_t bound) {
  for (;;) {
    const uint64_t product = uint64_t{word()} * bound;
    const auto low = static_cast<uint32_t>(product);
    if (low >= bound || low >= (uint64_t{1} << 32) % bound) return static_cast<uint32_t>(product >> 32);
  }
}

bool Sampler::draw(Expression& tree) {
  static_assert(kWords == 4 * kPhiloxBatch);
  codes_.clear();
  missing_.clear();
  // The length so far, and the least total length (a node not yet drawn has at least 1, each `]` has 1).
  int64_t sure = 1;
  for (;;) {
    const bool deepest = static_cast<int64_t>(missing_.size()) + 1 == options_.max_depth;
    if (!deepest && word() < operator_below_) {
      const auto arguments = 2 + static_cast<int64_t>(below(static_cast<uint32_t>(options_.max_args - 1)));
      sure += 1 + arguments;  // the operator replaces a node; `]` and the arguments are added
      if (sure >= options_.max_length) return false;
      const uint32_t which = below(static_cast<uint32_t>(options_.operators.size()));
      codes_ += static_cast<char>(Expression::kOperator + static_cast<int>(options_.operators[which]));
      missing_.push_back(arguments);
      continue;
    }
    codes_ += static_cast<char>(below(10));
    while (!missing_.empty() && --missing_.back() == 0) {
      codes_ += static_cast<char>(Expression::kEnd);
      missing_.pop_back();
    }
    if (missing_.empty()) break;
  }
  BOCHNER_ASSERT(static_cast<int64_t>(codes_.size()) == sure);
  if (sure <= options_.min_length || sure >= options_.max_length) return false;
  tree = Expression(codes_);
  return true;
}

std::vector<Expression> generate(const GeneratorOptions& options) {
  check(options);
  const auto wanted = static_cast<size_t>(options.total());
  std::vector<Expression> found;
  found.reserve(wanted);  // so that views of their codes stay valid
  std::unordered_set<std::string_view> seen;
  seen.reserve(wanted);
  int64_t in_vain = 0;
  for (int64_t first = 0; found.size() < wanted; first += kBlocksPerRound) {
    std::vector<std::vector<Expression>> blocks(kBlocksPerRound);
    parallel_for(kBlocksPerRound, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) blocks[static_cast<size_t>(i)] = draw_block(options, first + i);
    });
    const size_t before = found.size();
    for (std::vector<Expression>& block : blocks) {
      for (Expression& tree : block) {
        if (found.size() == wanted || seen.contains(tree.codes())) continue;
        found.push_back(std::move(tree));
        seen.insert(found.back().codes());
      }
    }
    in_vain = found.size() == before ? in_vain + kBlocksPerRound * kTreesPerBlock : 0;
    if (in_vain >= kPatience) {
      fail(
          "listops: {} different expressions were found of {} asked for, and then none in {} trees; ask for fewer, or "
          "allow longer and deeper ones",
          found.size(), wanted, in_vain);
    }
  }
  return found;
}

}  // namespace bochner::listops

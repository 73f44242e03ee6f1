// The Long Range Arena's ListOps (Tay et al., "Long Range Arena: A Benchmark for Efficient Transformers", ICLR 2021):
// random trees whose length lies between bounds.
//
//   node(depth) = a digit 0 ... 9                      with probability 0.75, and always at max_depth
//               = one of MIN MAX MED SM, with 2 ... max_args arguments node(depth + 1)    otherwise
//
// The root has depth 1. All choices are uniform. A digit has length 1, an operator with its `]` has length 2, and
// parentheses have length 0. A tree is kept if min_length < length < max_length (8.3 % are, with a mean length of 1035)
// and if it is new.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/random.h"

namespace bochner::listops {

enum class Operator : uint8_t { min, max, med, sm };

/// The defaults are the Long Range Arena's.
struct GeneratorOptions {
  int64_t max_depth = 10;
  int64_t max_args = 10;
  double value_probability = 0.75;
  /// Each operator of the list is chosen equally often.
  std::vector<Operator> operators = {Operator::min, Operator::max, Operator::med, Operator::sm};
  int64_t min_length = 500;   ///< lengths are greater
  int64_t max_length = 2000;  ///< lengths are smaller
  int64_t train = 96'000;     ///< number of expressions
  int64_t valid = 2'000;
  int64_t test = 2'000;
  uint64_t seed = 0;

  int64_t total() const { return train + valid + test; }
  bool operator==(const GeneratorOptions&) const = default;
};

/// An Error names an option that makes no sense.
void check(const GeneratorOptions& options);

/// A tree in prefix order, with one byte for each node and one for each `]`: size() is the length that the bounds are
/// for.
class Expression {
 public:
  static constexpr uint8_t kOperator = 10;  ///< + Operator; smaller codes are digits
  static constexpr uint8_t kEnd = 14;

  Expression() = default;
  explicit Expression(std::string codes) : codes_(std::move(codes)) {}

  int64_t length() const { return static_cast<int64_t>(codes_.size()); }
  const std::string& codes() const { return codes_; }
  /// Its value, 0 ... 9: the label.
  int value() const;
  /// Appends the official form, `( ( ( [MAX 1 ) 2 ) ] )`.
  void write(std::string& text) const;
  std::string str() const;

  bool operator==(const Expression&) const = default;

 private:
  std::string codes_;
};

/// Draws trees one after the other. The words come from the generator's stream, in order: word by word the same as
/// from Generator::next().
class Sampler {
 public:
  Sampler(const GeneratorOptions& options, const Generator& generator);

  /// Draws a tree into `tree`, or returns false if its length is out of bounds. A tree is abandoned as soon as it must
  /// become too long.
  bool draw(Expression& tree);

 private:
  uint32_t word();
  uint32_t below(uint32_t bound);

  static constexpr int kWords = 128;

  GeneratorOptions options_;
  uint64_t operator_below_;  ///< a node is an operator where its word is smaller
  uint64_t seed_;
  uint64_t place_;  ///< of the next word to fetch
  int used_ = kWords;
  std::string codes_;
  std::vector<int64_t> missing_;  ///< per open operator, arguments to come
  alignas(64) uint32_t words_[kWords];
};

/// total() different expressions, in order: first the training set, then valid, then test. They depend on the options
/// alone, not on the number of threads. An Error if the options allow too few different ones.
std::vector<Expression> generate(const GeneratorOptions& options);

}  // namespace bochner::listops

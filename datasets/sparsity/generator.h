// The synthetic task of KL §4.2 and Appendix E: sequences of pairs (v_i, a_i), v_i in {-1, 1}, a_i in {0, 1}, whose
// class is the sum of v_i a_i. Only the share p of positions with a_i = 1 needs attention, so p sets how sparse
// attention is.
//
//   a_i ~ Bernoulli(p);  v_i = +-1 by a fair coin;  but where a_i = 1 and the sum so far is 4 (-4), v_i = -1 (+1)
//
// so no prefix sum exceeds 4 in absolute value. The paper does not say how it biases the coin. With this rule, -4 and 4
// are rarer than the other sums, about half as frequent as 0 once the walk has forgotten its start; the paper reports
// the same of its data. As in the paper, this is "balanced out by overgeneration and sampling": each class gets the
// same number of sequences, and each sequence is redrawn until its sum is that of the class.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/random.h"

namespace bochner::sparsity {

inline constexpr int kBound = 4;                 ///< of the absolute value of each prefix sum
inline constexpr int kClasses = 2 * kBound + 1;  ///< class c is the sum c - kBound

/// The defaults are the paper's; it has no test set.
struct GeneratorOptions {
  double relevant = 0.5;  ///< p
  int64_t length = 200;
  int64_t train = 160'000;
  int64_t valid = 40'000;
  int64_t test = 10'000;
  uint64_t seed = 0;

  int64_t total() const { return train + valid + test; }
};

/// A pair as a token: 1 + 2 a + (v = 1). Id 0 is padding.
constexpr uint8_t token_of(int v, int a) { return static_cast<uint8_t>(1 + 2 * a + (v > 0 ? 1 : 0)); }
constexpr int value_of(uint8_t token) { return (token - 1) % 2 == 1 ? 1 : -1; }
constexpr int relevance_of(uint8_t token) { return (token - 1) / 2; }

/// The exact frequency of each class before balancing, by the walk's recurrence.
std::array<double, kClasses> class_probabilities(const GeneratorOptions& options);

/// An Error names an option that makes no sense, or a class that (almost) never occurs.
void check(const GeneratorOptions& options);

/// Writes one sequence, without balancing, and returns its class.
int draw(const GeneratorOptions& options, Generator& generator, std::span<uint8_t> tokens);

/// total() sequences end to end: first those of the training set, then valid, then test; within each, example i is of
/// class i mod 9. They depend on the options alone, not on the number of threads.
std::vector<uint8_t> generate(const GeneratorOptions& options);

}  // namespace bochner::sparsity

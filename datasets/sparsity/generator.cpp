#include "datasets/sparsity/generator.h"

#include <algorithm>
#include <cmath>

#include "engine/error.h"
#include "engine/parallel.h"

namespace bochner::sparsity {
namespace {

constexpr double kRarest = 1e-4;                ///< a rarer class would take too long to draw
constexpr int64_t kLargest = int64_t{1} << 33;  ///< tokens in memory
constexpr int64_t kPiece = 64;

/// Random words in blocks, the same as those of Generator::next().
class Words {
 public:
  explicit Words(Generator& generator) : generator_(generator) {}
  uint32_t next() {
    if (used_ == 4) {
      const Generator place = generator_.reserve(4);
      const uint64_t block = place.offset() / 4;
      words_ = philox({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0},
                      {static_cast<uint32_t>(place.seed()), static_cast<uint32_t>(place.seed() >> 32)});
      used_ = 0;
    }
    return words_[static_cast<size_t>(used_++)];
  }

 private:
  Generator& generator_;
  PhiloxBlock words_{};
  int used_ = 4;
};

}  // namespace

std::array<double, kClasses> class_probabilities(const GeneratorOptions& options) {
  std::array<double, kClasses> now{};
  now[kBound] = 1;
  for (int64_t i = 0; i < options.length; ++i) {
    std::array<double, kClasses> next{};
    for (int c = 0; c < kClasses; ++c) {
      const auto at = static_cast<size_t>(c);
      next[at] += (1 - options.relevant) * now[at];
      const double step = options.relevant * now[at];
      if (c == 0) {
        next[1] += step;
      } else if (c == kClasses - 1) {
        next[at - 1] += step;
      } else {
        next[at - 1] += step / 2;
        next[at + 1] += step / 2;
      }
    }
    now = next;
  }
  return now;
}

void check(const GeneratorOptions& options) {
  if (!(options.relevant > 0 && options.relevant < 1)) {
    fail("sparsity: a share of {} of relevant positions; it must lie between 0 and 1", options.relevant);
  }
  if (options.length < 1) fail("sparsity: length {} must be at least 1", options.length);
  for (const int64_t size : {options.train, options.valid, options.test}) {
    if (size < 1 || size > kLargest / options.length) {
      fail("sparsity: a set of {} sequences of {}; each set needs at least 1 and at most 2^33 positions", size,
           options.length);
    }
  }
  if (options.length < kBound)
    fail("sparsity: sequences of {} have no sum of {}; take longer ones", options.length, kBound);
  const auto probabilities = class_probabilities(options);
  const auto rarest = std::min_element(probabilities.begin(), probabilities.end());
  if (*rarest < kRarest) {
    fail(
        "sparsity: with length {} and a share of {} relevant, the sum {} comes up with probability {:.1g} only; take "
        "longer sequences, or a share farther from {}",
        options.length, options.relevant, rarest - probabilities.begin() - kBound, *rarest,
        options.relevant < 0.5 ? 0 : 1);
  }
}

int draw(const GeneratorOptions& options, Generator& generator, std::span<uint8_t> tokens) {
  const auto relevant_below = static_cast<uint64_t>(std::llround(std::ldexp(options.relevant, 32)));
  Words words(generator);
  int sum = 0;
  uint32_t coins = 0;
  int left = 0;
  for (uint8_t& token : tokens) {
    if (left == 0) {
      coins = words.next();
      left = 32;
    }
    const int a = words.next() < relevant_below ? 1 : 0;
    int v = (coins & 1U) != 0 ? 1 : -1;
    coins >>= 1;
    --left;
    if (a == 1 && sum * v == kBound) v = -v;
    sum += v * a;
    token = token_of(v, a);
  }
  return sum + kBound;
}

std::vector<uint8_t> generate(const GeneratorOptions& options) {
  check(options);
  std::vector<uint8_t> tokens(static_cast<size_t>(options.total() * options.length));
  const Generator root(options.seed);
  parallel_for(options.total(), kPiece, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t in_set = i;
      for (const int64_t size : {options.train, options.valid}) {
        if (in_set < size) break;
        in_set -= size;
      }
      Generator generator = root.fork(static_cast<uint64_t>(i));
      const auto row =
          std::span(tokens).subspan(static_cast<size_t>(i * options.length), static_cast<size_t>(options.length));
      while (draw(options, generator, row) != in_set % kClasses) {
      }
    }
  });
  return tokens;
}

}  // namespace bochner::sparsity

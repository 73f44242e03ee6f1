// Synthesizer (Tay, Bahri, Metzler, Juan, Zhao, Zheng, ICML 2021): scores that do not come from comparing two tokens.
#include <cmath>

#include "autograd/ops/binary.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/view.h"
#include "layers/attention/blocks.h"

namespace bochner {
namespace {

class Synthesizer : public Mechanism {
 public:
  /// Where the scores come from.
  enum class Synthesis : unsigned char { random, factorized, dense };

  struct Options : Joined<LongestSequence, FeatureCount, WeightDropout, VersionOption> {
    Synthesis synthesis = Synthesis::random;
    void options(OptionList& list) {
      Joined::options(list);
      list.at("features").counts_where([this] { return synthesis == Synthesis::factorized; });
      list("synthesis", synthesis,
           {{"random", Synthesis::random}, {"factorized", Synthesis::factorized}, {"dense", Synthesis::dense}},
           "how synthesizer makes its scores");
    }
  };

  Synthesizer(Slot slot, int64_t heads, int64_t dim, const Options& options, Generator& init)
      : Mechanism(std::move(slot)), options_(options) {
    const int64_t L = options.length;
    if (L < 1) fail("synthesizer: its scores belong to positions; give the option length");
    const auto weight = [&](const char* name, const Shape& shape) {
      const double bound = std::sqrt(6.0 / static_cast<double>(shape[-2] + shape[-1]));  // Glorot, for each head
      return &parameter(name, uniform(shape, init, -bound, bound));
    };
    switch (options.synthesis) {
      case Synthesis::random:
        first_ = weight("R", {heads, L, L});
        break;
      case Synthesis::factorized:
        first_ = weight("R1", {heads, L, options.features});
        second_ = weight("R2", {heads, L, options.features});
        break;
      case Synthesis::dense:
        first_ = weight("W1", {heads, dim, dim});
        second_ = weight("W2", {heads, dim, L});
        break;
    }
  }

  // O = softmax(R) V with R learnt: directly, as R1 R2^T of rank M, or as relu(Q W1) W2 for each query (§3.2, §3.1)
  Variable forward(const Variable& Q, const Variable& K, const Variable& V, const Mask& mask,
                   Context& context) override {
    const Scope scope(name());
    const int64_t Lq = Q.size(2);
    const int64_t Lk = K.size(2);
    if (std::max(Lq, Lk) > options_.length) {
      fail("synthesizer: {} tokens, but its scores are for {} places", std::max(Lq, Lk), options_.length);
    }
    Variable R;  // (H, Lq, Lk), or (B, H, Lq, Lk)
    switch (options_.synthesis) {
      case Synthesis::random:
        R = slice(slice(*first_, 1, 0, Lq), 2, 0, Lk);
        break;
      case Synthesis::factorized:
        R = matmul(slice(*first_, 1, 0, Lq), transpose(slice(*second_, 1, 0, Lk), 1, 2));
        break;
      case Synthesis::dense:
        R = matmul(relu(matmul(Q, *first_)), slice(*second_, 2, 0, Lk));
        break;
    }
    if (R.rank() == 3) R = expand(unsqueeze(R, 0), {Q.size(0), Q.size(1), Lq, Lk});
    if (options_.released()) {  // added to dot products (LRA)
      R = R + matmul(Q * (1 / std::sqrt(static_cast<double>(Q.size(-1)))), transpose(K, -2, -1));
    }
    Tensor visible = real_keys(mask, K).reshape({Q.size(0), 1, 1, Lk});
    if (mask.causal)
      visible = logical_and(visible, less_equal(places(Lk, 3, 4, Q.device()), places(Lq, 2, 4, Q.device())));
    return attend_scores(R, V, visible, options_.dropout, context);
  }

 private:
  Options options_;
  Parameter* first_ = nullptr;   ///< R (heads, length, length), R1 (heads, length, M), or W1 (heads, D, D)
  Parameter* second_ = nullptr;  ///< R2 (heads, length, M), or W2 (heads, D, length)
};

}  // namespace

void describe_synthesizer(Mechanisms& list) {
  list.push_back({.name = "synthesizer",
                  .year = 2021,
                  .paper = "Tay et al.",
                  .equation = "O = softmax(R) V, R learnt (random, factorized) or relu(Q W1) W2",
                  .cost = "L^2 D",
                  .causal = true,
                  .learns = "R",
                  .released = "LRA: R is added to dot products",
                  .maker = made_as<Synthesizer>()});
}

}  // namespace bochner

// Linformer (Wang, Li, Khabsa, Fang, Ma, 2020): keys and values are projected from the length down to M.
#include <cmath>

#include "autograd/fused/softmax_attention.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/view.h"
#include "layers/attention/blocks.h"
#include "layers/init.h"

namespace bochner {
namespace {

class Linformer : public Mechanism {
 public:
  using Options = Joined<FeatureCount, LongestSequence, VersionOption>;

  Linformer(Slot slot, int64_t heads, int64_t /*dim*/, const Options& options, Generator& init)
      : Mechanism(std::move(slot)), length_(options.length), released_(options.released()) {
    if (options.length < 1) fail("linformer: its projections belong to positions; give the option length");
    if (options.skyformer()) {  // SKY: not learnt, since its code kept no Parameter on a GPU
      fixed_ = &buffer("E", init::gaussian({heads, options.features, options.length}, 0.02, init));
      return;
    }
    const double deviation = 1 / std::sqrt(static_cast<double>(options.features));  // of a Johnson-Lindenstrauss map
    if (released_) {                                                                // LRA: Glorot's
      const double bound = std::sqrt(6.0 / static_cast<double>(options.length + options.features));
      E_ = F_ = &parameter("E", uniform({1, options.features, options.length}, init, -bound, bound));
      return;
    }
    const Shape shape{heads, options.features, options.length};
    E_ = &parameter("E", init::gaussian(shape, deviation, init));
    F_ = &parameter("F", init::gaussian(shape, deviation, init));
  }

  // O = softmax(Q (E K)^T / sqrt(D)) (F V), for each head (Eq. 7); a shorter sequence takes the first columns of E and
  // F
  Variable forward(const Variable& Q, const Variable& K, const Variable& V, const Mask& mask, Context&) override {
    const Scope scope(name());
    if (mask.causal) fail_causal("linformer");
    const int64_t L = K.size(2);
    if (L > length_) fail("linformer: {} keys, but its projections are for {} places", L, length_);
    // As released (LRA), padded tokens are projected like others.
    const Tensor keys = released_ ? Tensor() : mask.keys;
    const Variable E = fixed_ != nullptr ? Variable(*fixed_) : Variable(*E_);
    const Variable F = fixed_ != nullptr ? E : Variable(*F_);
    const Variable EK = matmul(slice(E, 2, 0, L), without_padding(K, keys));  // (B, H, M, D)
    const Variable FV = matmul(slice(F, 2, 0, L), without_padding(V, keys));  // (B, H, M, E)
    return softmax_attention({1 / std::sqrt(static_cast<double>(Q.size(-1))), false, {}}, Q, EK, FV, {});
  }

 private:
  int64_t length_;
  bool released_;
  Parameter* E_ = nullptr;   ///< (heads, M, length); as released one for all heads
  Parameter* F_ = nullptr;   ///< the same; as released it is E
  Tensor* fixed_ = nullptr;  ///< E and F in one, as in SKY's code
};

}  // namespace

void describe_linformer(Mechanisms& list) {
  list.push_back(
      {.name = "linformer",
       .year = 2020,
       .paper = "Wang et al., Eq. 7",
       .equation = "O = softmax(Q (E K)^T / sqrt D) F V",
       .approximates = "softmax",
       .cost = "L M D",
       .learns = "E, F",
       .released = "LRA: one E for all heads, of Glorot's deviation, and F = E; padded tokens are projected, too",
       .skyformer = "F = E ~ N(0, 0.02^2), which does not learn",
       .maker = made_as<Linformer>()});
}

}  // namespace bochner

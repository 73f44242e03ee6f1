// Longformer (Beltagy, Peters, Cohan, 2020): a sliding window around each token, and a few global tokens that see all
// and are seen by all. Global attention shares the projections of the local one, since a mechanism gets its inputs
// already projected.
#include <cmath>

#include "autograd/fused/softmax_attention.h"
#include "autograd/ops/join.h"
#include "autograd/ops/view.h"
#include "engine/ops/binary.h"
#include "layers/attention/blocks.h"

namespace bochner {
namespace {

class Longformer : public Mechanism {
 public:
  struct Options : Joined<BlockSize, WeightDropout, VersionOption> {
    int64_t global_tokens = 1;  ///< the first ones, which see all and are seen by all
    void options(OptionList& list) {
      Joined::options(list);
      list("global-tokens", global_tokens, "number of global tokens of longformer").at_least(0).counts_where([this] {
        return !released();
      });
    }
  };

  Longformer(Slot slot, int64_t /*heads*/, int64_t /*dim*/, const Options& options, Generator& /*init*/)
      : Mechanism(std::move(slot)), options_(options) {}

  Variable forward(const Variable& Q, const Variable& K, const Variable& V, const Mask& mask,
                   Context& context) override {
    const Scope scope(name());
    require_self_attention("longformer", Q, K);
    const int64_t L = Q.size(2);
    const int64_t w = options_.block;
    // As released (LRA), there are no global tokens.
    const int64_t g = options_.released() ? 0 : std::min(options_.global_tokens, L);
    const double scale = 1 / std::sqrt(static_cast<double>(Q.size(-1)));
    const Tensor real = real_keys(mask, K);

    const Variable q = in_blocks(Q, w);  // (B, H, N, w, D)
    const int64_t N = q.size(2);
    const int64_t after = mask.causal ? 0 : 1;
    const Variable k = with_neighbours(in_blocks(K, w), 1, after);  // (B, H, N, 2w or 3w, D)
    const Variable v = with_neighbours(in_blocks(V, w), 1, after);
    // Places: query n w + i, key (n - 1) w + j of the window.
    const Tensor i = places(w, 3, 5, Q.device());
    const Tensor j = places((2 + after) * w, 4, 5, Q.device());
    const Tensor n = places(N, 2, 5, Q.device());
    const Tensor one = Tensor::full({1}, 1, DType::i64, Q.device());
    const auto number = [&](int64_t x) { return Tensor::full({1}, static_cast<double>(x), DType::i64, Q.device()); };
    const Tensor distance = j - number(w) - i;  // (1, 1, 1, w, 3w)
    Tensor near = logical_and(less_equal(number(-w), distance), less_equal(distance, number(mask.causal ? 0 : w)));
    near = logical_and(near, less_equal(number(g), (n - one) * number(w) + j));  // global keys are a separate set
    near = logical_and(near, mask_with_neighbours(mask_in_blocks(real, w), 1, after));
    std::vector<KeySet> sets = {{k, v, near}};
    if (g > 0) {
      Tensor seen = real.slice(1, 0, g).contiguous().view({real.size(0), 1, 1, 1, g});
      if (mask.causal) seen = logical_and(seen, less_equal(places(g, 4, 5, Q.device()), n * number(w) + i));
      sets.push_back({unsqueeze(slice(K, 2, 0, g), 2), unsqueeze(slice(V, 2, 0, g), 2), seen});
    }
    const Variable O = out_of_blocks(attend(q, sets, scale, options_.dropout, context), L);  // (B, H, L, E)
    if (g == 0) return O;
    const Variable global = slice(Q, 2, 0, g);
    const Dropout dropped = dropout_of_weights(options_.dropout, global, L, context);
    const Variable of_global = softmax_attention({scale, mask.causal, dropped}, global, K, V, mask.keys);
    return concat({of_global, slice(O, 2, g, L)}, 2);
  }

 private:
  Options options_;
};

}  // namespace

void describe_longformer(Mechanisms& list) {
  list.push_back({.name = "longformer",
                  .year = 2020,
                  .paper = "Beltagy et al.",
                  .equation = "O_i = softmax over j: |i - j| <= b, or i or j global, of q_i k_j / sqrt D",
                  .cost = "L b D",
                  .causal = true,
                  .released = "LRA: no global tokens",
                  .maker = made_as<Longformer>()});
}

}  // namespace bochner

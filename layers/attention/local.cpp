// Local attention: each block of tokens attends to itself, the baseline of LRA's tables (Tay et al., ICLR 2021).
#include <cmath>

#include "autograd/fused/softmax_attention.h"
#include "autograd/ops/view.h"
#include "layers/attention/blocks.h"

namespace bochner {
namespace {

class LocalAttention : public Mechanism {
 public:
  using Options = Joined<BlockSize, WeightDropout, VersionOption>;

  LocalAttention(Slot slot, int64_t /*heads*/, int64_t /*dim*/, const Options& options, Generator& /*init*/)
      : Mechanism(std::move(slot)), options_(options) {}

  Variable forward(const Variable& Q, const Variable& K, const Variable& V, const Mask& mask,
                   Context& context) override {
    const Scope scope(name());
    require_self_attention("local", Q, K);
    const int64_t block = options_.block;
    const int64_t heads = Q.size(1);
    // Each block becomes an example of its own: (B N, H, block, D).
    const auto fold = [&](const Variable& x) {
      const Variable blocks = split(x);  // (B, H, N, block, D)
      return reshape(permute(blocks, {0, 2, 1, 3, 4}), {x.size(0) * blocks.size(2), heads, block, x.size(3)});
    };
    const Variable q = fold(Q);
    const Tensor keys = mask_in_blocks(real_keys(mask, K), block).reshape({q.size(0), block});
    const SoftmaxAttentionOptions options{1 / std::sqrt(static_cast<double>(Q.size(-1))), mask.causal,
                                          dropout_of_weights(options_.dropout, q, block, context)};
    const Variable O = softmax_attention(options, q, fold(K), fold(V), keys);  // (B N, H, block, E)
    const Variable apart =
        reshape(O, {Q.size(0), q.size(0) / std::max<int64_t>(1, Q.size(0)), heads, block, V.size(3)});
    return join(permute(apart, {0, 2, 1, 3, 4}), Q.size(2));
  }

 private:
  bool strided() const { return options_.released(); }

  /// As released, block n holds every N-th token from n on, though its mask is that of a contiguous block.
  Variable split(const Variable& x) const {
    return strided() ? in_strides(x, options_.block) : in_blocks(x, options_.block);
  }
  Variable join(const Variable& blocks, int64_t length) const {
    return strided() ? out_of_strides(blocks, length) : out_of_blocks(blocks, length);
  }

  Options options_;
};

}  // namespace

void describe_local(Mechanisms& list) {
  list.push_back({.name = "local",
                  .year = 2021,
                  .paper = "LRA, Tay et al.",
                  .equation = "O = softmax(Q K^T / sqrt D) V within each block",
                  .cost = "L b D",
                  .causal = true,
                  .released = "LRA: block n holds every N-th token from n on, under the mask of a contiguous block",
                  .maker = made_as<LocalAttention>()});
}

}  // namespace bochner

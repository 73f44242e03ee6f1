// Sparse Transformer (Child, Gray, Radford, Sutskever, 2019), the fixed pattern of text, both parts merged in each
// head: tokens see their own block, and the last `summary` tokens of every other block, which summarise it.
#include <algorithm>
#include <cmath>

#include "autograd/fused/softmax_attention.h"
#include "autograd/ops/join.h"
#include "autograd/ops/view.h"
#include "engine/ops/binary.h"
#include "layers/attention/blocks.h"

namespace bochner {
namespace {

class SparseAttention : public Mechanism {
 public:
  struct Options : Joined<BlockSize, LongestSequence, WeightDropout, VersionOption> {
    int64_t summary = 8;  ///< tokens at the end of each block
    void options(OptionList& list) {
      Joined::options(list);
      list.at("length").counts_where([this] { return !released(); });
      list("summary", summary, "sparse: number of tokens of each block that all tokens see").at_least(1);
    }
  };

  SparseAttention(Slot slot, int64_t /*heads*/, int64_t /*dim*/, const Options& options, Generator& /*init*/)
      : Mechanism(std::move(slot)), options_(options) {
    if (options.summary > options.block) {
      fail("sparse: {} summary tokens in a block of {}; at most as many as the block has", options.summary,
           options.block);
    }
    // A stride near the square root of the length makes the cost L^1.5 (§4.3).
    const auto root = static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(options.length))));
    if (!released()) options_.block = std::max(options_.block, root);
  }

  // A1 = {j: j / b = i / b},  A2 = {j: j mod b >= b - c}  (§4.3). As released (LRA) it is always causal, except for the
  // first token, the CLS, which sees all and is seen by all.
  Variable forward(const Variable& Q, const Variable& K, const Variable& V, const Mask& mask,
                   Context& context) override {
    const Scope scope(name());
    require_self_attention("sparse", Q, K);
    const bool causal = mask.causal || released();
    const int64_t b = options_.block;
    const int64_t c = options_.summary;
    const Variable q = in_blocks(Q, b);  // (B, H, N, b, D)
    const Variable k = in_blocks(K, b);
    const Variable v = in_blocks(V, b);
    const int64_t N = q.size(2);
    const Tensor real = mask_in_blocks(real_keys(mask, K), b);  // (B, 1, N, 1, b)
    Tensor own = real;
    if (causal) own = logical_and(real, less_equal(places(b, 4, 5, Q.device()), places(b, 3, 5, Q.device())));
    const auto summaries = [&](const Variable& x) {  // (B, H, 1, N c, D)
      return reshape(slice(x, 3, b - c, b), {x.size(0), x.size(1), 1, N * c, x.size(4)});
    };
    const Tensor of = places(N, 4, 6, Q.device());  // the block of a summary, against that of the query
    const Tensor at = places(N, 2, 6, Q.device());
    const Tensor elsewhere = causal ? less(of, at) : logical_or(less(of, at), less(at, of));  // (1, 1, N, 1, N, 1)
    const Tensor told = real.slice(4, b - c, b).reshape({real.size(0), 1, 1, 1, N, c});
    const Tensor seen = logical_and(elsewhere, told).reshape({real.size(0), 1, N, 1, N * c});
    const double scale = 1 / std::sqrt(static_cast<double>(Q.size(-1)));
    std::vector<KeySet> sets = {{k, v, own}, {summaries(k), summaries(v), seen}};
    const bool opened = released() && !mask.causal && Q.size(2) > 0;
    if (opened) {
      // The first token beside the others; where it is of the own block, or its summary, it is seen already.
      const Tensor first = real_keys(mask, K).slice(1, 0, 1).contiguous().view({Q.size(0), 1, 1, 1, 1});
      const Tensor apart = less(b == c ? static_cast<double>(Q.size(2)) : 0, at.view({1, 1, N, 1, 1}));
      sets.push_back({unsqueeze(slice(K, 2, 0, 1), 2), unsqueeze(slice(V, 2, 0, 1), 2), logical_and(apart, first)});
    }
    const Variable O = out_of_blocks(attend(q, sets, scale, options_.dropout, context), Q.size(2));
    if (!opened) return O;
    const Variable first = slice(Q, 2, 0, 1);
    const Dropout dropped = dropout_of_weights(options_.dropout, first, K.size(2), context);
    const Variable of_first = softmax_attention({scale, false, dropped}, first, K, V, mask.keys);
    return concat({of_first, slice(O, 2, 1, Q.size(2))}, 2);
  }

 private:
  bool released() const { return options_.released(); }

  Options options_;
};

}  // namespace

void describe_sparse(Mechanisms& list) {
  list.push_back(
      {.name = "sparse",
       .year = 2019,
       .paper = "Child et al., §4.3 (fixed)",
       .equation = "O_i = softmax over j: same block, or one of the last c tokens of another, of q_i k_j / sqrt D",
       .cost = "L (b + L c / b) D, b >= sqrt L",
       .causal = true,
       .released = "LRA: blocks as given, always causal, but the first token sees all and is seen by all",
       .maker = made_as<SparseAttention>()});
}

}  // namespace bochner

// Sparse Transformer (Child, Gray, Radford, Sutskever, 2019), the fixed pattern for text, with both parts merged in
// each head: tokens see their own block, and the last `summary` tokens of every other block, which summarise it.
#include <algorithm>
#include <cmath>

#include "autograd/fused/softmax_attention.h"
#include "autograd/ops/join.h"
#include "autograd/ops/view.h"
#include "engine/ops/binary.h"
#include "engine/ops/join.h"
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

  // A1 = {j: j / b = i / b},  A2 = {j: j mod b >= b - c}  (§4.3). As released (LRA), A2 also has j mod b = 0, and
  // attention is always causal, except for the first token, the CLS, which sees all and is seen by all; blocks begin
  // after it.
  Variable forward(const Variable& Q, const Variable& K, const Variable& V, const Mask& mask,
                   Context& context) override {
    const Scope scope(name());
    require_self_attention("sparse", Q, K);
    if (!released() || mask.causal) return fixed_pattern(Q, K, V, mask.causal, real_keys(mask, K), {}, context);
    const int64_t L = Q.size(2);
    if (L == 0) return V;
    // The first token, the CLS, stands in front of all blocks.
    const Tensor real = real_keys(mask, K);
    const auto first = [](const Variable& x) { return slice(x, 2, 0, 1); };
    const auto rest = [L](const Variable& x) { return slice(x, 2, 1, L); };
    const Dropout dropped = dropout_of_weights(options_.dropout, first(Q), K.size(2), context);
    const Variable of_first = softmax_attention({scale_of(Q), false, dropped}, first(Q), K, V, mask.keys);
    if (L == 1) return of_first;
    const Tensor seen = real.slice(1, 0, 1).contiguous().view({Q.size(0), 1, 1, 1, 1});
    const KeySet opened{unsqueeze(first(K), 2), unsqueeze(first(V), 2), seen};
    const Tensor real_rest = real.slice(1, 1, L).contiguous();
    return concat({of_first, fixed_pattern(rest(Q), rest(K), rest(V), true, real_rest, {opened}, context)}, 2);
  }

 private:
  bool released() const { return options_.released(); }
  static double scale_of(const Variable& Q) { return 1 / std::sqrt(static_cast<double>(Q.size(-1))); }

  /// A1 and A2, and extra keys that all tokens see.
  Variable fixed_pattern(const Variable& Q, const Variable& K, const Variable& V, bool causal, const Tensor& keys,
                         const std::vector<KeySet>& more, Context& context) const {
    const int64_t b = options_.block;
    const Variable q = in_blocks(Q, b);  // (B, H, N, b, D)
    const Variable k = in_blocks(K, b);
    const Variable v = in_blocks(V, b);
    const int64_t N = q.size(2);
    const Tensor real = mask_in_blocks(keys, b);  // (B, 1, N, 1, b)
    Tensor own = real;
    if (causal) own = logical_and(real, less_equal(places(b, 4, 5, Q.device()), places(b, 3, 5, Q.device())));
    // The positions of a block that summarise it: the last c, and as released (LRA) also the first.
    const int64_t c = options_.summary;
    const bool with_first = released() && c < b;
    const int64_t count = c + (with_first ? 1 : 0);
    const auto summaries = [&](const Variable& x) {  // (B, H, 1, N count, D)
      const Variable last = slice(x, 3, b - c, b);
      const Variable all = with_first ? concat({slice(x, 3, 0, 1), last}, 3) : last;
      return reshape(all, {x.size(0), x.size(1), 1, N * count, x.size(4)});
    };
    Tensor told = real.slice(4, b - c, b).contiguous();
    if (with_first) told = concat(std::vector{real.slice(4, 0, 1).contiguous(), told}, 4);
    const Tensor of = places(N, 4, 6, Q.device());  // the block of a summary, against that of the query
    const Tensor at = places(N, 2, 6, Q.device());
    const Tensor elsewhere = causal ? less(of, at) : logical_or(less(of, at), less(at, of));  // (1, 1, N, 1, N, 1)
    const Tensor seen = logical_and(elsewhere, told.reshape({real.size(0), 1, 1, 1, N, count}))
                            .reshape({real.size(0), 1, N, 1, N * count});
    std::vector<KeySet> sets = {{k, v, own}, {summaries(k), summaries(v), seen}};
    for (const KeySet& one : more)
      sets.push_back({one.K, one.V, one.visible.expand({real.size(0), 1, N, 1, one.visible.size(4)})});
    return out_of_blocks(attend(q, sets, scale_of(Q), options_.dropout, context), Q.size(2));
  }

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
       .released =
           "LRA: blocks as given, always causal; the first token sees all, is seen by all and stands in front of "
           "the blocks; the first token of each block is one of its summaries, too",
       .maker = made_as<SparseAttention>()});
}

}  // namespace bochner

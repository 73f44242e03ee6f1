// Reformer's LSH attention (Kitaev, Kaiser, Levskaya, ICLR 2020): tokens are sorted by a hash of their queries, and
// attend within chunks to tokens of the same bucket. Queries are the keys, too: K is not used.
#include <cmath>

#include "autograd/ops/binary.h"
#include "autograd/ops/index.h"
#include "autograd/ops/join.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/view.h"
#include "engine/ops/index.h"
#include "engine/ops/join.h"
#include "engine/ops/matmul.h"
#include "engine/ops/sort.h"
#include "layers/attention/blocks.h"

namespace bochner {
namespace {

class Reformer : public Mechanism {
 public:
  Reformer(Slot slot, const AttentionOptions& options) : Mechanism(std::move(slot)), options_(options) {
    if (options.hashes < 1) fail("reformer: {} rounds of hashing; at least 1 is needed", options.hashes);
  }

  Variable forward(const Variable& Q, const Variable& K, const Variable& V, const Mask& mask,
                   Context& context) override {
    const Scope scope(name());
    require_self_attention("reformer", Q, K);
    if (mask.causal) fail_causal("reformer");
    const int64_t L = Q.size(2);
    const Tensor real = real_keys(mask, K);
    const Variable k = Q / sqrt(sum(square(Q), {-1}, true) + 1e-12);  // shared QK, keys of norm 1 (§2)
    const std::vector<Tensor> buckets = hash(Q.value(), real, context);
    std::vector<Variable> outputs;  // of rounds: (B, H, L, E)
    std::vector<Variable> sums;     // logsumexp of their scores: (B, H, L, 1)
    for (const Tensor& bucket : buckets) {
      const auto [O, z] = attend_round(Q, k, V, real, bucket, buckets);
      outputs.push_back(O);
      sums.push_back(z);
    }
    if (outputs.size() == 1) return outputs[0];
    // o_i = sum_r exp(z_i^r - z_i) o_i^r (Eq. 6)
    const Variable weights = softmax(concat(sums, 3));  // (B, H, L, rounds)
    Variable O;
    for (size_t r = 0; r < outputs.size(); ++r) {
      const Variable part = outputs[r] * slice(weights, 3, static_cast<int64_t>(r), static_cast<int64_t>(r) + 1);
      O = O.defined() ? O + part : part;
    }
    return slice(O, 2, 0, L);
  }

 private:
  /// h(x) = argmax((x R; -x R)) for each round (§2), with an even number of buckets of about half a chunk; padding
  /// falls into a bucket of its own at the end. i64 (B, H, L).
  std::vector<Tensor> hash(const Tensor& Q, const Tensor& real, Context& context) const {
    const auto positions = real_positions(real, Q.size(0), Q.size(2));
    std::vector<int64_t> halves;  // buckets / 2 of each example
    int64_t most = 1;
    for (const auto& tokens : positions) {
      const auto chunks = (static_cast<int64_t>(tokens.size()) + options_.block - 1) / options_.block;
      halves.push_back(std::max<int64_t>(1, chunks));
      most = std::max(most, halves.back());
    }
    const Tensor half = Tensor::from(halves, {Q.size(0), 1, 1, 1}, Q.device());
    const Tensor used = less(places(most, 3, 4, Q.device()), half);  // (B, 1, 1, most)
    const Tensor lowest = Tensor::scalar(-std::numeric_limits<double>::infinity(), Q.dtype(), Q.device());
    const Tensor last = Tensor::full({1}, static_cast<double>(2 * most), DType::i64, Q.device());
    const Generator noise = for_places(context);
    std::vector<Tensor> rounds;
    for (int64_t r = 0; r < options_.hashes; ++r) {
      Generator draw = noise.fork(static_cast<uint64_t>(r));  // row by row: fewer buckets see the same first rotations
      const Tensor R = normal({most, Q.size(3)}, draw, 0, 1, Q.dtype(), Q.device());
      const Tensor turned = matmul(Q, R.transpose(0, 1).contiguous());  // (B, H, L, most)
      const Tensor both_signs = concat(std::vector{where(used, turned, lowest), where(used, -turned, lowest)}, 3);
      rounds.push_back(where(real.view({real.size(0), 1, real.size(1)}), argmax(both_signs, 3), last));
    }
    return rounds;
  }

  struct Round {
    Variable O, logsumexp;
  };

  /// Attention of one round, in sorted order, to the tokens of the own and the previous chunk that share the bucket. A
  /// key that shares it in N of the rounds counts 1 / N in each; the token itself only where it has no other (§2).
  Round attend_round(const Variable& Q, const Variable& k, const Variable& V, const Tensor& real, const Tensor& bucket,
                     const std::vector<Tensor>& rounds) const {
    const int64_t m = options_.block;
    const int64_t L = Q.size(2);
    const double scale = 1 / std::sqrt(static_cast<double>(Q.size(-1)));
    const Tensor order = argsort(bucket, 2);             // (B, H, L): stable, so by place within a bucket
    const Tensor back = argsort(order, 2).unsqueeze(3);  // (B, H, L, 1)
    const Tensor rows = order.unsqueeze(3);
    const Variable q = in_blocks(gather(Q, 2, rows), m);                            // (B, H, N, m, D)
    const Variable keys = with_neighbours(in_blocks(gather(k, 2, rows), m), 1, 0);  // (B, H, N, 2m, D)
    const Variable v = with_neighbours(in_blocks(gather(V, 2, rows), m), 1, 0);
    // What belongs to tokens, as (B, H, N, m, 1) of queries and (B, H, N, 1, 2m) of keys; -1 is nobody.
    const auto of_tokens = [&](const Tensor& x) { return in_blocks_of(gather(x, 2, order), m); };
    const auto [place_q, place_k] = of_tokens(places(L, 2, 3, Q.device()).expand(order.shape()).contiguous());
    Tensor same;
    Tensor times;  // N
    for (const Tensor& other : rounds) {
      const auto [bucket_q, bucket_k] = of_tokens(other);
      const Tensor shared = equal(bucket_q, bucket_k);
      if (other.shares_storage(bucket)) same = shared;
      const Tensor one = shared.cast(Q.dtype());
      times = times.defined() ? times + one : one;
    }
    const Tensor mask = real.view({real.size(0), 1, L}).expand(order.shape()).cast(DType::i64).contiguous();
    const auto [real_q, real_k] = of_tokens(mask);
    const Tensor is_real = equal(real_k, Tensor::full({1}, 1, DType::i64, Q.device()));
    const Tensor visible = both(both(same, is_real), less_equal(Tensor::full({1}, 0, DType::i64, Q.device()), place_k));
    // ln N is taken off the score, 1e5 where it is the token itself.
    const Tensor one = Tensor::full({1}, 1, Q.dtype(), Q.device());
    const Tensor off =
        where(equal(place_q, place_k), Tensor::full({1}, 1e5, Q.dtype(), Q.device()), log(maximum(times, one)));
    const Variable hidden = Tensor::scalar(-1e30, Q.dtype(), Q.device());
    const Variable scores = where(visible, matmul(q * scale, transpose(keys, -2, -1)) - Variable(off), hidden);
    const Variable z = logsumexp(scores, -1, true);  // (B, H, N, m, 1)
    const Variable P = exp(scores - z) * Variable(visible.cast(Q.dtype()));
    const auto unsorted = [&](const Variable& x) { return gather(out_of_blocks(x, L), 2, back); };
    return {unsorted(matmul(P, v)), unsorted(z)};
  }

  /// (B, H, L) of sorted tokens -> (B, H, N, m, 1) as queries and (B, H, N, 1, 2m) as keys, -1 where nobody is.
  static std::pair<Tensor, Tensor> in_blocks_of(const Tensor& x, int64_t m) {
    const int64_t N = (x.size(2) + m - 1) / m;
    const Tensor whole = pad(x, {0, 0, 0}, {0, 0, N * m - x.size(2)}, -1).view({x.size(0), x.size(1), N, 1, m});
    const Tensor before = pad(whole, {0, 0, 1, 0, 0}, {0, 0, 0, 0, 0}, -1).slice(2, 0, N);
    return {whole.view({x.size(0), x.size(1), N, m, 1}), concat(std::vector{before, whole}, 4)};
  }

  AttentionOptions options_;
};

}  // namespace

void describe_reformer(Mechanisms& list) {
  list.push_back({"reformer", 2020, "Kitaev et al., Eqs. 2-6",
                  "O_i = softmax over j in i's bucket and chunks, of q_i q_j / (|q_j| sqrt D), several hashes joined",
                  "softmax with Q = K", "L b h D", false, "", "block, hashes",
                  [](Slot slot, int64_t, int64_t, const AttentionOptions& options, Generator&) {
                    return std::make_unique<Reformer>(slot, options);
                  }});
}

}  // namespace bochner

// Reformer's LSH attention (Kitaev, Kaiser, Levskaya, ICLR 2020): tokens are sorted by a hash of their queries, and
// attend within chunks to tokens of the same bucket. Queries also serve as keys: K is not used.
#include <algorithm>
#include <bit>
#include <cmath>

#include "autograd/ops/binary.h"
#include "autograd/ops/index.h"
#include "autograd/ops/join.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/view.h"
#include "engine/math.h"
#include "engine/ops/index.h"
#include "engine/ops/join.h"
#include "engine/ops/matmul.h"
#include "engine/ops/sort.h"
#include "layers/attention/blocks.h"

namespace bochner {
namespace {

class Reformer : public Mechanism {
 public:
  struct Options : Joined<BlockSize, LongestSequence, VersionOption> {
    int64_t hashes = 4;
    void options(OptionList& list) {
      Joined::options(list);
      list.at("block").counts_where([this] { return !released(); });
      list.at("length").counts_where([this] { return skyformer(); });
      list("hashes", hashes, "number of hashing rounds of reformer").at_least(1).at_most(1 << 10).counts_where([this] {
        return !released();
      });
    }
  };

  Reformer(Slot slot, int64_t /*heads*/, int64_t /*dim*/, const Options& options, Generator& /*init*/)
      : Mechanism(std::move(slot)), options_(options) {}

  Variable forward(const Variable& Q, const Variable& K, const Variable& V, const Mask& mask,
                   Context& context) override {
    const Scope scope(name());
    require_self_attention("reformer", Q, K);
    if (mask.causal) fail_causal("reformer");
    const int64_t L = Q.size(2);
    // As released (LRA), nothing is masked.
    const Tensor real = released() ? real_keys({}, K) : real_keys(mask, K);
    // Shared QK, keys of norm 1 (§2), but not as released (LRA).
    const double eps = skyformer() ? 1e-6 * static_cast<double>(Q.size(-1)) : 1e-12;
    const Variable k = released() ? Q : Q / sqrt(sum(square(Q), {-1}, true) + eps);
    const std::vector<Tensor> buckets = hash(Q.value(), real, context);
    std::vector<Variable> outputs;  // of rounds: (B, H, L, E)
    std::vector<Variable> sums;     // logsumexp of their scores: (B, H, L, 1)
    for (size_t r = 0; r < buckets.size(); ++r) {
      const auto [O, z] = attend_round(Q, k, V, real, r, buckets);
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
  bool released() const { return options_.released(); }
  bool skyformer() const { return options_.skyformer(); }
  /// The length in SKY's code, a power of two, to which the batch is padded.
  int64_t whole(int64_t length) const { return next_power_of_two(std::max(options_.length, length)); }
  int64_t rounds() const { return released() ? 1 : options_.hashes; }
  /// LRA's code pads the length to the next multiple of 10, by 10 tokens if it is one already, and divides it into 10
  /// chunks.
  int64_t chunk(int64_t length) const { return released() ? length / kReleasedChunks + 1 : options_.block; }

  /// For each round h(x) = argmax((x R; -x R)), i64 (B, H, L) (§2), with an even number of buckets of about half a
  /// chunk. If that were more than two buckets for each token of a chunk, a bucket is a pair (h1, h2), each with about
  /// the square root of as many values, so that hashing does not grow with the square of the length. Padding has a
  /// bucket of its own at the end.
  std::vector<Tensor> hash(const Tensor& Q, const Tensor& real, Context& context) const {
    const auto positions = real_positions(real, Q.size(0), Q.size(2));
    std::vector<int64_t> first, second;  // half the number of values of h1 and h2, for each example; 0: no h2
    for (const auto& tokens : positions) {
      if (skyformer()) {
        const auto [values1, values2] = sky_values(whole(Q.size(2)));
        first.push_back(values1 / 2);
        second.push_back(values2 / 2);
        continue;
      }
      const auto half =
          released() ? 5 : std::max<int64_t>(1, ceil_div(static_cast<int64_t>(tokens.size()), options_.block));
      const bool is_pair = half > options_.block && !released();
      const auto root = static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(2 * half)) / 2));
      first.push_back(is_pair ? root : half);
      second.push_back(is_pair ? ceil_div(half, 2 * root) : 0);
    }
    const Generator noise = released() ? Generator(0) : for_places(context);
    const int64_t heads = skyformer() ? Q.size(1) : 1;  // with their own rotations
    std::vector<Tensor> found;
    for (int64_t r = 0; r < rounds(); ++r) {
      const auto stream = static_cast<uint64_t>(r);
      const auto [h1, count1] = nearest_direction(Q, heads, first, noise.fork(stream));
      const auto [h2, count2] = nearest_direction(Q, heads, second, noise.fork(stream + (uint64_t{1} << 32)));
      const Tensor bucket = count2 == 0 ? h1 : h1 + h2 * Tensor::scalar(static_cast<double>(count1), h2);
      const auto last = static_cast<double>(count1 * std::max<int64_t>(1, count2));
      found.push_back(where(real.view({real.size(0), 1, real.size(1)}), bucket, last));
    }
    return found;
  }

  /// How many values h1 and h2 have in SKY's code, that of Hugging Face; 0: no h2. Two buckets for each chunk, rounded
  /// down to a power of two, and a pair where these are more than twice the chunk.
  std::pair<int64_t, int64_t> sky_values(int64_t length) const {
    const int64_t chunks = std::max<int64_t>(1, length / options_.block);
    const int power = std::bit_width(static_cast<uint64_t>(2 * chunks)) - 1;
    const auto root = static_cast<int64_t>(std::sqrt(static_cast<double>(chunks)));
    if (int64_t{1} << power <= 2 * std::max(root, options_.block)) return {int64_t{1} << power, 0};
    return {int64_t{1} << power / 2, int64_t{1} << (power - power / 2)};
  }

  /// argmax((x R; -x R)) with `halves` columns of R for each example, and how many values it may have; 0 for examples
  /// without a column. `heads` is 1, or that of Q, and then each head has its own R. i64 (B, H, L).
  static std::pair<Tensor, int64_t> nearest_direction(const Tensor& Q, int64_t heads,
                                                      const std::vector<int64_t>& halves, Generator draw) {
    const int64_t most = halves.empty() ? 1 : *std::max_element(halves.begin(), halves.end());
    if (most == 0) return {Tensor(), 0};
    const Tensor half = Tensor::from(halves, {Q.size(0), 1, 1, 1}, Q.device());
    const Tensor used = less(places(most, 3, 4, Q.device()), half);  // (B, 1, 1, most)
    constexpr double lowest = -std::numeric_limits<double>::infinity();
    // Drawn row by row, so that examples with fewer buckets get the same first rotations.
    const Tensor R = normal({heads, most, Q.size(3)}, draw, 0, 1, Q.dtype(), Q.device());
    const Tensor turned = matmul(Q, R.transpose(1, 2).contiguous());  // (B, H, L, most)
    return {argmax(concat(std::vector{where(used, turned, lowest), where(used, -turned, lowest)}, 3), 3), 2 * most};
  }

  struct Round {
    Variable O, logsumexp;
  };

  /// Attention of one round, in sorted order, to tokens of the same bucket in the same and in the previous chunk. A key
  /// that shares the bucket in N of the rounds counts 1 / N in each; a token attends to itself only if it has no other
  /// key (§2). As released (LRA), and in SKY's code, it attends to all tokens of the two chunks, whatever their bucket,
  /// and in front of the first chunk is the last one of the round before, a circle.
  Round attend_round(const Variable& Q, const Variable& k, const Variable& V, const Tensor& real, size_t round,
                     const std::vector<Tensor>& rounds) const {
    const Tensor& bucket = rounds[round];
    const int64_t L = Q.size(2);
    const int64_t m = chunk(L);
    // As released (LRA) logits are multiplied by sqrt D, and the token itself counts like others.
    const double power = released() ? 0.5 : (skyformer() ? 0 : -0.5);
    const double scale = std::pow(static_cast<double>(Q.size(-1)), power);
    const Tensor order = argsort(bucket, 2);             // (B, H, L): stable, so by place within a bucket
    const Tensor back = argsort(order, 2).unsqueeze(3);  // (B, H, L, 1)
    const Tensor rows = order.unsqueeze(3);
    const Variable q = in_blocks(gather(Q, 2, rows), m);  // (B, H, N, m, D)
    // The last chunk of the round before is padding, unless the batch is as long as the longest; as released, unless
    // the batch is very short.
    const bool circle = released() ? ceil_div(L, m) == kReleasedChunks : skyformer() && round_up(L, m) == whole(L);
    const Tensor before = circle ? argsort(rounds[(round + rounds.size() - 1) % rounds.size()], 2) : Tensor();
    const auto in_chunks = [&](const Variable& x) {  // each behind its predecessor: (B, H, N, 2m, D)
      const Variable own = in_blocks(gather(x, 2, rows), m);
      const int64_t N = own.size(2);
      if (!circle) return with_neighbours(own, 1, 0);
      const Variable last = slice(in_blocks(gather(x, 2, before.unsqueeze(3)), m), 2, N - 1, N);
      return concat({concat({last, slice(own, 2, 0, N - 1)}, 2), own}, 3);
    };
    const Variable keys = in_chunks(k);
    const Variable v = in_chunks(V);
    // What belongs to tokens, as (B, H, N, m, 1) of queries and (B, H, N, 1, 2m) of keys; -1 is nobody.
    const auto of_tokens = [&](const Tensor& x) {
      return in_blocks_of(gather(x, 2, order), circle ? gather(x, 2, before) : Tensor(), m);
    };
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
    const Tensor is_real = equal(real_k, 1);
    const Tensor is_there = less_equal(0, place_k);
    const bool buckets_count = !released() && !skyformer();
    const Tensor visible = logical_and(buckets_count ? logical_and(same, is_there) : is_there, is_real);
    // ln N is subtracted from the score, and 1e5 where a token would attend to itself.
    Tensor off = buckets_count ? log(maximum(times, 1)) : Tensor::scalar(0, Q.value());
    if (!released()) off = where(equal(place_q, place_k), 1e5, off);
    const Variable scores = where(visible, matmul(q * scale, transpose(keys, -2, -1)) - Variable(off), kNegligible);
    const Variable z = logsumexp(scores, -1, true);  // (B, H, N, m, 1)
    const Variable P = exp(scores - z) * Variable(visible.cast(Q.dtype()));
    const auto unsorted = [&](const Variable& x) { return gather(out_of_blocks(x, L), 2, back); };
    return {unsorted(matmul(P, v)), unsorted(z)};
  }

  /// (B, H, L) of sorted tokens -> (B, H, N, m, 1) as queries and (B, H, N, 1, 2m) as keys, -1 where nobody is. In
  /// front of the first chunk is the last one of `in_front`, where that is given.
  static std::pair<Tensor, Tensor> in_blocks_of(const Tensor& x, const Tensor& in_front, int64_t m) {
    const int64_t N = ceil_div(x.size(2), m);
    const auto blocks = [&](const Tensor& of) {
      return pad(of, {0, 0, 0}, {0, 0, N * m - of.size(2)}, -1).view({of.size(0), of.size(1), N, 1, m});
    };
    const Tensor own = blocks(x);
    Tensor before = pad(own, {0, 0, 1, 0, 0}, {0, 0, 0, 0, 0}, -1).slice(2, 0, N);
    if (in_front.defined()) {
      before =
          concat(std::vector{blocks(in_front).slice(2, N - 1, N).contiguous(), own.slice(2, 0, N - 1).contiguous()}, 2);
    }
    return {own.view({x.size(0), x.size(1), N, m, 1}), concat(std::vector{before, own}, 4)};
  }

  static constexpr int64_t kReleasedChunks = 10;
  Options options_;
};

}  // namespace

void describe_reformer(Mechanisms& list) {
  list.push_back(
      {.name = "reformer",
       .year = 2020,
       .paper = "Kitaev et al., Eqs. 2-6",
       .equation = "O_i = softmax over j in i's bucket and chunks, of q_i q_j / (|q_j| sqrt D), several hashes joined",
       .approximates = "softmax with Q = K",
       .cost = "L (b + sqrt(L / b)) h D",
       .released = "LRA: one round of 10 buckets in a circle of 10 chunks, the same at each forward; scores q_i q_j "
                   "sqrt D of all tokens in two chunks whatever their bucket; neither padding nor the token itself is "
                   "masked; what the length lacks of 10 chunks is left out",
       .skyformer =
           "the code of Hugging Face: 2 L / b buckets for a length L that is a power of two, rotations of each "
           "head, scores q_i q_j / |q_j| of all tokens in two chunks whatever their bucket, in a circle of "
           "rounds; projections of Q and V without a bias",
       .maker = made_as<Reformer>(),
       .unbiased = [](const MechanismOptions& options) { return options.values<Reformer::Options>().skyformer(); }});
}

}  // namespace bochner

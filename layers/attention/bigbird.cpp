// BigBird (Zaheer et al., NeurIPS 2020), internal transformer construction: blocks of queries see a window of three
// blocks, the first and the last block, and some random ones; the first and the last block see all.
#include <algorithm>
#include <cmath>

#include "autograd/fused/softmax_attention.h"
#include "autograd/ops/index.h"
#include "autograd/ops/join.h"
#include "autograd/ops/view.h"
#include "engine/math.h"
#include "engine/ops/binary.h"
#include "engine/ops/index.h"
#include "engine/ops/join.h"
#include "layers/attention/blocks.h"

namespace bochner {
namespace {

class BigBird : public Mechanism {
 public:
  struct Options : Joined<BlockSize, WeightDropout, LongestSequence, VersionOption> {
    int64_t random_blocks = 3;  ///< for each block of queries
    void options(OptionList& list) {
      Joined::options(list);
      list.at("dropout").counts_where([this] { return !skyformer(); });
      list.at("length").counts_where([this] { return skyformer(); });
      list("random-blocks", random_blocks, "number of random blocks of bigbird").at_least(0).at_most(kMostOfASize);
    }
  };

  BigBird(Slot slot, int64_t /*heads*/, int64_t /*dim*/, const Options& options, Generator& init)
      : Mechanism(std::move(slot)), options_(options), seed_(buffer("seed", integers({1}, 0, 1 << 30, init))) {}

  Variable forward(const Variable& Q, const Variable& K, const Variable& V, const Mask& mask,
                   Context& context) override {
    const Scope scope(name());
    require_self_attention("bigbird", Q, K);
    if (mask.causal) fail_causal("bigbird");
    const int64_t B = Q.size(0);
    const int64_t b = options_.block;
    const double scale = 1 / std::sqrt(static_cast<double>(Q.size(-1)));
    const Tensor real = real_keys(mask, K);
    const Variable q = in_blocks(Q, b);  // (B, H, N, b, D)
    const int64_t N = q.size(2);
    const Plan plan = skyformer() ? make_sky_plan(B, Q.size(1), Q.size(2), N) : make_plan(mask.keys, B, Q.size(2), N);
    const int64_t heads = plan.blocks.size(1);  // 1: all see the same
    const int64_t w = plan.blocks.size(3);
    // Blocks of keys gathered for each block of queries: (B, H, N, w b, D).
    const Tensor index = plan.blocks.to(Q.device());
    const auto gathered = [&](const Variable& x) {
      const Variable rows = reshape(in_blocks(x, b), {B, x.size(1), N, b * x.size(3)});
      return reshape(gather(rows, 2, index.view({B, heads, N * w, 1})), {B, x.size(1), N, w * b, x.size(3)});
    };
    const Tensor own = mask_in_blocks(real, b).reshape({B, N, b});
    const Tensor seen = gather(own, 1, index.view({B, heads * N * w, 1})).reshape({B, heads, N, 1, w, b});
    const Tensor visible =
        logical_and(seen, plan.valid.to(Q.device()).view({B, heads, N, 1, w, 1})).reshape({B, heads, N, 1, w * b});
    const double dropout = skyformer() ? 0 : options_.dropout;
    const Variable O = attend(q, {{gathered(K), gathered(V), visible}}, scale, dropout, context);
    // The first and the last block of queries see all keys.
    const Variable rows = reshape(q, {B, Q.size(1), N, b * Q.size(3)});
    const Variable ends = reshape(gather(rows, 2, plan.ends.to(Q.device())), {B, Q.size(1), 2 * b, Q.size(3)});
    const Dropout dropped = dropout_of_weights(dropout, ends, K.size(2), context);
    const Variable of_ends = softmax_attention({scale, false, dropped}, ends, K, V, mask.keys);  // (B, H, 2b, E)
    const Variable all =
        concat({reshape(O, {B, Q.size(1), N, b * V.size(3)}), reshape(of_ends, {B, Q.size(1), 2, b * V.size(3)})}, 2);
    const Variable placed = gather(all, 2, plan.from.to(Q.device()));  // (B, H, N, b E)
    return out_of_blocks(reshape(placed, {B, Q.size(1), N, b, V.size(3)}), Q.size(2));
  }

 private:
  bool released() const { return options_.released(); }
  bool skyformer() const { return options_.skyformer(); }

  struct Plan {
    Tensor blocks;  ///< i64 (B, 1 or H, N, w): blocks of keys
    Tensor valid;   ///< bool, the same
    Tensor ends;    ///< i64 (B, 1, 2, 1): the first and the last block that hold real tokens
    Tensor from;    ///< i64 (B, 1, N, 1): where the result of each block is; N, N + 1: the ends
  };

  /// Random blocks depend only on the seed and on the number of blocks that hold real tokens, not on padding.
  Plan make_plan(const Tensor& keys, int64_t B, int64_t L, int64_t N) const {
    const auto positions = real_positions(keys, B, L);
    const Generator random(static_cast<uint64_t>(seed_.to_vector<int64_t>()[0]));
    const int64_t w = 5 + std::min(options_.random_blocks, N);
    std::vector<int64_t> blocks(static_cast<size_t>(B * N * w));
    std::vector<uint8_t> valid(blocks.size());
    std::vector<int64_t> ends;
    std::vector<int64_t> from;
    for (int64_t e = 0; e < B; ++e) {
      const auto& real = positions[static_cast<size_t>(e)];
      const int64_t n = real.empty() ? 1 : real.back() / options_.block + 1;
      ends.insert(ends.end(), {0, n - 1});
      for (int64_t i = 0; i < N; ++i) {
        from.push_back(i == 0 ? N : (i == n - 1 ? N + 1 : i));
        if (i >= n) continue;
        const std::vector<int64_t> seen = blocks_of(i, n, random.fork(static_cast<uint64_t>(i)));
        for (size_t s = 0; s < seen.size(); ++s) {
          blocks[static_cast<size_t>((e * N + i) * w) + s] = seen[s];
          valid[static_cast<size_t>((e * N + i) * w) + s] = 1;
        }
      }
    }
    return {Tensor::from(blocks, {B, 1, N, w}), Tensor::from(valid, {B, 1, N, w}).cast(DType::boolean),
            Tensor::from(ends, {B, 1, 2, 1}), Tensor::from(from, {B, 1, N, 1})};
  }

  /// As in SKY's code, which is Hugging Face's: the ends are those of the padded length, a power of two, and each head
  /// has its own random blocks. Blocks beyond this batch's length hold only padding, which has weight 0.
  Plan make_sky_plan(int64_t B, int64_t H, int64_t L, int64_t N) const {
    const auto whole = next_power_of_two(std::max(options_.length, L));
    const int64_t n = std::max(N, whole / options_.block);
    const Generator random(static_cast<uint64_t>(seed_.to_vector<int64_t>()[0]));
    const int64_t w = 5 + std::min(options_.random_blocks, n);
    std::vector<int64_t> blocks(static_cast<size_t>(H * N * w));
    std::vector<uint8_t> valid(blocks.size());
    std::vector<int64_t> from;
    for (int64_t i = 0; i < N; ++i) from.push_back(i == 0 ? N : (i == n - 1 ? N + 1 : i));
    for (int64_t h = 0; h < H; ++h) {
      for (int64_t i = 0; i < N; ++i) {
        const std::vector<int64_t> seen = sky_blocks_of(i, n, random.fork(static_cast<uint64_t>(h * n + i)));
        for (size_t s = 0; s < seen.size(); ++s) {
          const size_t at = static_cast<size_t>((h * N + i) * w) + s;
          blocks[at] = std::min(seen[s], N - 1);
          valid[at] = seen[s] < N ? 1 : 0;
        }
      }
    }
    const auto each = [&](const Tensor& x) { return x.expand({B, x.size(1), x.size(2), x.size(3)}).contiguous(); };
    return {each(Tensor::from(blocks, {1, H, N, w})), each(Tensor::from(valid, {1, H, N, w})).cast(DType::boolean),
            each(Tensor::from<int64_t>({0, N - 1}, {1, 1, 2, 1})), each(Tensor::from(from, {1, 1, N, 1}))};
  }

  /// Random blocks are among those of the first 1024 tokens if the length is one of three for which the authors' plan
  /// was kept; the last rows may then choose blocks that they see already. Otherwise they are among the first 2 r + 4,
  /// and block 1 and the last of these do not choose each other.
  std::vector<int64_t> sky_blocks_of(int64_t i, int64_t n, Generator random) const {
    const int64_t r = options_.random_blocks;
    const int64_t tokens = n * options_.block;
    const bool old = tokens == 1024 || tokens == 3072 || tokens == 4096;
    const int64_t end = std::min(n - 1, old ? 1024 / options_.block : 2 * r + 4);  // after the last random block
    std::vector<int64_t> seen;
    std::vector<int64_t> others;
    for (int64_t j = 0; j < n; ++j) {
      const bool is_end = j == 0 || j == n - 1;
      const bool near = std::abs(i - j) <= 1;
      if (near || is_end) seen.push_back(j);
      const bool may = old ? !near || i >= n - 3 : !near && !(i == 1 && j == end - 1) && !(i == end - 1 && j == 1);
      if (j > 0 && j < end && may) others.push_back(j);
    }
    for (int64_t k = 0; k < r && !others.empty(); ++k) {
      const auto chosen = others.begin() + random.below(static_cast<int64_t>(others.size()));
      seen.push_back(*chosen);
      others.erase(chosen);
    }
    return seen;
  }

  /// The blocks that block i of n sees, each once: window, ends, and random ones among the others.
  std::vector<int64_t> blocks_of(int64_t i, int64_t n, Generator random) const {
    std::vector<int64_t> seen;
    std::vector<int64_t> others;
    for (int64_t j = 0; j < n; ++j) {
      const bool fixed = std::abs(i - j) <= 1 || j == 0 || j == n - 1;
      if (fixed) seen.push_back(j);
      // As released (LRA) random blocks are among those of the first 1024 tokens.
      if (!fixed && (!released() || j * options_.block < 1024)) others.push_back(j);
    }
    for (int64_t r = 0; r < options_.random_blocks && !others.empty(); ++r) {
      const auto chosen = others.begin() + random.below(static_cast<int64_t>(others.size()));
      seen.push_back(*chosen);
      others.erase(chosen);
    }
    return seen;
  }

  Options options_;
  Tensor& seed_;  ///< i64 (1): seed of the random blocks, which stay the same
};

}  // namespace

void describe_bigbird(Mechanisms& list) {
  list.push_back(
      {.name = "bigbird",
       .year = 2020,
       .paper = "Zaheer et al. (ITC)",
       .equation = "O_i = softmax over j: neighbouring, first, last or r random blocks, of q_i k_j / sqrt D",
       .approximates = "softmax",
       .cost = "L b (5 + r) D",
       .released =
           "LRA: random blocks are among the first 1024 tokens; but all heads share them, and the last block is "
           "that of real tokens",
       .skyformer = "the last block is that of the padded length, a power of two; random blocks are each head's own, "
                    "among the first 1024 tokens or, at lengths but 1024, 3072 and 4096, the first 2 r + 4 blocks; no "
                    "dropout",
       .maker = made_as<BigBird>()});
}

}  // namespace bochner

// Sparse Sinkhorn attention (Tay, Bahri, Yang, Metzler, Juan, ICML 2020): each block of queries attends to itself and
// to a block that a learnt, nearly doubly stochastic matrix has sorted to its place.
#include <cmath>

#include "autograd/ops/binary.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/view.h"
#include "engine/math.h"
#include "engine/ops/binary.h"
#include "engine/ops/reduce.h"
#include "layers/attention/blocks.h"
#include "layers/init.h"

namespace bochner {
namespace {

class Sinkhorn : public Mechanism {
 public:
  struct Options : Joined<BlockSize, LongestSequence, Iterations, WeightDropout, VersionOption> {
    double temperature = 0.75;
    void options(OptionList& list) {
      Joined::options(list);
      const auto sorts = [this] { return !released(); };
      list.at("iterations").counts_where(sorts);
      list("temperature", temperature, "temperature of sinkhorn's sorting").above(0).counts_where(sorts);
    }
  };

  Sinkhorn(Slot slot, int64_t heads, int64_t dim, const Options& options, Generator& init)
      : Mechanism(std::move(slot)), options_(options) {
    if (options.length < 1) fail("sinkhorn: its sorting network belongs to positions; give the option length");
    if (released()) return;
    const int64_t blocks = ceil_div(options.length, options.block);
    W_ = &parameter("W", init::fan_in_uniform({heads, dim, dim}, dim, init));
    W_bias_ = &parameter("W_bias", init::fan_in_uniform({heads, 1, dim}, dim, init));
    B_ = &parameter("B", init::fan_in_uniform({heads, dim, blocks}, dim, init));
    B_bias_ = &parameter("B_bias", init::fan_in_uniform({heads, 1, blocks}, dim, init));
  }

  // O_n = softmax(Q_n (K_n; sum_m R_nm K_m)^T / sqrt D) (V_n; sum_m R_nm V_m), n and m blocks
  Variable forward(const Variable& Q, const Variable& K, const Variable& V, const Mask& mask,
                   Context& context) override {
    const Scope scope(name());
    require_self_attention("sinkhorn", Q, K);
    if (mask.causal) fail_causal("sinkhorn");
    const int64_t b = options_.block;
    const auto split = released() ? in_strides : in_blocks;
    const Tensor keys = released() ? Tensor() : mask.keys;
    const Variable q = split(Q, b);  // (B, H, N, b, D)
    const Variable k = split(without_padding(K, keys), b);
    const Variable v = split(without_padding(V, keys), b);
    const Tensor real = mask_in_blocks(real_keys(mask, K), b);  // (B, 1, N, 1, b); as released not of their tokens
    const Variable R = sorting(k, real, context);               // (B, H, N, N)
    const auto sorted = [&](const Variable& x) {
      const Variable rows = reshape(x, {x.size(0), x.size(1), x.size(2), b * x.size(4)});
      return reshape(matmul(R, rows), x.shape()) / share_of_filled(R, real);
    };
    // A position of a sorted block holds something if any block has a real token there.
    const Tensor held = amax(real.cast(DType::i64), {2}, true);  // (B, 1, 1, 1, b)
    const Tensor filled = equal(held, 1);
    const double scale = 1 / std::sqrt(static_cast<double>(Q.size(-1)));
    const KeySet own{k, v, real};
    const KeySet others{sorted(k), sorted(v), filled};
    const Variable O = released() ? attend(q, {own}, scale, options_.dropout, context) +
                                        attend(q, {others}, scale, options_.dropout, context)
                                  : attend(q, {own, others}, scale, options_.dropout, context);
    return released() ? out_of_strides(O, Q.size(2)) : out_of_blocks(O, Q.size(2));
  }

 private:
  bool released() const { return options_.released(); }

  /// (B, H, N, b, 1): how much of the weights in row n of R falls on blocks that hold a real token at place t. Blocks
  /// that are not full have nothing at some positions; the mean there is that of the other blocks.
  Variable share_of_filled(const Variable& R, const Tensor& real) const {
    if (released()) return Tensor::scalar(1, R.value());  // sums, not means
    const Variable filled = real.cast(R.dtype()).view({real.size(0), 1, real.size(2), real.size(4)});  // (B, 1, N, b)
    const Variable share = matmul(R, filled) / sum(R, {-1}, true);                                     // (B, H, N, b)
    return unsqueeze(where(less(0, share.value()), share, 1), -1);
  }

  /// R (B, H, N, N): log R = P(X) = relu(X_n W + b) B, X_n the sum of the keys of block n. Gumbel noise is added in
  /// training; the sum is divided by the temperature, and rows and columns are normalised in turn (Eqs. 1-4). As
  /// released (LRA), nothing is sorted: each block gets the sum of all.
  Variable sorting(const Variable& k, const Tensor& real, Context& context) const {
    const int64_t N = k.size(2);
    const Shape shape{k.size(0), k.size(1), N, N};
    if (released()) return Tensor::full(shape, 1, k.dtype(), k.device());
    if (N > B_->shape()[2]) {
      fail("sinkhorn: {} blocks, but its sorting network is for {} tokens", N, options_.length);
    }
    const Variable X = sum(k, {3});  // (B, H, N, D)
    const Variable hidden = relu(matmul(X, *W_) + *W_bias_);
    Variable S = matmul(hidden, slice(*B_, 2, 0, N)) + slice(*B_bias_, 2, 0, N);  // (B, H, N, N)
    if (context.training) {                                                       // Gumbel: -ln(-ln u)
      const Tensor u = uniform(shape, context.generator, 0, 1, DType::f64, k.device());
      S = S + Variable((-log(-log(u * (1 - 1e-9) + 1e-10))).cast(k.dtype()));
    }
    S = S / options_.temperature;
    // Blocks that hold only padding are sorted to themselves.
    const Tensor some = amax(real.cast(DType::i64), {4}).view({k.size(0), 1, N, 1});      // (B, 1, N, 1)
    const Tensor among = equal(minimum(some, some.transpose(2, 3)), 1);                   // (B, 1, N, N)
    const Tensor same = equal(places(N, 2, 4, k.device()), places(N, 3, 4, k.device()));  // (1, 1, N, N)
    S = where(among, S, where(same, 0, Variable(Tensor::scalar(kNegligible, k.value()))));
    for (int64_t t = 0; t < options_.iterations; ++t) {
      S = S - logsumexp(S, -1, true);
      S = S - logsumexp(S, -2, true);
    }
    return exp(S);
  }

  Options options_;
  Parameter* W_ = nullptr;       ///< (heads, D, D)
  Parameter* W_bias_ = nullptr;  ///< (heads, 1, D)
  Parameter* B_ = nullptr;       ///< (heads, D, blocks)
  Parameter* B_bias_ = nullptr;  ///< (heads, 1, blocks)
};

}  // namespace

void describe_sinkhorn(Mechanisms& list) {
  list.push_back({.name = "sinkhorn",
                  .year = 2020,
                  .paper = "Tay et al., Eqs. 1-6",
                  .equation = "O_n = softmax(Q_n (K_n; (R K)_n)^T / sqrt D) (V_n; (R V)_n), R doubly stochastic",
                  .cost = "L b D + L^2 D / b",
                  .learns = "the sorting network",
                  .released = "LRA: nothing is sorted; to the output of its own block each query adds that of the sum "
                              "of all blocks; block n "
                              "holds every N-th token from n on, under the mask of a contiguous block",
                  .maker = made_as<Sinkhorn>()});
}

}  // namespace bochner

#include "layers/attention/gaussian.h"

#include <cmath>

#include "autograd/fused/dropout.h"
#include "autograd/fused/gaussian_kernel.h"
#include "autograd/fused/softmax_attention.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/join.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/view.h"
#include "engine/ops/join.h"
#include "layers/attention/blocks.h"

namespace bochner {
namespace {

Variable full(const Variable& like, int64_t rows, int64_t columns, double value) {
  return Tensor::full({like.size(0), like.size(1), rows, columns}, value, like.dtype(), like.device());
}

/// x with entries limited to +-1e15, so that sums of their squares are finite in f32. A token so far away has weight 0
/// and derivatives 0; without the bound these would be inf - inf, even for padded tokens.
Variable bounded(const Variable& x) { return clamp(x, -1e15, 1e15); }

}  // namespace

Tensor identity(int64_t n, DType dtype, Device device) {
  return equal(places(n, 0, 2, device), places(n, 1, 2, device)).cast(dtype);
}

// The softmax kernel does the work. Besides the keys, whose scores are q . k - |k|^2 / 2, each query sees a sink with
// the score |q|^2 / 2. So the weight of the sink is 1 / (1 + sum_j C_ij), that of key j is C_ij times as much, and
//
//   C V = (weighted mean of values) / (weight of the sink),  C_ij = exp(-|q_i - k_j|^2 / 2)
//
// where nothing can overflow: the sink weighs at least 1 / (1 + L). Rounding of scores of 1e8 must not make it less;
// half of that is the bound here, so that it cuts no derivative where all keys equal the query.
Variable gaussian_attention(const Variable& far_Q, const Variable& far_K, const Variable& V, const Tensor& keys,
                            bool causal) {
  const Variable Q = bounded(far_Q);
  const Variable K = bounded(far_K);
  const int64_t D = Q.size(3);
  const int64_t E = V.size(3);
  const Variable half_q = sum(square(Q), {-1}, true) * 0.5;
  const Variable half_k = sum(square(K), {-1}, true) * -0.5;
  Variable q = concat({Q, full(Q, Q.size(2), 1, 1), half_q}, 3);            // (B, H, Lq, D + 2)
  Variable k = concat({K, half_k, full(K, K.size(2), 1, 0)}, 3);            // (B, H, Lk, D + 2)
  k = concat({concat({full(K, 1, D + 1, 0), full(K, 1, 1, 1)}, 3), k}, 2);  // the sink first: (B, H, 1 + Lk, D + 2)
  Variable v = concat({V, full(V, V.size(2), 1, 0)}, 3);                    // (B, H, Lk, E + 1)
  v = concat({concat({full(V, 1, E, 0), full(V, 1, 1, 1)}, 3), v}, 2);      // (B, H, 1 + Lk, E + 1)
  if (causal)
    q = pad(q, {0, 0, 1, 0}, {0, 0, 0, 0});  // query i sees 1 + (i + 1) keys: an extra row in front, which is not read
  Tensor seen;
  if (keys.defined())
    seen = concat(std::vector{Tensor::full({keys.size(0), 1}, 1, DType::boolean, keys.device()), keys}, 1);
  Variable O = softmax_attention({1, causal, {}}, q, k, v, seen);  // (B, H, Lq, E + 1)
  if (causal) O = slice(O, 2, 1, O.size(2));
  return slice(O, 3, 0, E) / maximum(slice(O, 3, E, E + 1), 0.5 / static_cast<double>(1 + K.size(2)));
}

// With Y = -c A V and 4 c^3 = 1, the step is V <- V (13 c^3 I + Y (15 c^2 I + Y (7 c I + Y))): products, and sums whose
// gradients need no copy.
Variable iterative_inverse(const Variable& A, const Variable& s, int64_t iterations) {
  const double c = std::cbrt(0.25);
  const Tensor I = identity(A.size(-1), A.dtype(), A.device());
  const Variable first = I * (7 * c);
  const Variable second = I * (15 * c * c);
  const Variable third = I * (13 * c * c * c);
  const Variable minus_cA = A * -c;
  Variable V = transpose(A, -2, -1) / s;
  for (int64_t t = 0; t < iterations; ++t) {
    const Variable Y = matmul(minus_cA, V);
    V = matmul(V, third + matmul(Y, second + matmul(Y, first + Y)));
  }
  return V;
}

namespace {

// Gaussian kernel attention (SKY Eq. 3):  O = C V,  C_ij = exp(-|q_i - k_j|^2 / (2 sqrt D)). Not divided by sums of
// weights.
class GaussianAttention : public Mechanism {
 public:
  using Options = Joined<WeightDropout, FusedKernels>;

  GaussianAttention(Slot slot, int64_t /*heads*/, int64_t /*dim*/, const Options& options, Generator& /*init*/)
      : Mechanism(std::move(slot)), options_(options) {}

  Variable forward(const Variable& Q, const Variable& K, const Variable& V, const Mask& mask,
                   Context& context) override {
    const Scope scope(name());
    const double scale = std::pow(static_cast<double>(Q.size(-1)), -0.25);
    const bool drops = context.training && options_.dropout > 0;
    if (options_.streaming && !drops) return gaussian_attention(Q * scale, K * scale, V, mask.keys, mask.causal);
    Variable C = gaussian_kernel(Q * scale, K * scale, mask.keys);  // (B, H, Lq, Lk)
    if (mask.causal) {
      const Tensor visible = less_equal(places(K.size(2), 1, 2, Q.device()), places(Q.size(2), 0, 2, Q.device()));
      C = C * Variable(visible.cast(C.dtype()));
    }
    if (drops) C = dropout(C, options_.dropout, context.generator);
    return matmul(C, V);  // (B, H, Lq, E)
  }

 private:
  Options options_;
};

}  // namespace

void describe_gaussian(Mechanisms& list) {
  list.push_back({.name = "gaussian",
                  .year = 2021,
                  .paper = "SKY Eq. 3",
                  .equation = "O = C V, C_ij = exp(-|q_i - k_j|^2 / (2 sqrt D))",
                  .cost = "L^2 D",
                  .causal = true,
                  .maker = made_as<GaussianAttention>()});
}

}  // namespace bochner

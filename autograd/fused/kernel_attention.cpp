#include "autograd/fused/kernel_attention.h"

#include <limits>
#include <map>

#include "autograd/ops/binary.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/view.h"
#include "engine/ops/hadamard.h"
#include "engine/ops/index.h"
#include "engine/ops/reduce.h"

namespace bochner {
namespace composed {
namespace {

/// (1, 1, Lq, Lk), true where key j <= query i.
Tensor causal_mask(int64_t queries, int64_t keys, Device device) {
  const Tensor i = Tensor::arange(queries, DType::i64, device).view({queries, 1});
  const Tensor j = Tensor::arange(keys, DType::i64, device).view({1, keys});
  return less_equal(j, i).view({1, 1, queries, keys});
}

Variable apply_function(FeatureMap::Function f, const Variable& u) {
  switch (f) {
    case FeatureMap::Function::elu_plus_one:
      return elu(u) + 1;
    case FeatureMap::Function::relu:
      return relu(u);
    case FeatureMap::Function::sigmoid:
      return sigmoid(u);
    case FeatureMap::Function::exp:
      return exp(u);
    case FeatureMap::Function::abs:
      return abs(u);
    case FeatureMap::Function::gelu:
      return gelu(u);
    case FeatureMap::Function::cos:
      return cos(u);
    case FeatureMap::Function::tanh:
      return tanh(u);
    case FeatureMap::Function::identity:
      return u;
  }
  internal_failure("a known feature function", __FILE__, __LINE__);
}

/// (B, 1, L, 1) from (B, L)
Tensor column(const Tensor& keys) { return keys.view({keys.size(0), 1, keys.size(1), 1}); }

/// The exponents of each token's features (B, H, L, M), or their common one (B, H, L, 1).
Variable exponents(const FeatureMap& map, const Variable& u, const Variable& norm) {
  if (map.kind == FeatureMap::Kind::softmax_trigonometric) return norm * 0.5;
  if (map.kind == FeatureMap::Kind::hyperbolic) return concat({u, -u}, -1) - norm * map.norm_factor;
  return u - norm * map.norm_factor;
}

/// The largest of each token (B, H, L, 1); the lowest number at padded tokens.
Tensor largest_exponents(const Tensor& exponent, const Tensor& keys) {
  const Tensor largest = amax(exponent, {-1}, true);
  if (!keys.defined()) return largest;
  const Tensor lowest = Tensor::scalar(std::numeric_limits<float>::lowest(), exponent.dtype(), exponent.device());
  return where(column(keys), largest, lowest);
}

/// exp(exponent - shift): the shift is the largest exponent in its scope, over real tokens, and a constant.
Variable shifted_exp(const Variable& exponent, bool shifts, bool is_key, const Tensor& keys) {
  if (!shifts || exponent.size(-2) == 0) return exp(exponent);
  if (!is_key) return exp(exponent - Variable(amax(exponent.value(), {-1}, true)));
  Variable real = exponent;
  if (keys.defined()) {
    const Variable nothing =
        Tensor::scalar(-std::numeric_limits<double>::infinity(), exponent.dtype(), exponent.device());
    real = where(column(keys), exponent, nothing);
  }
  return exp(real - Variable(amax(largest_exponents(exponent.value(), keys), {-2}, true)));
}

/// Weights (B, H, Lq, Lk) of the causal form from those under one shift for all keys: query i is due the largest
/// exponent among the keys it sees, so the exponentials, not their eps, are multiplied by what it is lower.
Variable with_causal_shift(const KernelAttentionSpec& spec, const Variable& weights, const Variable& phi_q,
                           const Variable& K, const Variable& Omega, const Tensor& keys, const Tensor& visible) {
  if (K.size(-2) == 0) return weights;
  const Variable x = K.value() * spec.scale;
  const Variable u = Omega.defined() ? matmul(x, transpose(Omega.detach(), -2, -1)) : x;
  const Tensor largest =
      largest_exponents(exponents(spec.map, u, sum(square(x), {-1}, true)).value(), keys).transpose(-2, -1);
  const Tensor lowest = Tensor::scalar(std::numeric_limits<float>::lowest(), K.dtype(), K.device());
  const Tensor of_all = amax(largest, {-1}, true);                              // (B, H, 1, 1)
  const Tensor of_visible = amax(where(visible, largest, lowest), {-1}, true);  // (B, H, Lq, 1)
  const Tensor lower = of_all - where(less_equal(of_visible, lowest), of_all, of_visible);
  const double eps = spec.map.kind == FeatureMap::Kind::softmax_trigonometric ? 0 : spec.map.eps;
  const Variable of_eps = sum(phi_q, {-1}, true) * eps;  // (B, H, Lq, 1)
  return (weights - of_eps) * Variable(exp(lower)) + of_eps;
}

}  // namespace

Variable feature_map(const FeatureMap& map, const Variable& x, const Variable& Omega, bool is_key, const Tensor& keys,
                     bool shifts) {
  using Kind = FeatureMap::Kind;
  const Variable u = Omega.defined() ? matmul(x, transpose(Omega, -2, -1)) : x;  // (B, H, L, M)
  const Variable norm = sum(square(x), {-1}, true);                              // (B, H, L, 1)
  Variable phi;
  switch (map.kind) {
    case Kind::positive:
    case Kind::hyperbolic:
      phi = shifted_exp(exponents(map, u, norm), shifts, is_key, keys) + map.eps;
      break;
    case Kind::trigonometric:
      phi = concat({cos(u), sin(u)}, -1);
      break;
    case Kind::softmax_trigonometric:
      phi = shifted_exp(exponents(map, u, norm), shifts, is_key, keys) * concat({cos(u), sin(u)}, -1);
      break;
    case Kind::elementwise:
      phi = apply_function(map.function, u) + map.eps;
      break;
  }
  if (map.constant == 0) return phi;
  Shape one = phi.shape();
  one[-1] = 1;
  return concat({phi, Tensor::full(one, map.constant, x.dtype(), x.device())}, -1);
}

Variable fastfood_matrix(const KernelAttentionSpec& spec, const Variable& diagonals, int64_t dim) {
  const int64_t blocks = spec.permutation.size(0);
  const int64_t P = spec.permutation.size(1);
  const Tensor identity = equal(Tensor::arange(P).view({P, 1}), Tensor::arange(P).view({1, P})).cast(diagonals.dtype());
  const Tensor H = hadamard(identity);                                                       // (P, P)
  const Tensor PiH = take(H, spec.permutation.to(Device::cpu()), 0).to(diagonals.device());  // (blocks, P, P)
  const Variable SGB = reshape(diagonals, {diagonals.size(0), blocks, 3, P});
  const Variable S = unsqueeze(select(SGB, 2, 0), -1);  // (1 or H, blocks, P, 1)
  const Variable G = unsqueeze(select(SGB, 2, 1), -2);  // (1 or H, blocks, 1, P)
  const Variable B = unsqueeze(select(SGB, 2, 2), -2);  // (1 or H, blocks, 1, P)
  const Variable HG = Variable(H.to(diagonals.device())) * G;
  const Variable V = S * matmul(HG, Variable(PiH)) * B;  // (1 or H, blocks, P, P)
  const Variable rows = reshape(V, {diagonals.size(0), blocks * P, P});
  return slice(slice(rows, 1, 0, spec.frequencies), 2, 0, dim);
}

Variable kernel_attention(const KernelAttentionSpec& spec, const Variable& Q, const Variable& K, const Variable& V,
                          const Variable& Omega, const Tensor& keys) {
  if (spec.permutation.defined()) {
    KernelAttentionSpec dense = spec;
    dense.permutation = Tensor();
    return composed::kernel_attention(dense, Q, K, V, fastfood_matrix(spec, Omega, Q.size(-1)), keys);
  }
  const Variable phi_q = feature_map(spec.map, Q * spec.scale, Omega, false, keys, spec.shifts());  // (B, H, Lq, F)
  Variable phi_k = feature_map(spec.map, K * spec.scale, Omega, true, keys, spec.shifts());         // (B, H, Lk, F)
  if (keys.defined()) phi_k = phi_k * Variable(column(keys).cast(phi_k.dtype()));  // padded keys weigh nothing
  if (spec.causal) {
    const Tensor visible = causal_mask(Q.size(-2), K.size(-2), Q.device());
    Variable weights = matmul(phi_q, transpose(phi_k, -2, -1));  // (B, H, Lq, Lk)
    if (spec.shifts()) weights = with_causal_shift(spec, weights, phi_q, K, Omega, keys, visible);
    weights = weights * Variable(visible.cast(Q.dtype()));
    if (keys.defined()) weights = weights * Variable(column(keys).transpose(-2, -1).cast(Q.dtype()));
    const Variable sums = matmul(weights, V);  // (B, H, Lq, E)
    return spec.renormalise ? sums / (sum(weights, {-1}, true) + spec.denominator_eps) : sums;
  }
  const Variable S = matmul(transpose(phi_k, -2, -1), V);  // (B, H, F, D)
  Variable sums = matmul(phi_q, S);                        // (B, H, Lq, D)
  if (!spec.renormalise) return sums;
  const Variable z = unsqueeze(sum(phi_k, {-2}), -1);  // (B, H, F, 1)
  return sums / (matmul(phi_q, z) + spec.denominator_eps);
}

}  // namespace composed

Variable kernel_attention(const KernelAttentionSpec& spec, const Variable& Q, const Variable& K, const Variable& V,
                          const Variable& Omega, const Tensor& keys) {
  const KernelAttentionResult forward = kernel_attention(spec, Q.value(), K.value(), V.value(), Omega.value(), keys);
  return record("kernel_attention", forward.O, {&Q, &K, &V, &Omega}, [=](const Variable& g) -> Gradients {
    if (Tape* tape = Tape::current()) {
      const auto plain = [&](const std::vector<Variable>& in) {
        return composed::kernel_attention(spec, in[0], in[1], in[2], in[3], keys);
      };
      return tape->pull_back(plain, {Q, K, V, Omega}, g);
    }
    const KernelAttentionGradients grads = kernel_attention_backward(spec, g.value(), Q.value(), K.value(), V.value(),
                                                                     Omega.value(), keys, forward, Omega.tracked());
    return {grads.dQ, grads.dK, grads.dV, grads.dOmega};
  });
}

}  // namespace bochner

#include "layers/attention/composed.h"

#include <cmath>
#include <limits>

#include "autograd/ops/binary.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/view.h"
#include "engine/ops/reduce.h"

namespace bochner::composed {
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

/// exp(exponent - shift) for exponents (B, H, L, M): the shift is their largest in its scope, over real tokens, and a
/// constant.
Variable shifted_exp(const Variable& exponent, bool is_key, const Mask& mask) {
  if (!is_key) return exp(exponent - Variable(amax(exponent.value(), {-1}, true)));
  Variable real = exponent;
  if (mask.keys.defined()) {
    const Variable nothing =
        Tensor::scalar(-std::numeric_limits<double>::infinity(), exponent.dtype(), exponent.device());
    real = where(mask.keys.view({mask.keys.size(0), 1, mask.keys.size(1), 1}), exponent, nothing);
  }
  const Tensor lowest = Tensor::scalar(std::numeric_limits<float>::lowest(), exponent.dtype(), exponent.device());
  return exp(real - Variable(maximum(amax(real.value(), {-2, -1}, true), lowest)));
}

}  // namespace

Variable softmax_attention(const Variable& Q, const Variable& K, const Variable& V, const Mask& mask) {
  const double scale = 1 / std::sqrt(static_cast<double>(Q.size(-1)));
  Variable scores = matmul(Q * scale, transpose(K, -2, -1));  // (B, H, Lq, Lk)
  const Variable hidden = Tensor::scalar(-std::numeric_limits<double>::infinity(), Q.dtype(), Q.device());
  if (mask.keys.defined()) {
    scores = where(mask.keys.view({mask.keys.size(0), 1, 1, mask.keys.size(1)}), scores, hidden);
  }
  if (mask.causal) scores = where(causal_mask(Q.size(-2), K.size(-2), Q.device()), scores, hidden);
  return matmul(softmax(scores), V);  // (B, H, Lq, D)
}

Variable feature_map(const FeatureMap& map, const Variable& x, const Variable& Omega, bool is_key, const Mask& mask) {
  using Kind = FeatureMap::Kind;
  const Variable u = Omega.defined() ? matmul(x, transpose(Omega, -2, -1)) : x;  // (B, H, L, M)
  const Variable norm = sum(square(x), {-1}, true);                              // (B, H, L, 1)
  Variable phi;
  switch (map.kind) {
    case Kind::positive: {
      const Variable exponent = u - norm * map.norm_factor;
      phi = shifted_exp(exponent, is_key, mask) + map.eps;
      break;
    }
    case Kind::trigonometric:
      phi = concat({cos(u), sin(u)}, -1);
      break;
    case Kind::hyperbolic: {
      const Variable exponent = concat({u, -u}, -1) - norm * map.norm_factor;
      phi = shifted_exp(exponent, is_key, mask) + map.eps;
      break;
    }
    case Kind::softmax_trigonometric: {
      const Variable h = shifted_exp(norm * 0.5, is_key, mask);
      phi = h * concat({cos(u), sin(u)}, -1);
      break;
    }
    case Kind::elementwise:
      phi = apply_function(map.function, u) + map.eps;
      break;
  }
  if (map.constant == 0) return phi;
  Shape one = phi.shape();
  one[-1] = 1;
  return concat({phi, Tensor::full(one, map.constant, x.dtype(), x.device())}, -1);
}

Variable kernel_attention(const Variable& phi_q, const Variable& phi_k, const Variable& V, const Mask& mask,
                          const KernelAttentionOptions& options) {
  Variable keys = phi_k;
  if (mask.keys.defined()) {  // padded keys weigh nothing
    keys = keys * Variable(mask.keys.view({mask.keys.size(0), 1, mask.keys.size(1), 1}).cast(keys.dtype()));
  }
  if (mask.causal) {
    const Tensor visible = causal_mask(phi_q.size(-2), phi_k.size(-2), phi_q.device()).cast(phi_q.dtype());
    const Variable weights = matmul(phi_q, transpose(keys, -2, -1)) * Variable(visible);  // (B, H, Lq, Lk)
    const Variable sums = matmul(weights, V);
    return options.renormalise ? sums / (sum(weights, {-1}, true) + options.denominator_eps) : sums;
  }
  const Variable state = matmul(transpose(keys, -2, -1), V);  // (B, H, M, D)
  const Variable sums = matmul(phi_q, state);                 // (B, H, Lq, D)
  if (!options.renormalise) return sums;
  const Variable total = unsqueeze(sum(keys, {-2}), -1);  // (B, H, M, 1)
  return sums / (matmul(phi_q, total) + options.denominator_eps);
}

}  // namespace bochner::composed

// Attention composed of plain ops in bf16, against which fused kernels in bf16 are compared. Factors and results of
// matrix products and of their gradients are stored in bf16; sums within a product, exponentials and quotients are f32
// (PyTorch's autocast to bfloat16).
#pragma once

#include <limits>

#include "autograd/fused/dropout.h"
#include "autograd/fused/kernel_attention.h"
#include "autograd/fused/softmax_attention.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/join.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/unary.h"
#include "autograd/ops/view.h"
#include "autograd/tape.h"
#include "engine/ops/binary.h"
#include "engine/ops/reduce.h"

namespace bochner::in_bf16 {

inline Tensor round_to_bf16(const Tensor& x) { return x.cast(DType::bf16).cast(x.dtype()); }

/// x rounded to bf16; its gradient is rounded too.
inline Variable stored(const Variable& x) {
  return record("stored", round_to_bf16(x.value()), {&x},
                [](const Variable& g) -> Gradients { return {round_to_bf16(g.value())}; });
}
inline Variable product(const Variable& a, const Variable& b) { return stored(matmul(stored(a), stored(b))); }

/// (B or 1, 1, Lq, Lk): whether query i sees key j.
inline Tensor visible(bool causal, int64_t queries, int64_t length, const Tensor& keys) {
  const Tensor i = Tensor::arange(queries).view({queries, 1});
  const Tensor j = Tensor::arange(length).view({1, length});
  const Tensor earlier =
      less_equal(j, causal ? i : i + Tensor::scalar(length, DType::i64)).view({1, 1, queries, length});
  return keys.defined() ? where(keys.view({keys.size(0), 1, 1, length}), earlier, Tensor::zeros({1}, DType::boolean))
                        : earlier;
}

inline Variable softmax_attention(const SoftmaxAttentionOptions& options, const Variable& Q, const Variable& K,
                                  const Variable& V, const Tensor& keys) {
  const Variable hidden = Tensor::scalar(-std::numeric_limits<double>::infinity(), Q.dtype());
  const Variable S = product(Q * options.scale, transpose(K, -2, -1));  // (B, H, Lq, Lk)
  Variable P = softmax(where(visible(options.causal, Q.size(2), K.size(2), keys), S, hidden));
  if (options.dropout.active()) P = dropout_at(P, options.dropout);
  return product(P, V);
}

/// The exponents of each token's features, (B, H, L, F) or (B, H, L, 1); undefined if the map has none.
inline Variable exponents(const FeatureMap& map, const Variable& x, const Variable& u) {
  if (!map.has_exponent()) return {};
  const Variable norm = sum(square(x), {-1}, true);
  if (map.kind == FeatureMap::Kind::softmax_trigonometric) return norm * 0.5;
  if (map.kind == FeatureMap::Kind::hyperbolic) return concat({u, -u}, -1) - norm * map.norm_factor;
  return u - norm * map.norm_factor;
}

/// Without eps and constant.
inline Variable features(const FeatureMap& map, const Variable& u, const Variable& shifted) {
  switch (map.kind) {
    case FeatureMap::Kind::positive:
    case FeatureMap::Kind::hyperbolic:
      return exp(shifted);
    case FeatureMap::Kind::trigonometric:
      return concat({cos(u), sin(u)}, -1);
    case FeatureMap::Kind::softmax_trigonometric:
      return exp(shifted) * concat({cos(u), sin(u)}, -1);
    case FeatureMap::Kind::elementwise:
      break;
  }
  return map.function == FeatureMap::Function::relu ? relu(u) : elu(u) + 1;
}

/// If causal, computed from its weights, with each key's features under their own shift, so that bf16 can hold them.
inline Variable kernel_attention(const KernelAttentionSpec& spec, const Variable& Q, const Variable& K,
                                 const Variable& V, const Variable& Omega, const Tensor& keys) {
  const FeatureMap& map = spec.map;
  const auto project = [&](const Variable& x) { return Omega.defined() ? product(x, transpose(Omega, -2, -1)) : x; };
  const Variable q = stored(Q * spec.scale), k = stored(K * spec.scale);
  const Variable uq = project(q), uk = project(k);
  Variable eq = exponents(map, q, uq), ek = exponents(map, k, uk);
  const Tensor seen = visible(spec.causal, Q.size(2), K.size(2), keys);  // (B or 1, 1, Lq, Lk)
  const Tensor nothing = Tensor::scalar(-1e30, Q.dtype());
  Tensor lower;  // (B, H, Lq, Lk): what is left of each key's shift for each query
  if (spec.shifts()) {
    eq = eq - Variable(amax(eq.value(), {-1}, true));
    const Tensor own = amax(ek.value(), {-1}, true).transpose(-2, -1);   // (B, H, 1, Lk)
    const Tensor largest = amax(where(seen, own, nothing), {-1}, true);  // (B, H, Lq, 1)
    if (spec.causal) {
      ek = ek - Variable(own.transpose(-2, -1));
      lower = where(seen, own - largest, nothing);
    } else {
      ek = ek - Variable(amax(largest, {-2}, true));
    }
  }
  const bool has_eps =
      map.kind != FeatureMap::Kind::trigonometric && map.kind != FeatureMap::Kind::softmax_trigonometric;
  const double eps = has_eps ? map.eps : 0;
  const auto whole = [&](const Variable& phi, double plus) {
    if (map.constant == 0) return stored(phi + plus);
    Shape one = phi.shape();
    one[-1] = 1;
    return stored(concat({phi + plus, Tensor::full(one, map.constant)}, -1));
  };
  const Variable phi_q = whole(features(map, uq, eq), eps);                  // (B, H, Lq, F)
  Variable phi_k = whole(features(map, uk, ek), lower.defined() ? 0 : eps);  // (B, H, Lk, F)
  Variable sums, denominators;
  if (spec.causal) {
    Variable weights = product(phi_q, transpose(phi_k, -2, -1));  // (B, H, Lq, Lk)
    if (lower.defined()) weights = weights * Variable(exp(lower)) + sum(phi_q, {-1}, true) * eps;
    weights = stored(weights * Variable(seen.cast(Q.dtype())));
    sums = product(weights, V);
    denominators = sum(weights, {-1}, true);
  } else {
    if (keys.defined()) phi_k = phi_k * Variable(keys.view({keys.size(0), 1, keys.size(1), 1}).cast(Q.dtype()));
    sums = product(phi_q, product(transpose(phi_k, -2, -1), V));
    denominators = product(phi_q, unsqueeze(sum(phi_k, {-2}), -1));
  }
  return spec.renormalise ? stored(sums / (denominators + spec.denominator_eps)) : sums;
}

}  // namespace bochner::in_bf16

#include "autograd/fused/kernel_attention.h"

#include <cmath>
#include <limits>

#include "autograd/ops/binary.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/view.h"
#include "engine/ops/binary.h"
#include "engine/ops/features/functions.h"
#include "engine/ops/hadamard.h"
#include "engine/ops/index.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"

namespace bochner {
namespace composed {
namespace {

/// (1, 1, Lq, Lk), true where key j <= query i.
Tensor causal_mask(int64_t queries, int64_t keys, Device device) {
  const Tensor i = Tensor::arange(queries, DType::i64, device).view({queries, 1});
  const Tensor j = Tensor::arange(keys, DType::i64, device).view({1, keys});
  return less_equal(j, i).view({1, 1, queries, keys});
}

/// (B, 1, L, 1) from (B, L)
Tensor column(const Tensor& keys) { return keys.view({keys.size(0), 1, keys.size(1), 1}); }

/// |x|^2 (B, H, L, 1), bounded in f32 however large a token is, since a padded one must not make others' derivatives
/// NaN.
Variable squared_norm(const Variable& x) { return minimum(sum(square(x), {-1}, true), 1e30); }

/// The exponents of each token's features (B, H, L, M), or their common one (B, H, L, 1).
Variable exponents(const FeatureMap& map, const Variable& u, const Variable& norm) {
  if (map.kind == FeatureMap::Kind::softmax_trigonometric) return norm * 0.5;
  if (map.kind == FeatureMap::Kind::hyperbolic) return concat({u, -u}, -1) - norm * map.norm_factor;
  return u - norm * map.norm_factor;
}

constexpr double kLowest = std::numeric_limits<float>::lowest();

/// The shift of each token (B, H, L, 1), a constant: for a query its own largest exponent; for a key that of all real
/// keys, or, if causal, of the real keys up to this one.
enum class ShiftOf : unsigned char { query, keys, earlier_keys };
Tensor shift_of(const FeatureMap& map, const Tensor& exponent, ShiftOf scope, const Tensor& keys) {
  Tensor largest = amax(exponent, {-1}, true);
  if (map.absolute_eps && map.eps > 0) {  // eps is the smallest that a feature can be
    largest = maximum(largest, std::log(map.eps));
  }
  if (scope == ShiftOf::query) return largest;
  if (keys.defined()) largest = where(column(keys), largest, kLowest);
  if (scope == ShiftOf::keys) return amax(largest, {-2}, true);
  const Tensor earlier = causal_mask(exponent.size(-2), exponent.size(-2), exponent.device());
  return amax(where(earlier, largest.transpose(-2, -1), kLowest), {-1}, true);
}

/// phi(x) under a shift; without one if it is undefined.
Variable features(const FeatureMap& map, const Variable& x, const Variable& Omega, const Tensor& shift,
                  const Tensor& real) {
  using Kind = FeatureMap::Kind;
  const Variable u = Omega.defined() ? matmul(x, transpose(Omega, -2, -1)) : x;  // (B, H, L, M)
  const Variable norm = squared_norm(x);                                         // (B, H, L, 1)
  Variable h;                                                                    // exponentials
  if (map.has_exponent()) {
    Variable exponent = exponents(map, u, norm);
    if (shift.defined() && real.defined()) {
      exponent = where(column(real), exponent, -std::numeric_limits<double>::infinity());
    }
    h = exp(shift.defined() ? exponent - Variable(shift) : exponent);
  }
  Variable phi;
  switch (map.kind) {
    case Kind::positive:
    case Kind::hyperbolic:
      if (map.absolute_eps && shift.defined()) {
        // Where no real key was seen yet there is no shift, and no eps either.
        const Tensor none = equal(shift, kLowest);
        phi = map.eps == 0 ? h : h + Variable(where(none, 0, exp(-shift)) * map.eps);
      } else {
        phi = h + map.eps;
      }
      break;
    case Kind::trigonometric:
      phi = concat({cos(u), sin(u)}, -1);
      break;
    case Kind::softmax_trigonometric:
      phi = h * concat({cos(u), sin(u)}, -1);
      break;
    case Kind::elementwise:
      phi = with_feature_function(map.function, [&](const auto& f) { return f.composed(u); }) + map.eps;
      break;
  }
  if (map.constant == 0) return phi;
  return concat({phi, Tensor::full(phi.shape().with_last(1), map.constant, x.dtype(), x.device())}, -1);
}

/// The shift of each token of x; undefined if the map needs none.
Tensor shift_for(const FeatureMap& map, const Variable& x, const Variable& Omega, ShiftOf scope, const Tensor& keys) {
  if (!map.has_exponent() || x.size(-2) == 0) return {};
  const Variable held = x.detach();
  const Variable u = Omega.defined() ? matmul(held, transpose(Omega.detach(), -2, -1)) : held;
  return shift_of(map, exponents(map, u, squared_norm(held)).value(), scope, keys);
}

/// Corrects weights (B, H, Lq, Lk) in which key j has the shift m_j of the keys up to it, where query i needs m_i:
/// exponentials get the factor e^(m_j - m_i), at most 1, and an eps that was added after the shift gets none.
Variable with_causal_shift(const Variable& weights, const Tensor& shift, const Variable& of_eps) {
  const int64_t last = shift.size(-2) - 1;
  const Tensor seen = minimum(Tensor::arange(weights.size(-2), DType::i64, shift.device()), static_cast<double>(last));
  const Tensor due = take(shift, seen, 2);  // (B, H, Lq, 1)
  const Tensor lower = minimum(shift.transpose(-2, -1) - due, 0);
  return weights * Variable(exp(lower)) + of_eps;
}

/// sums / (total + eps), or 0 if that is 0 or has no inverse: for a query without keys, or with keys without weight.
Variable quotient(const Variable& sums, const Variable& total, double eps) {
  const Variable divisor = eps == 0 ? total : total + eps;
  const double least =
      divisor.dtype() == DType::f64 ? std::numeric_limits<double>::min() : std::numeric_limits<float>::min();
  const Tensor empty = less(abs(divisor.value()), least);
  return where(empty, 0, sums / where(empty, 1, divisor));
}

}  // namespace

Variable feature_map(const FeatureMap& map, const Variable& x, const Variable& Omega, bool is_key, const Tensor& keys,
                     bool shifts) {
  if (!shifts) return features(map, x, Omega, {}, {});
  const ShiftOf scope = is_key ? ShiftOf::keys : ShiftOf::query;
  return features(map, x, Omega, shift_for(map, x, Omega, scope, keys), is_key ? keys : Tensor());
}

Variable dense(const VariableFrequencies& frequencies, int64_t dim) {
  if (!frequencies.fastfood.has_value()) return frequencies.values;
  const Variable& diagonals = frequencies.values;
  const Tensor& order = frequencies.fastfood->permutation;
  const int64_t blocks = order.size(0);
  const int64_t P = order.size(1);
  const Tensor identity = equal(Tensor::arange(P).view({P, 1}), Tensor::arange(P).view({1, P})).cast(diagonals.dtype());
  const Tensor H = hadamard(identity);                                            // (P, P)
  const Tensor PiH = take(H, order.to(Device::cpu()), 0).to(diagonals.device());  // (blocks, P, P)
  const Variable SGB = reshape(diagonals, {diagonals.size(0), blocks, 3, P});
  const Variable S = unsqueeze(select(SGB, 2, 0), -1);  // (1 or heads, blocks, P, 1)
  const Variable G = unsqueeze(select(SGB, 2, 1), -2);  // (1 or heads, blocks, 1, P)
  const Variable B = unsqueeze(select(SGB, 2, 2), -2);  // (1 or heads, blocks, 1, P)
  const Variable HG = Variable(H.to(diagonals.device())) * G;
  const Variable V = S * matmul(HG, Variable(PiH)) * B;  // (1 or heads, blocks, P, P)
  const Variable rows = reshape(V, {diagonals.size(0), blocks * P, P});
  return slice(slice(rows, 1, 0, frequencies.fastfood->count), 2, 0, dim);
}

Variable kernel_attention(const KernelAttentionSpec& spec, const Variable& Q, const Variable& K, const Variable& V,
                          const VariableFrequencies& frequencies, const Tensor& keys) {
  const Variable Omega = dense(frequencies, Q.size(-1));
  const Variable q = Q * spec.scale;
  const Variable k = K * spec.scale;
  const Variable phi_q = feature_map(spec.map, q, Omega, false, keys, spec.shifts());  // (B, H, Lq, F)
  if (spec.causal) {
    const bool rises = spec.shifts() && K.size(-2) > 0;
    FeatureMap map = spec.map;
    if (rises && !map.absolute_eps) map.eps = 0;  // no shift scales eps: it is added to the weights
    const Tensor shift = rises ? shift_for(map, k, Omega, ShiftOf::earlier_keys, keys) : Tensor();
    const Variable phi_k = features(map, k, Omega, shift, keys);  // (B, H, Lk, F)
    Variable weights = matmul(phi_q, transpose(phi_k, -2, -1));   // (B, H, Lq, Lk)
    if (rises) {
      const double eps = spec.eps_comes_later() ? spec.map.eps : 0;
      weights = with_causal_shift(weights, shift, sum(phi_q, {-1}, true) * eps);
    }
    const Tensor visible = causal_mask(Q.size(-2), K.size(-2), Q.device());
    weights = weights * Variable(visible.cast(Q.dtype()));
    if (keys.defined()) weights = weights * Variable(column(keys).transpose(-2, -1).cast(Q.dtype()));
    const Variable sums = matmul(weights, V);  // (B, H, Lq, D)
    return spec.renormalise ? quotient(sums, sum(weights, {-1}, true), spec.denominator_eps) : sums;
  }
  Variable phi_k = feature_map(spec.map, k, Omega, true, keys, spec.shifts());     // (B, H, Lk, F)
  if (keys.defined()) phi_k = phi_k * Variable(column(keys).cast(phi_k.dtype()));  // padded keys weigh nothing
  const Variable S = matmul(transpose(phi_k, -2, -1), V);                          // (B, H, F, D)
  const Variable sums = matmul(phi_q, S);                                          // (B, H, Lq, D)
  if (!spec.renormalise) return sums;
  const Variable z = unsqueeze(sum(phi_k, {-2}), -1);  // (B, H, F, 1)
  return quotient(sums, matmul(phi_q, z), spec.denominator_eps);
}

}  // namespace composed

Variable kernel_attention(const KernelAttentionSpec& spec, const Variable& Q, const Variable& K, const Variable& V,
                          const VariableFrequencies& frequencies, const Tensor& keys) {
  const Frequencies held{frequencies.values.value(), frequencies.fastfood};
  const KernelAttentionResult forward = kernel_attention(spec, Q.value(), K.value(), V.value(), held, keys);
  return record_fused(
      "kernel_attention", forward.O, {Q, K, V, frequencies.values},
      [spec, keys, fastfood = frequencies.fastfood](const auto& in) {
        if (spec.slice != nullptr) fail("kernel_attention: slices of sequences have no second derivatives");
        return composed::kernel_attention(spec, in[0], in[1], in[2], {in[3], fastfood}, keys);
      },
      [=](const Tensor& g, const auto& in) -> Gradients {
        const KernelAttentionGradients grads = kernel_attention_backward(
            spec, g, in[0].value(), in[1].value(), in[2].value(), held, keys, forward, in[3].tracked());
        return {grads.dQ, grads.dK, grads.dV, grads.dOmega};
      });
}

}  // namespace bochner

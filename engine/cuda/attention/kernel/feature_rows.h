// The feature maps of kernel attention (engine/ops/features/feature_map.h) on rows of projections u = scale Omega x,
// and their gradients: a team per token. Exponents are in natural units; equations and shifts are those of
// engine/cpu/attention/feature_tile.h.
#pragma once

#include <limits>

#include "engine/cuda/parts/launch.h"
#include "engine/ops/attention/kernel_attention.h"
#include "engine/ops/features/functions.h"
#include "engine/ops/weight_sums.h"

namespace bochner::cuda {

/// The largest exponent if there are no keys.
template <class T>
BOCHNER_DEVICE constexpr T no_exponent() {
  return std::numeric_limits<T>::lowest() / 4;
}

template <class T>
struct FeatureRule {
  FeatureMap::Kind kind;
  FeatureMap::Function function;
  bool exponent, shifts, eps_later, floors;
  int64_t frequencies, features;
  T norm_factor, eps, constant;

  FeatureRule(const KernelAttentionSpec& spec, int64_t rows_of_omega)
      : kind(spec.map.kind),
        function(spec.map.function),
        exponent(spec.map.has_exponent()),
        shifts(spec.shifts()),
        eps_later(spec.eps_comes_later()),
        floors(spec.shifts() && spec.map.absolute_eps && spec.map.eps > 0),
        frequencies(rows_of_omega),
        features(spec.map.rows(rows_of_omega)),
        norm_factor(
            static_cast<T>(spec.map.kind == FeatureMap::Kind::softmax_trigonometric ? 0.5 : spec.map.norm_factor)),
        eps(static_cast<T>(spec.map.eps)),
        constant(static_cast<T>(spec.map.constant)) {}

  bool in_place() const { return features == frequencies && kind == FeatureMap::Kind::positive; }
  BOCHNER_DEVICE bool exponential() const {
    return kind == FeatureMap::Kind::positive || kind == FeatureMap::Kind::hyperbolic;
  }
  BOCHNER_DEVICE T norm_slope() const {  // the derivative of the exponent -c |x|^2, or |x|^2 / 2, by x is this times x
    return kind == FeatureMap::Kind::softmax_trigonometric ? T(1) : T(-2) * norm_factor;
  }

  BOCHNER_HD T value(T u) const {
    return with_feature_function(function, [&](const auto& f) { return f.forward(u); });
  }
  BOCHNER_HD T slope(T u) const {
    return with_feature_function(function, [&](const auto& f) { return f.derivative(u, f.forward(u)); });
  }
};

/// norms[row] = c |x|^2 and, unless null, top[row] = the largest exponent of the row as a key: max u - norm (max |u| -
/// norm for hyperbolic maps, the norm for softmax_trigonometric), or no_exponent() for rows that are not real keys.
template <class T>
struct RowExponents {
  FeatureRule<T> rule;
  int64_t dim;
  const T *x, *u;
  const T* real;  ///< 1 or 0, `real_stride` apart; null: queries, whose tops are just max u
  int64_t real_stride;
  T *norms, *top;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const int64_t row = team.index();
    T squares = 0;
    for (int64_t i = team.rank(); i < dim; i += team.size()) squares += x[row * dim + i] * x[row * dim + i];
    squares = team.sum(squares);
    const T norm = rule.norm_factor * (squares < T(1e30) ? squares : T(1e30));  // finite also for padded tokens
    T largest = no_exponent<T>();
    if (rule.exponential()) {
      for (int64_t i = team.rank(); i < rule.frequencies; i += team.size()) {
        T value = u[row * rule.frequencies + i];
        if (rule.kind == FeatureMap::Kind::hyperbolic) value = math::abs(value);
        largest = value > largest ? value : largest;
      }
      largest = team.max(largest);
    }
    if (team.rank() != 0) return;
    norms[row] = norm;
    if (rule.floors) {  // no feature is below eps
      const T floor = math::log(rule.eps) + norm;
      largest = largest > floor ? largest : floor;
    }
    if (real == nullptr) {
      top[row] = largest;
    } else {
      const T exponent = rule.exponential() ? largest - norm : norm;
      top[row] = real[row * real_stride] != T(0) ? exponent : no_exponent<T>();
    }
  }
};

/// F from u (in the same memory if rule.in_place()): queries shifted by their own tops, keys by shift[row /
/// rows_per_shift]. added[row] = the eps in the exponentials; sums[row], unless null, = eps times the sum of the
/// features.
template <class T>
struct RowFeatures {
  FeatureRule<T> rule;
  bool keys, with_eps;
  const T *norms, *top;  ///< of queries; norms of keys
  const T* shift;
  int64_t rows_per_shift;
  const T* real;  ///< of keys; rows with 0 are set to 0
  int64_t real_stride;
  const T* u;
  T *F, *added, *sums;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const int64_t row = team.index();
    const int64_t M = rule.frequencies;
    const T* from = u + row * M;
    T* to = F + row * rule.features;
    const bool wanted = real == nullptr || real[row * real_stride] != T(0);
    T less = 0;  // subtracted from exponents
    T scale = 1;
    if (rule.exponent) {
      const T held = rule.shifts && keys ? shift[row / rows_per_shift] : T(0);
      if (rule.exponential()) {
        less = keys || !rule.shifts ? norms[row] + held : top[row];
      } else if (keys) {
        scale = wanted ? math::exp(norms[row] - held) : T(0);
      } else {
        scale = rule.shifts ? T(1) : math::exp(norms[row]);
      }
    }
    const T share = rule.floors ? math::exp(norms[row] - less) : T(with_eps ? 1 : 0);
    const T add = wanted ? rule.eps * share : T(0);
    if (team.rank() == 0) added[row] = add;
    T sum = 0;
    for (int64_t m = team.rank(); m < M; m += team.size()) {
      const T value = from[m];
      T first = 0;
      T second = 0;
      bool pair = true;
      switch (rule.kind) {
        case FeatureMap::Kind::positive:
          first = math::exp(value - less) + add;
          pair = false;
          break;
        case FeatureMap::Kind::hyperbolic:
          first = math::exp(value - less) + add;
          second = math::exp(-value - less) + add;
          break;
        case FeatureMap::Kind::trigonometric:
        case FeatureMap::Kind::softmax_trigonometric:
          first = scale * math::cos(value);
          second = scale * math::sin(value);
          break;
        case FeatureMap::Kind::elementwise:
          first = rule.value(value) + rule.eps;
          pair = false;
          break;
      }
      to[m] = wanted ? first : T(0);
      sum += first;
      if (pair) {
        to[M + m] = wanted ? second : T(0);
        sum += second;
      }
    }
    if (rule.constant != T(0) && team.rank() == 0) {
      to[rule.features - 1] = wanted ? rule.constant : T(0);
      sum += rule.constant;
    }
    if (sums == nullptr) return;
    sum = team.sum(sum);
    if (team.rank() == 0) sums[row] = rule.eps * sum;
  }
};

/// du from dF, into the first `frequencies` elements of each row of dF, rows `features` apart; slopes[row] = sum of dF
/// phi, the gradient by the exponent that all features of a token share.
template <class T>
struct RowGradients {
  FeatureRule<T> rule;
  const T *u, *F;
  const T* added;  ///< the eps that is part of F
  T *dF, *slopes;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const int64_t row = team.index();
    const int64_t M = rule.frequencies;
    const T* f = F + row * rule.features;
    T* d = dF + row * rule.features;
    const T eps = added[row];
    T sum = 0;
    for (int64_t m = team.rank(); m < M; m += team.size()) {
      switch (rule.kind) {
        case FeatureMap::Kind::positive: {
          d[m] *= f[m] - eps;
          sum += d[m];
          break;
        }
        case FeatureMap::Kind::hyperbolic: {
          const T p = d[m] * (f[m] - eps);
          const T n = d[M + m] * (f[M + m] - eps);
          sum += p + n;
          d[m] = p - n;
          break;
        }
        case FeatureMap::Kind::trigonometric:
        case FeatureMap::Kind::softmax_trigonometric: {
          const T c = d[m];
          const T s = d[M + m];
          sum += c * f[m] + s * f[M + m];
          d[m] = s * f[m] - c * f[M + m];
          break;
        }
        case FeatureMap::Kind::elementwise:
          d[m] *= rule.slope(u[row * M + m]);
          break;
      }
    }
    sum = team.sum(sum);
    if (team.rank() == 0) slopes[row] = sum;
  }
};

}  // namespace bochner::cuda

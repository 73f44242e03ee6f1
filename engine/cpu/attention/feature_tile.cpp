#include "engine/cpu/attention/feature_tile.h"

#include <cmath>
#include <limits>
#include <type_traits>

#include "engine/cpu/parts/activation.h"
#include "engine/cpu/parts/stored.h"
#include "engine/ops/features/functions.h"

namespace bochner::cpu {
namespace {

using Kind = FeatureMap::Kind;

/// GELU in f32 by rational functions, ten times as fast as with the erf and exponential of the definition.
struct Gelu {
  template <class T>
  T forward(T x) const {
    return GeluActivation::forward(x);
  }
  template <class T>
  T derivative(T x, T) const {
    return GeluActivation::derivative(x);
  }
};

/// body(f), with the fast GELU.
template <class Body>
void with_function(FeatureMap::Function function, const Body& body) {
  with_feature_function(function, [&]<class F>(const F& f) {
    if constexpr (std::is_base_of_v<unary::Gelu, F>) {
      body(Gelu{});
    } else {
      body(f);
    }
  });
}

inline math::SinCos<float> sin_cos(float x) {
  int32_t quadrant = 0;
  const float r = math::quarter_turn(x, quadrant);
  return math::sin_cos_of_quadrant(r, quadrant);
}
inline math::SinCos<double> sin_cos(double x) { return {math::sin(x), math::cos(x)}; }

/// Writes (cos u, sin u), times a factor per column, for each row of U into rows m and m + `rows` of F, which may be U.
template <class T>
void circle(const T* U, const T* factors, int64_t rows, int64_t columns, T* F) {
  for (int64_t m = 0; m < rows; ++m) {
    const T* u = U + m * kTile;
    T* c = F + m * kTile;
    T* s = F + (rows + m) * kTile;
#pragma omp simd
    for (int64_t i = 0; i < columns; ++i) {
      const math::SinCos<T> unit = sin_cos(u[i]);
      c[i] = factors[i] * unit.cos;
      s[i] = factors[i] * unit.sin;
    }
  }
}

// Flattened: if the compiler does not inline exp into a loop, it processes one number at a time.

/// F = f(U) + eps
template <class T, class Function>
[[gnu::flatten]] void apply(const Function& f, const T* U, int64_t rows, int64_t columns, T eps, T* F) {
  for (int64_t m = 0; m < rows; ++m) {
#pragma omp simd
    for (int64_t i = 0; i < columns; ++i) F[m * kTile + i] = f.forward(U[m * kTile + i]) + eps;
  }
}

/// dU = (dF + z weights^T) f'(U), in place
template <class T, class Function>
[[gnu::flatten]] void derive(const Function& f, const T* U, int64_t rows, int64_t columns, const T* z, const T* weights,
                             T* dF) {
  for (int64_t m = 0; m < rows; ++m) {
#pragma omp simd
    for (int64_t i = 0; i < columns; ++i) {
      const int64_t at = m * kTile + i;
      dF[at] = (dF[at] + z[m] * weights[i]) * f.derivative(U[at], f.forward(U[at]));
    }
  }
}

}  // namespace

template <class S>
FeatureTile<S>::FeatureTile(const FeatureMap& map, const T* Omega, int64_t frequencies, int64_t dim, double scale,
                            bool shifts, Sides sides)
    : map_(map),
      Omega_(Omega),
      Omega_factor_(Omega == nullptr ? 0 : frequencies, dim),
      Omega_transposed_(Omega == nullptr ? 0 : dim, frequencies),
      tokens_(Omega == nullptr ? 0 : std::max(kTile, dim), std::max(kTile, dim)),
      frequencies_(frequencies),
      dim_(dim),
      features_(map.rows(frequencies)),
      shifts_(shifts),
      unit_(static_cast<T>(map.kind == Kind::positive || map.kind == Kind::hyperbolic ? kLog2E : 1.0)),
      scale_(static_cast<T>(scale)),
      gathered_(kTile * dim),
      Xt_(dim * kTile),
      dXt_(dim * kTile),
      U_(map.kind == Kind::elementwise ? frequencies * kTile : 1),
      F_(features_ * kTile),
      dF_(features_ * kTile),
      sides_(sides),
      F_factor_(features_, F_),
      dU_factor_(frequencies, dF_) {
  if (Omega != nullptr) Omega_left_ = Omega_factor_.left(frequencies, dim, Omega, {dim, 1});
}

template <class S>
FeatureTile<S>::FeatureTile(const FeatureMap& map, const FastFood<T>& fastfood, int64_t frequencies, int64_t dim,
                            double scale, bool shifts, Sides sides)
    : FeatureTile(map, static_cast<const T*>(nullptr), frequencies, dim, scale, shifts, sides) {
  fastfood_.emplace(fastfood, frequencies, dim);
}

template <class S>
void FeatureTile<S>::project(Rows<const S> x, const KeyList& list, int64_t first, int64_t count) {
  count_ = count;
  columns_ = columns_of<T>(count);
  x_ = gathered(x, list, first, count, dim_, static_cast<S*>(gathered_));
  load_transposed<S>(x_, count, dim_, unit_ * scale_, Xt_);
  T* U = map_.kind == Kind::elementwise ? U_ : F_;
  if (fastfood_.has_value()) {
    fastfood_->forward(Xt_, columns_, U);
  } else if (Omega_ == nullptr) {
    if (map_.kind != Kind::elementwise) std::copy_n(static_cast<const T*>(Xt_), dim_ * kTile, U);
  } else {
    const Right<S> Xt = tokens_.right(dim_, columns_, static_cast<const T*>(Xt_), {kTile, 1});
    multiply<S>(frequencies_, columns_, dim_, Omega_left_, Xt, U, kTile);  // U = Omega X^T
  }
  if (!map_.has_exponent()) return;
  const T* at = Xt_;
  const T factor = static_cast<T>(map_.kind == Kind::softmax_trigonometric ? 0.5 * kLog2E : map_.norm_factor) / unit_;
  down_columns<T>(
      dim_, columns_, [](int64_t) { return Vector<T>{}; },
      [&](Vector<T>& sum, int64_t, int64_t place) {
        const auto value = load<Vector<T>>(at + place);
        sum += value * value;
      },
      // Bounded however large a token is, since a padded token must not make other tokens' derivatives NaN.
      [&](const Vector<T>& sum, int64_t i) {
        store(norms_ + i, min_of(Vector<T>{} + static_cast<T>(1e30), sum) * factor);
      });
}

/// top[i] = max_m U(m, i), or max_m |U(m, i)| for hyperbolic maps
template <class S>
void FeatureTile<S>::largest(T* top) const {
  if (map_.kind == Kind::hyperbolic) {
    column_maxima<T>(
        F_, frequencies_, columns_, [](Vector<T> u) { return max_of(u, -u); }, top);
  } else {
    column_maxima<T>(
        F_, frequencies_, columns_, [](Vector<T> u) { return u; }, top);
  }
}

/// F = 2^(U - by) + eps and, for hyperbolic maps, 2^(-U - by) + eps; `by` and eps_ hold one number per token
template <class S>
void FeatureTile<S>::shifted_exponentials(const T* by) {
  T* F = F_;
  const int64_t half = frequencies_ * kTile;
  struct Token {
    Vector<T> by, eps;
  };
  const auto begin = [&](int64_t i) { return Token{load<Vector<T>>(by + i), load<Vector<T>>(eps_ + i)}; };
  const auto end = [](const Token&, int64_t) {};
  const auto run = [&](const auto& power) {
    if (map_.kind == Kind::positive) {
      const auto place = F_factor_.begin(sides_, frequencies_, columns_, true);
      const auto one = [&](const Token& token, int64_t at) {
        return power(load<Vector<T>>(F + at) - token.by) + token.eps;
      };
      down_row_pairs<T>(
          frequencies_, columns_, begin,
          [&](const Token& token, int64_t m, int64_t i, auto two) {
            const auto first = one(token, m * kTile + i);
            place.put(m, i, first, two ? one(token, (m + 1) * kTile + i) : Vector<T>{}, two);
          },
          end);
    } else {
      down_columns<T>(
          frequencies_, columns_, begin,
          [&](const Token& token, int64_t, int64_t at) {
            const auto u = load<Vector<T>>(F + at);
            store(F + at, power(u - token.by) + token.eps);
            store(F + half + at, power(-u - token.by) + token.eps);
          },
          end);
    }
  };
  if (shifts_) {
    run([](Vector<T> x) { return exp2_as<S>(x); });
  } else {
    run([](Vector<T> x) { return exp2_as<S>(min_of(Vector<T>{} + kExp2Overflow<T>, x)); });
  }
}

template <class S>
void FeatureTile<S>::query_features() {
  alignas(64) T by[kTile];
  switch (map_.kind) {
    case Kind::positive:
    case Kind::hyperbolic:
      // The norm is part of every exponent of a token, so it goes with the shift.
      if (shifts_) largest(by);
      std::fill_n(eps_, kTile, static_cast<T>(map_.eps));
      for (int64_t i = 0; i < columns_ && floors(); ++i) {
        by[i] = std::max(by[i], static_cast<T>(std::log2(map_.eps)) + norms_[i]);
        eps_[i] *= std::exp2(norms_[i] - by[i]);
      }
      shifted_exponentials(shifts_ ? by : norms_);
      break;
    case Kind::softmax_trigonometric:
      for (int64_t i = 0; i < columns_; ++i) by[i] = shifts_ ? T(1) : std::exp2(norms_[i]);
      circle<T>(F_, by, frequencies_, columns_, F_);
      break;
    case Kind::trigonometric:
      std::fill_n(by, kTile, T(1));
      circle<T>(F_, by, frequencies_, columns_, F_);
      break;
    case Kind::elementwise:
      with_function(map_.function, [&](const auto& f) {
        apply<T>(f, elementwise_arguments(), frequencies_, columns_, static_cast<T>(map_.eps), F_);
      });
      break;
  }
  finish_features();
}

/// What is left to do once F is written, including making factors of it if it was not written as such.
template <class S>
void FeatureTile<S>::finish_features() {
  const bool ends = map_.constant != 0;
  if (ends) std::fill_n(F_ + (features_ - 1) * kTile, kTile, static_cast<T>(map_.constant));
  if (map_.kind != Kind::positive || ends || count_ < columns_) F_factor_.pack(sides_, features_, count_);
}

template <class S>
void FeatureTile<S>::key_exponents(T* top) const {
  if (map_.kind == Kind::softmax_trigonometric) {
    std::copy_n(norms_, columns_, top);
    return;
  }
  largest(top);
  for (int64_t i = 0; i < columns_; ++i) top[i] -= norms_[i];
  for (int64_t i = 0; i < columns_ && floors(); ++i) top[i] = std::max(top[i], static_cast<T>(std::log2(map_.eps)));
}

template <class S>
void FeatureTile<S>::key_features(T shift, bool with_eps) {
  if (map_.has_exponent()) {
    const bool circular = map_.kind == Kind::softmax_trigonometric;
    alignas(64) T by[kTile];
    for (int64_t i = 0; i < columns_; ++i) by[i] = circular ? std::exp2(norms_[i] - shift) : norms_[i] + shift;
    if (circular) {
      circle<T>(F_, by, frequencies_, columns_, F_);
    } else {
      const T eps = static_cast<T>(map_.eps);
      std::fill_n(eps_, kTile, floors() ? eps * std::exp2(-shift) : with_eps ? eps : T(0));
      shifted_exponentials(by);
    }
    finish_features();
  } else {
    query_features();
  }
  for (int64_t m = 0; m < features_ && count_ < columns_; ++m) {
    std::fill_n(F_ + m * kTile + count_, columns_ - count_, T(0));
  }
}

/// dU from dF, in place; sums = sum over features of dF phi_exp, the derivative by the exponent that all features
/// share.
template <class S>
void FeatureTile<S>::gradient(const T* z, const T* weights, T* sums, Sides sides) {
  using V = Vector<T>;
  const T* F = F_;
  T* dF = dF_;
  const int64_t M = frequencies_;
  struct State {
    V weight;
    V eps;
    V sum;
  };
  const auto begin = [&](int64_t i) { return State{load<V>(weights + i), load<V>(eps_ + i), V{}}; };
  const auto end = [&](const State& state, int64_t i) { store(sums + i, state.sum); };
  const int64_t half = M * kTile;
  switch (map_.kind) {
    case Kind::positive: {  // phi = e^(u - c |x|^2 - shift) + eps:  dphi/du = phi - eps
      const auto place = dU_factor_.begin(sides, M, columns_, fastfood_.has_value() || plain());
      const auto one = [&](State& state, int64_t m, int64_t at) {
        const V d = (load<V>(dF + at) + z[m] * state.weight) * (load<V>(F + at) - state.eps);
        state.sum += d;
        return d;
      };
      down_row_pairs<T>(
          M, columns_, begin,
          [&](State& state, int64_t m, int64_t i, auto two) {
            const V first = one(state, m, m * kTile + i);
            place.put(m, i, first, two ? one(state, m + 1, (m + 1) * kTile + i) : V{}, two);
          },
          end);
      return;
    }
    case Kind::hyperbolic:
      down_columns<T>(
          M, columns_, begin,
          [&](State& state, int64_t m, int64_t at) {
            const V p = (load<V>(dF + at) + z[m] * state.weight) * (load<V>(F + at) - state.eps);
            const V n = (load<V>(dF + half + at) + z[M + m] * state.weight) * (load<V>(F + half + at) - state.eps);
            state.sum += p + n;
            store(dF + at, p - n);
          },
          end);
      break;
    case Kind::trigonometric:
    case Kind::softmax_trigonometric:  // phi = h (cos u, sin u):  du = dsin cos u h - dcos sin u h
      down_columns<T>(
          M, columns_, begin,
          [&](State& state, int64_t m, int64_t at) {
            const V dc = load<V>(dF + at) + z[m] * state.weight;
            const V ds = load<V>(dF + half + at) + z[M + m] * state.weight;
            const V c = load<V>(F + at);
            const V s = load<V>(F + half + at);
            state.sum += dc * c + ds * s;
            store(dF + at, ds * c - dc * s);
          },
          end);
      break;
    case Kind::elementwise:
      with_function(map_.function,
                    [&](const auto& f) { derive<T>(f, elementwise_arguments(), M, columns_, z, weights, dF); });
      break;
  }
  dU_factor_.pack(sides, M, columns_);
}

template <class S>
const ComputeType<S>* FeatureTile<S>::backward(const T* z, const T* weights, T* dOmega) {
  alignas(64) T sums[kTile] = {};
  T* const dF = dF_;
  T* const dXt = plain() ? dF : dXt_;
  gradient(z, weights, sums, Omega_ == nullptr ? Sides::none : dOmega == nullptr ? Sides::right : Sides::both);
  if (fastfood_.has_value()) {
    // dOmega is divided by scale, like that of a dense Omega below, which is computed with x before scaling.
    fastfood_->backward(Xt_, dF, columns_, 1 / (unit_ * scale_), dXt, dOmega);
  } else if (Omega_ != nullptr) {
    if (!has_turned_) Omega_turned_ = Omega_transposed_.left(dim_, frequencies_, Omega_, {1, dim_});
    has_turned_ = true;
    multiply<S>(dim_, columns_, frequencies_, Omega_turned_, dU_factor_.right(), dXt, kTile);  // dX^T = Omega^T dU
    if (dOmega != nullptr) {
      const Right<S> x = tokens_.right(count_, dim_, x_.data, {x_.stride, 1});
      multiply<S>(frequencies_, dim_, count_, dU_factor_.left(), x, dOmega, dim_, true);
    }
  }
  if (!map_.has_exponent()) return dXt;
  // The exponent -c |x|^2 (or |x|^2 / 2) has the gradient -2 c x (or x).
  const T factor = static_cast<T>(map_.kind == Kind::softmax_trigonometric ? 1.0 : -2 * map_.norm_factor) / unit_;
  const T* Xt = Xt_;
  down_columns<T>(
      dim_, columns_, [&](int64_t i) { return load<Vector<T>>(sums + i) * factor; },
      [&](const Vector<T>& by, int64_t, int64_t at) {
        store(dXt + at, load<Vector<T>>(dXt + at) + by * load<Vector<T>>(Xt + at));
      },
      [](const Vector<T>&, int64_t) {});
  return dXt;
}

template class FeatureTile<float>;
template class FeatureTile<double>;
template class FeatureTile<bfloat16>;

}  // namespace bochner::cpu

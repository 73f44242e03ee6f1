// Features of one tile of rows, and their derivatives; the part of kernel attention that knows what a feature map is.
#pragma once

#include <algorithm>
#include <limits>

#include "engine/cpu/tile_product.h"
#include "engine/math.h"
#include "engine/ops/feature_map.h"
#include "engine/ops/unary.h"

namespace bochner::cpu {

/// Rows of a tile: its buffers stay in the L1 and L2 caches.
inline constexpr int64_t kTile = 64;

/// Calls f(op) with the elementwise function's struct of engine/ops/unary.h; elu_plus_one is elu, one being added by
/// the caller.
template <class F>
void visit_function(FeatureMap::Function function, const F& f) {
  switch (function) {
    case FeatureMap::Function::elu_plus_one:
      return f(bochner::unary::Elu{});
    case FeatureMap::Function::relu:
      return f(bochner::unary::Relu{});
    case FeatureMap::Function::sigmoid:
      return f(bochner::unary::Sigmoid{});
    case FeatureMap::Function::exp:
      return f(bochner::unary::Exp{});
    case FeatureMap::Function::abs:
      return f(bochner::unary::Abs{});
    case FeatureMap::Function::gelu:
      return f(bochner::unary::Gelu{});
    case FeatureMap::Function::cos:
      return f(bochner::unary::Cos{});
    case FeatureMap::Function::tanh:
      return f(bochner::unary::Tanh{});
    case FeatureMap::Function::identity:
      return f(bochner::unary::MulScalar{1});
  }
}

/// Frequencies of one head, in both layouts, with the scale of x folded in.
template <class T>
struct Frequencies {
  const T* rows = nullptr;     ///< scale Omega (M, D); null: u = scale x
  const T* columns = nullptr;  ///< its transpose (D, M)
  int64_t M = 0;
  int64_t D = 0;
  T scale = 1;
};

template <class T>
class FeatureTile {
 public:
  /// Elements of scratch that a tile needs.
  static int64_t scratch(const FeatureMap& map, int64_t M) { return kTile * (M + map.features(M) + 2); }

  FeatureTile(const FeatureMap& map, const Frequencies<T>& frequencies, T* scratch)
      : map_(map),
        frequencies_(frequencies),
        F_(map.features(frequencies.M)),
        u_(scratch),
        phi_(scratch + kTile * frequencies.M),
        norm_(phi_ + kTile * F_) {}

  int64_t features() const { return F_; }
  T* phi() const { return phi_; }

  /// u and, for shifted maps, exponents of `rows` rows of x (row stride ldx).
  void project(const T* x, int64_t ldx, int64_t rows) {
    rows_ = rows;
    const int64_t M = frequencies_.M;
    const int64_t D = frequencies_.D;
    if (frequencies_.rows != nullptr) {
      tile_product<T>(rows, M, D, x, {ldx, 1}, frequencies_.columns, M, u_, M);
    } else {
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < M; ++j) u_[i * M + j] = frequencies_.scale * x[i * ldx + j];
      }
    }
    if (!map_.has_exponent()) return;
    const T square = frequencies_.scale * frequencies_.scale;
    for (int64_t i = 0; i < rows; ++i) {
      T norm = 0;
      for (int64_t j = 0; j < D; ++j) norm += x[i * ldx + j] * x[i * ldx + j];
      norm_[i] = square * norm;
    }
  }

  /// The largest exponent of row i.
  T top(int64_t i) const {
    const int64_t M = frequencies_.M;
    const T* u = u_ + i * M;
    const T c = static_cast<T>(map_.norm_factor);
    if (map_.kind == Kind::softmax_trigonometric) return norm_[i] / 2;
    T largest = -std::numeric_limits<T>::infinity();
    if (map_.kind == Kind::hyperbolic) {
      for (int64_t j = 0; j < M; ++j) largest = std::max(largest, math::abs(u[j]));
    } else {
      for (int64_t j = 0; j < M; ++j) largest = u[j] > largest ? u[j] : largest;
    }
    return largest - c * norm_[i];
  }

  /// phi of row i without eps, its exponents less `shift`.
  void features_of(int64_t i, T shift) {
    const int64_t M = frequencies_.M;
    const T* u = u_ + i * M;
    T* phi = phi_ + i * F_;
    const T offset = static_cast<T>(map_.norm_factor) * (map_.has_exponent() ? norm_[i] : T(0)) + shift;
    switch (map_.kind) {
      case Kind::positive:
        for (int64_t j = 0; j < M; ++j) phi[j] = math::exp(u[j] - offset);
        break;
      case Kind::hyperbolic:
        for (int64_t j = 0; j < M; ++j) phi[j] = math::exp(u[j] - offset);
        for (int64_t j = 0; j < M; ++j) phi[M + j] = math::exp(-u[j] - offset);
        break;
      case Kind::trigonometric:
        for (int64_t j = 0; j < M; ++j) phi[j] = math::cos(u[j]);
        for (int64_t j = 0; j < M; ++j) phi[M + j] = math::sin(u[j]);
        break;
      case Kind::softmax_trigonometric: {
        const T h = math::exp(norm_[i] / 2 - shift);
        for (int64_t j = 0; j < M; ++j) phi[j] = h * math::cos(u[j]);
        for (int64_t j = 0; j < M; ++j) phi[M + j] = h * math::sin(u[j]);
        break;
      }
      case Kind::elementwise: {
        const T one = map_.function == FeatureMap::Function::elu_plus_one ? T(1) : T(0);
        visit_function(map_.function, [&](const auto& f) {
          for (int64_t j = 0; j < M; ++j) phi[j] = f.forward(u[j]) + one;
        });
        break;
      }
    }
    if (map_.constant != 0) phi[F_ - 1] = static_cast<T>(map_.constant);
  }

  /// eps of the features that carry one.
  T eps() const {
    const bool carries = map_.kind == Kind::positive || map_.kind == Kind::hyperbolic || map_.kind == Kind::elementwise;
    return carries ? static_cast<T>(map_.eps) : T(0);
  }
  /// Features that eps is added to: all but the constant one.
  int64_t with_eps() const { return map_.constant != 0 ? F_ - 1 : F_; }
  void add_eps(int64_t i) {
    T* phi = phi_ + i * F_;
    const T e = eps();
    if (e == T(0)) return;
    for (int64_t j = 0; j < with_eps(); ++j) phi[j] += e;
  }
  void clear(int64_t i) { std::fill(phi_ + i * F_, phi_ + (i + 1) * F_, T(0)); }

  /// From d(phi) of a row (F) to du of that row (written to `du`, M) and the derivative by |scale x|^2 (returned). phi
  /// holds the features with eps.
  T pull_back(int64_t i, const T* dphi, T* du) const {
    const int64_t M = frequencies_.M;
    const T* u = u_ + i * M;
    const T* phi = phi_ + i * F_;
    const T e = eps();
    const T c = static_cast<T>(map_.norm_factor);
    switch (map_.kind) {
      case Kind::positive: {
        for (int64_t j = 0; j < M; ++j) du[j] = dphi[j] * (phi[j] - e);
        return -c * sum_of(du, M);
      }
      case Kind::hyperbolic: {
        T total = 0;
        for (int64_t j = 0; j < M; ++j) {
          const T rise = dphi[j] * (phi[j] - e);
          const T fall = dphi[M + j] * (phi[M + j] - e);
          du[j] = rise - fall;
          total += rise + fall;
        }
        return -c * total;
      }
      case Kind::trigonometric:
        for (int64_t j = 0; j < M; ++j) du[j] = dphi[M + j] * phi[j] - dphi[j] * phi[M + j];
        return 0;
      case Kind::softmax_trigonometric: {
        T total = 0;
        for (int64_t j = 0; j < M; ++j) {
          du[j] = dphi[M + j] * phi[j] - dphi[j] * phi[M + j];
          total += dphi[j] * phi[j] + dphi[M + j] * phi[M + j];
        }
        return total / 2;
      }
      case Kind::elementwise:
        visit_function(map_.function, [&](const auto& f) {
          for (int64_t j = 0; j < M; ++j) du[j] = dphi[j] * f.derivative(u[j], f.forward(u[j]));
        });
        return 0;
    }
    return 0;
  }

 private:
  using Kind = FeatureMap::Kind;

  static T sum_of(const T* x, int64_t count) {
    constexpr int64_t kLanes = 32;
    T lanes[kLanes] = {};
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      for (int64_t j = 0; j < kLanes; ++j) lanes[j] += x[i + j];
    }
    T total = 0;
    for (; i < count; ++i) total += x[i];
    for (const T lane : lanes) total += lane;
    return total;
  }

  FeatureMap map_;
  Frequencies<T> frequencies_;
  int64_t F_;
  T* u_;
  T* phi_;
  T* norm_;
  int64_t rows_ = 0;
};

}  // namespace bochner::cpu

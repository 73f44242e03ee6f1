// The feature maps of kernel attention (engine/ops/features/feature_map.h) on one tile of tokens, transposed:
//
//   X^T (dim x kTile)  ->  U = Omega X^T (frequencies x kTile)  ->  F = phi (features x kTile)
//
// and back from dF to dX^T and dOmega. Exponentials are powers of two. If the map has exponentials of u, X^T is scaled
// so that U is a logarithm to base 2; exponents and shifts are always logarithms to base 2.
#pragma once

#include <optional>

#include "engine/cpu/attention/attention_tile.h"
#include "engine/cpu/attention/fastfood_tile.h"
#include "engine/cpu/attention/written_tile.h"
#include "engine/ops/features/feature_map.h"

namespace bochner::cpu {

/// S is the type of the tokens in memory.
template <class S>
class FeatureTile {
 public:
  using T = ComputeType<S>;
  /// Omega is (frequencies x dim), contiguous, or null for U = X^T. Tokens are first multiplied by `scale`. `shifts`
  /// says whether exponents are shifted, `sides` which factors of products F is.
  FeatureTile(const FeatureMap& map, const T* Omega, int64_t frequencies, int64_t dim, double scale, bool shifts,
              Sides sides);
  /// The same with FastFood in place of Omega; the gradient is then that of its diagonals.
  FeatureTile(const FeatureMap& map, const FastFood<T>& fastfood, int64_t frequencies, int64_t dim, double scale,
              bool shifts, Sides sides);

  int64_t features() const { return features_; }
  /// Columns that hold tokens, rounded up to whole vectors; the others are 0 in keys' features.
  int64_t columns() const { return columns_; }
  T* F() const { return F_; }
  /// F as A (features x tokens) or as B, if the constructor was asked for it; tokens that do not exist count as 0.
  Left<S> left() const { return F_factor_.left(); }
  Right<S> right() const { return F_factor_.right(); }

  /// Reads tokens `first` ... of the list, at most kTile, and computes U.
  void project(Rows<const S> x, const KeyList& list, int64_t first, int64_t count);
  /// Keeps only the first `count` tokens of the tile.
  void truncate(int64_t count) {
    count_ = std::min(count, count_);
    columns_ = columns_of<T>(count_);
  }
  /// F of queries, each token shifted by its largest exponent.
  void query_features();
  /// The largest exponent of each token, as a key (kTile).
  void key_exponents(T* top) const;
  /// F of keys, all with the same shift (0 if the map has no exponents), with or without the eps that is added to
  /// exponentials.
  void key_features(T shift, bool with_eps = true);

  /// Memory for dF (features x kTile), for `backward`.
  T* dF() const { return dF_; }
  /// Adds z weights^T (z (features), weights (kTile)) to dF and turns it into dX^T (dim x kTile), the gradient by scale
  /// x, which is valid until dF or the tile changes. Adds the gradient by Omega, divided by scale, to dOmega unless
  /// that is null. Overwrites dF.
  const T* backward(const T* z, const T* weights, T* dOmega);

 private:
  void shifted_exponentials(const T* by);
  void finish_features();
  void largest(T* top) const;
  bool floors() const { return shifts_ && map_.absolute_eps && map_.eps > 0; }
  bool plain() const { return Omega_ == nullptr && !fastfood_.has_value(); }  ///< U = X^T
  const T* elementwise_arguments() const { return plain() ? Xt_ : U_; }
  void gradient(const T* z, const T* weights, T* sums, Sides sides);

  const FeatureMap& map_;
  const T* Omega_;
  Factor<S> Omega_factor_;  ///< A of U = Omega X^T
  Left<S> Omega_left_{};
  Factor<S> Omega_transposed_;  ///< A of dX^T = Omega^T dU
  Left<S> Omega_turned_{};
  bool has_turned_ = false;
  Factor<S> tokens_;  ///< X^T or x
  std::optional<FastFoodTile<T>> fastfood_;
  int64_t frequencies_;
  int64_t dim_;
  int64_t features_;
  bool shifts_;
  T unit_;  ///< log2 e where U is a logarithm to base 2, else 1
  T scale_;
  int64_t count_ = 0;
  int64_t columns_ = 0;
  Rows<const S> x_{};  ///< the original tokens, or gathered ones
  Buffer<S> gathered_;
  Buffer<T> Xt_;
  Buffer<T> dXt_;
  Buffer<T> U_;  ///< for maps whose derivative needs it
  Buffer<T> F_;  ///< holds U until features are made from it
  Buffer<T> dF_;
  Sides sides_;
  WrittenTile<S> F_factor_, dU_factor_;
  alignas(64) T norms_[kTile];  ///< c |x|^2, or |x|^2 / 2 for softmax_trigonometric
  alignas(64) T eps_[kTile]{};  ///< what was added to exponentials
};

}  // namespace bochner::cpu

// Least squares from a stream of rows: the closed form of a bundled network's W (SNNK 3.3, J.3).
//
//   minimise over W, b:  sum_i |W phi_i + b - y_i|^2 + ridge |W|^2
//
// Rows come in pieces. Of all rows so far only the triangular factor R of (Phi 1 Y) is kept, and a QR of R stacked on
// the new rows updates it. Memory is O((features + outputs)^2), and the normal matrix Phi^T Phi, whose condition is
// that of Phi squared, is never formed.
#pragma once

#include "engine/tensor.h"

namespace bochner {

class RidgeFit {
 public:
  /// `bias`: whether there is a b, to which the ridge does not apply.
  RidgeFit(int64_t features, int64_t outputs, bool bias = true);

  /// Phi (n, features), Y (n, outputs), f32 or f64.
  void add(const Tensor& Phi, const Tensor& Y);
  int64_t rows() const { return rows_; }

  struct Solution {
    Tensor weight;    ///< f64 (outputs, features)
    Tensor bias;      ///< f64 (outputs); undefined without one
    double residual;  ///< sum_i |W phi_i + b - y_i|^2 + ridge |W|^2
  };
  /// The minimiser for the rows so far. If there are several, as with ridge 0 and dependent features, the one with the
  /// smallest norm of (W, b).
  Solution solve(double ridge = 0) const;

 private:
  int64_t features_;
  int64_t outputs_;
  int64_t columns_;  ///< features, and 1 for the bias
  int64_t rows_ = 0;
  Tensor R_;  ///< f64 (at most columns + outputs, columns + outputs); undefined before the first row
};

}  // namespace bochner

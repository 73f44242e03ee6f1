// Random features of a power series, f(z) = sum_n a_n z^n (Kar & Karnick, 2012), and tanh by brute force (SNNK Appendix
// L). They are kept because the paper shows that they do worse (Table 3), and because they need no Fourier transform.
//
//   Phi_j(x) = sqrt(|a_n| / m_n) prod_(k = 1..n) r_k.(x, 1),   Psi_j(w, b) = sign(a_n) the same of (w, b)
//
// with r_k of random signs, for the m_n of the m features that have degree n. SNNK splits f into two series of positive
// coefficients with the same signs r; a sign on Psi's side does the same with one series.
//
// The paper draws the degree N of each feature, with P(n) ~ 2^-(n + 1) among those with a_n != 0, and has P(N) m in
// place of m_n. Here the features are divided among the degrees without drawing: first each degree gets one, from the
// lowest on, and then each feature in turn goes to the degree with the largest P(n) / m_n. So m_n is about P(n) m and
// depends only on m and the coefficients: tensors have the same shapes for every seed, and those saved with one seed
// can be loaded with another. The mean of the estimate is f here, too, unless m is smaller than the number of degrees:
// then it is the sum of the first m terms. The variance is much smaller where |(x, 1)| |(w, b)| > 1, since high degrees
// then weigh most, and when degrees are drawn, a high one is rare and counts much. Where the product is less than 1, an
// estimate from a few features has several times the variance, as high degrees take features that low ones need; with
// 64 features it is the same.
#pragma once

#include "layers/snnk/two_tower_features.h"

namespace bochner {

/// a_0 ... a_count-1 of tanh: 0, 1, 0, -1/3, 0, 2/15, ...; the series converges for |z| < pi / 2.
std::vector<double> tanh_coefficients(int count);

struct PolynomialOptions {
  std::vector<double> coefficients = tanh_coefficients(12);
  int64_t features = 32;  ///< m
  double scale = 1;       ///< inputs and weights are multiplied by this
};

class PolynomialFeatures : public TwoTowerFeatures {
 public:
  PolynomialFeatures(Slot slot, int64_t inputs, const PolynomialOptions& options, Generator& init);

  int64_t features() const override;
  Tensor weights(const Tensor& W, const Tensor& b) const override;
  std::unique_ptr<TwoTowerFeatures> after(Slot slot, const Tensor& W, const Tensor& b) const override;

 protected:
  Variable phi(const Variable& u, const Variable& s) const override;
  Tensor slope(const Tensor& u, const Tensor& s, const Tensor& ds) const override;

 private:
  struct Plan {
    std::vector<int64_t> counts;  ///< of the features of degree 0, 1, ...
    std::vector<float> scales;    ///< of each feature, in order of degrees
    std::vector<float> signs;
    int64_t rows = 0;
  };
  PolynomialFeatures(Slot slot, int64_t inputs, const PolynomialOptions& options, const Plan& plan, Generator& init);
  PolynomialFeatures(Slot slot, const PolynomialFeatures& other, const Projection& projection);
  static Plan plan_of(const PolynomialOptions& options);
  static Projection drawn(int64_t inputs, const PolynomialOptions& options, int64_t rows, Generator& init);

  std::vector<int64_t> counts() const { return counts_.to_vector<int64_t>(); }

  Tensor& counts_;  ///< i64: features of degree 0, 1, ...
  Tensor& scales_;
  Tensor& signs_;
};

}  // namespace bochner

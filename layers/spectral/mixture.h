// Learnable mixtures of Gaussians as distributions of frequencies.
#pragma once

#include "layers/spectral/distribution.h"

namespace bochner {

/// A learnable mixture of C Gaussians for each head, with equal weights (KL Eqs. 4, 5, 10):
/// omega_(c,m) = Sigma_c n_m + mu_c, n_m ~ N(0, I). Each component has an equal share of the M rows; they share the
/// noise.
///
/// Tied, as in KL's experiments and Theorem 3 (footnote 2): C = 2, mu_1 = -mu_2 and Sigma_1 = Sigma_2, so only one mu
/// and one Sigma are learnt, and the kernel's spectrum is symmetric.
struct MixtureOptions {
  enum class Covariance : unsigned char { full, diagonal };
  Covariance covariance = Covariance::diagonal;
  int64_t components = 2;
  bool tied = false;
};

class GaussianMixture : public SpectralDistribution {
 public:
  GaussianMixture(Slot slot, int64_t heads, int64_t features, int64_t dim, MixtureOptions options,
                  RedrawSchedule schedule, Generator& init);

 protected:
  Tensor draw(Generator& generator) override;
  VariableFrequencies transform(const Tensor& noise, bool) override;

 private:
  int64_t heads_;
  MixtureOptions options_;
  int64_t learnt_;    ///< number of Gaussians with their own parameters: C, or 1 if tied
  Parameter& mean_;   ///< mu (heads, learnt, 1, dim), U(-1/sqrt(dim), 1/sqrt(dim)) at first
  Parameter& scale_;  ///< Sigma: (heads, learnt, dim, dim), the identity at first, or its diagonal (.., 1, dim), ones
};

/// KL's mixtures as released. PRF has one Gaussian, omega = exp(sigma / 2) * n + mu. RKS has two at +-mu with one full
/// matrix and the same noise, omega = sigma^T n +- mu.
class ReleasedMixture : public SpectralDistribution {
 public:
  ReleasedMixture(Slot slot, int64_t heads, int64_t features, int64_t dim, bool positive, RedrawSchedule schedule,
                  Generator& init);

 protected:
  Tensor draw(Generator& generator) override;
  VariableFrequencies transform(const Tensor& noise, bool) override;

 private:
  int64_t heads_;
  bool positive_;
  Parameter& sigma_;  ///< (heads, dim) or (heads, dim, dim), Glorot uniform
  Parameter& mean_;   ///< (heads, 1, dim)
};

}  // namespace bochner

// Distributions of frequencies: by Bochner's theorem each is a shift-invariant kernel. A kernel attention is the
// product of one of these with a feature map.
#pragma once

#include <memory>

#include "layers/module.h"

namespace bochner {

/// How often frequencies are drawn anew.
struct RedrawSchedule {
  int64_t interval = 100;      ///< training forwards between draws; 0: never after the first
  bool in_evaluation = false;  ///< also at every forward of an evaluation
};

class SpectralDistribution : public Module {
 public:
  SpectralDistribution(Slot slot, RedrawSchedule schedule);

  /// Omega (1 or heads, M, dim), where its schedule asks with new noise from the context's generator, else with the old
  /// one. Differentiable in the distribution's own parameters.
  Variable frequencies(Context& context);

 protected:
  /// Noise of the shape this distribution needs; kept as the buffer `noise` until the next draw, so that it is in
  /// checkpoints.
  virtual Tensor draw(Generator& generator) = 0;
  /// Omega from noise.
  virtual Variable transform(const Tensor& noise) = 0;
  /// The first draw; for constructors, once `draw` may be called.
  void start(Generator& init);

 private:
  RedrawSchedule schedule_;
  Tensor& noise_;
  Tensor& age_;  ///< i64 (1): training forwards since the last draw; -1 before the first
};

/// Rows iid N(0, I), the spectral measure of the Gaussian kernel exp(-|x - y|^2 / 2); shared by heads.
class GaussianFrequencies : public SpectralDistribution {
 public:
  GaussianFrequencies(Slot slot, int64_t features, int64_t dim, RedrawSchedule schedule, Generator& init);

 protected:
  Tensor draw(Generator& generator) override;
  Variable transform(const Tensor& noise) override { return noise; }

 private:
  int64_t features_;
  int64_t dim_;
};

/// Orthogonal random features (PERF §2.4, §B.2; Yu et al., 2016): blocks of dim rows are a Haar-random orthogonal
/// matrix, each row rescaled to the norm of an N(0, I) vector (chi) or to sqrt(dim), so that every row alone is N(0,
/// I), or uniform on a sphere.
struct OrthogonalOptions {
  enum class Norms : unsigned char { chi, sqrt_dim };
  Norms norms = Norms::chi;
};

class OrthogonalFrequencies : public SpectralDistribution {
 public:
  OrthogonalFrequencies(Slot slot, int64_t features, int64_t dim, OrthogonalOptions options, RedrawSchedule schedule,
                        Generator& init);

 protected:
  Tensor draw(Generator& generator) override;
  Variable transform(const Tensor& noise) override { return noise; }

 private:
  int64_t features_;
  int64_t dim_;
  OrthogonalOptions options_;
};

/// A learnable mixture of C Gaussians for each head, of equal weights (KL Eqs. 4, 5, 10):  omega_(c,m) = Sigma_c n_m +
/// mu_c, n_m ~ N(0, I); the M rows are shared out evenly among components, which share their noise.
struct MixtureOptions {
  enum class Covariance : unsigned char { full, diagonal };
  Covariance covariance = Covariance::diagonal;
  int64_t components = 2;
};

class GaussianMixture : public SpectralDistribution {
 public:
  GaussianMixture(Slot slot, int64_t heads, int64_t features, int64_t dim, MixtureOptions options,
                  RedrawSchedule schedule, Generator& init);

 protected:
  Tensor draw(Generator& generator) override;
  Variable transform(const Tensor& noise) override;

 private:
  int64_t heads_;
  int64_t features_;
  int64_t dim_;
  MixtureOptions options_;
  Parameter& mean_;   ///< mu (heads, C, 1, dim), U(-1/sqrt(dim), 1/sqrt(dim)) at first
  Parameter& scale_;  ///< Sigma: (heads, C, dim, dim), the identity at first, or its diagonal (heads, C, 1, dim), ones
};

/// KL's mixtures as released. PRF: one Gaussian, omega = exp(sigma / 2) * n + mu. RKS: two at +-mu with one full matrix
/// and the same noise, omega = sigma^T n +- mu.
class ReleasedMixture : public SpectralDistribution {
 public:
  ReleasedMixture(Slot slot, int64_t heads, int64_t features, int64_t dim, bool positive, RedrawSchedule schedule,
                  Generator& init);

 protected:
  Tensor draw(Generator& generator) override;
  Variable transform(const Tensor& noise) override;

 private:
  int64_t heads_;
  int64_t features_;
  int64_t dim_;
  bool positive_;
  Parameter& sigma_;  ///< (heads, dim) or (heads, dim, dim), Glorot uniform
  Parameter& mean_;   ///< (heads, 1, dim)
};

/// Rows of blocks of Haar-random orthogonal dim x dim matrices, the last one cut: (features, dim) of unit rows, f32.
Tensor haar_rows(int64_t features, int64_t dim, Generator& generator);

}  // namespace bochner

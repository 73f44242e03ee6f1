// Frequencies that are orthogonal to one another: less variance for the same number of features (PERF §2.4, §B.2).
#pragma once

#include "layers/spectral/distribution.h"

namespace bochner {

/// Orthogonal random features (Yu et al., 2016): blocks of dim rows are a random orthogonal matrix, each row rescaled
/// to the norm of an N(0, I) vector (chi) or to sqrt(dim), so that every row alone is N(0, I), or uniform on the sphere
/// of the regularised softmax kernel SMREG (PERF §2.3).
struct OrthogonalOptions {
  enum class Norms : unsigned char { chi, sqrt_dim };
  /// R-ORF is exact (Haar). H-ORF is H D1 H D2 H D3, with random signs only. G-ORF is a product of random Givens
  /// rotations. The last two need O(dim log dim) numbers and have a bias that vanishes as dim grows (PERF §B.2). H-ORF
  /// is orthogonal where dim is a power of two (hadamard_rows).
  enum class Matrix : unsigned char { haar, hadamard, givens };
  Norms norms = Norms::chi;
  Matrix matrix = Matrix::haar;
};

class OrthogonalFrequencies : public SpectralDistribution {
 public:
  OrthogonalFrequencies(Slot slot, int64_t features, int64_t dim, OrthogonalOptions options, RedrawSchedule schedule,
                        Generator& init);

 protected:
  Tensor draw(Generator& generator) override;
  VariableFrequencies transform(const Tensor& noise, bool) override { return noise; }

 private:
  OrthogonalOptions options_;
};

/// Independent rows, each uniform on the sphere of radius sqrt(dim): those of the regularised softmax kernel SMREG
/// (PERF §2.3) without the coupling.
class SphericalFrequencies : public SpectralDistribution {
 public:
  SphericalFrequencies(Slot slot, int64_t features, int64_t dim, RedrawSchedule schedule, Generator& init);

 protected:
  Tensor draw(Generator& generator) override;
  VariableFrequencies transform(const Tensor& noise, bool) override { return noise; }
};

// Each returns (features, dim) in f32: orthogonal blocks of dim x dim with rows of norm 1, the last one truncated; but
// see hadamard_rows.

/// Uniform on the orthogonal group.
Tensor haar_rows(int64_t features, int64_t dim, Generator& generator);
/// Rows of H D1 H D2 H D3 / n^(3/2), D_i random signs, n = dim rounded up to a power of two
/// (Choromanski, Rowland, Weller, 2017). If n > dim, x counts as padded with zeros: rows are truncated to dim, have
/// norms of about sqrt(dim / n), and are no longer orthogonal.
Tensor hadamard_rows(int64_t features, int64_t dim, Generator& generator);
/// The identity after dim ceil(log2 dim) rotations by uniform angles in uniformly random planes (Choromanski et al.,
/// 2019; Kac's walk, which converges to Haar).
Tensor givens_rows(int64_t features, int64_t dim, Generator& generator);

}  // namespace bochner

#include "layers/spectral/orthogonal.h"

#include <bit>
#include <cmath>
#include <numbers>
#include <numeric>

#include "engine/math.h"
#include "engine/ops/binary.h"
#include "engine/ops/hadamard.h"
#include "engine/ops/linalg.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"

namespace bochner {

Tensor haar_rows(int64_t features, int64_t dim, Generator& generator) {
  // G^T = Q R with a positive diagonal of R is unique, so for a Gaussian G all rotations of Q are equally likely
  // (Mezzadri, 2007). The QR of LAPACK does not have this property.
  const int64_t blocks = ceil_div(features, dim);
  const Tensor G = normal({blocks, dim, dim}, generator, 0, 1, DType::f64);
  const Tensor rows = qr(G.transpose(-2, -1), true).q.transpose(-2, -1);  // (blocks, dim, dim)
  return rows.cast(DType::f32).view({blocks * dim, dim}).slice(0, 0, features);
}

Tensor hadamard_rows(int64_t features, int64_t dim, Generator& generator) {
  const auto n = next_power_of_two(dim);
  std::vector<float> rows;
  for (int64_t begin = 0; begin < features; begin += n) {
    // Row i of H D1 H D2 H D3 is the transform of e_i, from the left: ((e_i H) D1) H ...
    std::vector<float> identity(static_cast<size_t>(n * n));
    for (int64_t i = 0; i < n; ++i) identity[static_cast<size_t>(i * n + i)] = 1;
    const Tensor block = Tensor::from(identity, {n, n});
    for (int pass = 0; pass < 3; ++pass) {
      hadamard_(block);
      const std::vector<float> coins = bernoulli({n}, 0.5, generator).to_vector<float>();
      float* const entries = block.data<float>();
      const double unit = 1 / std::sqrt(static_cast<double>(n));
      for (int64_t at = 0; at < n * n; ++at) {
        entries[at] *= static_cast<float>(coins[static_cast<size_t>(at % n)] > 0 ? unit : -unit);
      }
    }
    const std::vector<float> cut = block.slice(0, 0, std::min(n, features - begin)).slice(1, 0, dim).to_vector<float>();
    rows.insert(rows.end(), cut.begin(), cut.end());
  }
  return Tensor::from(rows, {features, dim});
}

Tensor givens_rows(int64_t features, int64_t dim, Generator& generator) {
  std::vector<float> rows;
  const auto d = static_cast<size_t>(dim);
  const auto rotations = dim * std::max<int64_t>(1, std::bit_width(static_cast<uint64_t>(dim - 1)));
  for (int64_t begin = 0; begin < features; begin += dim) {
    std::vector<double> block(d * d);
    for (size_t i = 0; i < d; ++i) block[i * d + i] = 1;
    if (dim == 1 && generator.below(2) == 1) block[0] = -1;  // there is no plane to rotate in
    for (int64_t step = 0; step < rotations && dim > 1; ++step) {
      const auto a = static_cast<size_t>(generator.below(dim));
      const auto other = static_cast<size_t>(generator.below(dim - 1));
      const size_t b = other + (other >= a ? 1 : 0);  // an axis other than a
      const double angle = 2 * std::numbers::pi * generator.uniform();
      const double c = std::cos(angle);
      const double s = std::sin(angle);
      for (size_t j = 0; j < d; ++j) {
        const double x = block[a * d + j];
        const double y = block[b * d + j];
        block[a * d + j] = c * x - s * y;
        block[b * d + j] = s * x + c * y;
      }
    }
    const auto count = static_cast<size_t>(std::min(dim, features - begin));
    for (size_t at = 0; at < count * d; ++at) rows.push_back(static_cast<float>(block[at]));
  }
  return Tensor::from(rows, {features, dim});
}

OrthogonalFrequencies::OrthogonalFrequencies(Slot slot, int64_t features, int64_t dim, OrthogonalOptions options,
                                             RedrawSchedule schedule, Generator& init)
    : SpectralDistribution(std::move(slot), {"orthogonal frequencies", features, dim}, schedule), options_(options) {
  start(init);
}

Tensor OrthogonalFrequencies::draw(Generator& generator) {
  using Matrix = OrthogonalOptions::Matrix;
  const auto make = options_.matrix == Matrix::haar       ? haar_rows
                    : options_.matrix == Matrix::hadamard ? hadamard_rows
                                                          : givens_rows;
  std::vector<float> values = make(features_, dim_, generator).to_vector<float>();
  // Hadamard rows have the padded size n, and so do the Gaussian vectors that give the norms. A truncated row is scaled
  // to sqrt(dim) by its own norm; if nothing is left of it, a Gaussian row replaces it.
  const int64_t n = options_.matrix == Matrix::hadamard ? next_power_of_two(dim_) : dim_;
  const std::vector<double> lengths = normal({features_, n}, generator, 0, 1, DType::f64).to_vector<double>();
  for (int64_t i = 0; i < features_; ++i) {
    double square = 0;
    for (int64_t j = 0; j < n; ++j) square += std::pow(lengths[static_cast<size_t>(i * n + j)], 2);
    float* const row = values.data() + i * dim_;
    if (options_.norms == OrthogonalOptions::Norms::sqrt_dim) {
      double own = 1;
      if (n > dim_) {
        const auto squared = [&] { return std::inner_product(row, row + dim_, row, 0.0); };
        own = squared();
        if (own == 0) {  // all of the row was cut off
          for (int64_t j = 0; j < dim_; ++j) row[j] = static_cast<float>(lengths[static_cast<size_t>(i * n + j)]);
          own = squared();
        }
      }
      square = static_cast<double>(dim_) / own;
    }
    const auto norm = static_cast<float>(std::sqrt(square));
    for (int64_t j = 0; j < dim_; ++j) row[j] *= norm;
  }
  return Tensor::from(values, {1, features_, dim_});
}

SphericalFrequencies::SphericalFrequencies(Slot slot, int64_t features, int64_t dim, RedrawSchedule schedule,
                                           Generator& init)
    : SpectralDistribution(std::move(slot), {"spherical frequencies", features, dim}, schedule) {
  start(init);
}

Tensor SphericalFrequencies::draw(Generator& generator) {
  const Tensor rows = normal({1, features_, dim_}, generator, 0, 1, DType::f64);
  const Tensor lengths = sqrt(sum(rows * rows, {-1}, true));
  return (rows / lengths * std::sqrt(static_cast<double>(dim_))).cast(DType::f32);
}

}  // namespace bochner

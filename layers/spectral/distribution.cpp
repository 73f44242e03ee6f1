#include "layers/spectral/distribution.h"

#include <cmath>

#include "autograd/ops/binary.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/view.h"
#include "layers/init.h"

namespace bochner {
namespace {

void require_sizes(const char* what, int64_t features, int64_t dim) {
  if (features < 1) fail("{}: {} features; at least 1 is needed", what, features);
  if (dim < 1) fail("{}: head size {}; at least 1 is needed", what, dim);
}

}  // namespace

SpectralDistribution::SpectralDistribution(Slot slot, RedrawSchedule schedule)
    : Module(std::move(slot)),
      schedule_(schedule),
      noise_(buffer("noise", Tensor())),
      age_(buffer("age", Tensor::zeros({1}, DType::i64))) {
  if (schedule.interval < 0) fail("redraw: interval {} is negative; 0 never draws anew", schedule.interval);
}

void SpectralDistribution::start(Generator& init) { noise_ = draw(init); }

Variable SpectralDistribution::frequencies(Context& context) {
  const Scope scope(name());
  const auto placed = [&](const Tensor& noise) { return noise.cast(noise_.dtype()).to(noise_.device()); };
  if (!context.training) {
    return transform(schedule_.in_evaluation ? placed(draw(context.generator)) : noise_);
  }
  const int64_t age = age_.to_vector<int64_t>()[0];
  const bool due = schedule_.interval > 0 && age >= schedule_.interval;
  if (due) noise_.copy_(placed(draw(context.generator)));
  age_.fill_(static_cast<double>(due ? 1 : age + 1));
  return transform(noise_);
}

Tensor haar_rows(int64_t features, int64_t dim, Generator& generator) {
  // Gram and Schmidt on the rows of a Gaussian matrix, twice for full accuracy: the factor of positive diagonal, so
  // exactly Haar.
  std::vector<float> rows;
  const auto d = static_cast<size_t>(dim);
  for (int64_t begin = 0; begin < features; begin += dim) {
    std::vector<double> block = normal({dim, dim}, generator, 0, 1, DType::f64).to_vector<double>();
    const auto count = static_cast<size_t>(std::min(dim, features - begin));
    for (size_t i = 0; i < count; ++i) {
      double* const row = &block[i * d];
      for (int pass = 0; pass < 2; ++pass) {
        for (size_t k = 0; k < i; ++k) {
          const double* const other = &block[k * d];
          double dot = 0;
          for (size_t j = 0; j < d; ++j) dot += row[j] * other[j];
          for (size_t j = 0; j < d; ++j) row[j] -= dot * other[j];
        }
        double norm = 0;
        for (size_t j = 0; j < d; ++j) norm += row[j] * row[j];
        norm = std::sqrt(norm);
        for (size_t j = 0; j < d; ++j) row[j] /= norm;
      }
      for (size_t j = 0; j < d; ++j) rows.push_back(static_cast<float>(row[j]));
    }
  }
  return Tensor::from(rows, {features, dim});
}

GaussianFrequencies::GaussianFrequencies(Slot slot, int64_t features, int64_t dim, RedrawSchedule schedule,
                                         Generator& init)
    : SpectralDistribution(std::move(slot), schedule), features_(features), dim_(dim) {
  require_sizes("gaussian frequencies", features, dim);
  start(init);
}

Tensor GaussianFrequencies::draw(Generator& generator) { return normal({1, features_, dim_}, generator); }

OrthogonalFrequencies::OrthogonalFrequencies(Slot slot, int64_t features, int64_t dim, OrthogonalOptions options,
                                             RedrawSchedule schedule, Generator& init)
    : SpectralDistribution(std::move(slot), schedule), features_(features), dim_(dim), options_(options) {
  require_sizes("orthogonal frequencies", features, dim);
  start(init);
}

Tensor OrthogonalFrequencies::draw(Generator& generator) {
  const Tensor rows = haar_rows(features_, dim_, generator);
  std::vector<float> values = rows.to_vector<float>();
  const std::vector<double> lengths = normal({features_, dim_}, generator, 0, 1, DType::f64).to_vector<double>();
  for (int64_t i = 0; i < features_; ++i) {
    double square = 0;
    for (int64_t j = 0; j < dim_; ++j) square += std::pow(lengths[static_cast<size_t>(i * dim_ + j)], 2);
    const bool chi = options_.norms == OrthogonalOptions::Norms::chi;
    const auto norm = static_cast<float>(std::sqrt(chi ? square : static_cast<double>(dim_)));
    for (int64_t j = 0; j < dim_; ++j) values[static_cast<size_t>(i * dim_ + j)] *= norm;
  }
  return Tensor::from(values, {1, features_, dim_});
}

GaussianMixture::GaussianMixture(Slot slot, int64_t heads, int64_t features, int64_t dim, MixtureOptions options,
                                 RedrawSchedule schedule, Generator& init)
    : SpectralDistribution(std::move(slot), schedule),
      heads_(heads),
      features_(features),
      dim_(dim),
      options_(options),
      mean_(parameter("mean", bochner::init::fan_in_uniform({heads, options.components, 1, dim}, dim, init))),
      scale_(parameter("scale", Tensor::full({heads, options.components, 1, dim}, 1))) {
  require_sizes("gaussian mixture", features, dim);
  if (options.components < 1 || features % options.components != 0) {
    fail("gaussian mixture: {} features do not divide among {} components", features, options.components);
  }
  if (options.covariance == MixtureOptions::Covariance::full) {
    const Tensor identity =
        equal(Tensor::arange(dim).view({dim, 1}), Tensor::arange(dim).view({1, dim})).cast(DType::f32);
    scale_.value = identity.expand({heads, options.components, dim, dim}).clone();
  }
  start(init);
}

Tensor GaussianMixture::draw(Generator& generator) {
  return normal({1, 1, features_ / options_.components, dim_}, generator);
}

// omega_(c,m) = Sigma_c n_m + mu_c
Variable GaussianMixture::transform(const Tensor& noise) {
  const Variable n = noise;  // (1, 1, M/C, D)
  const bool diagonal = options_.covariance == MixtureOptions::Covariance::diagonal;
  const Variable spread = diagonal ? n * scale_ : matmul(n, transpose(scale_, -2, -1));  // (H, C, M/C, D)
  return reshape(spread + mean_, {heads_, features_, dim_});
}

ReleasedMixture::ReleasedMixture(Slot slot, int64_t heads, int64_t features, int64_t dim, bool positive,
                                 RedrawSchedule schedule, Generator& init)
    : SpectralDistribution(std::move(slot), schedule),
      heads_(heads),
      features_(features),
      dim_(dim),
      positive_(positive),
      sigma_(parameter("sigma",
                       bochner::init::xavier_uniform(positive ? Shape{heads, dim} : Shape{heads, dim, dim}, init))),
      mean_(parameter("mean", positive ? bochner::init::fan_in_uniform({heads, 1, dim}, dim, init)
                                       : bochner::init::fan_in_uniform({heads, 1, dim}, dim * dim, init))) {
  require_sizes("gaussian mixture", features, dim);
  if (!positive && features % 2 != 0) fail("gaussian mixture: {} features do not divide among 2 components", features);
  start(init);
}

Tensor ReleasedMixture::draw(Generator& generator) {
  return normal({1, positive_ ? features_ : features_ / 2, dim_}, generator);
}

Variable ReleasedMixture::transform(const Tensor& noise) {
  const Variable n = noise;
  if (positive_) return n * exp(reshape(sigma_, {heads_, 1, dim_}) * 0.5) + mean_;  // (H, M, D)
  const Variable spread = matmul(n, sigma_);                                        // rows are sigma^T n_m: (H, M/2, D)
  return concat({spread + mean_, spread - mean_}, 1);
}

}  // namespace bochner

#include "layers/spectral/mixture.h"

#include "autograd/ops/binary.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/view.h"
#include "layers/init.h"

namespace bochner {

GaussianMixture::GaussianMixture(Slot slot, int64_t heads, int64_t features, int64_t dim, MixtureOptions options,
                                 RedrawSchedule schedule, Generator& init)
    : SpectralDistribution(std::move(slot), {"gaussian mixture", features, dim}, schedule),
      heads_(heads),
      options_(options),
      learnt_(options.tied ? 1 : options.components),
      mean_(parameter("mean", bochner::init::fan_in_uniform({heads, learnt_, 1, dim}, dim, init))),
      scale_(parameter("scale", Tensor::full({heads, learnt_, 1, dim}, 1))) {
  if (options.tied && options.components != 2) {
    fail("gaussian mixture: {} components cannot be tied; a tied mixture has 2, at mu and -mu", options.components);
  }
  if (options.components < 1 || features % options.components != 0) {
    fail("gaussian mixture: {} features do not divide among {} components", features, options.components);
  }
  if (options.covariance == MixtureOptions::Covariance::full) {
    const Tensor identity =
        equal(Tensor::arange(dim).view({dim, 1}), Tensor::arange(dim).view({1, dim})).cast(DType::f32);
    scale_.value = identity.expand({heads, learnt_, dim, dim}).clone();
  }
  start(init);
}

Tensor GaussianMixture::draw(Generator& generator) {
  return normal({1, 1, features_ / options_.components, dim_}, generator);
}

// omega_(c,m) = Sigma_c n_m + mu_c
VariableFrequencies GaussianMixture::transform(const Tensor& noise, bool /*training*/) {
  const Variable n = noise;  // (1, 1, M/C, D)
  const bool diagonal = options_.covariance == MixtureOptions::Covariance::diagonal;
  const Variable spread = diagonal ? n * scale_ : matmul(n, transpose(scale_, -2, -1));  // (H, learnt, M/C, D)
  const Variable omega = options_.tied ? concat({spread + mean_, spread - mean_}, 1) : spread + mean_;
  return reshape(omega, {heads_, features_, dim_});
}

ReleasedMixture::ReleasedMixture(Slot slot, int64_t heads, int64_t features, int64_t dim, bool positive,
                                 RedrawSchedule schedule, Generator& init)
    : SpectralDistribution(std::move(slot), {"gaussian mixture", features, dim}, schedule),
      heads_(heads),
      positive_(positive),
      sigma_(parameter("sigma",
                       bochner::init::xavier_uniform(positive ? Shape{heads, dim} : Shape{heads, dim, dim}, init))),
      mean_(parameter("mean", positive ? bochner::init::fan_in_uniform({heads, 1, dim}, dim, init)
                                       : bochner::init::fan_in_uniform({heads, 1, dim}, dim * dim, init))) {
  if (!positive && features % 2 != 0) fail("gaussian mixture: {} features do not divide among 2 components", features);
  start(init);
}

Tensor ReleasedMixture::draw(Generator& generator) {
  return normal({1, positive_ ? features_ : features_ / 2, dim_}, generator);
}

VariableFrequencies ReleasedMixture::transform(const Tensor& noise, bool /*training*/) {
  const Variable n = noise;
  if (positive_) return n * exp(reshape(sigma_, {heads_, 1, dim_}) * 0.5) + mean_;  // (H, M, D)
  const Variable spread = matmul(n, sigma_);                                        // rows are sigma^T n_m: (H, M/2, D)
  return concat({spread + mean_, spread - mean_}, 1);
}

}  // namespace bochner

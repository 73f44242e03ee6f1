#include "layers/batch_norm.h"

#include "autograd/fused/norm.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/view.h"
#include "autograd/recompute.h"
#include "engine/step_graph.h"

namespace bochner {
namespace {

int64_t checked(int64_t features, const BatchNormOptions& options) {
  if (features < 1) fail("batch_norm: {} features; at least 1 is needed", features);
  if (!(options.eps > 0)) fail("batch_norm: eps {} must be positive", options.eps);
  if (options.momentum && !(*options.momentum >= 0 && *options.momentum <= 1)) {
    fail("batch_norm: momentum {} lies outside [0, 1]", *options.momentum);
  }
  return features;
}

}  // namespace

BatchNorm1d::BatchNorm1d(Slot slot, int64_t features, BatchNormOptions options)
    : Module(std::move(slot)),
      options_(options),
      features_(checked(features, options)),
      weight_(options.affine ? &parameter("weight", Tensor::full({features}, 1)) : nullptr),
      bias_(options.affine ? &parameter("bias", Tensor::zeros({features})) : nullptr),
      running_mean_(buffer("running_mean", Tensor::zeros({features}))),
      running_variance_(buffer("running_var", Tensor::full({features}, 1))),
      batches_(buffer("num_batches_tracked", Tensor::zeros({}, DType::i64))) {}

Variable BatchNorm1d::forward(const Variable& x, bool training) {
  const Scope scope(name());
  if ((x.rank() != 2 && x.rank() != 3) || x.size(1) != features_) {
    fail("batch_norm: {} is not (n, {}) or (n, {}, length)", x.value().str(), features_, features_);
  }
  if (x.rank() == 2) return rows(x, training);
  const Variable last = permute(x, {0, 2, 1});  // (n, length, features)
  const Variable y = rows(reshape(last, {x.size(0) * x.size(2), features_}), training);
  return permute(reshape(y, last.shape()), {0, 2, 1});
}

Variable BatchNorm1d::rows(const Variable& x, bool training) {
  const Variable weight = weight_ != nullptr ? Variable(*weight_) : Tensor::full({features_}, 1, x.dtype(), x.device());
  const Variable bias = bias_ != nullptr ? Variable(*bias_) : Tensor::zeros({features_}, x.dtype(), x.device());
  if (!training) {
    // A copy of the current statistics: a forward pass in training may change them before backward.
    const Variable deviation = once([&] { return sqrt(running_variance_ + options_.eps); });
    const Variable mean = once([&] { return running_mean_.clone(); });
    const Variable scale = weight / deviation;
    return x * scale + (bias - mean * scale);
  }
  bool moves = false;  // whether running statistics are updated: not in the second run of a block
  once([&] {
    moves = true;
    return Tensor();
  });
  if (!moves) return batch_norm(x, weight, bias, {}, 0, options_.eps);
  StepGraph::object("counts the batches of batch_norm");
  const auto seen = static_cast<double>(batches_.item()) + 1;
  const Variable y = batch_norm(x, weight, bias, {running_mean_, running_variance_},
                                options_.momentum.value_or(1 / seen), options_.eps);
  batches_.fill_(seen);
  return y;
}

}  // namespace bochner

#include "layers/snnk/bundle.h"

#include <algorithm>

#include "autograd/fused/linear.h"
#include "engine/ops/binary.h"
#include "engine/ops/matmul.h"
#include "layers/mixed_precision.h"

namespace bochner {
namespace {

constexpr int64_t kFitRows = 4096;

Tensor to_f64(const Tensor& x) { return x.cast(DType::f64); }

/// An affine map x -> W x + b between two stages, in f64; the identity if neither is defined.
struct Affine {
  Tensor W, b;

  void then(const Linear& linear) {
    const Tensor weight = to_f64(linear.weight.value);
    if (W.defined() && W.size(0) != weight.size(1)) {
      fail("bundle: a layer of {} outputs before {} of {} inputs", W.size(0), linear.path(), weight.size(1));
    }
    if (b.defined()) b = matmul(weight, b.reshape({b.size(), 1})).reshape({weight.size(0)});
    if (linear.bias != nullptr) b = b.defined() ? b + to_f64(linear.bias->value) : to_f64(linear.bias->value);
    W = W.defined() ? matmul(weight, W) : weight;
  }
};

}  // namespace

Bundle::Bundle(Slot slot, const std::vector<const Module*>& run) : Module(std::move(slot)) {
  if (run.empty()) fail("bundle: no layers; give at least one");
  Affine affine;
  DType dtype = DType::f32;
  for (const Module* layer : run) {
    if (const auto* linear = dynamic_cast<const Linear*>(layer)) {
      affine.then(*linear);
      dtype = linear->weight.value.dtype();
    } else if (const auto* snnk = dynamic_cast<const Snnk*>(layer)) {
      const std::string name = fmt::format("features{}", stages_.size());
      stages_.push_back(snnk->features().after(sub(name), affine.W, affine.b));
      affine = {to_f64(snnk->weight.value), {}};
      dtype = snnk->weight.value.dtype();
    } else {
      fail("bundle: layer '{}' is neither an Snnk nor a Linear; bundle the layers before and after it",
           layer == nullptr ? "null" : layer->path());
    }
  }
  set(affine.W.cast(dtype), affine.b.defined() ? affine.b.cast(dtype) : affine.b);
}

Bundle::Bundle(Slot slot, const std::vector<NetworkLayer>& layers, const SnnkOptions& options, Generator& init)
    : Module(std::move(slot)) {
  if (layers.empty()) fail("bundle: no layers; give at least one");
  Affine affine;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].linear == nullptr) fail("bundle: layer {} of {} names no Linear", i, layers.size());
    affine.then(*layers[i].linear);
    if (layers[i].activation == "identity") {
      if (i + 1 != layers.size())
        fail("bundle: layer {} of {} is an identity, which only the last may be", i, layers.size());
      break;
    }
    SnnkOptions own = options;
    own.activation = layers[i].activation;
    stages_.push_back(make_features(sub(fmt::format("features{}", stages_.size())), affine.W.size(1), own, affine.W,
                                    init, layers[i].linear->inputs()));
    affine = {stages_.back()->weights(affine.W, affine.b), {}};
  }
  const DType dtype = layers[0].linear->weight.value.dtype();
  set(affine.W.cast(dtype), affine.b.defined() ? affine.b.cast(dtype) : affine.b);
}

Bundle Bundle::of_network(Slot slot, const std::vector<NetworkLayer>& layers, const SnnkOptions& options,
                          Generator& init) {
  return {std::move(slot), layers, options, init};
}

void Bundle::set(const Tensor& W, const Tensor& b) {
  weight_ = &parameter("weight", W);
  if (b.defined()) bias_ = &parameter("bias", b);
}

Variable Bundle::features(const Variable& x) const {
  Variable phi = x;
  for (const auto& stage : stages_) phi = stage->forward(phi);
  return phi;
}

Variable Bundle::scores(const Variable& phi) const {
  const Scope scope(name());
  return linear(phi, {*weight_, bias_ == nullptr ? Variable() : Variable(*bias_)});
}

Variable Bundle::forward(const Variable& x) const { return as_type_of(x, scores(features(as_computed(x)))); }

Tensor Bundle::jacobian(const Tensor& x) const {
  // dy/dx = W (dPhi_L/dPhi_L-1) ... (dPhi_1/dx), each factor at the features of the stage before
  if (x.rank() != 2 || x.size(1) != inputs()) {
    fail("bundle: jacobian at x {}; it must be (n, {})", x.shape().str(), inputs());
  }
  const NoTape inference;
  Tensor at = x;
  Tensor J = stages_.empty() ? Tensor() : stages_[0]->jacobian(at);
  for (size_t i = 1; i < stages_.size(); ++i) {
    at = stages_[i - 1]->forward(at).value();
    J = matmul(stages_[i]->jacobian(at), J);
  }
  if (!J.defined()) return weight_->value.unsqueeze(0).expand({x.size(0), outputs(), inputs()}).contiguous();
  return matmul(weight_->value, J);
}

double Bundle::fit(const Tensor& X, const Tensor& Y, double ridge) {
  if (X.rank() != 2 || Y.rank() != 2 || X.size(0) != Y.size(0) || X.size(1) != inputs() || Y.size(1) != outputs()) {
    fail("bundle: fit of X {} to Y {}; they must be (n, {}) and (n, {})", X.shape().str(), Y.shape().str(), inputs(),
         outputs());
  }
  const NoTape inference;
  const int64_t columns = weight_->shape()[1];
  RidgeFit regression(columns, outputs(), true);
  for (int64_t begin = 0; begin < X.size(0); begin += kFitRows) {
    const int64_t end = std::min(X.size(0), begin + kFitRows);
    regression.add(features(X.slice(0, begin, end).contiguous()).value(), Y.slice(0, begin, end).contiguous());
  }
  const RidgeFit::Solution solution = regression.solve(ridge);
  weight_->value.copy_(solution.weight);
  if (bias_ == nullptr) bias_ = &parameter("bias", Tensor::zeros({outputs()}, weight_->value.dtype()));
  bias_->value.copy_(solution.bias);
  return solution.residual;
}

int64_t Bundle::inputs() const { return stages_.empty() ? weight_->shape()[1] : stages_.front()->inputs(); }

int64_t Bundle::flops() const {
  int64_t total = 2 * weight_->value.size();
  for (const auto& stage : stages_) total += stage->flops();
  return total;
}

}  // namespace bochner

#include "layers/linear.h"

#include "autograd/fused/linear.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/view.h"
#include "layers/init.h"

namespace bochner {
namespace {

using Init = LinearOptions::Init;

Tensor initial_weight(int64_t inputs, int64_t outputs, Generator& generator, const LinearOptions& options) {
  if (inputs < 1 || outputs < 1) fail("linear: {} inputs and {} outputs; both must be at least 1", inputs, outputs);
  switch (options.init) {
    case Init::fan_in:
      return init::fan_in_uniform({outputs, inputs}, inputs, generator);
    case Init::xavier:
      return init::xavier_uniform({outputs, inputs}, generator);
    case Init::normal:
      return init::gaussian({outputs, inputs}, options.deviation, generator);
  }
  internal_failure("a known initialisation", __FILE__, __LINE__);
}

Tensor initial_bias(int64_t inputs, int64_t outputs, Generator& generator, const LinearOptions& options) {
  switch (options.init) {
    case Init::fan_in:
      return init::fan_in_uniform({outputs}, inputs, generator);
    case Init::xavier:
      return init::gaussian({outputs}, 1e-6, generator);
    case Init::normal:
      return Tensor::zeros({outputs});
  }
  internal_failure("a known initialisation", __FILE__, __LINE__);
}

}  // namespace

Linear::Linear(Slot slot, int64_t inputs, int64_t outputs, Generator& init, LinearOptions options)
    : Module(std::move(slot)),
      weight(parameter("weight", initial_weight(inputs, outputs, init, options))),
      bias(options.bias ? &parameter("bias", initial_bias(inputs, outputs, init, options)) : nullptr) {}

Variable Linear::forward(const Variable& x) const {
  const Scope scope(name());
  return linear(x, {{}, {}, whole_weight(), bias_or_none()});
}

Variable Linear::forward(const Variable& x, const LinearFusion& fusion, Context& context) const {
  const Scope scope(name());
  LinearVariables weights{{}, {}, whole_weight(), bias_or_none()};
  LinearSpec spec;
  spec.relu = fusion.relu;
  if (fusion.norm != nullptr) {
    weights.gamma = fusion.norm->weight;
    weights.beta = fusion.norm->bias;
    spec.eps = fusion.norm->eps();
  }
  if (context.training) spec.drop = Dropout::draw(fusion.dropout, x.size() / inputs() * outputs(), context.generator);
  return linear(x, weights, fusion.residual, spec);
}

void Linear::add_low_rank(const std::string& name, int64_t begin, int64_t end, const LowRankOptions& options,
                          Generator& init) {
  BOCHNER_ASSERT(0 <= begin && begin < end && end <= outputs());
  updates_.push_back({begin, std::make_unique<LowRank>(sub(name), end - begin, inputs(), options, init)});
}

Variable Linear::whole_weight() const {
  Variable w = weight;
  for (const Update& update : updates_) {
    w = w + embed_slice(update.low_rank->product(), weight.shape(), 0, update.begin);
  }
  return w;
}

}  // namespace bochner

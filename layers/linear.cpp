#include "layers/linear.h"

#include "autograd/fused/dropout.h"
#include "autograd/fused/linear.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/join.h"
#include "autograd/ops/unary.h"
#include "autograd/ops/view.h"
#include "engine/ops/binary.h"
#include "engine/ops/matmul.h"
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
    case Init::xavier_weight:
      return init::xavier_uniform({outputs, inputs}, generator);
    case Init::normal:
      return init::gaussian({outputs, inputs}, options.deviation, generator);
  }
  internal_failure("a known initialisation", __FILE__, __LINE__);
}

Tensor initial_bias(int64_t inputs, int64_t outputs, Generator& generator, const LinearOptions& options) {
  switch (options.init) {
    case Init::fan_in:
    case Init::xavier_weight:
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
  return with_updates(x, linear(x, {weight, bias_or_none()}));
}

Variable Linear::forward(const Variable& x, const LinearFusion& fusion, Context& context) const {
  const Scope scope(name());
  LinearVariables weights{weight, bias_or_none()};
  LinearSpec spec;
  spec.relu = fusion.relu;
  if (fusion.norm != nullptr) {
    weights.gamma = fusion.norm->weight;
    weights.beta = fusion.norm->bias;
    spec.eps = fusion.norm->eps();
  }
  if (context.training) spec.drop = Dropout::draw(fusion.dropout, x.size() / inputs() * outputs(), context.generator);
  if (!has_updates()) return linear(x, weights, fusion.residual, spec);
  const Variable n = fusion.norm == nullptr ? x : fusion.norm->forward(x);
  const Variable s = with_updates(n, linear(n, {weight, bias_or_none()}));
  const Variable y = dropout_at(spec.relu ? relu(s) : s, spec.drop);
  return fusion.residual.defined() ? fusion.residual + y : y;
}

void Linear::add_low_rank(const std::string& name, int64_t begin, int64_t end, const LowRankOptions& options,
                          Generator& init) {
  BOCHNER_ASSERT(0 <= begin && begin < end && end <= outputs());
  updates_.push_back({begin, std::make_unique<LowRank>(sub(name), end - begin, inputs(), options, init)});
}

// y + B (A x), where the A of all updates are stacked, and each scaled B is in the rows of its update.
Variable Linear::with_updates(const Variable& x, const Variable& y) const {
  if (updates_.empty()) return y;
  std::vector<Variable> A, B;
  for (const auto& [begin, update] : updates_) {
    A.emplace_back(update->A);
    B.push_back(embed_slice(Variable(update->B) * update->scale(), {outputs(), update->A.shape()[0]}, 0, begin));
  }
  const Variable u = linear(x, {concat(A, 0)});  // (..., sum of ranks)
  return linear(u, {concat(B, 1)}, y);
}

void Linear::merge_updates() {
  for (const auto& [begin, update] : updates_) {
    const Tensor rows = weight.value.slice(0, begin, begin + update->B.shape()[0]);
    add_(rows, matmul(update->B.value, update->A.value) * update->scale());
  }
  updates_.clear();
}

}  // namespace bochner

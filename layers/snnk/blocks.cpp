#include "layers/snnk/blocks.h"

#include "autograd/ops/binary.h"
#include "layers/mixed_precision.h"

namespace bochner {
namespace {

/// A fresh layer like this one.
Linear like(Slot slot, const Linear& linear, Generator& init) {
  return {std::move(slot), linear.inputs(), linear.outputs(), init, {.bias = linear.bias != nullptr}};
}

void copy(const Linear& from, const Linear& to) {
  to.weight.value.copy_(from.weight.value);
  if (from.bias != nullptr) to.bias->value.copy_(from.bias->value);
}

}  // namespace

SnnkAdapter::SnnkAdapter(Slot slot, int64_t dim, const AdapterOptions& options, Generator& init)
    : Adapter(std::move(slot)),
      snnk_(sub("snnk"),
            Linear({}, dim, options.down > 0 ? options.down : dim, init,
                   {.bias = false, .init = LinearOptions::Init::normal, .deviation = options.deviation}),
            options.snnk, init) {
  if (options.down > 0) {
    up_ = std::make_unique<Linear>(sub("up"), options.down, dim, init,
                                   LinearOptions{.init = LinearOptions::Init::normal, .deviation = 0});
  } else {
    gate_ = &parameter("gate", Tensor::zeros({dim}));
  }
}

Variable SnnkAdapter::forward(const Variable& x) const {
  const Scope scope(name());
  const Variable y = snnk_.forward(x);
  return x + (up_ ? up_->forward(y) : y * as_type_of(y, *gate_));
}

SnnkPooler::SnnkPooler(Slot slot, const Linear& pooler, const Linear& classifier, const SnnkOptions& options,
                       Generator& init)
    : Module(std::move(slot)),
      pooler_(
          sub("pooler"), pooler,
          [&] {
            SnnkOptions scaled = options;
            scaled.scale_inputs = true;
            return scaled;
          }(),
          init),
      classifier_(like(sub("classifier"), classifier, init)) {
  copy(classifier, classifier_);
}

Variable SnnkPooler::pooled(const Variable& x) const {
  const Scope scope(name());
  return pooler_.forward(x);
}

Variable SnnkPooler::scores(const Variable& pooled) const {
  const Scope scope(name());
  return classifier_.forward(pooled);
}

SnnkFeedForward::SnnkFeedForward(Slot slot, const Linear& in, const Linear& out, const SnnkOptions& options,
                                 Generator& init)
    : Module(std::move(slot)), in_(sub("in"), in, options, init), out_(like(sub("out"), out, init)) {
  copy(out, out_);
}

int64_t SnnkFeedForward::flops() const { return in_.flops() + 2 * out_.weight.value.size(); }

Variable SnnkFeedForward::forward(const Variable& x) const {
  const Scope scope(name());
  return out_.forward(in_.forward(x));
}

}  // namespace bochner

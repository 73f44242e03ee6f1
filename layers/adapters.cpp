#include "layers/adapters.h"

#include "autograd/fused/linear.h"
#include "layers/init.h"

namespace bochner {
namespace {

int64_t checked_size(const char* what, int64_t size) {
  if (size < 1) fail("{} {}: must be at least 1", what, size);
  return size;
}

}  // namespace

BottleneckAdapter::BottleneckAdapter(Slot slot, int64_t dim, const BottleneckOptions& options, Generator& init)
    : Adapter(std::move(slot)),
      activation_(options.activation),
      down_(parameter("down.weight",
                      init::gaussian({checked_size("adapter: size", options.size), dim}, options.deviation, init))),
      down_bias_(parameter("down.bias", Tensor::zeros({options.size}))),
      up_(parameter("up.weight", init::gaussian({dim, options.size}, options.deviation, init))),
      up_bias_(parameter("up.bias", Tensor::zeros({dim}))) {}

Variable BottleneckAdapter::forward(const Variable& x) const {
  const Scope scope(name());
  const Variable u = linear(x, {down_});  // (..., size)
  const Variable h = bias_activation(u, down_bias_, activation_);
  return linear(h, {up_, up_bias_}, x);
}

LowRank::LowRank(Slot slot, int64_t outputs, int64_t inputs, const LowRankOptions& options, Generator& init)
    : Module(std::move(slot)),
      A(parameter("lora_A.weight",
                  init::fan_in_uniform({checked_size("low rank: rank", options.rank), inputs}, inputs, init))),
      B(parameter("lora_B.weight", Tensor::zeros({outputs, options.rank}))),
      options_(options) {}

}  // namespace bochner

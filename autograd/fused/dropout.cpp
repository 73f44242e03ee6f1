#include "autograd/fused/dropout.h"

#include "autograd/op_info.h"
#include "autograd/ops/binary.h"
#include "engine/ops/dropout.h"

namespace bochner {

// y = m x:  dx = m g
Variable dropout_at(const Variable& x, double p, const Generator& place) {
  return record("dropout", dropout(x.value(), p, place), {&x},
                [p, place](const Variable& g) { return Gradients{dropout_at(g, p, place)}; });
}

Variable dropout(const Variable& x, double p, Generator& generator) {
  if (p == 0) return x;
  return dropout_at(x, p, generator.reserve(static_cast<uint64_t>(x.size())));
}

void describe_dropout(OpInfos& infos) {
  OpInfo info{"dropout", "y_i = x_i / (1 - p) with probability 1 - p, else 0", "Srivastava et al., 2014", {}, {}};
  uint64_t seed = 1500;
  for (const Shape& shape : {Shape{7}, Shape{1}, Shape{0}, Shape{3, 5}, Shape{2, 3, 5}, Shape{33, 3}, Shape{4, 0}}) {
    for (const auto& [label, x] : sample_layouts(shape, ++seed)) {
      info.samples.push_back(
          {label, {x}, [](const std::vector<Variable>& in) { return dropout_at(in[0], 0.3, Generator(5, 12)); }});
    }
  }
  info.composition = [](const Sample&, const std::vector<Variable>& in) {
    const Shape& shape = in[0].shape();
    Generator place(5, 12);
    const Tensor dropped = bernoulli(shape, 0.3, place, DType::f64);
    return in[0] * Variable((dropped * -1.0 + 1.0) * (1 / 0.7));
  };
  info.refused = {[] { dropout_at(Variable(Tensor::zeros({2})), 1, Generator(0)); },
                  [] { dropout_at(Variable(Tensor::zeros({2})), -0.1, Generator(0)); }};
  infos.push_back(info);
}

}  // namespace bochner

#include "autograd/fused/norm.h"

#include "autograd/op_info.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/reduce.h"
#include "engine/ops/norm.h"

namespace bochner {

Variable layer_norm_composed(const Variable& x, const Variable& gamma, const Variable& beta, double eps) {
  const Variable centred = x - mean(x, {-1}, true);
  const Variable variance = mean(square(centred), {-1}, true);
  return gamma * (centred / sqrt(variance + eps)) + beta;
}

Variable layer_norm(const Variable& x, const Variable& gamma, const Variable& beta, double eps) {
  const LayerNorm normalised = layer_norm(x.value(), gamma.value(), beta.value(), eps);
  return record("layer_norm", normalised.y, {&x, &gamma, &beta},
                [x, gamma, beta, eps, mean = normalised.mean, rstd = normalised.rstd](const Variable& g) -> Gradients {
                  if (Tape* tape = Tape::current()) {
                    return tape->pull_back(
                        [eps](const auto& in) { return layer_norm_composed(in[0], in[1], in[2], eps); },
                        {x, gamma, beta}, g);
                  }
                  const LayerNormGradients grads = layer_norm_backward(g.value(), x.value(), gamma.value(), mean, rstd);
                  return {grads.dx, grads.dgamma, grads.dbeta};
                });
}

void describe_norm(OpInfos& infos) {
  OpInfo info{"layer_norm", "y = gamma (x - mean x) / sqrt(var x + eps) + beta", "Ba, Kiros & Hinton, 2016", {}, {}};
  static constexpr double kEps = 0.1;  // large, so that rows of nearly equal values stay far from singular
  uint64_t seed = 1300;
  for (const Shape& shape :
       {Shape{4, 5}, Shape{1, 3}, Shape{7, 33}, Shape{0, 4}, Shape{2, 3, 6}, Shape{300, 4}, Shape{6}}) {
    for (const auto& [label, x] : sample_layouts(shape, ++seed)) {
      const Tensor gamma = sample_values({shape[-1]}, ++seed);
      const Tensor beta = sample_values({shape[-1]}, ++seed);
      info.samples.push_back({label, {x, gamma, beta}, [](const std::vector<Variable>& in) {
                                return layer_norm(in[0], in[1], in[2], kEps);
                              }});
    }
  }
  info.composition = [](const Sample&, const std::vector<Variable>& in) {
    return layer_norm_composed(in[0], in[1], in[2], kEps);
  };
  info.refused = {[] {
    const Variable x = Tensor::zeros({2, 3});
    const Variable wrong = Tensor::zeros({2});
    layer_norm(x, wrong, wrong);
  }};
  infos.push_back(info);
}

}  // namespace bochner

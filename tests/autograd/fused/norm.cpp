// The promises of the ops of autograd/fused/norm.h, and samples to check them.
#include "autograd/fused/norm.h"
#include "engine/ops/norm.h"

#include "tests/autograd/op_info.h"

namespace bochner {

namespace {

using Inputs = std::vector<Variable>;

constexpr double kEps = 0.1;  // large, so that rows of nearly equal values stay far from singular

OpInfo batch_info() {
  OpInfo info{"batch_norm",
              "y = gamma (x - mean x) / sqrt(var x + eps) + beta over the first axis",
              "Ioffe & Szegedy, 2015",
              {},
              {}};
  uint64_t seed = 1370;
  for (const Shape& shape : {Shape{4, 5}, Shape{2, 1}, Shape{33, 7}, Shape{5, 2}, Shape{3, 17}, Shape{6, 0}}) {
    for (const auto& [label, x] : sample_layouts(shape, ++seed)) {
      const Tensor gamma = sample_values({shape[-1]}, ++seed);
      const Tensor beta = sample_values({shape[-1]}, ++seed);
      info.samples.push_back({label, {x, gamma, beta}, [](const std::vector<Variable>& in) {
                                return batch_norm(in[0], in[1], in[2], {}, 0.1, kEps);
                              }});
    }
  }
  info.composition = [](const Sample&, const std::vector<Variable>& in) {
    return batch_norm_composed(in[0], in[1], in[2], kEps);
  };
  info.refused = {[] {
    const Variable scale = Tensor::zeros({3});
    batch_norm(Tensor::zeros({1, 3}), scale, scale);
  }};
  return info;
}

}  // namespace

void describe_norm(OpInfos& infos) {
  OpInfo info{"layer_norm", "y = gamma (x - mean x) / sqrt(var x + eps) + beta", "Ba, Kiros & Hinton, 2016", {}, {}};
  uint64_t seed = 1300;
  for (const Shape& shape :
       {Shape{4, 5}, Shape{1, 3}, Shape{7, 33}, Shape{0, 4}, Shape{2, 3, 6}, Shape{300, 4}, Shape{6}, Shape{1, 1}}) {
    for (const auto& [label, x] : sample_layouts(shape, ++seed)) {
      const Tensor gamma = sample_values({shape[-1]}, ++seed);
      const Tensor beta = sample_values({shape[-1]}, ++seed);
      info.samples.push_back({label,
                              {x, gamma, beta},
                              [](const Inputs& in) { return layer_norm(in[0], in[1], in[2], kEps); },
                              [](const Inputs& in) { return layer_norm_composed(in[0], in[1], in[2], kEps); }});
      info.samples.push_back({label + " without gamma and beta",
                              {x},
                              [](const Inputs& in) { return layer_norm(in[0], {}, {}, kEps); },
                              [](const Inputs& in) { return layer_norm_composed(in[0], {}, {}, kEps); }});
    }
  }
  info.composition = [](const Sample& sample, const Inputs& in) { return sample.composed(in); };
  info.refused = {[] {
    const Variable x = Tensor::zeros({2, 3});
    const Variable wrong = Tensor::zeros({2});
    layer_norm(x, wrong, wrong);
  }};
  infos.push_back(info);
  infos.push_back(batch_info());
}

const bool kNormDescribed = add_family(describe_norm);

}  // namespace bochner

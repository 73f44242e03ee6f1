// The promises of the op of autograd/fused/gaussian_kernel.h, and samples to check them.
#include "autograd/fused/gaussian_kernel.h"

#include <fmt/core.h>

#include <map>

#include "engine/ops/binary.h"
#include "tests/autograd/op_info.h"

namespace bochner {
namespace {

void describe_gaussian_kernel(OpInfos& infos) {
  OpInfo info{"gaussian_kernel", "C_ij = exp(-|x_i - y_j|^2 / 2)", "Chen et al., 2021, Eq. 3", {}, {}};
  uint64_t seed = 3100;
  const auto add = [&](const std::string& label, const std::vector<Tensor>& inputs, const Tensor& mask) {
    Sample sample{label, inputs, {}};
    sample.apply = [mask](const std::vector<Variable>& in) {
      return gaussian_kernel(in[0], in[1], beside(in[0], mask));
    };
    sample.composed = [mask](const std::vector<Variable>& in) {
      return composed::gaussian_kernel(in[0], in[1], beside(in[0], mask));
    };
    info.samples.push_back(sample);
  };
  for (const int64_t n : {0, 1, 3, 5}) {
    for (const int64_t m : {1, 4, 7}) {
      for (const bool masked : {false, true}) {
        const auto values = [&](int64_t length) { return sample_values({2, length, 2, 3}, ++seed, -1, 1); };
        const Tensor real =
            less(Tensor::arange(m).unsqueeze(0), Tensor::from<int64_t>({m, m - 1}, {2, 1}));  // the last is hidden once
        add(fmt::format("{} by {}{}", n, m, masked ? ", masked" : ""),
            {values(n).transpose(1, 2), sample_values({2, 2, m, 3}, ++seed, -1, 1)}, masked ? real : Tensor());
      }
    }
  }
  const auto values = [&](const Shape& shape) { return sample_values(shape, ++seed, -1, 1); };
  add("one number", {values({1, 1, 1, 1}), values({1, 1, 1, 1})}, {});
  add("heads and batches that are one in memory",
      {values({2, 1, 4, 3}).expand({2, 2, 4, 3}), values({1, 2, 8, 3}).expand({2, 2, 8, 3})}, {});
  info.composition = [](const Sample& sample, const std::vector<Variable>& in) { return sample.composed(in); };
  info.refused = {[] {
                    gaussian_kernel(Tensor::zeros({1, 2, 3, 4}), Tensor::zeros({1, 2, 3, 5}));
                  },
                  [] {
                    const Variable x = Tensor::zeros({1, 2, 3, 4});
                    gaussian_kernel(x, x, Tensor::zeros({1, 3}));
                  }};
  infos.push_back(info);
}

const bool kGaussianKernelDescribed = add_family(describe_gaussian_kernel);

}  // namespace
}  // namespace bochner

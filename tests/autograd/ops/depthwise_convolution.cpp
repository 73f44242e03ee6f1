// The promises of the ops of autograd/ops/depthwise_convolution.h, and samples to check them.
#include "autograd/ops/depthwise_convolution.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/join.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/view.h"

#include "tests/autograd/op_info.h"

namespace bochner {
namespace {

/// x shifted by t places of `width`: row i is row i + t - width / 2, or 0.
Variable shifted(const Variable& x, int64_t t, int64_t width) {
  const int64_t half = width / 2;
  return slice(pad(x, {0, 0, half, 0}, {0, 0, half, 0}), 2, t, t + x.size(2));
}

Variable convolution_composed(const Variable& x, const Variable& taps, bool back) {
  const int64_t width = taps.size(1);
  Variable y = x * Variable(Tensor::scalar(0, x.dtype(), x.device()));
  for (int64_t t = 0; t < width; ++t) {
    const Variable w = reshape(slice(taps, 1, t, t + 1), {x.size(1), 1, 1});
    y = y + w * shifted(x, back ? width - 1 - t : t, width);
  }
  return y;
}

Variable composed_taps(const Variable& x, const Variable& g, int64_t width) {
  std::vector<Variable> taps;
  for (int64_t t = 0; t < width; ++t) {
    taps.push_back(reshape(sum(g * shifted(x, t, width), {0, 2, 3}), {x.size(1), 1}));
  }
  return concat(taps, 1);
}

struct Size {
  Shape x;
  int64_t width;
};

// Sequences shorter than the filter, of one token, of none; widths beyond eight; whole vectors and what is left of
// them.
const std::vector<Size> kSizes = {{{2, 2, 5, 3}, 3}, {{1, 1, 1, 1}, 1},  {{1, 3, 2, 4}, 9},    {{0, 2, 3, 2}, 3},
                                  {{2, 1, 0, 3}, 5}, {{1, 2, 13, 1}, 5}, {{1, 1, 20, 17}, 11}, {{2, 2, 9, 2}, 7}};

}  // namespace

void describe_depthwise_convolution(OpInfos& infos) {
  OpInfo convolution{
      "depthwise_convolution", "y_i = sum_t w_t x_(i + t - half)", "Xiong et al., 2021, section 3", {}, {}};
  OpInfo taps{"depthwise_convolution_taps", "w_t = sum_i g_i x_(i + t - half)", "", {}, {}};
  uint64_t seed = 3100;
  for (const auto& [shape, width] : kSizes) {
    for (const auto& [label, x] : sample_layouts(shape, ++seed)) {
      const bool back = seed % 2 == 0;
      const int64_t w = width;
      convolution.samples.push_back(
          {label,
           {x, sample_values({shape[1], width}, ++seed)},
           [=](const std::vector<Variable>& in) { return depthwise_convolution(in[0], in[1], back); },
           [=](const std::vector<Variable>& in) { return convolution_composed(in[0], in[1], back); }});
      taps.samples.push_back(
          {label,
           {x, sample_values(shape, ++seed)},
           [=](const std::vector<Variable>& in) { return depthwise_convolution_taps(in[0], in[1], w); },
           [=](const std::vector<Variable>& in) { return composed_taps(in[0], in[1], w); }});
    }
    ++seed;
  }
  const auto by_sample = [](const Sample& sample, const std::vector<Variable>& in) { return sample.composed(in); };
  convolution.composition = by_sample;
  taps.composition = by_sample;
  const auto refuses = [](const Shape& x, const Shape& w) {
    return [=] { depthwise_convolution(Variable(Tensor::zeros(x)), Variable(Tensor::zeros(w))); };
  };
  convolution.refused = {refuses({2, 3, 4}, {3, 3}), refuses({1, 2, 3, 4}, {2, 2}), refuses({1, 2, 3, 4}, {2, 0}),
                         refuses({1, 2, 3, 4}, {3, 3}), refuses({1, 2, 3, 4}, {3})};
  const auto refuses_taps = [](const Shape& x, const Shape& g, int64_t width) {
    return [=] { depthwise_convolution_taps(Variable(Tensor::zeros(x)), Variable(Tensor::zeros(g)), width); };
  };
  taps.refused = {refuses_taps({1, 2, 3, 4}, {1, 2, 3, 5}, 3), refuses_taps({1, 2, 3, 4}, {1, 2, 3, 4}, 2),
                  refuses_taps({2, 3, 4}, {2, 3, 4}, 3)};
  infos.push_back(convolution);
  infos.push_back(taps);
}

const bool kDepthwiseConvolutionDescribed = add_family(describe_depthwise_convolution);

}  // namespace bochner

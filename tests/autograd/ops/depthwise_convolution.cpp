// The promises of the ops of autograd/ops/depthwise_convolution.h, and samples to check them.
#include "autograd/ops/depthwise_convolution.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/join.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/view.h"

#include "tests/autograd/op_info.h"

namespace bochner {
namespace {

/// Sizes of x, of the filter and of the image's rows.
struct Size {
  Shape x;
  FilterSize filter;
  int64_t columns;
};

/// x shifted by tap (r, t) of the filter: pixel (a, c) is pixel (a + r - rows / 2, c + t - width / 2), or 0.
Variable shifted(const Variable& x, int64_t r, int64_t t, const Size& size) {
  const int64_t L = x.size(2);
  const int64_t columns = size.columns == 0 ? L : size.columns;
  const int64_t height = (L + columns - 1) / columns;
  const auto [rows, width] = size.filter;
  const Variable whole = pad(x, {0, 0, 0, 0}, {0, 0, height * columns - L, 0});
  const Variable image = pad(reshape(whole, {x.size(0), x.size(1), height, columns, x.size(3)}),
                             {0, 0, rows / 2, width / 2, 0}, {0, 0, rows / 2, width / 2, 0});
  const Variable moved = slice(slice(image, 2, r, r + height), 3, t, t + columns);
  return slice(reshape(moved, {x.size(0), x.size(1), height * columns, x.size(3)}), 2, 0, L);
}

Variable convolution_composed(const Variable& x, const Variable& taps, const Size& size, bool back) {
  const auto [rows, width] = size.filter;
  Variable y = x * Variable(Tensor::scalar(0, x.dtype(), x.device()));
  for (int64_t r = 0; r < rows && x.size(2) > 0; ++r) {
    for (int64_t t = 0; t < width; ++t) {
      const Variable w = reshape(slice(slice(taps, 1, r, r + 1), 2, t, t + 1), {x.size(1), 1, x.size(3)});
      y = y + w * shifted(x, back ? rows - 1 - r : r, back ? width - 1 - t : t, size);
    }
  }
  return y;
}

Variable composed_taps(const Variable& x, const Variable& g, const Size& size) {
  const auto [rows, width] = size.filter;
  if (x.size(2) == 0) return sum(x, {0, 2}, true) + Variable(Tensor::zeros({1, rows, width, 1}, x.dtype(), x.device()));
  std::vector<Variable> taps;
  for (int64_t tap = 0; tap < rows * width; ++tap) {
    const Variable of_one = sum(g * shifted(x, tap / width, tap % width, size), {0, 2});
    taps.push_back(reshape(of_one, {x.size(1), 1, x.size(3)}));
  }
  return reshape(concat(taps, 1), {x.size(1), rows, width, x.size(3)});
}

// Sequences shorter than the filter, of one token, of none; widths beyond eight; whole vectors and remainders; images,
// including ones with half a last row.
const std::vector<Size> kSizes = {{{2, 2, 5, 3}, {1, 3}, 0},    {{1, 1, 1, 1}, {1, 1}, 0}, {{1, 3, 2, 4}, {1, 9}, 0},
                                  {{0, 2, 3, 2}, {1, 3}, 0},    {{2, 1, 0, 3}, {1, 5}, 0}, {{1, 2, 13, 1}, {1, 5}, 0},
                                  {{1, 1, 20, 17}, {1, 11}, 0}, {{2, 2, 9, 2}, {1, 7}, 0}, {{2, 1, 12, 3}, {3, 3}, 4},
                                  {{1, 2, 7, 2}, {5, 3}, 3},    {{1, 1, 3, 17}, {3, 1}, 5}};

}  // namespace

void describe_depthwise_convolution(OpInfos& infos) {
  OpInfo convolution{"depthwise_convolution",
                     "y_ac = sum_rt w_rt x_(a + r - rows / 2, c + t - width / 2)",
                     "Xiong et al., 2021, section 3; Han et al., 2023, Eq. 9",
                     {},
                     {}};
  OpInfo taps{"depthwise_convolution_taps", "w_rt = sum_ac g_ac x_(a + r - rows / 2, c + t - width / 2)", "", {}, {}};
  uint64_t seed = 3100;
  for (const Size& size : kSizes) {
    const Shape of_taps{size.x[1], size.filter.rows, size.filter.width, size.x[3]};
    for (const auto& [label, x] : sample_layouts(size.x, ++seed)) {
      const bool back = seed % 2 == 0;
      convolution.samples.push_back(
          {label,
           {x, sample_values(of_taps, ++seed)},
           [=](const std::vector<Variable>& in) { return depthwise_convolution(in[0], in[1], size.columns, back); },
           [=](const std::vector<Variable>& in) { return convolution_composed(in[0], in[1], size, back); }});
      taps.samples.push_back({label,
                              {x, sample_values(size.x, ++seed)},
                              [=](const std::vector<Variable>& in) {
                                return depthwise_convolution_taps(in[0], in[1], size.filter, size.columns);
                              },
                              [=](const std::vector<Variable>& in) { return composed_taps(in[0], in[1], size); }});
    }
    ++seed;
  }
  const auto by_sample = [](const Sample& sample, const std::vector<Variable>& in) { return sample.composed(in); };
  convolution.composition = by_sample;
  taps.composition = by_sample;
  const auto refuses = [](const Shape& x, const Shape& w, int64_t columns = 0) {
    return [=] { depthwise_convolution(Variable(Tensor::zeros(x)), Variable(Tensor::zeros(w)), columns); };
  };
  convolution.refused = {refuses({2, 3, 4}, {3, 1, 3, 4}),    refuses({1, 2, 3, 4}, {2, 1, 2, 4}),
                         refuses({1, 2, 3, 4}, {2, 1, 0, 4}), refuses({1, 2, 3, 4}, {3, 1, 3, 4}),
                         refuses({1, 2, 3, 4}, {2, 3}),       refuses({1, 2, 3, 4}, {2, 2, 3, 4}),
                         refuses({1, 2, 3, 4}, {2, 1, 3, 1}), refuses({1, 2, 3, 4}, {2, 1, 3, 4}, -1)};
  const auto refuses_taps = [](const Shape& x, const Shape& g, FilterSize filter) {
    return [=] { depthwise_convolution_taps(Variable(Tensor::zeros(x)), Variable(Tensor::zeros(g)), filter); };
  };
  taps.refused = {refuses_taps({1, 2, 3, 4}, {1, 2, 3, 5}, {1, 3}), refuses_taps({1, 2, 3, 4}, {1, 2, 3, 4}, {1, 2}),
                  refuses_taps({1, 2, 3, 4}, {1, 2, 3, 4}, {2, 3}), refuses_taps({2, 3, 4}, {2, 3, 4}, {1, 3})};
  infos.push_back(convolution);
  infos.push_back(taps);
}

const bool kDepthwiseConvolutionDescribed = add_family(describe_depthwise_convolution);

}  // namespace bochner

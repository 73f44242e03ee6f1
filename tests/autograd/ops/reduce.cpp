// The promises of the ops of autograd/ops/reduce.h, and samples to check them.
#include "autograd/ops/reduce.h"
#include <algorithm>
#include "autograd/ops/binary.h"
#include "autograd/ops/view.h"
#include "engine/ops/reduce.h"
#include "engine/ops/softmax.h"

#include "tests/autograd/op_info.h"

namespace bochner {

namespace {

using Reduce = std::function<Variable(const Variable&, const Dims&, bool)>;
using Along = std::function<Variable(const Variable&, int)>;

OpInfo describe_over_axes(const char* name, const char* equation, const Reduce& f, bool empty_allowed) {
  OpInfo info{name, equation, "", {}, {}};
  uint64_t seed = 500;
  const std::vector<std::pair<Shape, Dims>> cases = {
      {{5}, {0}},       {{1}, {}},           {{3, 4}, {1}},           {{3, 4}, {0}},
      {{2, 3, 5}, {1}}, {{2, 3, 5}, {0, 2}}, {{2, 3, 2, 2}, {-1, 1}}, {{7, 9}, {}},
      {{}, {}},         {{0, 3}, {1}},       {{3, 1, 2}, {1}}};
  for (const auto& [shape, axes] : cases) {
    for (const auto& [label, x] : sample_layouts(shape, ++seed)) {
      const bool along_first = axes.rank() == 0 || std::find(axes.begin(), axes.end(), 0) != axes.end();
      if (!empty_allowed && along_first && label.ends_with("broadcast")) continue;  // equal maxima are a kink
      const bool keep = seed % 2 == 0;
      info.samples.push_back(
          {fmt::format("{} over {}", label, axes.str()), {x}, [f, over = axes, keep](const std::vector<Variable>& in) {
             return f(in[0], over, keep);
           }});
    }
  }
  info.refused = {[f] { f(Tensor::zeros({2, 3}), {2}, false); }};
  if (!empty_allowed) info.refused.push_back([f] { f(Tensor::zeros({2, 0}), {1}, false); });
  return info;
}

OpInfo describe_along(const char* name, const char* equation, const Along& f) {
  OpInfo info{name, equation, "", {}, {}};
  uint64_t seed = 700;
  const std::vector<std::pair<Shape, int>> cases = {{{5}, 0},    {{1}, 0},       {{3, 4}, 1},
                                                    {{3, 4}, 0}, {{2, 3, 5}, 1}, {{7, 33}, -1},
                                                    {{0, 3}, 1}, {{4, 1}, 1},    {{2, 65}, 1}};
  for (const auto& [shape, axis] : cases) {
    for (const auto& [label, x] : sample_layouts(shape, ++seed)) {
      info.samples.push_back({fmt::format("{} along {}", label, axis),
                              {x},
                              [f, at = axis](const std::vector<Variable>& in) { return f(in[0], at); }});
    }
  }
  info.refused = {[f] { f(Tensor::zeros({2, 3}), 2); }, [f] { f(Tensor::zeros({2, 3}, DType::i64), 1); }};
  return info;
}

}  // namespace

void describe_reduce(OpInfos& infos) {
  infos.push_back(describe_over_axes(
      "sum", "y = sum_i x_i", [](auto& x, auto& axes, bool keep) { return sum(x, axes, keep); }, true));
  infos.push_back(describe_over_axes(
      "mean", "y = 1/n sum_i x_i", [](auto& x, auto& axes, bool keep) { return mean(x, axes, keep); }, true));
  infos.push_back(describe_over_axes(
      "amax", "y = max_i x_i", [](auto& x, auto& axes, bool keep) { return amax(x, axes, keep); }, false));
  infos.push_back(describe_over_axes(
      "amin", "y = min_i x_i", [](auto& x, auto& axes, bool keep) { return amin(x, axes, keep); }, false));
  infos.push_back(
      describe_along("softmax", "y_i = e^(x_i) / sum_j e^(x_j)", [](auto& x, int axis) { return softmax(x, axis); }));
  infos.push_back(describe_along("log_softmax", "y_i = x_i - ln sum_j e^(x_j)",
                                 [](auto& x, int axis) { return log_softmax(x, axis); }));
  infos.push_back(
      describe_along("logsumexp", "y = ln sum_j e^(x_j)", [](auto& x, int axis) { return logsumexp(x, axis); }));
}

const bool kReduceDescribed = add_family(describe_reduce);

}  // namespace bochner

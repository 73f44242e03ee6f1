// The promises of the ops of autograd/ops/binary.h, and samples to check them.
#include "autograd/ops/binary.h"
#include "engine/ops/reduce.h"

#include "tests/autograd/op_info.h"

namespace bochner {

namespace {

using Function = Variable (*)(const Variable&, const Variable&);

OpInfo describe(const char* name, const char* equation, Function f, double low) {
  OpInfo info{name, equation, "", {}, {}};
  const std::vector<std::pair<Shape, Shape>> shapes = {
      {{}, {}},         {{3}, {3}},       {{0}, {0}},          {{1}, {5}},
      {{2, 3}, {3}},    {{2, 1}, {1, 4}}, {{3, 1, 2}, {5, 1}}, {{2, 3}, {2, 3}},
      {{2, 0, 3}, {3}}, {{}, {2, 2}},     {{7, 5}, {7, 5}}};
  uint64_t seed = 100;
  for (const auto& [a, b] : shapes) {
    for (const auto& [label_a, x] : sample_layouts(a, ++seed, low, 2)) {
      const Tensor y = sample_values(b, ++seed, low, 2.5);
      info.samples.push_back({fmt::format("{} with {}", label_a, b.str()),
                              {x, y},
                              [f](const std::vector<Variable>& in) { return f(in[0], in[1]); }});
    }
  }
  info.refused = {[f] { f(Tensor::zeros({2}), Tensor::zeros({3})); },
                  [f] { f(Tensor::zeros({2}), Tensor::zeros({2}, DType::f64)); }};
  return info;
}

}  // namespace

void describe_binary(OpInfos& infos) {
  infos.push_back(describe(
      "add", "z = a + b", [](const Variable& a, const Variable& b) { return a + b; }, -2));
  infos.push_back(describe(
      "sub", "z = a - b", [](const Variable& a, const Variable& b) { return a - b; }, -2));
  infos.push_back(describe(
      "mul", "z = a b", [](const Variable& a, const Variable& b) { return a * b; }, -2));
  infos.push_back(describe(
      "div", "z = a / b", [](const Variable& a, const Variable& b) { return a / b; }, 0.4));
  infos.push_back(describe(
      "pow", "z = a^b", [](const Variable& a, const Variable& b) { return pow(a, b); }, 0.4));
  infos.push_back(describe(
      "maximum", "z = max(a, b)", [](const Variable& a, const Variable& b) { return maximum(a, b); }, -2));
  infos.push_back(describe(
      "minimum", "z = min(a, b)", [](const Variable& a, const Variable& b) { return minimum(a, b); }, -2));

  OpInfo choose{"where", "z = a where c, else b", "", {}, {}};
  OpInfo repeat{"expand", "y = x repeated to a shape it broadcasts to", "", {}, {}};
  OpInfo gather{"sum_to", "y = x summed to a shape that broadcasts to x's", "", {}, {}};
  const std::vector<std::pair<Shape, Shape>> shapes = {
      {{}, {2, 3}}, {{1}, {5}},       {{3, 1}, {3, 4}}, {{0}, {0}}, {{2, 1, 3}, {2, 2, 3}},
      {{5}, {5}},   {{1, 1}, {7, 3}}, {{3}, {2, 0, 3}}, {{}, {1}},  {{1}, {1, 1}}};
  uint64_t seed = 300;
  for (const auto& [small, large] : shapes) {
    for (const auto& [label, x] : sample_layouts(small, ++seed)) {
      const Tensor y = sample_values(large, ++seed);
      const Tensor condition = less(sample_values(large, ++seed), 0);
      choose.samples.push_back({label, {x, y}, [condition](const std::vector<Variable>& in) {
                                  return where(beside(in[0], condition), in[0], in[1]);
                                }});
      repeat.samples.push_back(
          {label, {x}, [to = large](const std::vector<Variable>& in) { return expand(in[0], to); }});
    }
    for (const auto& [label, y] : sample_layouts(large, ++seed)) {
      const Tensor mask = less(sample_values(small, ++seed), 0);
      choose.samples.push_back({label + ", numbers", {y}, [mask](const std::vector<Variable>& in) {
                                  const Tensor there = beside(in[0], mask);
                                  return square(where(there, 3, in[0])) + where(there, in[0], -2);
                                }});
      gather.samples.push_back(
          {label, {y}, [to = small](const std::vector<Variable>& in) { return sum_to(in[0], to); }});
    }
  }
  choose.refused = {[] { where(Tensor::zeros({2}), Variable(Tensor::zeros({2})), Variable(Tensor::zeros({2}))); },
                    [] { where(Tensor::zeros({2}), 0, Variable(Tensor::zeros({2}))); }};
  repeat.refused = {[] { expand(Variable(Tensor::zeros({2})), {3}); }};
  gather.refused = {[] { sum_to(Variable(Tensor::zeros({3})), {2}); }};
  infos.push_back(choose);
  infos.push_back(repeat);
  infos.push_back(gather);
}

const bool kBinaryDescribed = add_family(describe_binary);

}  // namespace bochner

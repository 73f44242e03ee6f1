#include "tests/autograd/op_info.h"

#include <algorithm>

#include "engine/random.h"

namespace bochner {
namespace {

using Describe = void (*)(OpInfos&);

std::vector<Describe>& families() {
  static std::vector<Describe> list;
  return list;
}

}  // namespace

bool add_family(Describe describe) {
  families().push_back(describe);
  return true;
}

// Families are added in no particular order, so the list is sorted by name.
const OpInfos& op_infos() {
  static const OpInfos infos = [] {
    OpInfos list;
    for (const Describe describe : families()) describe(list);
    std::stable_sort(list.begin(), list.end(), [](const OpInfo& a, const OpInfo& b) { return a.name < b.name; });
    return list;
  }();
  return infos;
}

Tensor sample_values(const Shape& shape, uint64_t seed, double low, double high, double margin) {
  Generator generator(seed);
  std::vector<double> values = uniform(shape, generator, low, high, DType::f64).to_vector<double>();
  for (double& value : values) {
    if (value > -margin && value < margin) value += value < 0 ? -margin : margin;
  }
  return Tensor::from(values, shape);
}

std::vector<std::pair<std::string, Tensor>> sample_layouts(const Shape& shape, uint64_t seed, double low, double high,
                                                           double margin) {
  std::vector<std::pair<std::string, Tensor>> layouts;
  layouts.emplace_back(shape.str(), sample_values(shape, seed, low, high, margin));
  if (shape.rank() >= 2) {
    Shape turned = shape;
    std::swap(turned[0], turned[-1]);
    layouts.emplace_back(shape.str() + " transposed",
                         sample_values(turned, seed + 1, low, high, margin).transpose(0, -1));
  }
  if (shape.rank() >= 1) {
    Shape wide = shape;
    wide[-1] = 2 * wide[-1] + 1;
    const Tensor all = sample_values(wide, seed + 2, low, high, margin);
    layouts.emplace_back(shape.str() + " strided", all.slice(-1, 1, 1 + 2 * shape[-1], 2));
    Shape flat = shape;
    flat[0] = 1;
    layouts.emplace_back(shape.str() + " broadcast", sample_values(flat, seed + 3, low, high, margin).expand(shape));
  }
  return layouts;
}

OpInfo describe_on_layouts(uint64_t seed, const char* name, const char* equation, const std::vector<Shape>& shapes,
                           const std::function<Variable(const Variable&)>& f) {
  OpInfo info{name, equation, "", {}, {}};
  for (const Shape& shape : shapes) {
    for (const auto& [label, x] : sample_layouts(shape, ++seed)) {
      info.samples.push_back({label, {x}, [f](const std::vector<Variable>& in) { return f(in[0]); }});
    }
  }
  return info;
}

}  // namespace bochner

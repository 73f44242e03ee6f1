#include "experiments/learners/examples.h"

#include <algorithm>

#include "engine/comm/sequence_slices.h"
#include "engine/error.h"

namespace bochner {

bool Examples::has(std::string_view name) const {
  return std::any_of(tensors.begin(), tensors.end(), [&](const auto& own) { return own.first == name; });
}

const Tensor& Examples::at(std::string_view name) const {
  std::string known;
  for (const auto& [own, tensor] : tensors) {
    if (own == name) return tensor;
    known += (known.empty() ? "" : ", ") + own;
  }
  fail("examples: there is no tensor '{}'; there are: {}", name, known);
}

Examples Examples::to(Device device) const {
  Examples there = *this;
  for (auto& [name, tensor] : there.tensors) tensor = tensor.to(device);
  return there;
}

Examples Examples::part(int64_t i, int64_t parts) const {
  const int64_t begin = i * size() / parts;
  const int64_t end = (i + 1) * size() / parts;
  Examples some;
  for (const auto& [name, tensor] : tensors) some.tensors.emplace_back(name, tensor.slice(0, begin, end));
  some.numbers.assign(numbers.begin() + begin, numbers.begin() + end);
  return some;
}

Examples Examples::of_slice(const SequenceSlice& slice, const std::vector<std::string>& names) const {
  Examples some = *this;
  for (auto& [name, tensor] : some.tensors) {
    if (std::find(names.begin(), names.end(), name) != names.end()) tensor = slice.cut(tensor);
  }
  return some;
}

std::string Examples::shapes() const {
  std::string text;
  for (const auto& [name, tensor] : tensors) text += name + tensor.shape().str();
  return text;
}

Examples ExamplesPlace::put(const Examples& examples) {
  if (device_.is_cpu()) return examples;
  Examples there = examples;
  for (auto& [name, tensor] : there.tensors) {
    Tensor& memory = memory_[name];
    if (!memory.defined() || memory.size() < tensor.size() || memory.dtype() != tensor.dtype()) {
      // If the first sequences are not the longest, longer ones come soon.
      const int64_t size = memory.defined() ? std::max(tensor.size(), 2 * memory.size()) : tensor.size();
      memory = Tensor::empty({size}, tensor.dtype(), device_);
      ++moves_;
    }
    const Tensor place = memory.slice(0, 0, tensor.size()).view(tensor.shape());
    place.copy_(tensor);
    tensor = place;
  }
  return there;
}

}  // namespace bochner

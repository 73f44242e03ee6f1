#include "engine/loop.h"

#include "engine/kernel.h"

namespace bochner {

Loop make_loop(const char* op, std::initializer_list<const Tensor*> operands) {
  BOCHNER_ASSERT(operands.size() >= 1 && operands.size() <= Loop::kOperands);
  const Tensor& first = **operands.begin();
  const int count = static_cast<int>(operands.size());
  Loop loop;
  loop.size = first.size();
  std::array<Dims, Loop::kOperands> strides;
  int o = 0;
  for (const Tensor* operand : operands) {
    require_on(first.device(), op, *operand);
    loop.data[static_cast<size_t>(o)] = operand->raw();
    strides[static_cast<size_t>(o++)] = operand->expand(first.shape()).strides();
  }
  // Axes of size 1 are dropped. An axis is merged with the one inside it if, for every operand, its stride equals the
  // length of the inner axis in memory.
  Dims sizes;
  std::array<Dims, Loop::kOperands> merged;
  for (int axis = 0; axis < first.rank(); ++axis) {
    const int64_t size = first.size(axis);
    if (size == 1) continue;
    bool joins = !sizes.empty();
    for (int i = 0; i < count && joins; ++i) {
      const auto k = static_cast<size_t>(i);
      joins = merged[k].back() == strides[k][axis] * size;
    }
    if (!joins) {
      sizes.push_back(size);
      for (int i = 0; i < count; ++i) merged[static_cast<size_t>(i)].push_back(strides[static_cast<size_t>(i)][axis]);
      continue;
    }
    sizes[-1] *= size;
    for (int i = 0; i < count; ++i) merged[static_cast<size_t>(i)][-1] = strides[static_cast<size_t>(i)][axis];
  }
  if (sizes.empty()) {
    sizes.push_back(1);
    for (auto& m : merged) m.push_back(1);
  }
  loop.rank = sizes.rank();
  for (int axis = 0; axis < loop.rank; ++axis) {
    loop.sizes[static_cast<size_t>(axis)] = sizes[axis];
    for (int i = 0; i < count; ++i) {
      loop.strides[static_cast<size_t>(i)][static_cast<size_t>(axis)] = merged[static_cast<size_t>(i)][axis];
    }
  }
  return loop;
}

}  // namespace bochner

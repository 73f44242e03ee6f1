// The loop over the elements of several tensors that broadcast to one shape. Axes are merged wherever the strides allow
// it; the innermost axis is last. The loop is made once per call in engine/ops and read by the kernels of both
// backends, which never see a shape or a tensor.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>

#include "engine/tensor.h"

namespace bochner {

struct Loop {
  static constexpr int kOperands = 4;

  int rank = 0;      ///< at least 1 after make_loop
  int64_t size = 0;  ///< number of elements
  std::array<int64_t, Dims::kMaxRank> sizes{};
  std::array<std::array<int64_t, Dims::kMaxRank>, kOperands> strides{};  ///< in elements, per operand and axis
  std::array<void*, kOperands> data{};

  template <class T>
  T* at(int operand) const {
    return static_cast<T*>(data[static_cast<size_t>(operand)]);
  }
};

/// Each operand must broadcast to the shape of the first. An operand on another device is refused in the name of `op`.
Loop make_loop(const char* op, std::initializer_list<const Tensor*> operands);

}  // namespace bochner

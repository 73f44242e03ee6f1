// A tensor and its place on the tape. Ops on Variables compute a value and, if an input is on the tape, record their
// backward function.
//
//   Tape tape;                                        // now ops are recorded
//   Variable w = tape.watch(Tensor::scalar(3));
//   Variable y = square(w) + 1;
//   Tensor dy = tape.gradients(y, {w})[0].value();    // 6
#pragma once

#include "engine/tensor.h"

namespace bochner {

class Variable {
 public:
  Variable() = default;
  /// A constant, which gets no gradient.
  Variable(Tensor value) : value_(std::move(value)) {}  // NOLINT: a tensor is a constant variable

  const Tensor& value() const { return value_; }
  bool defined() const { return value_.defined(); }
  const Shape& shape() const { return value_.shape(); }
  int rank() const { return value_.rank(); }
  int64_t size() const { return value_.size(); }
  int64_t size(int axis) const { return value_.size(axis); }
  DType dtype() const { return value_.dtype(); }
  Device device() const { return value_.device(); }
  double item() const { return value_.item(); }

  /// Whether this depends on something that a tape watches.
  bool tracked() const { return node_ >= 0; }
  /// The same value, as a constant.
  Variable detach() const { return value_; }

 private:
  friend class Tape;
  Tensor value_;
  uint64_t tape_ = 0;  ///< serial number of the tape it is on
  int64_t node_ = -1;
};

}  // namespace bochner

// Tensors: a view (offset, shape, element strides) of a reference-counted storage. Views are free; copies are explicit.
// A tensor knows nothing about gradients: see autograd/variable.h.
//
//   Tensor x = Tensor::from({1.f, 2.f, 3.f, 4.f}, {2, 2});
//   Tensor y = matmul(x, x.transpose(0, 1));      // engine/ops/matmul.h
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/device.h"
#include "engine/dtype.h"
#include "engine/shape.h"
#include "engine/storage.h"

namespace bochner {

class Tensor {
 public:
  /// No tensor at all; `defined()` is false.
  Tensor() = default;

  /// Memory that is not cleared.
  static Tensor empty(const Shape& shape, DType dtype = DType::f32, Device device = Device::cpu());
  static Tensor zeros(const Shape& shape, DType dtype = DType::f32, Device device = Device::cpu());
  /// Of the shape, type and device of x; undefined where x is.
  static Tensor empty_like(const Tensor& x);
  static Tensor zeros_like(const Tensor& x);
  static Tensor full(const Shape& shape, double value, DType dtype = DType::f32, Device device = Device::cpu());
  /// A rank-0 tensor.
  static Tensor scalar(double value, DType dtype = DType::f32, Device device = Device::cpu());
  /// Of the type of `like`, and on its device.
  static Tensor scalar(double value, const Tensor& like) { return scalar(value, like.dtype(), like.device()); }
  /// 0, 1, ..., count - 1.
  static Tensor arange(int64_t count, DType dtype = DType::i64, Device device = Device::cpu());
  /// A copy of `values`, whose number must fit `shape`.
  template <class T>
  static Tensor from(const std::vector<T>& values, const Shape& shape, Device device = Device::cpu());
  template <class T>
  static Tensor from(std::initializer_list<T> values, const Shape& shape, Device device = Device::cpu()) {
    return from(std::vector<T>(values), shape, device);
  }

  bool defined() const { return storage_.get() != nullptr; }
  const Shape& shape() const { return shape_; }
  const Dims& strides() const { return strides_; }
  int rank() const { return shape_.rank(); }
  int64_t size() const { return size_; }
  int64_t size(int axis) const { return shape_[axis]; }
  DType dtype() const { return dtype_; }
  Device device() const;
  bool is_contiguous() const;
  /// Whether both are views of the same storage.
  bool shares_storage(const Tensor& other) const { return defined() && storage_.get() == other.storage_.get(); }
  /// Whether no other tensor is a view of the same storage.
  bool is_alone() const { return storage_.is_only_share(); }

  /// The first element; T must be the tensor's type.
  template <class T>
  T* data() const {
    BOCHNER_ASSERT(dtype_of<T> == dtype_);
    return static_cast<T*>(raw());
  }
  void* raw() const {
    return !defined() ? nullptr : storage_->data() + offset_ * static_cast<int64_t>(size_of(dtype_));
  }

  // ---- views: no element is copied

  /// The same elements in another shape; one size may be -1. An Error if the strides do not allow a view.
  Tensor view(const Shape& shape) const;
  /// Like view, but copies if no view exists.
  Tensor reshape(const Shape& shape) const;
  Tensor permute(const Dims& axes) const;
  Tensor transpose(int a, int b) const;
  /// Elements [begin, end) of an axis, every `step`-th.
  Tensor slice(int axis, int64_t begin, int64_t end, int64_t step = 1) const;
  /// Element `index` of an axis, which disappears.
  Tensor select(int axis, int64_t index) const;
  /// The tensor x with x.select(axis, i) = parts[i], if the parts are views of one storage at equal distances, as parts
  /// of one tensor are; otherwise undefined. stack() copies instead.
  static Tensor unselect(const std::vector<Tensor>& parts, int axis);
  Tensor unsqueeze(int axis) const;
  Tensor squeeze(int axis) const;
  /// Broadcast to `shape` with strides of 0.
  Tensor expand(const Shape& shape) const;

  // ---- copies

  /// This tensor if it is contiguous, otherwise a contiguous copy; undefined stays undefined.
  Tensor contiguous() const;
  Tensor clone() const;
  Tensor cast(DType dtype) const;
  Tensor to(Device device) const;
  /// Copies the elements of `source` (same shape, any strides and type, any device) into this.
  void copy_(const Tensor& source) const;
  void fill_(double value) const;
  /// How often the storage was overwritten in place: by copy_, fill_, the engine's ops whose names end in _, optimizer
  /// steps and the running statistics of batch_norm.
  uint64_t version() const { return defined() ? storage_->version() : 0; }
  /// Adds one to that count: for code that writes through data() to a tensor that others may have used, which includes
  /// kernels that keep packed copies of weights (packed_weights.h).
  void overwritten() const { storage_->overwritten(); }

  /// The only element, converted.
  double item() const;
  /// All elements in row-major order, copied to the CPU and converted to T.
  template <class T>
  std::vector<T> to_vector() const;
  /// `f32 (2, 3) cpu`, for messages.
  std::string str() const;

 private:
  SharedStorage storage_;
  int64_t offset_ = 0;
  int64_t size_ = 0;
  Shape shape_;
  Dims strides_;
  DType dtype_ = DType::f32;
};

}  // namespace bochner

template <>
struct fmt::formatter<bochner::Tensor> : fmt::formatter<fmt::string_view> {
  template <class Context>
  auto format(const bochner::Tensor& tensor, Context& context) const {
    return fmt::formatter<fmt::string_view>::format(tensor.str(), context);
  }
};

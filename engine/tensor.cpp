#include "engine/tensor.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/ops/copy.h"

namespace bochner {

Tensor Tensor::empty(const Shape& shape, DType dtype, Device device) {
  Tensor tensor;
  tensor.size_ = shape.size();
  tensor.storage_ = std::make_shared<Storage>(
      device, static_cast<size_t>(checked_multiply(tensor.size_, static_cast<int64_t>(size_of(dtype)))));
  tensor.shape_ = shape;
  tensor.strides_ = shape.row_major();
  tensor.dtype_ = dtype;
  return tensor;
}

Tensor Tensor::zeros(const Shape& shape, DType dtype, Device device) { return full(shape, 0, dtype, device); }

Tensor Tensor::empty_like(const Tensor& x) { return x.defined() ? empty(x.shape(), x.dtype(), x.device()) : Tensor(); }

Tensor Tensor::zeros_like(const Tensor& x) { return x.defined() ? zeros(x.shape(), x.dtype(), x.device()) : Tensor(); }

Tensor Tensor::full(const Shape& shape, double value, DType dtype, Device device) {
  Tensor tensor = empty(shape, dtype, device);
  tensor.fill_(value);
  return tensor;
}

Tensor Tensor::scalar(double value, DType dtype, Device device) { return full({}, value, dtype, device); }

Tensor Tensor::arange(int64_t count, DType dtype, Device device) {
  const Tensor tensor = empty({count}, DType::i64, device);
  count_up(tensor);
  return tensor.cast(dtype);
}

template <class T>
Tensor Tensor::from(const std::vector<T>& values, const Shape& shape, Device device) {
  if (static_cast<int64_t>(values.size()) != shape.size()) {
    fail("tensor: {} values do not fill shape {}, which has {} elements", values.size(), shape.str(), shape.size());
  }
  const Tensor tensor = empty(shape, dtype_of<T>);
  std::copy(values.begin(), values.end(), tensor.data<T>());
  return tensor.to(device);
}

Device Tensor::device() const {
  BOCHNER_ASSERT(defined());
  return storage_->device();
}

bool Tensor::is_contiguous() const {
  int64_t expected = 1;
  for (int i = rank() - 1; i >= 0; --i) {
    if (shape_[i] == 1) continue;
    if (strides_[i] != expected) return size_ == 0;
    expected *= shape_[i];
  }
  return true;
}

namespace {

Shape with_inferred_size(const Shape& wanted, int64_t size, const Shape& from) {
  Shape shape = wanted;
  int unknown = -1;
  int64_t known = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] != -1) {
      known = checked_multiply(known, shape[i]);
    } else if (unknown >= 0) {
      fail("reshape: {} leaves two sizes open", wanted.str());
    } else {
      unknown = i;
    }
  }
  if (unknown >= 0) {
    if (known == 0 || size % known != 0)
      fail("reshape: {} has {} elements, which do not fit {}", from.str(), size, wanted.str());
    shape[unknown] = size / known;
  }
  if (shape.size() != size) fail("reshape: {} has {} elements, {} has {}", from.str(), size, shape.str(), shape.size());
  return shape;
}

/// Finds strides with which `to` is a view of elements laid out as (from, strides); false if there are none.
bool view_strides(const Shape& from, const Dims& strides, const Shape& to, Dims& result) {
  result = to.row_major();
  if (to.size() == 0) return true;
  Dims sizes;  // of the axes that matter: the stride of an axis of size 1 has no meaning
  Dims steps;
  for (int axis = 0; axis < from.rank(); ++axis) {
    if (from[axis] == 1) continue;
    sizes.push_back(from[axis]);
    steps.push_back(strides[axis]);
  }
  int t = to.rank() - 1;
  for (int f = sizes.rank() - 1; f >= 0; --f) {
    // Source axes that are consecutive in memory form one long axis.
    const int64_t inner = steps[f];
    int64_t chunk = sizes[f];
    while (f > 0 && steps[f - 1] == steps[f] * sizes[f]) chunk *= sizes[--f];
    int64_t covered = 1;
    while (t >= 0 && covered < chunk) {
      result[t] = inner * covered;
      covered *= to[t--];
    }
    if (covered != chunk) return false;
  }
  return true;
}

}  // namespace

Tensor Tensor::view(const Shape& wanted) const {
  const Shape shape = with_inferred_size(wanted, size_, shape_);
  Tensor result = *this;
  result.shape_ = shape;
  if (is_contiguous()) {
    result.strides_ = shape.row_major();
  } else if (!view_strides(shape_, strides_, shape, result.strides_)) {
    fail("view: {} with strides {} cannot be seen as {} without a copy; use reshape", shape_.str(), strides_.str(),
         shape.str());
  }
  return result;
}

Tensor Tensor::reshape(const Shape& wanted) const {
  const Shape shape = with_inferred_size(wanted, size_, shape_);
  Dims strides;
  if (is_contiguous() || view_strides(shape_, strides_, shape, strides)) return view(shape);
  return contiguous().view(shape);
}

Tensor Tensor::permute(const Dims& axes) const {
  if (axes.rank() != rank()) fail("permute: {} axes given for {}", axes.rank(), shape_.str());
  Tensor result = *this;
  std::array<bool, Dims::kMaxRank> seen{};
  for (int i = 0; i < rank(); ++i) {
    const int axis = shape_.checked(static_cast<int>(axes[i]));
    if (std::exchange(seen[static_cast<size_t>(axis)], true)) fail("permute: {} names axis {} twice", axes.str(), axis);
    result.shape_[i] = shape_[axis];
    result.strides_[i] = strides_[axis];
  }
  return result;
}

Tensor Tensor::transpose(int a, int b) const {
  a = shape_.checked(a);
  b = shape_.checked(b);
  Tensor result = *this;
  std::swap(result.shape_[a], result.shape_[b]);
  std::swap(result.strides_[a], result.strides_[b]);
  return result;
}

Tensor Tensor::slice(int axis, int64_t begin, int64_t end, int64_t step) const {
  axis = shape_.checked(axis);
  if (step < 1) fail("slice: step {} must be at least 1", step);
  if (begin < 0 || begin > end || end > shape_[axis]) {
    fail("slice: [{}, {}) does not lie within axis {} of {}", begin, end, axis, shape_.str());
  }
  Tensor result = *this;
  result.shape_[axis] = ceil_div(end - begin, step);
  result.offset_ += begin * strides_[axis];
  result.strides_[axis] *= step;
  result.size_ = result.shape_.size();
  return result;
}

Tensor Tensor::select(int axis, int64_t index) const {
  axis = shape_.checked(axis);
  if (index < -shape_[axis] || index >= shape_[axis]) {
    fail("select: index {} lies outside axis {} of {}", index, axis, shape_.str());
  }
  if (index < 0) index += shape_[axis];
  return slice(axis, index, index + 1).squeeze(axis);
}

Tensor Tensor::unsqueeze(int axis) const {
  const int position = axis < 0 ? axis + rank() + 1 : axis;
  if (position < 0 || position > rank()) fail("unsqueeze: axis {} lies outside {}", axis, shape_.str());
  Tensor result = *this;
  result.strides_.insert(position, position < rank() ? shape_[position] * strides_[position] : 1);
  result.shape_.insert(position, 1);
  return result;
}

Tensor Tensor::unselect(const std::vector<Tensor>& parts, int axis) {
  if (parts.size() < 2 || !parts[0].defined()) return {};
  const Tensor& first = parts[0];
  const int position = axis < 0 ? axis + first.rank() + 1 : axis;
  if (position < 0 || position > first.rank()) fail("unselect: axis {} lies outside {}", axis, first.shape_.str());
  const int64_t distance = parts[1].offset_ - first.offset_;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Tensor& part = parts[i];
    const bool fits = part.shares_storage(first) && part.dtype_ == first.dtype_ && part.shape_ == first.shape_ &&
                      part.strides_ == first.strides_ &&
                      part.offset_ - first.offset_ == static_cast<int64_t>(i) * distance;
    if (!fits || distance <= 0) return {};
  }
  Tensor result = first;
  result.shape_.insert(position, static_cast<int64_t>(parts.size()));
  result.strides_.insert(position, distance);
  result.size_ = result.shape_.size();
  return result;
}

Tensor Tensor::squeeze(int axis) const {
  axis = shape_.checked(axis);
  if (shape_[axis] != 1) fail("squeeze: axis {} of {} has size {}, not 1", axis, shape_.str(), shape_[axis]);
  Tensor result = *this;
  result.shape_.erase(axis);
  result.strides_.erase(axis);
  return result;
}

Tensor Tensor::expand(const Shape& shape) const {
  if (shape == shape_) return *this;
  if (!broadcasts_to(shape_, shape)) fail("expand: {} does not broadcast to {}", shape_.str(), shape.str());
  Tensor result = *this;
  result.shape_ = shape;
  result.strides_ = Dims::filled(shape.rank(), 0);
  for (int i = 1; i <= rank(); ++i) result.strides_[-i] = shape_[-i] == 1 ? 0 : strides_[-i];
  result.size_ = shape.size();
  return result;
}

Tensor Tensor::contiguous() const { return is_contiguous() ? *this : clone(); }

Tensor Tensor::clone() const {
  const Tensor copy = empty(shape_, dtype_, device());
  copy.copy_(*this);
  return copy;
}

Tensor Tensor::cast(DType dtype) const {
  if (dtype == dtype_) return *this;
  const Tensor copy = empty(shape_, dtype, device());
  copy.copy_(*this);
  return copy;
}

Tensor Tensor::to(Device target) const {
  if (target == device()) return *this;
  const Tensor copy = empty(shape_, dtype_, target);
  copy.copy_(*this);
  return copy;
}

void Tensor::copy_(const Tensor& source) const { copy(source, *this); }

void Tensor::fill_(double value) const { fill(*this, value); }

double Tensor::item() const {
  if (size_ != 1) fail("item: {} has {} elements, not one", shape_.str(), size_);
  return to_vector<double>()[0];
}

template <class T>
std::vector<T> Tensor::to_vector() const {
  const Tensor flat = to(Device::cpu()).cast(dtype_of<T>).contiguous();
  const T* data = flat.data<T>();
  return std::vector<T>(data, data + flat.size());
}

std::string Tensor::str() const {
  return defined() ? fmt::format("{} {} {}", name_of(dtype_), shape_.str(), device().str()) : "no tensor";
}

#define BOCHNER_TENSOR_TYPES(X) X(float) X(double) X(int32_t) X(int64_t) X(uint8_t) X(bool) X(bfloat16)
#define BOCHNER_INSTANTIATE(T)                                                  \
  template Tensor Tensor::from<T>(const std::vector<T>&, const Shape&, Device); \
  template std::vector<T> Tensor::to_vector<T>() const;
BOCHNER_TENSOR_TYPES(BOCHNER_INSTANTIATE)

}  // namespace bochner

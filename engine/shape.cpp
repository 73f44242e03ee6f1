#include "engine/shape.h"

#include <algorithm>

namespace bochner {

Dims::Dims(std::span<const int64_t> values) {
  if (values.size() > static_cast<size_t>(kMaxRank))
    fail("shape: {} sizes, at most {} are allowed", values.size(), kMaxRank);
  std::copy(values.begin(), values.end(), values_.begin());
  rank_ = static_cast<int>(values.size());
}

Dims Dims::filled(int rank, int64_t value) {
  Dims dims;
  for (int i = 0; i < rank; ++i) dims.push_back(value);
  return dims;
}

void Dims::push_back(int64_t value) {
  if (rank_ == kMaxRank) fail("shape: {} has {} sizes already, at most {} are allowed", str(), rank_, kMaxRank);
  values_[static_cast<size_t>(rank_++)] = value;
}

void Dims::insert(int axis, int64_t value) {
  push_back(value);
  std::rotate(begin() + axis, end() - 1, end());
}

void Dims::erase(int axis) {
  axis = checked(axis);
  std::copy(begin() + axis + 1, end(), begin() + axis);
  values_[static_cast<size_t>(--rank_)] = 0;
}

bool Dims::operator==(const Dims& other) const { return std::equal(begin(), end(), other.begin(), other.end()); }

std::string Dims::str() const {
  std::string text = "(";
  for (int i = 0; i < rank_; ++i) text += (i == 0 ? "" : ", ") + std::to_string(values_[static_cast<size_t>(i)]);
  return text + (rank_ == 1 ? ",)" : ")");
}

void Dims::bad_axis(int axis) const { fail("shape: axis {} lies outside {}, which has {} axes", axis, str(), rank_); }

int64_t checked_multiply(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) fail("shape: {} x {} elements overflow 64 bits", a, b);
  return product;
}

Shape Shape::without_last(int axes) const {
  if (axes > 0) checked(-axes);
  return Dims(std::span(begin(), end() - axes));
}

Shape Shape::with_last(int64_t size) const {
  Shape shape = *this;
  shape[-1] = size;
  return shape;
}

Dims Shape::place(int64_t position) const {
  Dims place = filled(rank(), 0);
  for (int axis = rank() - 1; axis >= 0; --axis) {
    place[axis] = position % (*this)[axis];
    position /= (*this)[axis];
  }
  return place;
}

int64_t Shape::size() const { return size(0, rank()); }

int64_t Shape::size(int begin, int end) const {
  int64_t size = 1;
  for (int axis = begin; axis < end; ++axis) {
    if ((*this)[axis] < 0) fail("shape: {} has a negative size", str());
    size = checked_multiply(size, (*this)[axis]);
  }
  return size;
}

Dims Shape::row_major() const {
  Dims strides = filled(rank(), 1);
  for (int i = rank() - 2; i >= 0; --i) strides[i] = strides[i + 1] * std::max<int64_t>((*this)[i + 1], 1);
  return strides;
}

Shape broadcast(const Shape& a, const Shape& b, const char* op) {
  Shape result = Dims::filled(std::max(a.rank(), b.rank()), 1);
  for (int i = 1; i <= result.rank(); ++i) {
    const int64_t left = i <= a.rank() ? a[-i] : 1;
    const int64_t right = i <= b.rank() ? b[-i] : 1;
    if (left != right && left != 1 && right != 1) {
      fail("{}: {} and {} do not broadcast: sizes {} and {} at axis {} differ and neither is 1", op, a.str(), b.str(),
           left, right, -i);
    }
    result[-i] = left == 1 ? right : left;
  }
  return result;
}

bool broadcasts_to(const Shape& from, const Shape& to) {
  if (from.rank() > to.rank()) return false;
  for (int i = 1; i <= from.rank(); ++i) {
    if (from[-i] != to[-i] && from[-i] != 1) return false;
  }
  return true;
}

}  // namespace bochner

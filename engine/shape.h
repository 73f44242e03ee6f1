// Shapes: up to 8 sizes, outermost first, as in the papers: (batch, heads, length, dim).
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "engine/error.h"

namespace bochner {

/// A short list of at most 8 integers, without heap allocation: sizes, strides, axes.
class Dims {
 public:
  static constexpr int kMaxRank = 8;

  Dims() = default;
  Dims(std::initializer_list<int64_t> values) : Dims(std::span(values.begin(), values.size())) {}
  explicit Dims(std::span<const int64_t> values);
  static Dims filled(int rank, int64_t value);

  int rank() const { return rank_; }
  bool empty() const { return rank_ == 0; }
  int64_t* begin() { return values_.data(); }
  int64_t* end() { return values_.data() + rank_; }
  const int64_t* begin() const { return values_.data(); }
  const int64_t* end() const { return values_.data() + rank_; }

  /// The size at `axis`; negative axes count from the end. An axis outside the rank is an Error.
  int64_t operator[](int axis) const { return values_[static_cast<size_t>(checked(axis))]; }
  int64_t& operator[](int axis) { return values_[static_cast<size_t>(checked(axis))]; }
  int64_t back() const { return (*this)[-1]; }

  void push_back(int64_t value);
  void insert(int axis, int64_t value);
  void erase(int axis);
  bool operator==(const Dims& other) const;

  /// `axis` counted from the front; an Error if there is no such axis.
  int checked(int axis) const {
    const int positive = axis < 0 ? axis + rank_ : axis;
    if (positive < 0 || positive >= rank_) bad_axis(axis);
    return positive;
  }
  /// Prints `(2, 8, 128, 64)`.
  std::string str() const;

 private:
  [[noreturn]] void bad_axis(int axis) const;

  std::array<int64_t, kMaxRank> values_{};
  int rank_ = 0;
};

/// The sizes of a tensor.
class Shape : public Dims {
 public:
  using Dims::Dims;
  Shape() = default;
  Shape(const Dims& dims) : Dims(dims) {}  // NOLINT: a list of sizes is a shape

  /// Number of elements; checked for overflow and for negative sizes.
  int64_t size() const;
  /// Number of elements of axes [begin, end) only.
  int64_t size(int begin, int end) const;
  /// The sizes before the last `axes`; an Error if there are fewer.
  Shape without_last(int axes = 1) const;
  /// The same shape with another last size.
  Shape with_last(int64_t size) const;
  /// The indices of the element at a row-major position.
  Dims place(int64_t position) const;
  /// Element strides of the contiguous, row-major layout.
  Dims row_major() const;
};

/// The shape that both broadcast to (sizes match from the right, or are 1); an Error in the name of `op` if none is.
Shape broadcast(const Shape& a, const Shape& b, const char* op);
/// Whether `from` broadcasts to `to`.
bool broadcasts_to(const Shape& from, const Shape& to);
/// a * b; an Error if it overflows.
int64_t checked_multiply(int64_t a, int64_t b);

}  // namespace bochner

template <>
struct fmt::formatter<bochner::Dims> : fmt::formatter<fmt::string_view> {
  template <class Context>
  auto format(const bochner::Dims& dims, Context& context) const {
    return fmt::formatter<fmt::string_view>::format(dims.str(), context);
  }
};
template <>
struct fmt::formatter<bochner::Shape> : fmt::formatter<bochner::Dims> {};

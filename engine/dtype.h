// Element types. Arithmetic and functions are in f32 and f64; sums, products and comparisons also in i32 and i64; bf16
// is stored, converted and multiplied (bf16.h).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "engine/error.h"
#include "engine/math.h"

namespace bochner {

enum class DType : uint8_t { f32, f64, bf16, i32, i64, u8, boolean };

/// The upper half of a float: 8 bits of exponent, 7 of fraction. Conversion rounds to nearest even.
struct bfloat16 {
  uint16_t bits = 0;

  bfloat16() = default;
  BOCHNER_HD explicit bfloat16(float value) {
    const auto word = math::bits_as<uint32_t>(value);
    if ((word & 0x7fffffffU) > 0x7f800000U) {
      bits = static_cast<uint16_t>((word >> 16) | 0x40U);  // NaN stays NaN
    } else {
      bits = static_cast<uint16_t>((word + 0x7fffU + ((word >> 16) & 1U)) >> 16);
    }
  }
  BOCHNER_HD explicit operator float() const { return math::bits_as<float>(static_cast<uint32_t>(bits) << 16); }
  bool operator==(const bfloat16&) const = default;
};

size_t size_of(DType dtype);
std::string_view name_of(DType dtype);
inline bool is_floating(DType dtype) { return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::bf16; }

template <class T>
struct dtype_of_t;
template <>
struct dtype_of_t<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct dtype_of_t<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct dtype_of_t<bfloat16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct dtype_of_t<int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct dtype_of_t<int64_t> {
  static constexpr DType value = DType::i64;
};
template <>
struct dtype_of_t<uint8_t> {
  static constexpr DType value = DType::u8;
};
template <>
struct dtype_of_t<bool> {
  static constexpr DType value = DType::boolean;
};
template <class T>
inline constexpr DType dtype_of = dtype_of_t<T>::value;

template <class T>
struct TypeTag {
  using type = T;
};

/// Calls f(TypeTag<float>{}) or f(TypeTag<double>{}); any other type is refused in the name of `op`.
template <class F>
decltype(auto) visit_floating(DType dtype, const char* op, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f(TypeTag<float>{});
    case DType::f64:
      return f(TypeTag<double>{});
    default:
      fail("{}: needs f32 or f64, got {}; convert with cast()", op, name_of(dtype));
  }
}

/// Refuses the types that visit_floating refuses.
inline void require_floating(DType dtype, const char* op) {
  visit_floating(dtype, op, [](auto) {});
}

/// Like visit_floating, for f32, f64, i32 and i64.
template <class F>
decltype(auto) visit_numeric(DType dtype, const char* op, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f(TypeTag<float>{});
    case DType::f64:
      return f(TypeTag<double>{});
    case DType::i32:
      return f(TypeTag<int32_t>{});
    case DType::i64:
      return f(TypeTag<int64_t>{});
    default:
      fail("{}: needs f32, f64, i32 or i64, got {}; convert with cast()", op, name_of(dtype));
  }
}

inline void require_numeric(DType dtype, const char* op) {
  visit_numeric(dtype, op, [](auto) {});
}

/// Like visit_floating, for every type.
template <class F>
decltype(auto) visit_all(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f(TypeTag<float>{});
    case DType::f64:
      return f(TypeTag<double>{});
    case DType::bf16:
      return f(TypeTag<bfloat16>{});
    case DType::i32:
      return f(TypeTag<int32_t>{});
    case DType::i64:
      return f(TypeTag<int64_t>{});
    case DType::u8:
      return f(TypeTag<uint8_t>{});
    case DType::boolean:
      return f(TypeTag<bool>{});
  }
  internal_failure("a known dtype", __FILE__, __LINE__);
}

}  // namespace bochner

template <>
struct fmt::formatter<bochner::DType> : fmt::formatter<fmt::string_view> {
  template <class Context>
  auto format(bochner::DType dtype, Context& context) const {
    const std::string_view name = bochner::name_of(dtype);
    return fmt::formatter<fmt::string_view>::format({name.data(), name.size()}, context);
  }
};

// How exactly matrix products of f32 tensors are computed on a card; the CPU always uses f32. Everything else, sums
// within products included, stays in f32.
#pragma once

#include <cstdint>
#include <string_view>

namespace bochner {

enum class Precision : uint8_t {
  f32,   ///< as on the CPU
  tf32,  ///< factors rounded to 11 bits
  bf16   ///< factors rounded to 8 bits
};

/// The one in use by all matrix products; f32 unless set.
Precision precision();
void set_precision(Precision precision);
/// `f32`, `tf32` or `bf16`; an Error for other names.
Precision precision_named(std::string_view name);

}  // namespace bochner

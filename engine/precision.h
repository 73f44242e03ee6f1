// How exactly a model is computed. On a GPU, this says to what the factors of matrix products of f32 tensors are
// rounded; the CPU does not round those. With bf16, models also store activations in bf16 (layers/mixed_precision.h),
// on either device, and products of such activations round their factors to bf16 (engine/cpu/bf16/product.h defines the
// order in which the CPU adds). Parameters, and everything that is accumulated, stay in f32.
#pragma once

#include <cstdint>
#include <string_view>

namespace bochner {

enum class Precision : uint8_t {
  f32,   ///< as on the CPU
  tf32,  ///< factors rounded to 11 bits
  bf16   ///< factors rounded to 8 bits, activations stored in 16
};

/// The precision that all matrix products use; f32 unless set.
Precision precision();
void set_precision(Precision precision);
/// `f32`, `tf32` or `bf16`; an Error for other names.
Precision precision_named(std::string_view name);

}  // namespace bochner

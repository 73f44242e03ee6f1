// The measured limits of this processor, to compare a kernel's speed with.
#pragma once

namespace bochner::cpu {

/// Multiplications and additions of f32 per second by all threads of parallel loops, in registers only.
double multiply_add_peak();
/// The same for products of bf16 (engine/cpu/bf16/product.h), with matrices in the caches.
double bf16_product_peak();
/// The peak of whichever of the two this process multiplies in (engine/precision.h).
double product_peak();
/// Bytes per second that all threads read and write when they copy memory that is not in a cache.
double copy_bandwidth();

}  // namespace bochner::cpu

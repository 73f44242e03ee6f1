// The measured limits of this processor, with which a kernel's speed is compared.
#pragma once

namespace bochner::cpu {

/// Multiplications and additions of f32 per second by all threads of parallel loops, in registers alone.
double multiply_add_peak();
/// The same of products of bf16 (engine/cpu/bf16/product.h), whose matrices are in the caches.
double bf16_product_peak();
/// That of the two in which this process multiplies (engine/precision.h).
double product_peak();
/// Bytes per second that all threads read and write when they copy memory that is in no cache.
double copy_bandwidth();

}  // namespace bochner::cpu

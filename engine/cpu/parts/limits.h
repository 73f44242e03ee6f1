// What this processor can do at most, measured: what a kernel's speed is held against.
#pragma once

namespace bochner::cpu {

/// Multiplications and additions of f32 per second by all threads of parallel loops, in registers alone.
double multiply_add_peak();
/// Bytes per second that all threads read and write when they copy memory that no cache holds.
double copy_bandwidth();

}  // namespace bochner::cpu

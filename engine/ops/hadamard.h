// The fast Walsh-Hadamard transform: the H of FastFood (Le, Sarlos, Smola, ICML 2013) and of structured random
// rotations.
#pragma once

#include "engine/tensor.h"

namespace bochner {

/// y = H_n x along the last axis, whose size n = 2^k must be a power of two, in n log2 n additions:
///   H_1 = (1),  H_2n = [H_n H_n; H_n -H_n],  that is H_ij = (-1)^popcount(i & j)
/// in natural (Sylvester) order and not normalised: H H = n I, H^T = H. So the derivative is the transform again. f32,
/// f64.
Tensor hadamard(const Tensor& x);
/// In place.
void hadamard_(const Tensor& x);

}  // namespace bochner

// LAPACK on the CPU for tensors on a card: inputs are copied to the CPU and results back. Both copies wait for the
// device. The factorisations of this project are small (frequencies, landmarks) and rare.
#pragma once

#include "engine/cpu/linalg.h"

namespace bochner::cuda {

decltype(cpu::check_finite) check_finite;
decltype(cpu::qr) qr;
decltype(cpu::eigh) eigh;
decltype(cpu::svd) svd;
decltype(cpu::invert_spectrum) invert_spectrum;
decltype(cpu::cholesky) cholesky;
decltype(cpu::triangular_solve) triangular_solve;
decltype(cpu::solve) solve;

}  // namespace bochner::cuda

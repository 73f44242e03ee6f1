// Runs any mechanism on the caller's own tensors, from one safetensors file to another, to compare it with another
// implementation.
#pragma once

#include <filesystem>
#include <string>

#include "engine/io/safetensors.h"
#include "layers/attention/mechanism.h"

namespace bochner {

struct AttentionCall {
  MechanismOptions mechanism;
  bool causal = false;
  bool training = false;
  bool matrix = false;  ///< also A, from one-hot values (PERF C.4)
  uint64_t seed = 1;    ///< of initial values and of all draws
};

/// Reads Q, K (B, H, L, D), V (B, H, L, E) and optionally `mask` (B, L), dO (B, H, L, E), and parameters and buffers by
/// name (frequencies.noise, E, ...). Returns O; with dO, also dQ, dK, dV and the gradient d<name> of each parameter;
/// every parameter and buffer that was used; Omega if there is one; and A (B, H, Lq, Lk) if requested. Computed in the
/// type of Q, f32 or f64. An Error names a tensor that is missing, unknown or of the wrong shape.
TensorMap attend_tensors(const AttentionCall& call, const TensorMap& given);

/// What --list prints: a line for each mechanism.
std::string mechanisms_table();

}  // namespace bochner

#pragma once

#include "engine/cpu/embedding.h"

namespace bochner::cuda {

/// An id outside the table becomes an Error at the next read by the host, and gives zeros.
decltype(cpu::embedding) embedding;
decltype(cpu::embedding_backward) embedding_backward;

}  // namespace bochner::cuda

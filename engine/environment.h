// All environment variables that the engine reads. Any other one whose name begins with BOCHNER_ sets an option of a
// program, or is a mistake (experiments/common/program/settings.h).
#pragma once

#include <array>

namespace bochner {

inline constexpr std::array kEngineVariables = {
    "BOCHNER_BF16",             // pairs or tiles: the order in which products of bf16 add (cpu/bf16/product.h)
    "BOCHNER_NCCL",             // the file of NVIDIA's NCCL (comm/nccl.h)
    "BOCHNER_EMULATED_CARDS",   // how many cards tests emulate, and
    "BOCHNER_EMULATED_SHARED",  // how many bytes of shared memory a block of theirs may have (cuda/emulated)
};

}  // namespace bochner

// A picture that shows some images of each difficulty and label.
#pragma once

#include <cstdint>

#include "engine/tensor.h"

namespace bochner::pathfinder {

/// Grey u8 (height, width). A row for each difficulty, the easy one first: the first four images of that seed whose
/// discs lie on one contour on the left, the first four others on the right. Images of 32 and 64 pixels are enlarged.
Tensor samples(int64_t size, uint64_t seed);

}  // namespace bochner::pathfinder

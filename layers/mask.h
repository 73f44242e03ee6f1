// Which keys a query may look at.
#pragma once

#include "engine/tensor.h"

namespace bochner {

struct Mask {
  Tensor keys;          ///< bool (batch, length), true at real tokens; undefined: every key is real
  bool causal = false;  ///< query i sees keys 0 ... i only
  int64_t first = 0;    ///< position of the first token in its sequence, of which these may be a slice
};

}  // namespace bochner

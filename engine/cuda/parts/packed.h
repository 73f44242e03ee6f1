// The input of kernels for tensor cores: the tokens of each head, rounded to bf16, in tiles of 64.
#pragma once

#include "engine/cuda/parts/tile.h"
#include "engine/dtype.h"
#include "engine/ops/weight_sums.h"

namespace bochner::cuda {

constexpr int kTile = 64;      // tokens, or frequencies, per tile in shared memory
constexpr int kPadding = 128;  // packed lengths are multiples of this
constexpr int kGap = 8;        // after each row of a tile, so that rows begin in different banks
constexpr float kLog2E = 1.44269504f;

inline int64_t padded_length(int64_t length) { return round_up(length, kPadding); }

/// to (jobs, padded, D) = factor * x, or (jobs, D, padded) where transposed; 0 beyond the length and at hidden keys.
struct Pack {
  int64_t heads, length, padded, dim;
  bool transposed;
  float factor;
  const float* denominators;  ///< (jobs, length): x is divided by these, unless null; division by 0 gives 0
  StoredTokens x;
  KeyMask mask;
  bfloat16* to;
  BOCHNER_DEVICE void operator()(int64_t i) const {
    const int64_t job = i / (padded * dim);
    const int64_t at = i % (padded * dim);
    const int64_t token = transposed ? at % padded : at / dim;
    const int64_t column = transposed ? at / padded : at % dim;
    float value = 0;
    if (token < length && mask.real(job / heads, token)) {
      value = factor * x.head(job / heads, job % heads).get(token, column);
      if (denominators != nullptr) {
        value *= inverse_in_gradients(denominators[job * length + token]);
      }
    }
    to[i] = bfloat16(value);
  }
};

/// A packed copy of (batch, heads, length, D), padded to whole tiles unless another length is given. Jobs are numbered
/// b * heads + h.
class Packed {
 public:
  Packed(const Tensor& x, float factor, bool transposed, const Tensor& mask = {}, const float* denominators = nullptr,
         int64_t padded = 0)
      : tensor_(Tensor::empty({x.size(0) * x.size(1), padded > 0 ? padded : padded_length(x.size(2)), x.size(3)},
                              DType::bf16, x.device())) {
    launch_threads(tensor_.size(), Pack{x.size(1), x.size(2), tensor_.size(1), x.size(3), transposed, factor,
                                        denominators, StoredTokens(x), KeyMask(mask), tensor_.data<bfloat16>()});
  }
  const bfloat16* data() const { return tensor_.data<bfloat16>(); }

 private:
  Tensor tensor_;
};

}  // namespace bochner::cuda

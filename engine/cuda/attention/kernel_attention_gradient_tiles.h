// The gradients of tokens and of Omega, as kernel_attention_tiles.h describes them.
#pragma once

#include "engine/cuda/attention/kernel_attention_tiles.h"

namespace bochner::cuda {

/// Writes dQ or dK: the gradient through u and, for maps with an exponent, through |x|^2.
template <int D, Form form>
struct GradientRows {
  const Phi<form>& phi;
  int64_t heads;
  const TokenSide& tokens;
  const KeyMask& mask;
  const StoredTokens& to;

  /// `slope` is the gradient of each token's exponent.
  BOCHNER_DEVICE void write(int64_t job, int64_t token, Sum<D / 8>& dx, const RowValues& slope) const {
    const int64_t b = job / heads;
    const StoredTokens::Head out = to.head(b, job % heads);
    const bfloat16* x = tokens.x.at(job, token);
    const int64_t stride = tokens.x.tokens.stride;
    const float norm_slope = phi.rule.norm_slope() * phi.scale;
    dx.each(slope, [&](int row, int column, float& value, float by) {
      if (token + row >= tokens.length) return;
      if (phi.rule.exponent) value += by * norm_slope * static_cast<float>(x[row * stride + column]);
      out.put(token + row, column, mask.real(b, token + row) ? phi.scale * value : 0.0f);
    });
  }
};

}  // namespace bochner::cuda

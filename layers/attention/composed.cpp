#include "layers/attention/composed.h"

#include <cmath>
#include <limits>

#include "autograd/ops/binary.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/view.h"

namespace bochner::composed {
namespace {

/// (1, 1, Lq, Lk), true where key j <= query i.
Tensor causal_mask(int64_t queries, int64_t keys, Device device) {
  const Tensor i = Tensor::arange(queries, DType::i64, device).view({queries, 1});
  const Tensor j = Tensor::arange(keys, DType::i64, device).view({1, keys});
  return less_equal(j, i).view({1, 1, queries, keys});
}

}  // namespace

Variable softmax_attention(const Variable& Q, const Variable& K, const Variable& V, const Mask& mask) {
  const double scale = 1 / std::sqrt(static_cast<double>(Q.size(-1)));
  Variable scores = matmul(Q * scale, transpose(K, -2, -1));  // (B, H, Lq, Lk)
  const Variable hidden = Tensor::scalar(-std::numeric_limits<double>::infinity(), Q.dtype(), Q.device());
  if (mask.keys.defined()) {
    scores = where(mask.keys.view({mask.keys.size(0), 1, 1, mask.keys.size(1)}), scores, hidden);
  }
  if (mask.causal) scores = where(causal_mask(Q.size(-2), K.size(-2), Q.device()), scores, hidden);
  return matmul(softmax(scores), V);  // (B, H, Lq, D)
}

}  // namespace bochner::composed

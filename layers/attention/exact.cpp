#include "layers/attention/exact.h"

#include "layers/attention/composed.h"

namespace bochner {

Variable SoftmaxAttention::forward(const Variable& Q, const Variable& K, const Variable& V, const Mask& mask,
                                   Context&) {
  const Scope scope(name());
  return composed::softmax_attention(Q, K, V, mask);
}

}  // namespace bochner

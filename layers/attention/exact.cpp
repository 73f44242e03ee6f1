#include "layers/attention/exact.h"

#include <cmath>

#include "autograd/fused/softmax_attention.h"

namespace bochner {

Variable SoftmaxAttention::forward(const Variable& Q, const Variable& K, const Variable& V, const Mask& mask,
                                   Context& context) {
  const Scope scope(name());
  SoftmaxAttentionOptions options{1 / std::sqrt(static_cast<double>(Q.size(-1))), mask.causal, {}};
  if (context.training && options_.dropout > 0) {
    const int64_t weights = Q.size(0) * Q.size(1) * Q.size(2) * K.size(2);
    options.dropout = Dropout::draw(options_.dropout, weights, context.generator);
  }
  return options_.streaming ? softmax_attention(options, Q, K, V, mask.keys)
                            : composed::softmax_attention(options, Q, K, V, mask.keys);
}

}  // namespace bochner

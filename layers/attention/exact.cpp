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

void describe_softmax(Mechanisms& list) {
  list.push_back({"softmax", 2017, "Vaswani et al.", "O = softmax(Q K^T / sqrt D) V", "", "L^2 D", true, "",
                  "dropout, streaming", [](Slot slot, int64_t, int64_t, const AttentionOptions& options, Generator&) {
                    return std::make_unique<SoftmaxAttention>(slot, options);
                  }});
}

void describe_none(Mechanisms& list) {
  list.push_back({"none", 2021, "PERF Figs. 3, 20, 21 (X)", "O = V", "", "0", true, "", "",
                  [](Slot slot, int64_t, int64_t, const AttentionOptions&, Generator&) {
                    return std::make_unique<NoAttention>(slot);
                  }});
}

}  // namespace bochner

// Attention without an approximation.
#pragma once

#include "layers/attention/mechanism.h"

namespace bochner {

/// O = softmax(Q K^T / sqrt(D)) V  (Vaswani et al., 2017). Streaming: the length x length scores are never written.
class SoftmaxAttention : public Mechanism {
 public:
  SoftmaxAttention(Slot slot, const AttentionOptions& options) : Mechanism(std::move(slot)), options_(options) {}
  Variable forward(const Variable& Q, const Variable& K, const Variable& V, const Mask& mask,
                   Context& context) override;
  bool reads_bf16() const override { return options_.streaming; }

 private:
  AttentionOptions options_;
};

/// O = V: the X-line of PERF Figs. 3, 20 and 21, what a Transformer costs without its attention.
class NoAttention : public Mechanism {
 public:
  explicit NoAttention(Slot slot) : Mechanism(std::move(slot)) {}
  Variable forward(const Variable& Q, const Variable& K, const Variable& V, const Mask&, Context&) override {
    require_self_attention("none", Q, K);
    return V;
  }
  bool reads_bf16() const override { return true; }
};

}  // namespace bochner

// Attention without an approximation, and without attention.
#include <cmath>

#include "autograd/fused/softmax_attention.h"
#include "engine/comm/sequence_slices.h"
#include "layers/attention/blocks.h"

namespace bochner {
namespace {

/// O = softmax(Q K^T / sqrt(D)) V  (Vaswani et al., 2017). Streaming: the length x length scores are never written.
class SoftmaxAttention : public Mechanism {
 public:
  using Options = Joined<WeightDropout, FusedKernels>;

  SoftmaxAttention(Slot slot, int64_t /*heads*/, int64_t /*dim*/, const Options& options, Generator& /*init*/)
      : Mechanism(std::move(slot)), options_(options) {}

  Variable forward(const Variable& Q, const Variable& K, const Variable& V, const Mask& mask,
                   Context& context) override {
    const Scope scope(name());
    const int64_t keys = context.slice == nullptr ? K.size(2) : context.slice->length() + 1;  // and a CLS vector
    const SoftmaxAttentionOptions options{1 / std::sqrt(static_cast<double>(Q.size(-1))), mask.causal,
                                          dropout_of_weights(options_.dropout, Q, keys, context), context.slice};
    return options_.streaming ? softmax_attention(options, Q, K, V, mask.keys)
                              : composed::softmax_attention(options, Q, K, V, mask.keys);
  }
  bool reads_bf16() const override { return options_.streaming; }
  bool takes_slices() const override { return options_.streaming; }

 private:
  Options options_;
};

/// O = V: the X-line of PERF Figs. 3, 20 and 21, which shows what a Transformer costs without its attention.
class NoAttention : public Mechanism {
 public:
  using Options = NoOptions;

  NoAttention(Slot slot, int64_t /*heads*/, int64_t /*dim*/, const Options& /*options*/, Generator& /*init*/)
      : Mechanism(std::move(slot)) {}

  Variable forward(const Variable& Q, const Variable& K, const Variable& V, const Mask&, Context&) override {
    require_self_attention("none", Q, K);
    return V;
  }
  bool takes_slices() const override { return true; }
  bool reads_bf16() const override { return true; }
};

}  // namespace

void describe_softmax(Mechanisms& list) {
  list.push_back({.name = "softmax",
                  .year = 2017,
                  .paper = "Vaswani et al.",
                  .equation = "O = softmax(Q K^T / sqrt D) V",
                  .cost = "L^2 D",
                  .causal = true,
                  .slices = true,
                  .maker = made_as<SoftmaxAttention>()});
}

void describe_none(Mechanisms& list) {
  list.push_back({.name = "none",
                  .year = 2021,
                  .paper = "PERF Figs. 3, 20, 21 (X)",
                  .equation = "O = V",
                  .cost = "nothing",
                  .causal = true,
                  .slices = true,
                  .maker = made_as<NoAttention>()});
}

}  // namespace bochner

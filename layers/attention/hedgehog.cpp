// Hedgehog (Zhang, Bhatia, Kumbong, Ré, "The Hedgehog & the Porcupine: Expressive Linear Attentions with Softmax
// Mimicry", ICLR 2024): features that learn to give the spiky weights of softmax.
#include "autograd/fused/kernel_attention.h"
#include "autograd/ops/join.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/unary.h"
#include "autograd/ops/view.h"
#include "layers/attention/gaussian.h"
#include "layers/attention/mechanism.h"

namespace bochner {
namespace {

class Hedgehog : public Mechanism {
 public:
  using Options = FusedKernels;

  Hedgehog(Slot slot, int64_t heads, int64_t dim, const Options& options, Generator& /*init*/)
      : Mechanism(std::move(slot)),
        Wq_(parameter("Wq", identities(heads, dim))),
        Wk_(parameter("Wk", identities(heads, dim))),
        streaming_(options.streaming) {}

  // O_i = sum_j w_ij v_j / sum_j w_ij,  w_ij = phi(Wq q_i) . phi(Wk k_j)
  Variable forward(const Variable& Q, const Variable& K, const Variable& V, const Mask& mask,
                   Context& context) override {
    const Scope scope(name());
    KernelAttentionSpec spec;
    spec.map = {.kind = FeatureMap::Kind::elementwise, .function = FeatureMap::Function::identity, .eps = 0};
    spec.causal = mask.causal;
    spec.slice = context.slice;
    const Variable q = phi(Q, Wq_);
    const Variable k = phi(K, Wk_);
    return streaming_ ? kernel_attention(spec, q, k, V, {}, mask.keys)
                      : composed::kernel_attention(spec, q, k, V, {}, mask.keys);
  }
  bool takes_slices() const override { return streaming_; }

 private:
  static Tensor identities(int64_t heads, int64_t dim) {
    return identity(dim, DType::f32, Device::cpu()).unsqueeze(0).expand({heads, dim, dim}).clone();
  }

  // phi(u) = softmax(u, -u):  x (B, H, L, D), u = W x -> (B, H, L, 2 D)
  static Variable phi(const Variable& x, const Variable& W) {
    const Variable u = matmul(x, transpose(W, -2, -1));
    return softmax(concat({u, -u}, -1));
  }

  Parameter& Wq_;  ///< (heads, D, D), the identity at first
  Parameter& Wk_;  ///< the same for keys
  bool streaming_;
};

}  // namespace

void describe_hedgehog(Mechanisms& list) {
  list.push_back({.name = "hedgehog",
                  .year = 2024,
                  .paper = "Zhang et al.",
                  .equation = "phi(x) = softmax(W x, -W x)",
                  .approximates = "a learnt kernel",
                  .cost = "L D^2",
                  .causal = true,
                  .slices = true,
                  .learns = "W of queries and of keys",
                  .maker = made_as<Hedgehog>()});
}

}  // namespace bochner

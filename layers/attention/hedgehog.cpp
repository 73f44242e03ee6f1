// Hedgehog (Zhang, Bhatia, Kumbong, Ré, "The Hedgehog & the Porcupine: Expressive Linear Attentions with Softmax
// Mimicry", ICLR 2024): features that learn to imitate the spiky weights of softmax.
#include "autograd/fused/kernel_attention.h"
#include "autograd/ops/join.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/unary.h"
#include "autograd/ops/view.h"
#include "engine/ops/linalg.h"
#include "layers/attention/gaussian.h"
#include "layers/attention/mechanism.h"

namespace bochner {
namespace {

class Hedgehog : public Mechanism {
 public:
  struct Options : FusedKernels {
    int64_t maps = 1;
    void options(OptionList& list) {
      FusedKernels::options(list);
      list("maps", maps, "learnt matrices for each head, of twice the head's size of features each; 1 in the paper")
          .at_least(1)
          .at_most(1 << 10);
    }
  };

  Hedgehog(Slot slot, int64_t heads, int64_t dim, const Options& options, Generator& init)
      : Mechanism(std::move(slot)),
        Wq_(parameter("Wq", rotations(heads, dim, options.maps, init))),
        Wk_(parameter("Wk", Wq_.value.clone())),
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
  /// The identity, followed by random rotations, the same for queries and keys.  (heads, maps D, D)
  static Tensor rotations(int64_t heads, int64_t dim, int64_t maps, Generator& init) {
    Tensor W = Tensor::empty({heads, maps * dim, dim});
    for (int64_t m = 0; m < maps; ++m) {
      const Tensor rotation = m == 0 ? identity(dim, DType::f32, Device::cpu()) : qr(normal({dim, dim}, init), true).q;
      W.slice(1, m * dim, (m + 1) * dim).copy_(rotation.unsqueeze(0).expand({heads, dim, dim}));
    }
    return W;
  }

  // phi(u) = softmax(u, -u):  x (B, H, L, D), u = W x -> (B, H, L, 2 maps D)
  static Variable phi(const Variable& x, const Variable& W) {
    const Variable u = matmul(x, transpose(W, -2, -1));
    return softmax(concat({u, -u}, -1));
  }

  Parameter& Wq_;  ///< (heads, maps D, D)
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

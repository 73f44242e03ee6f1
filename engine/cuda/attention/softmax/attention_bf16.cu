#include "engine/cuda/attention/softmax/attention_bf16.h"

#include "engine/cuda/attention/softmax/gradient_groups.h"
#include "engine/cuda/attention/softmax/ways.h"
#include "engine/precision.h"

namespace bochner::cuda {
namespace {

using softmax_tiles::Attention;
using softmax_tiles::kThreads;

/// Whether x is bf16 and each row begins at a multiple of 16 bytes.
bool can_load_by_eight(const Tensor& x) {
  if (x.dtype() != DType::bf16 || reinterpret_cast<uintptr_t>(x.raw()) % 16 != 0) return false;
  for (int axis = 0; axis < 3; ++axis) {
    if (x.size(axis) > 1 && x.strides()[axis] % 8 != 0) return false;
  }
  return true;
}

/// factor * x in bf16: x itself if the tensor cores can read it in place, otherwise a copy.
Tensor in_bf16(const Tensor& x, float factor = 1) {
  if (factor == 1 && can_load_by_eight(x)) return x;
  const Tensor to = Tensor::empty(x.shape(), DType::bf16, x.device());
  launch_threads(to.size() / 8,
                 softmax_tiles::Round{StoredTokens(x), x.size(1), x.size(2), static_cast<int>(x.size(3) / 8), factor,
                                      reinterpret_cast<Eight*>(to.data<bfloat16>())});
  return to;
}

/// Q, K and V in bf16. Scores are scale * q . k; the maximum of q . k must be that of the scores, so a scale that is
/// not positive is multiplied into q instead.
struct Inputs {
  float scale;
  Tensor q, k, v, real;

  Inputs(const Tensor& Q, const Tensor& K, const Tensor& V, const Tensor& key_mask, double scale_)
      : scale(scale_ > 0 ? static_cast<float>(scale_) : 1.0f),
        q(in_bf16(Q, scale_ > 0 ? 1.0f : static_cast<float>(scale_))),
        k(in_bf16(K)),
        v(in_bf16(V)),
        real(packed_mask(key_mask)) {}

  Attention attention(const SoftmaxAttentionOptions& options) const {
    return {q.size(1),
            static_cast<int>(q.size(2)),
            static_cast<int>(k.size(2)),
            scale * kLog2E,
            options.causal,
            KeptBits(options.dropout),
            static_cast<float>(options.dropout.scale()),
            real.defined() ? static_cast<const uint64_t*>(real.raw()) : nullptr,
            Tokens<const bfloat16>(q),
            Tokens<const bfloat16>(k),
            Tokens<const bfloat16>(v)};
  }
};

bool by_groups() { return softmax_ways.by_groups && platform::has_warp_groups(); }

/// body(integral constants: the head size, whether there is dropout)
template <class Body>
void with_case(int64_t dim, bool drops, const Body& body) {
  using std::bool_constant;
  using std::integral_constant;
  if (dim == 32) {
    drops ? body(integral_constant<int, 32>{}, bool_constant<true>{})
          : body(integral_constant<int, 32>{}, bool_constant<false>{});
  } else {
    drops ? body(integral_constant<int, 64>{}, bool_constant<true>{})
          : body(integral_constant<int, 64>{}, bool_constant<false>{});
  }
}

}  // namespace

Tensor packed_mask(const Tensor& key_mask) {
  if (!key_mask.defined()) return {};
  const int64_t tiles = ceil_div(key_mask.size(1), kTile);
  const Tensor words = Tensor::empty({key_mask.size(0), tiles}, DType::i64, key_mask.device());
  launch_threads(8 * words.size(), softmax_tiles::PackMask{KeyMask(key_mask), key_mask.size(1), 8 * tiles,
                                                           static_cast<uint8_t*>(words.raw())});
  return words;
}

bool attends_in_bf16(const Tensor& Q, const Tensor& V) {
  const bool fits = Q.size(3) == V.size(3) && (Q.size(3) == 32 || Q.size(3) == 64);
  const bool may = Q.dtype() == DType::bf16 || (Q.dtype() == DType::f32 && precision() == Precision::bf16);
  return may && fits && platform::has_bf16();
}

void softmax_attention_bf16(const Tensor& Q, const Tensor& K, const Tensor& V, const Tensor& key_mask,
                            const SoftmaxAttentionOptions& options, const Tensor& O, const Tensor& logsumexp) {
  const Inputs inputs(Q, K, V, key_mask, options.scale);
  const Attention a = inputs.attention(options);
  with_case(Q.size(3), options.dropout.active(),
            [&]<int D, bool drops>(std::integral_constant<int, D>, std::bool_constant<drops>) {
              const int64_t jobs = Q.size(0) * a.heads;
              if (by_groups()) {
                using Kernel = softmax_tiles::GroupForward<D, drops>;
                launch_blocks<Kernel::Size::kBlockThreads>(jobs * ceil_div(a.queries, Kernel::Size::kBlockRows),
                                                           Kernel::kShared,
                                                           Kernel{a, StoredTokens(O), logsumexp.data<float>()});
              } else {
                using Kernel = softmax_tiles::Forward<D, drops>;
                launch_blocks<kThreads>(jobs * ceil_div(a.queries, softmax_tiles::kRows), Kernel::kShared,
                                        Kernel{a, StoredTokens(O), logsumexp.data<float>()});
              }
            });
}

void softmax_attention_backward_bf16(const Tensor& dO, const Tensor& Q, const Tensor& K, const Tensor& V,
                                     const Tensor& key_mask, const SoftmaxAttended& attended,
                                     const SoftmaxAttentionOptions& options, const AttentionGradients& grads) {
  const Inputs inputs(Q, K, V, key_mask, options.scale);
  const Attention a = inputs.attention(options);
  const int64_t jobs = Q.size(0) * a.heads;
  const Tensor g = in_bf16(dO);
  const Tensor lse = Tensor::empty(Shape{jobs, Q.size(2)}, DType::f32, Q.device());
  const Tensor less = Tensor::empty(Shape{jobs, Q.size(2)}, DType::f32, Q.device());
  launch_threads(lse.size(),
                 softmax_tiles::Statistics{Tokens<const bfloat16>(g), StoredTokens(attended.O), a.heads, a.queries,
                                           static_cast<int>(Q.size(3)), can_load_by_eight(attended.O),
                                           attended.logsumexp.data<float>(), lse.data<float>(), less.data<float>()});
  const softmax_tiles::Gradients of{a, Tokens<const bfloat16>(g), lse.data<float>(), less.data<float>()};
  with_case(Q.size(3), options.dropout.active(),
            [&]<int D, bool drops>(std::integral_constant<int, D>, std::bool_constant<drops>) {
              const float scale = static_cast<float>(options.scale);
              if (by_groups()) {
                using OfQueries = softmax_tiles::GroupQueryGradients<D, drops>;
                using OfKeys = softmax_tiles::GroupKeyGradients<D, drops>;
                launch_blocks<OfQueries::Size::kBlockThreads>(jobs * ceil_div(a.queries, OfQueries::Size::kBlockRows),
                                                              OfQueries::kShared,
                                                              OfQueries{of, StoredTokens(grads.dQ), scale});
                launch_blocks<OfKeys::Size::kBlockThreads>(
                    jobs * ceil_div(a.keys, OfKeys::Size::kBlockRows), OfKeys::kShared,
                    OfKeys{of, StoredTokens(grads.dK), StoredTokens(grads.dV), inputs.scale});
              } else {
                using OfQueries = softmax_tiles::QueryGradients<D, drops>;
                using OfKeys = softmax_tiles::KeyGradients<D, drops>;
                launch_blocks<kThreads>(jobs * ceil_div(a.queries, softmax_tiles::kRows), OfQueries::kShared,
                                        OfQueries{of, StoredTokens(grads.dQ), scale});
                launch_blocks<kThreads>(jobs * ceil_div(a.keys, softmax_tiles::kRows), OfKeys::kShared,
                                        OfKeys{of, StoredTokens(grads.dK), StoredTokens(grads.dV), inputs.scale});
              }
            });
}

}  // namespace bochner::cuda

#include "engine/cuda/attention/softmax/attention_f32.h"

#include "engine/cuda/attention/softmax/attention_bf16.h"
#include "engine/cuda/attention/softmax/gradient_patches.h"
#include "engine/cuda/attention/softmax/products.h"
#include "engine/cuda/attention/softmax/ways.h"
#include "engine/ops/matmul.h"

namespace bochner::cuda {
namespace {

using softmax_patches::Attention;
using softmax_patches::kThreads;

/// Whether rows begin at multiples of 16 bytes and the number of columns is a multiple of four.
bool can_load_by_four(const Tensor& x) {
  if (!aligned(x.data<float>()) || x.size(3) % 4 != 0) return false;
  for (int axis = 0; axis < 3; ++axis) {
    if (x.size(axis) > 1 && x.strides()[axis] % 4 != 0) return false;
  }
  return true;
}

Attention attention_of(const Tensor& Q, const Tensor& K, const Tensor& V, const Tensor& key_mask, const Tensor& real,
                       const SoftmaxAttentionOptions& options) {
  return {{Q, K, V, key_mask, options},
          KeptBits(options.dropout),
          static_cast<float>(options.dropout.scale()),
          real.defined() ? static_cast<const uint64_t*>(real.raw()) : nullptr,
          can_load_by_four(Q) && can_load_by_four(K) && can_load_by_four(V)};
}

/// body(integral constants: the padded head size, whether there is dropout)
template <class Body>
void with_case(const Attention& a, const Body& body) {
  const auto of_size = [&]<int D>(std::integral_constant<int, D> size) {
    a.drops ? body(size, std::bool_constant<true>{}) : body(size, std::bool_constant<false>{});
  };
  if (std::max(a.dim, a.value_dim) <= 32) {
    of_size(std::integral_constant<int, 32>{});
  } else {
    of_size(std::integral_constant<int, 64>{});
  }
}

}  // namespace

bool attends_in_f32(const Tensor& Q, const Tensor& V) {
  const bool fits = std::max(Q.size(3), V.size(3)) <= 64;
  constexpr size_t kMost =
      std::max(softmax_patches::Forward<64, true>::kShared, softmax_patches::Gradients<64, true>::kShared);
  return Q.dtype() == DType::f32 && fits && platform::shared_limit() >= kMost;
}

void softmax_attention_f32(const Tensor& Q, const Tensor& K, const Tensor& V, const Tensor& key_mask,
                           const SoftmaxAttentionOptions& options, const Tensor& O, const Tensor& logsumexp) {
  const Tensor real = packed_mask(key_mask);
  const Attention a = attention_of(Q, K, V, key_mask, real, options);
  with_case(a, [&]<int D, bool drops>(std::integral_constant<int, D>, std::bool_constant<drops>) {
    using Kernel = softmax_patches::Forward<D, drops>;
    launch_blocks<kThreads>(Q.size(0) * a.heads * ceil_div(a.queries, softmax_patches::kQueries), Kernel::kShared,
                            Kernel{a, Tokens<float>(O), logsumexp.data<float>()});
  });
}

void softmax_attention_backward_f32(const Tensor& dO, const Tensor& Q, const Tensor& K, const Tensor& V,
                                    const Tensor& key_mask, const Tensor& logsumexp, const Tensor& delta,
                                    const SoftmaxAttentionOptions& options, const AttentionGradients& grads) {
  const Tensor real = packed_mask(key_mask);
  Attention a = attention_of(Q, K, V, key_mask, real, options);
  a.by_four = a.by_four && can_load_by_four(dO);
  const Tensor keys = real_rows(K, key_mask);
  const int64_t batch = Q.size(0);
  const int64_t padded_keys = round_up(a.keys, kTile);
  const int64_t padded_queries = round_up(a.queries, kTile);
  if (padded_keys == 0 || padded_queries == 0) {
    for (const Tensor& x : {grads.dQ, grads.dK, grads.dV}) x.fill_(0);
    return;
  }
  // Whole examples, or heads of one, or queries of a head.
  const int64_t pairs = softmax_ways.pairs_in_memory;
  const int64_t jobs = std::max<int64_t>(1, pairs / (padded_keys * padded_queries));
  const int64_t heads = std::min(jobs, a.heads);
  const int64_t examples = std::min(std::max<int64_t>(1, jobs / a.heads), batch);
  const int64_t queries = std::min(padded_queries, std::max<int64_t>(kTile, pairs / padded_keys / kTile * kTile));
  const Tensor slab = Tensor::empty({examples, heads, padded_keys, queries}, DType::f32, Q.device());
  for (int64_t b = 0; b < batch; b += examples) {
    for (int64_t h = 0; h < a.heads; h += heads) {
      const int64_t b_end = std::min(b + examples, batch);
      const int64_t h_end = std::min(h + heads, a.heads);
      const auto of_jobs = [&](const Tensor& x) { return x.slice(0, b, b_end).slice(1, h, h_end); };
      for (int64_t query = 0; query < a.queries; query += queries) {
        const int64_t end = std::min(query + queries, a.queries);
        with_case(a, [&]<int D, bool drops>(std::integral_constant<int, D>, std::bool_constant<drops>) {
          using Kernel = softmax_patches::Gradients<D, drops>;
          launch_blocks<kThreads>((b_end - b) * (h_end - h) * (padded_keys / kTile), Kernel::kShared,
                                  Kernel{a, Tokens<const float>(dO), logsumexp.data<float>(), delta.data<float>(),
                                         Tokens<float>(grads.dK), Tokens<float>(grads.dV), b * a.heads + h,
                                         static_cast<int>(query), static_cast<int>(end), slab.data<float>(), queries});
        });
        const int64_t visible = options.causal ? std::min(end, a.keys) : a.keys;
        const Tensor written = slab.slice(0, 0, b_end - b).slice(1, 0, h_end - h);
        const Tensor dS = written.slice(2, 0, visible).slice(3, 0, end - query).transpose(2, 3);
        of_jobs(grads.dQ).slice(2, query, end).copy_(bochner::matmul(dS, of_jobs(keys).slice(2, 0, visible)));
      }
    }
  }
}

}  // namespace bochner::cuda

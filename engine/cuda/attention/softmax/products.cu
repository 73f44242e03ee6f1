#include "engine/cuda/attention/softmax/products.h"

#include <algorithm>
#include <limits>

#include "engine/cuda/parts/elementwise.h"
#include "engine/cuda/parts/tile.h"
#include "engine/math.h"
#include "engine/ops/binary.h"
#include "engine/ops/matmul.h"

namespace bochner::cuda {
namespace {

constexpr int64_t kShort = 256;  // the most tokens of the short side,
constexpr int64_t kLong = 512;   // and the fewest of the long one

/// Rows of weights, one team per row: a thread takes `each` neighbouring keys at once.
template <class T, int each>
struct Weights {
  int64_t heads, queries, keys;
  T scale;
  KeyMask mask;
  T* weights;  ///< (B, H, Lq, Lk): products q . k, and then the weights

  BOCHNER_DEVICE int64_t example(int64_t row) const { return row / queries / heads; }
  BOCHNER_DEVICE T* row(int64_t i) const { return weights + i * keys; }
  /// f(position of the first, scores) for the keys of this thread; -inf if a key is not real.
  template <class Team, class F>
  BOCHNER_DEVICE void for_scores(const Team& team, int64_t b, const T* from, const F& f) const {
    for (int64_t j = team.rank() * each; j < keys; j += team.size() * each) {
      Vector<T, each> scores = load<each>(from + j);
#pragma unroll
      for (int l = 0; l < each; ++l) {
        scores.at[l] = mask.real(b, j + l) ? scores.at[l] * scale : -std::numeric_limits<T>::infinity();
      }
      f(j, scores);
    }
  }
};

template <class T, int each>
struct Forward {
  using Part = Vector<T, each>;
  Weights<T, each> of;
  T* logsumexp;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    constexpr T kNothing = -std::numeric_limits<T>::infinity();
    T* const row = of.row(team.index());
    const int64_t b = of.example(team.index());
    T top = kNothing;
    of.for_scores(team, b, row, [&](int64_t, const Part& scores) {
      for (int l = 0; l < each; ++l) top = scores.at[l] > top ? scores.at[l] : top;
    });
    top = team.max(top);
    const T shift = top == kNothing ? T(0) : top;  // exponentials are then 0 if keys are hidden, and NaN for NaN
    T sum = 0;
    of.for_scores(team, b, row, [&](int64_t, const Part& scores) {
      for (int l = 0; l < each; ++l) sum += math::exp(scores.at[l] - shift);
    });
    sum = team.sum(sum);
    const T share = sum == T(0) ? T(0) : T(1) / sum;
    of.for_scores(team, b, row, [&](int64_t j, const Part& scores) {
      Part weights;
      for (int l = 0; l < each; ++l) weights.at[l] = math::exp(scores.at[l] - shift) * share;
      store(row + j, weights);
    });
    if (team.rank() == 0) logsumexp[team.index()] = sum == T(0) ? kNothing : shift + math::log(sum);
  }
};

/// Replaces products by P, and dP by scale P (dP - sum_j P dP).
template <class T, int each>
struct Backward {
  using Part = Vector<T, each>;
  Weights<T, each> of;
  const T* logsumexp;
  T* dP;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    T* const row = of.row(team.index());
    T* const gradient = dP + team.index() * of.keys;
    const T lse = logsumexp[team.index()];
    T dot = 0;
    of.for_scores(team, of.example(team.index()), row, [&](int64_t j, const Part& scores) {
      const Part change = load<each>(gradient + j);
      Part weights;
      for (int l = 0; l < each; ++l) {
        const bool real = scores.at[l] != -std::numeric_limits<T>::infinity();
        weights.at[l] = real ? math::exp(scores.at[l] - lse) : T(0);
        dot = math::fma(weights.at[l], change.at[l], dot);
      }
      store(row + j, weights);
    });
    dot = team.sum(dot);
    for (int64_t j = team.rank() * each; j < of.keys; j += team.size() * each) {
      Part change = load<each>(gradient + j);
      const Part weights = load<each>(row + j);
      for (int l = 0; l < each; ++l) change.at[l] = of.scale * weights.at[l] * (change.at[l] - dot);
      store(gradient + j, change);
    }
  }
};

/// Calls body(weights), where `weights` (B, H, Lq, Lk) are the products, which it overwrites.
template <class Body>
void of_rows(const Tensor& weights, const Tensor& key_mask, const SoftmaxAttentionOptions& options, const Body& body) {
  visit_floating(weights.dtype(), "softmax_attention", [&]<class T>(TypeTag<T>) {
    const auto with = [&]<int each>(std::integral_constant<int, each>) {
      body(Weights<T, each>{weights.size(1), weights.size(2), weights.size(3), static_cast<T>(options.scale),
                            KeyMask(key_mask), weights.data<T>()});
    };
    if (weights.size(3) % 4 == 0 && aligned(weights.data<T>())) {
      with(std::integral_constant<int, 4>{});
    } else {
      with(std::integral_constant<int, 1>{});
    }
  });
}

Tensor transposed(const Tensor& x) { return x.transpose(-2, -1); }

}  // namespace

Tensor real_rows(const Tensor& x, const Tensor& key_mask) {
  if (!key_mask.defined()) return x;
  return where(key_mask.unsqueeze(1).unsqueeze(3), x, 0);
}

bool attends_by_products(const Tensor& Q, const Tensor& K, const SoftmaxAttentionOptions& options) {
  if (options.causal || options.dropout.active()) return false;
  return std::min(Q.size(2), K.size(2)) <= kShort && std::max(Q.size(2), K.size(2)) >= kLong;
}

void softmax_attention_by_products(const Tensor& Q, const Tensor& K, const Tensor& V, const Tensor& key_mask,
                                   const SoftmaxAttentionOptions& options, const Tensor& O, const Tensor& logsumexp) {
  const Tensor P = bochner::matmul(Q, transposed(real_rows(K, key_mask)));
  of_rows(P, key_mask, options, [&]<class T, int each>(const Weights<T, each>& weights) {
    launch_rows(logsumexp.size(), weights.keys, Forward<T, each>{weights, logsumexp.data<T>()});
  });
  O.copy_(bochner::matmul(P, real_rows(V, key_mask)));
}

void softmax_attention_backward_by_products(const Tensor& dO, const Tensor& Q, const Tensor& K, const Tensor& V,
                                            const Tensor& key_mask, const SoftmaxAttended& attended,
                                            const SoftmaxAttentionOptions& options, const AttentionGradients& grads) {
  const Tensor keys = real_rows(K, key_mask);
  const Tensor P = bochner::matmul(Q, transposed(keys));
  const Tensor dS = bochner::matmul(dO, transposed(real_rows(V, key_mask)));
  of_rows(P, key_mask, options, [&]<class T, int each>(const Weights<T, each>& weights) {
    launch_rows(attended.logsumexp.size(), weights.keys,
                Backward<T, each>{weights, attended.logsumexp.data<T>(), dS.data<T>()});
  });
  grads.dV.copy_(bochner::matmul(transposed(P), dO));
  grads.dQ.copy_(bochner::matmul(dS, keys));
  grads.dK.copy_(bochner::matmul(transposed(dS), Q));
}

}  // namespace bochner::cuda

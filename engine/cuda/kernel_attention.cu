// Bidirectional kernel attention: slabs of keys update S', slabs of queries read it, and back (engine/ops/
// kernel_attention.h):
//
//   S' = F_k^T V',   O' = F_q S',   dS' = F_q^T G',   dF_q = G' S'^T,   dV' = F_k dS',   dF_k = V' dS'^T
#include "engine/cuda/kernel_attention.h"

#include <utility>

#include "engine/cuda/kernel_attention_bf16.h"
#include "engine/cuda/kernel_attention_parts.h"

namespace bochner::cuda {
namespace {

/// Bytes that the features of a slab may take.
constexpr int64_t kSlabBytes = int64_t{64} << 20;

template <class T>
int64_t slab_rows(const AttentionSizes& sizes, int64_t length) {
  const int64_t fit = kSlabBytes / (sizes.jobs * sizes.features * static_cast<int64_t>(sizeof(T)));
  return std::min(length, std::max<int64_t>(256, fit / 256 * 256));
}

template <class T>
struct Fill {
  T value;
  T* to;
  BOCHNER_DEVICE void operator()(int64_t i) const { to[i] = value; }
};

/// A team for each job: raises the shift to the largest exponent of the slab; factor is what S' is multiplied by.
template <class T>
struct RaiseShift {
  int64_t rows;
  const T* tops;
  T *shift, *factor;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const int64_t job = team.index();
    T largest = shift[job];
    for (int64_t i = team.rank(); i < rows; i += team.size()) {
      const T top = tops[job * rows + i];
      largest = top > largest ? top : largest;
    }
    largest = team.max(largest);
    if (team.rank() != 0) return;
    factor[job] = math::exp(shift[job] - largest);
    shift[job] = largest;
  }
};

template <class T>
struct ScaleJobs {
  int64_t size;
  const T* factor;
  T* x;
  BOCHNER_DEVICE void operator()(int64_t i) const { x[i] *= factor[i / size]; }
};

/// totals (jobs, width) += the sum of V' over the rows of the slab.
template <class T>
struct AddTotals {
  int64_t rows, width;
  const T* values;
  T* totals;
  BOCHNER_DEVICE void operator()(int64_t i) const {
    const T* from = values + i / width * rows * width + i % width;
    T sum = totals[i];
    for (int64_t row = 0; row < rows; ++row) sum += from[row * width];
    totals[i] = sum;
  }
};

/// S' += eps totals^T: what each feature's eps weighs.
template <class T>
struct AddEps {
  int64_t features, width;
  T eps;
  const T* totals;
  T* S;
  BOCHNER_DEVICE void operator()(int64_t i) const { S[i] += eps * totals[i / (features * width) * width + i % width]; }
};

/// Between S' (jobs, F, width) with its shift and the state of a result (batch, heads, 1, size).
template <class T>
struct SaveState {
  int64_t batch, heads, features, width, value_dim, size;
  bool load;
  T *S, *shift, *state;
  BOCHNER_DEVICE void operator()(int64_t i) const {
    const int64_t kept = value_dim + 1;
    const int64_t job = i / (features * width + 1);
    const int64_t at = i % (features * width + 1);
    T* own = state + (job % batch * heads + job / batch) * size;
    if (at == features * width) {
      T& saved = own[features * kept];
      load ? shift[job] = saved : saved = shift[job];
      return;
    }
    T& value = S[job * features * width + at];
    if (at % width >= kept) {
      if (load) value = 0;
      return;
    }
    T& saved = own[at / width * kept + at % width];
    load ? value = saved : saved = value;
  }
};

/// O and the denominators from O'.
template <class T>
struct Output {
  SlabPlace place;
  bool renormalise;
  T eps;
  int64_t value_dim, width;
  const T* from;
  Tokens<T> O;
  T* denominators;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const auto token = place.at(team.index());
    if (!token.there) return;
    const T* row = from + team.index() * width;
    const T denominator = renormalise ? row[value_dim] + eps : T(1);
    const T inverse = denominator != T(0) ? T(1) / denominator : T(0);
    T* to = O.head(token.b, token.h) + token.token * O.stride;
    for (int64_t j = team.rank(); j < value_dim; j += team.size()) to[j] = row[j] * inverse;
    if (renormalise && team.rank() == 0) {
      denominators[(token.b * place.heads + token.h) * place.length + token.token] = denominator;
    }
  }
};

/// The gradient of a value from dV'; 0 where a key is not real.
template <class T>
struct UnpackValues {
  SlabPlace place;
  Tokens<T> dV;
  KeyMask mask;
  int64_t value_dim, width;
  const T* from;
  BOCHNER_DEVICE void operator()(int64_t i) const {
    const int64_t row = i / value_dim;
    const auto token = place.at(row);
    if (!token.there) return;
    dV.head(token.b, token.h)[token.token * dV.stride + i % value_dim] =
        mask.real(token.b, token.token) ? from[row * width + i % value_dim] : T(0);
  }
};

template <class T>
SaveState<T> state_kernel(const AttentionSizes& sizes, bool load, T* S, T* shift, const Tensor& state) {
  return {sizes.batch, sizes.heads, sizes.features, sizes.width,    sizes.value_dim, state.size(3),
          load,        S,           shift,          state.data<T>()};
}

/// One product for each job: C (m x n) = op(A) op(B) [+ C], all matrices one behind the other.
template <class T>
void each_job(const AttentionSizes& sizes, bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
              const T* a, const T* b, T* c, bool adds) {
  gemm(dtype_of<T>, {transpose_a, transpose_b, m, n, k, a, transpose_a ? m : k, m * k, b, transpose_b ? k : n, k * n, c,
                     n, m * n, sizes.jobs, 1, adds ? 1.0 : 0.0});
}

template <class T>
void attend(const KernelAttentionSpec& spec, const AttentionSizes& sizes, const Tensor& Q, const Tensor& K,
            const Tensor& V, const Tensor& Omega, const Tensor& keys, const KernelAttentionResult& to) {
  const auto [W, F] = std::pair(sizes.width, sizes.features);
  const KeyMask mask(keys);
  const KeyMask all{Tensor()};
  const DeviceBuffer<T> S(sizes.jobs * F * W);
  const DeviceBuffer<T> totals(sizes.jobs * W);
  const DeviceBuffer<T> shift(sizes.jobs);
  const DeviceBuffer<T> factor(sizes.jobs);
  S.clear(sizes.jobs * F * W);
  totals.clear(sizes.jobs * W);
  const int64_t rows = std::max(slab_rows<T>(sizes, sizes.keys), slab_rows<T>(sizes, sizes.queries));
  FeatureSlab<T> slab(spec, sizes, Omega, rows, false);
  const DeviceBuffer<T> values(sizes.jobs * rows * W);  // V', then O'
  launch_threads(sizes.jobs, Fill<T>{slab.rule.shifts ? no_exponent<T>() : T(0), shift});
  for (int64_t begin = 0; begin < sizes.keys; begin += rows) {
    const SlabPlace place{sizes.batch, sizes.heads, begin, sizes.keys, std::min(rows, sizes.keys - begin)};
    const int64_t count = sizes.jobs * place.rows;
    launch_threads(count * W, PackValues<T>{place, Tokens<const T>(V), mask, sizes.value_dim, W, values});
    slab.project(place, K, mask, values);
    if (slab.rule.shifts) {
      launch_rows(sizes.jobs, place.rows, RaiseShift<T>{place.rows, slab.tops(), shift, factor});
      launch_threads(sizes.jobs * F * W, ScaleJobs<T>{F * W, factor, S});
    }
    slab.key_features(shift, place.rows, !slab.rule.eps_later);
    each_job<T>(sizes, true, false, F, W, place.rows, slab.F(), values, S, true);
    if (slab.rule.eps_later) launch_threads(sizes.jobs * W, AddTotals<T>{place.rows, W, values, totals});
  }
  if (slab.rule.eps_later) launch_threads(sizes.jobs * F * W, AddEps<T>{F, W, slab.rule.eps, totals, S});
  launch_threads(sizes.jobs * (F * W + 1), state_kernel<T>(sizes, false, S, shift, to.state));
  for (int64_t begin = 0; begin < sizes.queries; begin += rows) {
    const SlabPlace place{sizes.batch, sizes.heads, begin, sizes.queries, std::min(rows, sizes.queries - begin)};
    slab.project(place, Q, all, nullptr);
    slab.query_features(nullptr);
    each_job<T>(sizes, false, false, place.rows, W, F, slab.F(), S, values, false);
    launch_rows(sizes.jobs * place.rows, sizes.value_dim,
                Output<T>{place, spec.renormalise, static_cast<T>(spec.denominator_eps), sizes.value_dim, W, values,
                          Tokens<T>(to.O), spec.renormalise ? to.denominator.data<T>() : nullptr});
  }
}

template <class T>
void attend_backward(const KernelAttentionSpec& spec, const AttentionSizes& sizes, const Tensor& dO, const Tensor& Q,
                     const Tensor& K, const Tensor& V, const Tensor& Omega, const Tensor& keys,
                     const KernelAttentionResult& forward, const KernelAttentionGradients& to) {
  const auto [W, F] = std::pair(sizes.width, sizes.features);
  const KeyMask mask(keys);
  const KeyMask all{Tensor()};
  const DeviceBuffer<T> S(sizes.jobs * F * W);
  const DeviceBuffer<T> dS(sizes.jobs * F * W);
  const DeviceBuffer<T> shift(sizes.jobs);
  dS.clear(sizes.jobs * F * W);
  launch_threads(sizes.jobs * (F * W + 1), state_kernel<T>(sizes, true, S, shift, forward.state));
  const int64_t rows = std::max(slab_rows<T>(sizes, sizes.keys), slab_rows<T>(sizes, sizes.queries));
  FeatureSlab<T> slab(spec, sizes, Omega, rows, true);
  const DeviceBuffer<T> values(sizes.jobs * rows * W);  // G', then V'
  const DeviceBuffer<T> value_gradients(sizes.jobs * rows * W);
  const int64_t omega_size = to.dOmega.defined() ? sizes.jobs * sizes.frequencies * sizes.dim : 0;
  const DeviceBuffer<T> omega(omega_size);
  omega.clear(omega_size);
  T* const parts = to.dOmega.defined() ? static_cast<T*>(omega) : nullptr;
  for (int64_t begin = 0; begin < sizes.queries; begin += rows) {
    const SlabPlace place{sizes.batch, sizes.heads, begin, sizes.queries, std::min(rows, sizes.queries - begin)};
    launch_rows(
        sizes.jobs * place.rows, W,
        PackGradients<T>{place, Tokens<const T>(dO), Tokens<const T>(forward.O),
                         spec.renormalise ? forward.denominator.data<T>() : nullptr, sizes.value_dim, W, values});
    slab.project(place, Q, all, nullptr);
    slab.query_features(nullptr);
    each_job<T>(sizes, true, false, F, W, place.rows, slab.F(), values, dS, true);
    each_job<T>(sizes, false, true, place.rows, F, W, values, S, slab.dF(), false);
    slab.backward(true, all, to.dQ, parts);
  }
  for (int64_t begin = 0; begin < sizes.keys; begin += rows) {
    const SlabPlace place{sizes.batch, sizes.heads, begin, sizes.keys, std::min(rows, sizes.keys - begin)};
    const int64_t count = sizes.jobs * place.rows;
    launch_threads(count * W, PackValues<T>{place, Tokens<const T>(V), mask, sizes.value_dim, W, values});
    slab.project(place, K, mask, values);
    slab.key_features(shift, place.rows, true);
    each_job<T>(sizes, false, false, place.rows, W, F, slab.F(), dS, value_gradients, false);
    each_job<T>(sizes, false, true, place.rows, F, W, values, dS, slab.dF(), false);
    launch_threads(count * sizes.value_dim,
                   UnpackValues<T>{place, Tokens<T>(to.dV), mask, sizes.value_dim, W, value_gradients});
    slab.backward(true, mask, to.dK, parts);
  }
  if (parts != nullptr) reduce_omega<T>(sizes, parts, to.dOmega);
}

}  // namespace

void kernel_attention(const KernelAttentionSpec& spec, const Tensor& Q, const Tensor& K, const Tensor& V,
                      const Tensor& Omega, const Tensor& keys, const KernelAttentionResult& to) {
  const AttentionSizes sizes(spec, Q, K, V, Omega);
  if (sizes.jobs == 0) return;
  if (kernel_attends_in_bf16(spec, Q, V)) return kernel_attention_bf16(spec, Q, K, V, Omega, keys, to);
  visit_floating(Q.dtype(), "kernel_attention", [&]<class T>(TypeTag<T>) {
    if (spec.causal) {
      attend_causal<T>(spec, sizes, Q, K, V, Omega, keys, to);
    } else {
      attend<T>(spec, sizes, Q, K, V, Omega, keys, to);
    }
  });
}

void kernel_attention_backward(const KernelAttentionSpec& spec, const Tensor& dO, const Tensor& Q, const Tensor& K,
                               const Tensor& V, const Tensor& Omega, const Tensor& keys,
                               const KernelAttentionResult& forward, const KernelAttentionGradients& to) {
  const AttentionSizes sizes(spec, Q, K, V, Omega);
  if (sizes.jobs == 0) {
    if (to.dOmega.defined())
      platform::clear(to.dOmega.raw(), static_cast<size_t>(to.dOmega.size()) * size_of(Q.dtype()));
    return;
  }
  if (kernel_attends_in_bf16(spec, Q, V)) {
    return kernel_attention_backward_bf16(spec, dO, Q, K, V, Omega, keys, forward, to);
  }
  visit_floating(Q.dtype(), "kernel_attention", [&]<class T>(TypeTag<T>) {
    if (spec.causal) {
      attend_causal_backward<T>(spec, sizes, dO, Q, K, V, Omega, keys, forward, to);
    } else {
      attend_backward<T>(spec, sizes, dO, Q, K, V, Omega, keys, forward, to);
    }
  });
}

}  // namespace bochner::cuda

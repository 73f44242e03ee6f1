// Bidirectional kernel attention: slabs of keys update S', slabs of queries read it, and back
// (engine/ops/attention/kernel_attention.h):
//
//   S' = F_k^T V',   O' = F_q S',   dS' = F_q^T G',   dF_q = G' S'^T,   dV' = F_k dS',   dF_k = V' dS'^T
#include "engine/ops/attention/kernel_attention.h"

#include <utility>

#include "engine/cuda/attention/kernel/attention_bf16.h"
#include "engine/cuda/attention/kernel/parts.h"

namespace bochner::cuda {
namespace {

/// The bytes that the features of a slab may take.
constexpr int64_t kSlabBytes = int64_t{64} << 20;

template <class T>
int64_t slab_rows(const AttentionSizes& sizes, int64_t length) {
  const int64_t fit = kSlabBytes / (sizes.jobs * sizes.features * static_cast<int64_t>(sizeof(T)));
  return std::min(length, std::max<int64_t>(256, fit / 256 * 256));
}

/// A team per job: raises the shift to the largest exponent of the slab; `factor` is the factor for S'.
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

/// S' += eps totals^T, the contribution of each feature's eps.
template <class T>
struct AddEps {
  int64_t features, width;
  T eps;
  const T* totals;
  T* S;
  BOCHNER_DEVICE void operator()(int64_t i) const { S[i] += eps * totals[i / (features * width) * width + i % width]; }
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
    const T inverse = inverse_of_weights(denominator);
    T* to = O.head(token.b, token.h) + token.token * O.stride;
    for (int64_t j = team.rank(); j < value_dim; j += team.size()) to[j] = row[j] * inverse;
    if (renormalise && team.rank() == 0) {
      denominators[(token.b * place.heads + token.h) * place.length + token.token] = denominator;
    }
  }
};

/// The gradient of a value from dV'; 0 if the key is not real.
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
    products<T>(sizes.jobs, true, false, F, W, place.rows, slab.F(), values, S, true);
    if (slab.rule.eps_later) launch_threads(sizes.jobs * W, AddTotals<T>{place.rows, W, values, totals});
  }
  if (slab.rule.eps_later) launch_threads(sizes.jobs * F * W, AddEps<T>{F, W, slab.rule.eps, totals, S});
  const CarryState<T> save(sizes, to.state, 0, false, S, nullptr, shift);
  launch_threads(save.threads(), save);
  for (int64_t begin = 0; begin < sizes.queries; begin += rows) {
    const SlabPlace place{sizes.batch, sizes.heads, begin, sizes.queries, std::min(rows, sizes.queries - begin)};
    slab.project(place, Q, all, nullptr);
    slab.query_features(nullptr);
    products<T>(sizes.jobs, false, false, place.rows, W, F, slab.F(), S, values, false);
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
  const CarryState<T> load(sizes, forward.state, 0, true, S, nullptr, shift);
  launch_threads(load.threads(), load);
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
    products<T>(sizes.jobs, true, false, F, W, place.rows, slab.F(), values, dS, true);
    products<T>(sizes.jobs, false, true, place.rows, F, W, values, S, slab.dF(), false);
    slab.backward(all, to.dQ, parts);
  }
  for (int64_t begin = 0; begin < sizes.keys; begin += rows) {
    const SlabPlace place{sizes.batch, sizes.heads, begin, sizes.keys, std::min(rows, sizes.keys - begin)};
    const int64_t count = sizes.jobs * place.rows;
    launch_threads(count * W, PackValues<T>{place, Tokens<const T>(V), mask, sizes.value_dim, W, values});
    slab.project(place, K, mask, values);
    slab.key_features(shift, place.rows, true);
    products<T>(sizes.jobs, false, false, place.rows, W, F, slab.F(), dS, value_gradients, false);
    products<T>(sizes.jobs, false, true, place.rows, F, W, values, dS, slab.dF(), false);
    launch_threads(count * sizes.value_dim,
                   UnpackValues<T>{place, Tokens<T>(to.dV), mask, sizes.value_dim, W, value_gradients});
    slab.backward(mask, to.dK, parts);
  }
  if (parts != nullptr) reduce_omega<T>(sizes, parts, to.dOmega);
}

}  // namespace

void kernel_attention(const KernelAttentionSpec& spec, const Tensor& Q, const Tensor& K, const Tensor& V,
                      const Frequencies& frequencies, const Tensor& keys, const KernelAttentionResult& to) {
  const Tensor& Omega = frequencies.values;  // dense: only the CPU has FastFood
  const AttentionSizes sizes(spec, Q, K, V, Omega);
  if (sizes.jobs == 0) return;
  if (kernel_attends_in_bf16(spec, Q, V)) {
    return (spec.causal ? causal_kernel_attention_bf16 : kernel_attention_bf16)(spec, Q, K, V, Omega, keys, to);
  }
  if (Q.dtype() == DType::bf16) {
    KernelAttentionResult found = to;
    found.O = Tensor::empty(to.O.shape(), DType::f32, Q.device());
    kernel_attention(spec, to_f32(Q), to_f32(K), to_f32(V), Omega, keys, found);
    return to.O.copy_(found.O);
  }
  visit_floating(Q.dtype(), "kernel_attention", [&]<class T>(TypeTag<T>) {
    if (spec.causal) {
      attend_causal<T>(spec, sizes, Q, K, V, Omega, keys, to);
    } else {
      attend<T>(spec, sizes, Q, K, V, Omega, keys, to);
    }
  });
}

void kernel_attention_backward(const KernelAttentionSpec& spec, const Tensor& dO, const Tensor& Q, const Tensor& K,
                               const Tensor& V, const Frequencies& frequencies, const Tensor& keys,
                               const KernelAttentionResult& forward, const KernelAttentionGradients& to) {
  const Tensor& Omega = frequencies.values;  // dense: only the CPU has FastFood
  const AttentionSizes sizes(spec, Q, K, V, Omega);
  if (sizes.jobs == 0) {
    if (to.dOmega.defined())
      platform::clear(to.dOmega.raw(), static_cast<size_t>(to.dOmega.size()) * size_of(to.dOmega.dtype()));
    return;
  }
  if (kernel_attends_in_bf16(spec, Q, V)) {
    return (spec.causal ? causal_kernel_attention_backward_bf16 : kernel_attention_backward_bf16)(
        spec, dO, Q, K, V, Omega, keys, forward, to);
  }
  if (Q.dtype() == DType::bf16) {
    const auto in_f32 = [](const Tensor& x) { return Tensor::empty(x.shape(), DType::f32, x.device()); };
    const KernelAttentionGradients found{in_f32(to.dQ), in_f32(to.dK), in_f32(to.dV), to.dOmega};
    KernelAttentionResult result = forward;
    result.O = to_f32(forward.O);
    kernel_attention_backward(spec, to_f32(dO), to_f32(Q), to_f32(K), to_f32(V), Omega, keys, result, found);
    to.dQ.copy_(found.dQ);
    to.dK.copy_(found.dK);
    return to.dV.copy_(found.dV);
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

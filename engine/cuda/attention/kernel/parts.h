// Common to the bidirectional and the causal kernel attention on a card. Tokens are processed in slabs whose features
// fit a bounded piece of memory, so that nothing of size length x features is ever stored. Products use BLAS; between
// them there are passes over rows.
//
// A slab is stored heads first: job h * batch + b, then the token. Values are extended by a 1 and by zeros up to a
// multiple of 8: V' = (v, 1, 0 ...), so that S' = sum phi v'^T holds both S and z, and the denominator comes right
// after the output.
#pragma once

#include <algorithm>

#include "engine/cuda/attention/kernel/feature_rows.h"
#include "engine/cuda/parts/blas.h"
#include "engine/cuda/parts/tile.h"

namespace bochner::cuda {

struct AttentionSizes : KernelAttentionSizes {
  int64_t jobs, width;  ///< width of V'

  AttentionSizes(const KernelAttentionSpec& spec, const Tensor& Q, const Tensor& K, const Tensor& V,
                 const Frequencies& Omega)
      : KernelAttentionSizes(spec, Q, K, V, Omega), jobs(batch * heads), width((value_dim + 8) / 8 * 8) {}
};

/// Memory on the current device.
template <class T>
class DeviceBuffer {
 public:
  explicit DeviceBuffer(int64_t count)
      : tensor_(Tensor::empty({std::max<int64_t>(count, 1)}, dtype_of<T>, Device::cuda(platform::current()))) {}
  operator T*() const { return tensor_.data<T>(); }  // NOLINT: a buffer is its first element
  void clear(int64_t count) const { platform::clear(tensor_.raw(), static_cast<size_t>(count) * sizeof(T)); }

 private:
  Tensor tensor_;
};

template <class T>
struct Fill {
  T value;
  T* to;
  BOCHNER_DEVICE void operator()(int64_t i) const { to[i] = value; }
};

/// Copies S' (jobs, F, width), T' (jobs, width), unless null, and a shift to or from their state in a result, (batch,
/// heads, states, size), which has no padding.
template <class T>
struct CarryState {
  AttentionSizes sizes;
  int64_t rows, each;  ///< per state: rows of S' and T'; elements, with padding and shift
  int64_t states, index, size;
  bool load;
  T *S, *totals, *shift, *state;

  CarryState(const AttentionSizes& all, const Tensor& result, int64_t at, bool loads, T* S_, T* totals_, T* shift_)
      : sizes(all),
        rows(all.features + (totals_ == nullptr ? 0 : 1)),
        each(rows * all.width + 1),
        states(result.size(2)),
        index(at),
        size(result.size(3)),
        load(loads),
        S(S_),
        totals(totals_),
        shift(shift_),
        state(result.data<T>()) {}

  int64_t threads() const { return sizes.jobs * each; }
  BOCHNER_DEVICE void operator()(int64_t i) const {
    const int64_t kept = sizes.value_dim + 1;
    const int64_t job = i / each;
    const int64_t at = i % each;
    const int64_t row = at / sizes.width;
    const int64_t column = at % sizes.width;
    T* own = state + ((job % sizes.batch * sizes.heads + job / sizes.batch) * states + index) * size;
    if (at == each - 1) {
      T& saved = own[rows * kept];
      load ? shift[job] = saved : saved = shift[job];
      return;
    }
    T& value = row < sizes.features ? S[(job * sizes.features + row) * sizes.width + column]
                                    : totals[job * sizes.width + column];
    if (column >= kept) {
      if (load) value = 0;
      return;
    }
    T& saved = own[row * kept + column];
    load ? value = saved : saved = value;
  }
};

/// `count` products C (m x n) = op(A) op(B) [+ C]; the matrices are consecutive in memory.
template <class T>
void products(int64_t count, bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const T* a,
              const T* b, T* c, bool adds) {
  gemm(dtype_of<T>, {transpose_a, transpose_b, m, n, k, a, transpose_a ? m : k, m * k, b, transpose_b ? k : n, k * n, c,
                     n, m * n, count, 1, adds ? 1.0 : 0.0});
}

/// Where the elements of a slab are in a tensor (batch, heads, length, dim).
struct SlabPlace {
  int64_t batch, heads, begin, length,
      rows;  ///< tokens begin ... of `length`; rows of the slab, more than there may be

  struct Token {
    int64_t job, row, b, h, token;
    bool there;
  };
  BOCHNER_DEVICE Token at(int64_t slab_row) const {
    const int64_t job = slab_row / rows;
    const int64_t row = slab_row % rows;
    return {job, row, job % batch, job / batch, begin + row, begin + row < length};
  }
};

/// to (jobs, rows, dim) = factor * x; 0 beyond the length and for keys that are not real.
template <class T>
struct PackRows {
  SlabPlace place;
  Tokens<const T> x;
  KeyMask mask;
  int64_t dim;
  T factor;
  T* to;
  BOCHNER_DEVICE void operator()(int64_t i) const {
    const auto token = place.at(i / dim);
    const bool wanted = token.there && mask.real(token.b, token.token);
    to[i] = wanted ? factor * x.head(token.b, token.h)[token.token * x.stride + i % dim] : T(0);
  }
};

/// V' (jobs, rows, width)
template <class T>
struct PackValues {
  SlabPlace place;
  Tokens<const T> v;
  KeyMask mask;
  int64_t value_dim, width;
  T* to;
  BOCHNER_DEVICE void operator()(int64_t i) const {
    const auto token = place.at(i / width);
    const int64_t column = i % width;
    const bool wanted = token.there && mask.real(token.b, token.token);
    T value = 0;
    if (wanted && column < value_dim) value = v.head(token.b, token.h)[token.token * v.stride + column];
    if (wanted && column == value_dim) value = 1;
    to[i] = value;
  }
};

/// G' = (dO / denominator, -(dO . O) / denominator, 0 ...): the gradients of numerators and denominators; a team per
/// row of the slab.
template <class T>
struct PackGradients {
  SlabPlace place;
  Tokens<const T> dO, O;
  const T* denominators;  ///< (batch, heads, length), or null
  int64_t value_dim, width;
  T* to;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const auto token = place.at(team.index());
    T* row = to + team.index() * width;
    if (!token.there) {
      for (int64_t j = team.rank(); j < width; j += team.size()) row[j] = 0;
      return;
    }
    const T* g = dO.head(token.b, token.h) + token.token * dO.stride;
    const T* o = O.head(token.b, token.h) + token.token * O.stride;
    T inverse = 1;
    T dot = 0;
    if (denominators != nullptr) {
      const T denominator = denominators[(token.b * place.heads + token.h) * place.length + token.token];
      inverse = inverse_in_gradients(denominator);
      for (int64_t j = team.rank(); j < value_dim; j += team.size()) dot += g[j] * o[j];
      dot = team.sum(dot);
    }
    for (int64_t j = team.rank(); j < width; j += team.size()) {
      row[j] = j < value_dim ? g[j] * inverse : (j == value_dim ? -dot * inverse : T(0));
    }
  }
};

/// dx = scale (from + slope norm_slope x): the gradient of a token from that of scale x; 0 for keys that are not real.
template <class T>
struct UnpackRows {
  SlabPlace place;
  Tokens<T> dx;
  KeyMask mask;
  FeatureRule<T> rule;
  int64_t dim;
  T scale;
  const T *from, *x, *slopes;
  BOCHNER_DEVICE void operator()(int64_t i) const {
    const int64_t row = i / dim;
    const auto token = place.at(row);
    if (!token.there) return;
    T value = from[i];
    if (rule.exponent) value += slopes[row] * rule.norm_slope() * x[i];
    dx.head(token.b, token.h)[token.token * dx.stride + i % dim] =
        mask.real(token.b, token.token) ? scale * value : T(0);
  }
};

/// dOmega (heads or 1, M, D) = the sum of parts (jobs, M, D) over the jobs of a head, or over all jobs.
template <class T>
struct SumOmega {
  int64_t size, jobs_each;
  const T* parts;
  T* to;
  BOCHNER_DEVICE void operator()(int64_t i) const {
    const T* from = parts + i / size * jobs_each * size + i % size;
    T sum = 0;
    for (int64_t job = 0; job < jobs_each; ++job) sum += from[job * size];
    to[i] = sum;
  }
};

/// The first D of every F elements.
template <class T>
struct Narrow {
  int64_t F, D;
  const T* from;
  T* to;
  BOCHNER_DEVICE void operator()(int64_t i) const { to[i] = from[i / D * F + i % D]; }
};

/// The tokens of a slab, their projections and features, on one side (queries or keys).
template <class T>
class FeatureSlab {
 public:
  FeatureSlab(const KernelAttentionSpec& spec, const AttentionSizes& sizes, const Tensor& Omega, int64_t rows,
              bool backward)
      : rule(spec, sizes.frequencies),
        sizes_(sizes),
        omega_(Omega),
        scale_(static_cast<T>(spec.scale)),
        in_place_(rule.in_place() && Omega.defined()),
        x_(sizes.jobs * rows * sizes.dim),
        u_(Omega.defined() && !in_place_ ? sizes.jobs * rows * sizes.frequencies : 1),
        f_(sizes.jobs * rows * sizes.features),
        norms_(sizes.jobs * rows),
        tops_(sizes.jobs * rows),
        added_(sizes.jobs * rows),
        df_(backward ? sizes.jobs * rows * sizes.features : 1),
        dx_(backward ? sizes.jobs * rows * sizes.dim : 1),
        slopes_(backward ? sizes.jobs * rows : 1) {}

  const FeatureRule<T> rule;

  T* F() const { return f_; }
  T* dF() const { return df_; }
  const T* tops() const { return tops_; }
  const T* X() const { return x_; }

  /// Loads the tokens and computes u, |x|^2 and exponents: those of keys if `values` (V') is not null.
  void project(const SlabPlace& place, const Tensor& x, const KeyMask& mask, const T* values) {
    place_ = place;
    values_ = values;
    count_ = sizes_.jobs * place.rows;
    launch_threads(count_ * sizes_.dim, PackRows<T>{place, Tokens<const T>(x), mask, sizes_.dim, scale_, x_});
    if (omega_.defined()) {
      const bool shared = omega_.size(0) == 1;
      const int64_t rows = shared ? count_ : sizes_.batch * place.rows;
      const int64_t M = sizes_.frequencies;
      const int64_t D = sizes_.dim;
      gemm(dtype_of<T>, {false, true, rows, M, D, x_, D, rows * D, omega_.raw(), D, M * D, u(), M, rows * M,
                         shared ? 1 : sizes_.heads, 1, 0});  // U = X Omega^T
    }
    if (!rule.exponent) return;
    launch_rows(count_, std::max(sizes_.frequencies, sizes_.dim),
                RowExponents<T>{rule, sizes_.dim, x_, u(), real(), sizes_.width, norms_, tops_});
  }
  /// F of queries; for sums see RowFeatures.
  void query_features(T* sums) {
    launch_rows(count_, sizes_.frequencies,
                RowFeatures<T>{rule, false, true, norms_, tops_, nullptr, 1, nullptr, 0, u(), f_, added_, sums});
  }
  void key_features(const T* shift, int64_t rows_per_shift, bool with_eps) {
    launch_rows(count_, sizes_.frequencies,
                RowFeatures<T>{rule, true, with_eps, norms_, nullptr, shift, rows_per_shift, real(), sizes_.width, u(),
                               f_, added_, nullptr});
  }
  /// From dF to the gradient of the tokens and, unless null, that of Omega, which is added to parts (jobs, M, D).
  void backward(const KeyMask& mask, const Tensor& dx, T* omega_parts) {
    const int64_t M = sizes_.frequencies;
    const int64_t D = sizes_.dim;
    const int64_t F = sizes_.features;
    launch_rows(count_, M, RowGradients<T>{rule, u(), f_, added_, df_, slopes_});
    const T* flow = df_;
    if (omega_.defined()) {
      const bool shared = omega_.size(0) == 1;
      const int64_t rows = shared ? count_ : sizes_.batch * place_.rows;
      gemm(dtype_of<T>, {false, false, rows, D, M, df_, F, rows * F, omega_.raw(), D, M * D, dx_, D, rows * D,
                         shared ? 1 : sizes_.heads, 1, 0});  // dX = dU Omega
      if (omega_parts != nullptr) {
        gemm(dtype_of<T>, {true, false, M, D, place_.rows, df_, F, place_.rows * F, x_, D, place_.rows * D, omega_parts,
                           D, M * D, sizes_.jobs, 1, 1});  // dOmega += dU^T X
      }
      flow = dx_;
    } else if (F != D) {
      launch_threads(count_ * D, Narrow<T>{F, D, df_, dx_});
      flow = dx_;
    }
    launch_threads(count_ * D, UnpackRows<T>{place_, Tokens<T>(dx), mask, rule, D, scale_, flow, x_, slopes_});
  }

 private:
  T* u() const {
    return in_place_ ? static_cast<T*>(f_) : (omega_.defined() ? static_cast<T*>(u_) : static_cast<T*>(x_));
  }
  const T* real() const { return values_ == nullptr ? nullptr : values_ + sizes_.value_dim; }

  const AttentionSizes& sizes_;
  const Tensor& omega_;
  T scale_;
  bool in_place_;
  SlabPlace place_{};
  const T* values_ = nullptr;
  int64_t count_ = 0;
  DeviceBuffer<T> x_, u_, f_, norms_, tops_, added_, df_, dx_, slopes_;
};

template <class T>
void attend_causal(const KernelAttentionSpec& spec, const AttentionSizes& sizes, const Tensor& Q, const Tensor& K,
                   const Tensor& V, const Tensor& Omega, const Tensor& keys, const KernelAttentionResult& to);
template <class T>
void attend_causal_backward(const KernelAttentionSpec& spec, const AttentionSizes& sizes, const Tensor& dO,
                            const Tensor& Q, const Tensor& K, const Tensor& V, const Tensor& Omega, const Tensor& keys,
                            const KernelAttentionResult& forward, const KernelAttentionGradients& to);

/// dOmega from its parts.
template <class T>
void reduce_omega(const AttentionSizes& sizes, const T* parts, const Tensor& dOmega) {
  const int64_t size = sizes.frequencies * sizes.dim;
  const int64_t jobs_each = dOmega.size(0) == 1 ? sizes.jobs : sizes.batch;
  launch_threads(dOmega.size(), SumOmega<T>{size, jobs_each, parts, dOmega.data<T>()});
}

}  // namespace bochner::cuda

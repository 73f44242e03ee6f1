// The passes over rows and chunks in causal kernel attention; causal_attention.cu explains them.
#pragma once

#include "engine/cuda/attention/kernel/parts.h"

namespace bochner::cuda {

constexpr int64_t kChunk = 64;  // tokens

/// What the kernels of a slab need: m, and the positions of its chunks.
template <class T>
struct Shifts {
  bool shifts;
  int64_t rows;     ///< of a slab, a multiple of kChunk
  const T* m;       ///< (jobs, rows)
  const T* before;  ///< (jobs): m of the last token before the slab

  BOCHNER_DEVICE T at(int64_t job, int64_t row) const { return row < 0 ? before[job] : m[job * rows + row]; }
  /// e^(m of token `from` - m of token `to`), both in the slab, or -1 for the token before the slab.
  BOCHNER_DEVICE T factor(int64_t job, int64_t from, int64_t to) const {
    return shifts ? math::exp(at(job, from) - at(job, to)) : T(1);
  }
};

/// m from the exponents of keys: one thread per job walks the slab. `last` is m of its last token.
template <class T>
struct RunningMaximum {
  int64_t rows;
  const T *tops, *before;
  T *m, *last;
  BOCHNER_DEVICE void operator()(int64_t job) const {
    T largest = before[job];
    for (int64_t row = 0; row < rows; ++row) {
      const T top = tops[job * rows + row];
      largest = top > largest ? top : largest;
      m[job * rows + row] = largest;
    }
    last[job] = largest;
  }
};

/// to (jobs, rows, width) = from times e^(m_row - r_(c+1)), or, if `enters`, e^(r_c - m_row).
template <class T>
struct ScaleRows {
  Shifts<T> shifts;
  int64_t width;
  bool enters;
  const T* from;
  T* to;
  BOCHNER_DEVICE void operator()(int64_t i) const {
    const int64_t job = i / width / shifts.rows;
    const int64_t row = i / width % shifts.rows;
    const int64_t chunk = row / kChunk;
    const T factor =
        enters ? shifts.factor(job, chunk * kChunk - 1, row) : shifts.factor(job, row, (chunk + 1) * kChunk - 1);
    to[i] = factor * from[i];
  }
};

/// One thread per element of S'. Replaces what each chunk adds (jobs, chunks, size) by the state before the chunk; the
/// carried state becomes the one after the slab. Backward goes from the last chunk to the first and leaves the gradient
/// of the state after each chunk.
template <class T>
struct ScanStates {
  Shifts<T> shifts;
  int64_t chunks, size;
  bool backward;
  T *states, *carried;  ///< carried (jobs, size)
  BOCHNER_DEVICE void operator()(int64_t i) const {
    const int64_t job = i / size;
    T value = carried[i];
    for (int64_t step = 0; step < chunks; ++step) {
      const int64_t chunk = backward ? chunks - 1 - step : step;
      T& place = states[(job * chunks + chunk) * size + i % size];
      const T added = place;
      place = value;
      value = value * shifts.factor(job, chunk * kChunk - 1, (chunk + 1) * kChunk - 1) + added;
    }
    carried[i] = value;
  }
};

/// One thread per column: the sums (jobs, chunks, width) of weight times the rows of earlier chunks (in backward, later
/// chunks), starting with `carried`.
template <class T>
struct ScanRows {
  int64_t rows, chunks, width;
  bool backward;
  const T* weights;  ///< (jobs, rows), or null for 1
  const T* x;        ///< (jobs, rows, width)
  T *sums, *carried;
  BOCHNER_DEVICE void operator()(int64_t i) const {
    const int64_t job = i / width;
    const int64_t column = i % width;
    T value = carried[i];
    for (int64_t step = 0; step < chunks; ++step) {
      const int64_t chunk = backward ? chunks - 1 - step : step;
      sums[(job * chunks + chunk) * width + column] = value;
      for (int64_t row = job * rows + chunk * kChunk; row < job * rows + (chunk + 1) * kChunk; ++row) {
        value += (weights == nullptr ? T(1) : weights[row]) * x[row * width + column];
      }
    }
    carried[i] = value;
  }
};

/// A (jobs, rows, kChunk) from F_q F_k^T.
template <class T>
struct Weights {
  Shifts<T> shifts;
  const T* feature_sums;  ///< eps f_i, or null
  T* A;
  BOCHNER_DEVICE void operator()(int64_t i) const {
    const int64_t job = i / kChunk / shifts.rows;
    const int64_t row = i / kChunk % shifts.rows;
    const int64_t column = i % kChunk;
    if (column > row % kChunk) {
      A[i] = 0;
      return;
    }
    const T value = A[i] * shifts.factor(job, row / kChunk * kChunk + column, row);
    A[i] = feature_sums == nullptr ? value : value + feature_sums[i / kChunk];
  }
};

/// Replaces dA_ij = G'_i . v'_j by dA_ij e^(m_j - m_i), or 0 where not visible; flows[row] = eps (sum_j dA_ij + T'_c .
/// G'_i). A team per row.
template <class T>
struct WeightGradients {
  Shifts<T> shifts;
  int64_t width;
  T eps;
  const T *G, *totals;  ///< (jobs, rows, width), (jobs, chunks, width)
  T *dA, *flows;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const int64_t job = team.index() / shifts.rows;
    const int64_t row = team.index() % shifts.rows;
    const int64_t chunk = row / kChunk;
    T* d = dA + team.index() * kChunk;
    T sum = 0;
    for (int64_t j = team.rank(); j < kChunk; j += team.size()) {
      const bool visible = j <= row % kChunk;
      if (visible) sum += d[j];
      d[j] = visible ? d[j] * shifts.factor(job, chunk * kChunk + j, row) : T(0);
    }
    const T* total = totals + (job * (shifts.rows / kChunk) + chunk) * width;
    for (int64_t j = team.rank(); j < width; j += team.size()) sum += total[j] * G[team.index() * width + j];
    sum = team.sum(sum);
    if (team.rank() == 0) flows[team.index()] = eps * sum;
  }
};

template <class T>
struct AddToRows {
  int64_t width;
  const T* rows;
  T* to;
  BOCHNER_DEVICE void operator()(int64_t i) const { to[i] += rows[i / width]; }
};

/// O and the denominators; a team per row.
template <class T>
struct CausalOutput {
  SlabPlace place;
  Shifts<T> shifts;
  bool renormalise;
  T eps;
  int64_t value_dim, width;
  const T *within, *entering;  ///< A V' and F_q S'_c
  const T *feature_sums, *totals;
  Tokens<T> O;
  T* denominators;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const auto token = place.at(team.index());
    if (!token.there) return;
    const int64_t chunk = token.row / kChunk;
    const T factor = shifts.factor(token.job, chunk * kChunk - 1, token.row);
    const T weight = feature_sums == nullptr ? T(0) : feature_sums[team.index()];
    const T* total = totals + (token.job * (shifts.rows / kChunk) + chunk) * width;
    const auto value = [&](int64_t j) {
      const int64_t at = team.index() * width + j;
      return within[at] + factor * entering[at] + weight * total[j];
    };
    const T denominator = renormalise ? value(value_dim) + eps : T(1);
    const T inverse = inverse_of_weights(denominator);
    T* to = O.head(token.b, token.h) + token.token * O.stride;
    for (int64_t j = team.rank(); j < value_dim; j += team.size()) to[j] = value(j) * inverse;
    if (renormalise && team.rank() == 0) {
      denominators[(token.b * place.heads + token.h) * place.length + token.token] = denominator;
    }
  }
};

template <class T>
struct CausalValues {
  SlabPlace place;
  Shifts<T> shifts;
  KeyMask mask;
  int64_t value_dim, width;
  const T *within, *leaving, *totals;  ///< A^T G', F_k R'_(c+1), t'_(c+1)
  Tokens<T> dV;
  BOCHNER_DEVICE void operator()(int64_t i) const {
    const int64_t slab_row = i / value_dim;
    const int64_t j = i % value_dim;
    const auto token = place.at(slab_row);
    if (!token.there) return;
    const int64_t chunk = token.row / kChunk;
    const T factor = shifts.factor(token.job, token.row, (chunk + 1) * kChunk - 1);
    const int64_t at = slab_row * width + j;
    const T value =
        within[at] + factor * leaving[at] + totals[(token.job * (shifts.rows / kChunk) + chunk) * width + j];
    dV.head(token.b, token.h)[token.token * dV.stride + j] = mask.real(token.b, token.token) ? value : T(0);
  }
};

}  // namespace bochner::cuda

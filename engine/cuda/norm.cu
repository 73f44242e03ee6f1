#include "engine/ops/norm.h"

#include <algorithm>

#include "engine/cuda/narrow/norm.h"
#include "engine/cuda/parts/held_rows.h"
#include "engine/cuda/parts/norm_terms.h"

namespace bochner::cuda {
namespace {

/// mean and rstd of a row, in every thread of the team.
template <class T>
struct Moments {
  T mean, rstd;
};
template <class S, class Team, class T = ComputeType<S>>
BOCHNER_DEVICE Moments<T> moments(const Team& team, const S* x, int64_t count, T eps) {
  const T share = T(1) / static_cast<T>(count);
  T sum = 0;
  for (int64_t i = team.rank(); i < count; i += team.size()) sum += static_cast<T>(x[i]);
  const T mean = team.sum(sum) * share;
  T squares = 0;
  for (int64_t i = team.rank(); i < count; i += team.size()) {
    const T centred = static_cast<T>(x[i]) - mean;
    squares += centred * centred;
  }
  return {mean, T(1) / math::sqrt(team.sum(squares) * share + eps)};
}

template <class S, class Team, class T = ComputeType<S>>
BOCHNER_DEVICE void normalise(const Team& team, const S* x, int64_t count, const Moments<T>& row, const T* gamma,
                              const T* beta, S* y) {
  for (int64_t i = team.rank(); i < count; i += team.size()) {
    y[i] = static_cast<S>((static_cast<T>(x[i]) - row.mean) * row.rstd * gamma[i] + beta[i]);
  }
}

template <class S>
struct LayerNormRows {
  using T = ComputeType<S>;
  int64_t columns;
  const S* x;
  const T *gamma, *beta;
  T eps;
  S* y;
  T *mean, *rstd;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const int64_t row = team.index();
    const Moments<T> found = moments(team, x + row * columns, columns, eps);
    normalise(team, x + row * columns, columns, found, gamma, beta, y + row * columns);
    if (team.rank() == 0) {
      mean[row] = found.mean;
      rstd[row] = found.rstd;
    }
  }
};

/// LayerNormRows with the row in registers.
template <class S, int K>
struct HeldLayerNormRows {
  using T = ComputeType<S>;
  int64_t columns;
  const S* x;
  const T *gamma, *beta;
  T eps;
  S* y;
  T *mean, *rstd;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    using Row = HeldRow<T, K>;
    const int64_t row = team.index();
    Row s;
    s.load(team, x + row * columns);
    const T share = T(1) / static_cast<T>(columns);
    T total = 0;
    Row::each([&](int i, int j) { total += s.at[i].at[j]; });
    const T centre = team.sum(total) * share;
    T squares = 0;
    Row::each([&](int i, int j) { squares += (s.at[i].at[j] - centre) * (s.at[i].at[j] - centre); });
    const T scale = T(1) / math::sqrt(team.sum(squares) * share + eps);
    Row weight;
    Row shift;
    weight.load(team, gamma);
    shift.load(team, beta);
    Row::each([&](int i, int j) {
      s.at[i].at[j] = (s.at[i].at[j] - centre) * scale * weight.at[i].at[j] + shift.at[i].at[j];
    });
    s.store(team, y + row * columns);
    if (team.rank() == 0) {
      mean[row] = centre;
      rstd[row] = scale;
    }
  }
};

/// y = (x - mean) rstd gamma + beta.
template <class S>
struct ApplyRows {
  using T = ComputeType<S>;
  int64_t columns;
  const S* x;
  const T *gamma, *beta, *mean, *rstd;
  S* y;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const int64_t row = team.index();
    normalise(team, x + row * columns, columns, Moments<T>{mean[row], rstd[row]}, gamma, beta, y + row * columns);
  }
};

template <class S, int K>
struct HeldApplyRows {
  using T = ComputeType<S>;
  ApplyRows<S> rows;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const int64_t row = team.index();
    HeldRow<T, K> s;
    HeldRow<T, K> weight;
    HeldRow<T, K> shift;
    s.load(team, rows.x + row * rows.columns);
    weight.load(team, rows.gamma);
    shift.load(team, rows.beta);
    const T centre = rows.mean[row];
    const T scale = rows.rstd[row];
    s.each([&](int i, int j) {
      s.at[i].at[j] = (s.at[i].at[j] - centre) * scale * weight.at[i].at[j] + shift.at[i].at[j];
    });
    s.store(team, rows.y + row * rows.columns);
  }
};

template <class S>
struct BackwardRows {
  using T = ComputeType<S>;
  int64_t columns;
  const S *g, *x;
  const T *gamma, *mean, *rstd;
  const S* residual;
  S* dx;  ///< may be the same as g

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const int64_t row = team.index();
    const int64_t at = row * columns;
    const T centre = mean[row];
    const T scale = rstd[row];
    T sum_h = 0;
    T sum_hx = 0;
    for (int64_t i = team.rank(); i < columns; i += team.size()) {
      const T h = static_cast<T>(g[at + i]) * gamma[i];
      sum_h += h;
      sum_hx += h * ((static_cast<T>(x[at + i]) - centre) * scale);
    }
    const T mean_h = team.sum(sum_h) / static_cast<T>(columns);
    const T mean_hx = team.sum(sum_hx) / static_cast<T>(columns);
    for (int64_t i = team.rank(); i < columns; i += team.size()) {
      const T xhat = (static_cast<T>(x[at + i]) - centre) * scale;
      const T flow = (static_cast<T>(g[at + i]) * gamma[i] - mean_h - xhat * mean_hx) * scale;
      dx[at + i] = static_cast<S>(residual == nullptr ? flow : flow + static_cast<T>(residual[at + i]));
    }
  }
};

/// The number of warps that share the rows of a backward pass: more if rows are short, so that as many bytes are in
/// flight.
int64_t backward_warps(int64_t rows, int64_t columns) { return std::min<int64_t>(rows, columns > 512 ? 1056 : 2112); }

/// dx of rows index, index + warps, ..., and parts (warps, 2, columns): the sums of g xhat and of g over these rows. g
/// and x are read once.
template <class S, int K>
struct HeldBackwardRows {
  using T = ComputeType<S>;
  int64_t rows, columns, warps;
  const S *g, *x;
  const T *gamma, *mean, *rstd;
  const S* residual;
  S* dx;
  T* parts;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    using Row = HeldRow<T, K>;
    Row weight;
    Row sum_gx;
    Row sum_g;
    weight.load(team, gamma);
    sum_gx.clear();
    sum_g.clear();
    for (int64_t row = team.index(); row < rows; row += warps) {
      const int64_t at = row * columns;
      Row gradient;
      Row xhat;
      gradient.load(team, g + at);
      xhat.load(team, x + at);
      const T centre = mean[row];
      const T scale = rstd[row];
      T sum_h = 0;
      T sum_hx = 0;
      Row::each([&](int i, int j) {
        T& normed = xhat.at[i].at[j];
        normed = (normed - centre) * scale;
        const T flow = gradient.at[i].at[j];
        sum_gx.at[i].at[j] += flow * normed;
        sum_g.at[i].at[j] += flow;
        const T h = flow * weight.at[i].at[j];
        sum_h += h;
        sum_hx += h * normed;
      });
      const T mean_h = team.sum(sum_h) / static_cast<T>(columns);
      const T mean_hx = team.sum(sum_hx) / static_cast<T>(columns);
      Row::each([&](int i, int j) {
        T& flow = gradient.at[i].at[j];
        flow = (flow * weight.at[i].at[j] - mean_h - xhat.at[i].at[j] * mean_hx) * scale;
      });
      if (residual != nullptr) {
        xhat.load(team, residual + at);
        Row::each([&](int i, int j) { gradient.at[i].at[j] += xhat.at[i].at[j]; });
      }
      gradient.store(team, dx + at);
    }
    sum_gx.store(team, parts + 2 * team.index() * columns);
    sum_g.store(team, parts + (2 * team.index() + 1) * columns);
  }
};

}  // namespace

void layer_norm(const Tensor& x, const NormWeights& weights, double eps, const NormResult& result) {
  if (narrow::layer_norm(x, weights, eps, result)) return;
  const int64_t rows = x.size(0);
  const int64_t columns = x.size(1);
  visit_stored(x.dtype(), "layer_norm", [&]<class S>(TypeTag<S>) {
    using T = ComputeType<S>;
    const bool held = with_held_rows<T>(
        columns, {x.data<S>(), weights.gamma.data<T>(), weights.beta.data<T>(), result.y.data<S>()},
        [&]<int K>(std::integral_constant<int, K>) {
          launch_warps(
              rows, HeldLayerNormRows<S, K>{columns, x.data<S>(), weights.gamma.data<T>(), weights.beta.data<T>(),
                                            static_cast<T>(eps), result.y.data<S>(), result.statistics.mean.data<T>(),
                                            result.statistics.rstd.data<T>()});
        });
    if (held) return;
    launch_rows(
        rows, columns,
        LayerNormRows<S>{columns, x.data<S>(), weights.gamma.data<T>(), weights.beta.data<T>(), static_cast<T>(eps),
                         result.y.data<S>(), result.statistics.mean.data<T>(), result.statistics.rstd.data<T>()});
  });
}

void layer_norm_apply(const Tensor& x, const NormWeights& weights, const NormStatistics& statistics, const Tensor& y) {
  const int64_t rows = x.size(0);
  const int64_t columns = x.size(1);
  visit_stored(x.dtype(), "layer_norm", [&]<class S>(TypeTag<S>) {
    using T = ComputeType<S>;
    const ApplyRows<S> apply{columns,
                             x.data<S>(),
                             weights.gamma.data<T>(),
                             weights.beta.data<T>(),
                             statistics.mean.data<T>(),
                             statistics.rstd.data<T>(),
                             y.data<S>()};
    const bool held = with_held_rows<T>(
        columns, {apply.x, apply.gamma, apply.beta, apply.y},
        [&]<int K>(std::integral_constant<int, K>) { launch_warps(rows, HeldApplyRows<S, K>{apply}); });
    if (!held) launch_rows(rows, columns, apply);
  });
}

void layer_norm_backward(const Tensor& g, const Tensor& x, const Tensor& gamma, const NormStatistics& statistics,
                         const Tensor& residual, const NormGradients& result) {
  if (narrow::layer_norm_backward(g, x, gamma, statistics, residual, result)) return;
  const int64_t rows = x.size(0);
  const int64_t columns = x.size(1);
  visit_stored(x.dtype(), "layer_norm", [&]<class S>(TypeTag<S>) {
    using T = ComputeType<S>;
    const S* others = residual.defined() ? residual.data<S>() : nullptr;
    const bool held = with_held_rows<T>(
        columns, {g.data<S>(), x.data<S>(), gamma.data<T>(), others, result.dx.data<S>()},
        [&]<int K>(std::integral_constant<int, K>) {
          const int64_t warps = backward_warps(rows, columns);
          const Tensor parts = Tensor::empty(Shape{warps, 2, columns}, dtype_of<T>, x.device());
          launch_warps(warps, HeldBackwardRows<S, K>{rows, columns, warps, g.data<S>(), x.data<S>(), gamma.data<T>(),
                                                     statistics.mean.data<T>(), statistics.rstd.data<T>(), others,
                                                     result.dx.data<S>(), parts.data<T>()});
          strip_sums<2, T>(warps, columns, PartTerms<T>{columns, parts.data<T>()},
                           {result.dgamma.data<T>(), result.dbeta.data<T>()});
        });
    if (held) return;
    // Sums that read g come first, since dx may overwrite g.
    strip_sums<2, T>(
        rows, columns,
        GradientTerms<S, true>{columns, g.data<S>(), x.data<S>(), statistics.mean.data<T>(), statistics.rstd.data<T>()},
        {result.dgamma.data<T>(), result.dbeta.data<T>()});
    launch_rows(rows, columns,
                BackwardRows<S>{columns, g.data<S>(), x.data<S>(), gamma.data<T>(), statistics.mean.data<T>(),
                                statistics.rstd.data<T>(), residual.defined() ? residual.data<S>() : nullptr,
                                result.dx.data<S>()});
  });
}

}  // namespace bochner::cuda

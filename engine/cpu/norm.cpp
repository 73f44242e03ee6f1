#include "engine/ops/norm.h"

#include "engine/cpu/parts/column_sum.h"
#include "engine/cpu/parts/norm_rows.h"
#include "engine/cpu/parts/stream.h"

namespace bochner::cpu {

void layer_norm(const Tensor& x, const NormWeights& weights, double eps, const NormResult& result) {
  const int64_t rows = x.size(0);
  const int64_t columns = x.size(1);
  visit_stored(x.dtype(), "layer_norm", [&]<class S>(TypeTag<S>) {
    using T = ComputeType<S>;
    const auto piece = [=, xs = x.data<S>(), scale = weights.gamma.data<T>(), shift = weights.beta.data<T>(),
                        ys = result.y.data<S>(), means = result.statistics.mean.data<T>(),
                        rstds = result.statistics.rstd.data<T>()](int64_t begin, int64_t end) {
      BlockWriter<S> writer(ys + begin * columns, rows * columns);
      for (int64_t row = begin; row < end; row += kRowBlock) {
        const int64_t count = std::min<int64_t>(kRowBlock, end - row);
        const S* from = xs + row * columns;
        row_moments(from, count, columns, static_cast<T>(eps), means + row, rstds + row);
        normalise_rows(from, count, columns, means + row, rstds + row, scale, shift, writer.block(count * columns),
                       columns);
      }
    };
    parallel_for(rows, rows_per_piece(rows, columns), piece);
  });
}

void layer_norm_backward(const Tensor& g, const Tensor& x, const Tensor& gamma, const NormStatistics& statistics,
                         const Tensor& residual, const NormGradients& result) {
  const int64_t rows = x.size(0);
  const int64_t columns = x.size(1);
  visit_stored(x.dtype(), "layer_norm", [&]<class S>(TypeTag<S>) {
    using T = ComputeType<S>;
    const int64_t grain = rows_per_piece(rows, columns);
    const int64_t pieces = ceil_div(rows, grain);
    const Tensor parts = Tensor::zeros({2, pieces, columns}, dtype_of<T>);
    T* dgamma_parts = parts.data<T>();
    T* dbeta_parts = dgamma_parts + pieces * columns;
    const auto piece = [=, others = residual.defined() ? residual.data<S>() : nullptr, gs = g.data<S>(),
                        xs = x.data<S>(), scale = gamma.data<T>(), means = statistics.mean.data<T>(),
                        rstds = statistics.rstd.data<T>(), dxs = result.dx.data<S>()](int64_t begin, int64_t end) {
      const int64_t part = begin / grain * columns;
      BlockWriter<S> writer(dxs + begin * columns, rows * columns);
      for (int64_t row = begin; row < end; row += kRowBlock) {
        const int64_t count = std::min<int64_t>(kRowBlock, end - row);
        const int64_t at = row * columns;
        normalise_rows_backward(gs + at, xs + at, count, columns, means + row, rstds + row, scale,
                                others == nullptr ? nullptr : others + at, writer.block(count * columns),
                                dgamma_parts + part, dbeta_parts + part);
      }
    };
    parallel_for(rows, grain, piece);
    add_parts(pieces, columns, dgamma_parts, result.dgamma.data<T>());
    add_parts(pieces, columns, dbeta_parts, result.dbeta.data<T>());
  });
}

// Each piece computes its own mean and the squared deviations from it while its rows are in cache. Pieces are merged as
// in Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances" (1979).
void column_moments(const Tensor& x, const ColumnMoments& result) {
  const int64_t rows = x.size(0);
  const int64_t columns = x.size(1);
  visit_floating(x.dtype(), "batch_norm", [&]<class T>(TypeTag<T>) {
    const int64_t grain = rows_per_piece(rows, columns);
    const int64_t pieces = ceil_div(rows, grain);
    const Tensor parts = Tensor::zeros({2, pieces, columns}, x.dtype());
    T* means = parts.data<T>();
    T* squares = means + pieces * columns;
    parallel_for(rows, grain, [&](int64_t begin, int64_t end) {
      T* centre = means + begin / grain * columns;
      T* spread = squares + begin / grain * columns;
      add_rows(end - begin, columns, x.data<T>() + begin * columns, columns, centre);
      for (int64_t j = 0; j < columns; ++j) centre[j] /= static_cast<T>(end - begin);
      for (int64_t row = begin; row < end; ++row) {
        const T* from = x.data<T>() + row * columns;
        for_lanes<T>(columns, [&]<class V>(TypeTag<V>, int64_t j) {
          const V centred = load<V>(from + j) - load<V>(centre + j);
          store<V>(spread + j, load<V>(spread + j) + centred * centred);
        });
      }
    });
    T* centre = result.mean.data<T>();
    T* spread = result.variance.data<T>();
    std::copy(means, means + columns, centre);
    std::copy(squares, squares + columns, spread);
    for (int64_t p = 1; p < pieces; ++p) {
      const auto before = static_cast<T>(p * grain);
      const auto added = static_cast<T>(std::min(rows, (p + 1) * grain) - p * grain);
      const T weight = added / (before + added);
      for (int64_t j = 0; j < columns; ++j) {
        const T shift = means[p * columns + j] - centre[j];
        centre[j] += shift * weight;
        spread[j] += squares[p * columns + j] + shift * shift * before * weight;
      }
    }
    for (int64_t j = 0; j < columns; ++j) spread[j] /= static_cast<T>(rows);
  });
}

void batch_norm_apply(const Tensor& x, const NormWeights& weights, const NormStatistics& statistics, const Tensor& y) {
  const int64_t rows = x.size(0);
  const int64_t columns = x.size(1);
  visit_floating(x.dtype(), "batch_norm", [&]<class T>(TypeTag<T>) {
    const auto piece = [=, xs = x.data<T>(), scale = weights.gamma.data<T>(), shift = weights.beta.data<T>(),
                        means = statistics.mean.data<T>(), rstds = statistics.rstd.data<T>(),
                        ys = y.data<T>()](int64_t begin, int64_t end) {
      BlockWriter<T> writer(ys + begin * columns, rows * columns);
      for (int64_t row = begin; row < end; ++row) {
        const T* from = xs + row * columns;
        T* to = writer.block(columns);
        for_lanes<T>(columns, [=]<class V>(TypeTag<V>, int64_t j) {
          const V xhat = (load<V>(from + j) - load<V>(means + j)) * load<V>(rstds + j);
          store<V>(to + j, xhat * load<V>(scale + j) + load<V>(shift + j));
        });
      }
    };
    parallel_for(rows, rows_per_piece(rows, columns), piece);
  });
}

void batch_norm_backward(const Tensor& g, const Tensor& x, const Tensor& gamma, const NormStatistics& statistics,
                         const NormGradients& result) {
  const int64_t rows = x.size(0);
  const int64_t columns = x.size(1);
  visit_floating(x.dtype(), "batch_norm", [&]<class T>(TypeTag<T>) {
    const int64_t grain = rows_per_piece(rows, columns);
    const int64_t pieces = ceil_div(rows, grain);
    const Tensor parts = Tensor::zeros({2, pieces, columns}, x.dtype());
    T* dgamma_parts = parts.data<T>();
    T* dbeta_parts = dgamma_parts + pieces * columns;
    const auto xhat_at = [xs = x.data<T>(), means = statistics.mean.data<T>(), rstds = statistics.rstd.data<T>(),
                          columns]<class V>(TypeTag<V>, int64_t row, int64_t j) {
      return (load<V>(xs + row * columns + j) - load<V>(means + j)) * load<V>(rstds + j);
    };
    parallel_for(rows, grain, [=, gs = g.data<T>()](int64_t begin, int64_t end) {
      T* sum_gx = dgamma_parts + begin / grain * columns;
      T* sum_g = dbeta_parts + begin / grain * columns;
      for (int64_t row = begin; row < end; ++row) {
        const T* gradient = gs + row * columns;
        for_lanes<T>(columns, [=]<class V>(TypeTag<V> tag, int64_t j) {
          store<V>(sum_gx + j, load<V>(sum_gx + j) + load<V>(gradient + j) * xhat_at(tag, row, j));
          store<V>(sum_g + j, load<V>(sum_g + j) + load<V>(gradient + j));
        });
      }
    });
    add_parts(pieces, columns, dgamma_parts, result.dgamma.data<T>());
    add_parts(pieces, columns, dbeta_parts, result.dbeta.data<T>());
    const auto spread = [=, share = T(1) / static_cast<T>(rows), gs = g.data<T>(), scale = gamma.data<T>(),
                         rstds = statistics.rstd.data<T>(), sum_gx = result.dgamma.data<T>(),
                         sum_g = result.dbeta.data<T>(), dxs = result.dx.data<T>()](int64_t begin, int64_t end) {
      BlockWriter<T> writer(dxs + begin * columns, rows * columns);
      for (int64_t row = begin; row < end; ++row) {
        const T* gradient = gs + row * columns;
        T* to = writer.block(columns);
        for_lanes<T>(columns, [=]<class V>(TypeTag<V> tag, int64_t j) {
          const V mean_part = load<V>(sum_g + j) + xhat_at(tag, row, j) * load<V>(sum_gx + j);
          store<V>(to + j, (load<V>(gradient + j) - mean_part * share) * (load<V>(rstds + j) * load<V>(scale + j)));
        });
      }
    };
    parallel_for(rows, grain, spread);
  });
}

}  // namespace bochner::cpu

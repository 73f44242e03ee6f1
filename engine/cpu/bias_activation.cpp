#include "engine/ops/bias_activation.h"

#include "engine/cpu/parts/activation.h"
#include "engine/cpu/parts/column_sum.h"
#include "engine/cpu/parts/stream.h"

namespace bochner::cpu {
namespace {

/// The number of columns that a kernel processes at once, so that its buffers stay in the L1 cache.
constexpr int64_t kColumns = 1024;

}  // namespace

void bias_activation(int64_t rows, int64_t columns, const Tensor& x, const Tensor& bias, Activation activation,
                     const Tensor& y) {
  const Tensor shift = bias.defined() ? bias : Tensor::zeros({columns}, x.dtype());
  visit_floating(x.dtype(), "bias_activation", [&]<class T>(TypeTag<T>) {
    visit_activation(activation, [&](const auto act) {
      const auto piece = [=, xs = x.data<T>(), b = shift.data<T>(), ys = y.data<T>()](int64_t begin, int64_t end) {
        BlockWriter<T> writer(ys + begin * columns, rows * columns);
        for (int64_t row = begin; row < end; ++row) {
          for (int64_t first = 0; first < columns; first += kColumns) {
            const int64_t count = std::min(kColumns, columns - first);
            const T* from = xs + row * columns + first;
            const T* add = b + first;
            T* to = writer.block(count);
#pragma omp simd
            for (int64_t j = 0; j < count; ++j) to[j] = act.forward(from[j] + add[j]);
          }
        }
      };
      parallel_for(rows, rows_per_piece(rows, columns), piece);
    });
  });
}

void bias_activation_backward(int64_t rows, int64_t columns, const Tensor& g, const Tensor& x, const Tensor& bias,
                              Activation activation, const Tensor& dx, const Tensor& dbias) {
  const Tensor shift = bias.defined() ? bias : Tensor::zeros({columns}, x.dtype());
  visit_floating(x.dtype(), "bias_activation", [&]<class T>(TypeTag<T>) {
    const int64_t grain = rows_per_piece(rows, columns);
    const int64_t pieces = ceil_div(rows, grain);
    const Tensor parts = dbias.defined() ? Tensor::zeros({pieces, columns}, x.dtype()) : Tensor();
    T* sums = dbias.defined() ? parts.data<T>() : nullptr;
    visit_activation(activation, [&](const auto act) {
      const auto piece = [=, gs = g.data<T>(), xs = x.data<T>(), b = shift.data<T>(), dxs = dx.data<T>()](int64_t begin,
                                                                                                          int64_t end) {
        BlockWriter<T> writer(dxs + begin * columns, rows * columns);
        for (int64_t row = begin; row < end; ++row) {
          for (int64_t first = 0; first < columns; first += kColumns) {
            const int64_t count = std::min(kColumns, columns - first);
            const T* gradient = gs + row * columns + first;
            const T* from = xs + row * columns + first;
            const T* add = b + first;
            T* to = writer.block(count);
#pragma omp simd
            for (int64_t j = 0; j < count; ++j) to[j] = gradient[j] * act.derivative(from[j] + add[j]);
            if (sums != nullptr) add_rows(1, count, to, count, sums + begin / grain * columns + first);
          }
        }
      };
      parallel_for(rows, grain, piece);
    });
    if (sums != nullptr) add_parts(pieces, columns, sums, dbias.data<T>());
  });
}

void column_sum(int64_t rows, int64_t columns, const Tensor& x, const Tensor& sum) {
  visit_stored(x.dtype(), "column_sum", [&]<class S>(TypeTag<S>) {
    using T = ComputeType<S>;
    // Pieces of at least 64 rows over strips of columns, so that their partial sums are small next to x, whatever its
    // shape. Where they end does not depend on the columns, so that any of these alone have the same sums.
    const int64_t strip = std::min<int64_t>(columns, 2048);
    const int64_t strips = ceil_div(columns, strip);
    const int64_t grain = std::max<int64_t>(64, ceil_div(rows, 64));
    const int64_t pieces = ceil_div(rows, grain);
    const Tensor parts = Tensor::zeros({pieces, columns}, dtype_of<T>);
    parallel_for(pieces * strips, 1, [=, xs = x.data<S>(), sums = parts.data<T>()](int64_t begin, int64_t) {
      const int64_t first = begin / strips * grain;
      const int64_t column = begin % strips * strip;
      add_rows(std::min(grain, rows - first), std::min(strip, columns - column), xs + first * columns + column, columns,
               sums + begin / strips * columns + column);
    });
    add_parts(pieces, columns, parts.data<T>(), sum.data<T>());
  });
}

}  // namespace bochner::cpu

#include "engine/ops/bias_activation.h"

#include "engine/bf16.h"
#include "engine/cuda/parts/activation.h"
#include "engine/cuda/parts/column_sum.h"
#include "engine/cuda/parts/elementwise.h"

namespace bochner::cuda {
namespace {

/// y = act(x + b), four elements per thread; if `vectors`, the number of columns is a multiple of 4.
template <class S, class Act>
struct Forward {
  using T = ComputeType<S>;
  Act act;
  int64_t columns, count;
  bool vectors;
  const S* x;
  const T* bias;
  S* y;

  BOCHNER_DEVICE void operator()(int64_t t) const {
    const int64_t i = 4 * t;
    if (vectors) {
      Four<T> value = load4_as<T>(x + i);
      if (bias != nullptr) {
        const Four<T> add = load4(bias + i % columns);
        for (int j = 0; j < 4; ++j) value.at[j] += add.at[j];
      }
      for (int j = 0; j < 4; ++j) value.at[j] = act.template at<S>(value.at[j]).value;
      store4_from(y + i, value);
      return;
    }
    for (int64_t j = i; j < count && j < i + 4; ++j) {
      const auto value = static_cast<T>(x[j]);
      y[j] = static_cast<S>(act.template at<S>(bias == nullptr ? value : value + bias[j % columns]).value);
    }
  }
};

/// dx = g act'(x + b), and its column sums.
template <class S, class Act>
struct Backward {
  using T = ComputeType<S>;
  Act act;
  int64_t columns;
  const S *g, *x;
  const T* bias;
  S* dx;

  bool movable() const { return aligned(g) && aligned(x) && aligned(bias) && aligned(dx); }
  template <int V>
  BOCHNER_DEVICE void operator()(int64_t row, int64_t column, Vector<T, V> (&sums)[1]) const {
    const int64_t at = row * columns + column;
    Vector<T, V> u = load_as<T, V>(x + at);
    if (bias != nullptr) {
      const Vector<T, V> shift = load<V>(bias + column);
#pragma unroll
      for (int j = 0; j < V; ++j) u.at[j] += shift.at[j];
    }
    Vector<T, V> value = load_as<T, V>(g + at);
#pragma unroll
    for (int j = 0; j < V; ++j) {
      value.at[j] *= act.template at<S>(u.at[j]).slope;
      sums[0].at[j] += value.at[j];
    }
    store_from(dx + at, value);
  }
};

/// The same without sums.
template <class S, class Act>
struct BackwardElements {
  Backward<S, Act> backward;
  BOCHNER_DEVICE void operator()(int64_t i) const {
    Vector<ComputeType<S>, 1> sums[1] = {};
    backward(i / backward.columns, i % backward.columns, sums);
  }
};

}  // namespace

void bias_activation(int64_t rows, int64_t columns, const Tensor& x, const Tensor& bias, Activation activation,
                     const Tensor& y) {
  visit_stored(x.dtype(), "bias_activation", [&]<class S>(TypeTag<S>) {
    using T = ComputeType<S>;
    visit_activation(activation, [&]<class Act>(Act act) {
      const S* from = x.data<S>();
      const T* add = bias.defined() ? bias.data<T>() : nullptr;
      const bool vectors = columns % 4 == 0 && aligned(from) && aligned(y.data<S>()) && aligned(add);
      launch_threads(ceil_div(rows * columns, 4),
                     Forward<S, Act>{act, columns, rows * columns, vectors, from, add, y.data<S>()});
    });
  });
}

void bias_activation_backward(int64_t rows, int64_t columns, const Tensor& g, const Tensor& x, const Tensor& bias,
                              Activation activation, const Tensor& dx, const Tensor& dbias) {
  visit_stored(x.dtype(), "bias_activation", [&]<class S>(TypeTag<S>) {
    using T = ComputeType<S>;
    visit_activation(activation, [&]<class Act>(Act act) {
      const Backward<S, Act> backward{
          act, columns, g.data<S>(), x.data<S>(), bias.defined() ? bias.data<T>() : nullptr, dx.data<S>()};
      if (dbias.defined()) {
        strip_sums<1, T>(rows, columns, backward, {dbias.data<T>()});
      } else {
        launch_threads(rows * columns, BackwardElements<S, Act>{backward});
      }
    });
  });
}

void column_sum(int64_t rows, int64_t columns, const Tensor& x, const Tensor& sum) {
  visit_stored(x.dtype(), "column_sum", [&]<class S>(TypeTag<S>) {
    using T = ComputeType<S>;
    strip_sums<1, T>(rows, columns, ElementTerm<S>{columns, x.data<S>()}, {sum.data<T>()});
  });
}

}  // namespace bochner::cuda

#include "engine/cuda/bias_activation.h"

#include "engine/cuda/activation.h"
#include "engine/cuda/column_sum.h"
#include "engine/cuda/elementwise.h"

namespace bochner::cuda {
namespace {

/// y = act(x + b), four elements to each thread; columns are a multiple of 4 where `vectors`.
template <class T, class Act>
struct Forward {
  Act act;
  int64_t columns, count;
  bool vectors;
  const T *x, *bias;
  T* y;

  BOCHNER_DEVICE void operator()(int64_t t) const {
    const int64_t i = 4 * t;
    if (vectors) {
      Four<T> value = load4(x + i);
      if (bias != nullptr) {
        const Four<T> add = load4(bias + i % columns);
        for (int j = 0; j < 4; ++j) value.at[j] += add.at[j];
      }
      for (int j = 0; j < 4; ++j) value.at[j] = act.forward(value.at[j]);
      store4(y + i, value);
      return;
    }
    for (int64_t j = i; j < count && j < i + 4; ++j) {
      y[j] = act.forward(bias == nullptr ? x[j] : x[j] + bias[j % columns]);
    }
  }
};

/// dx = g act'(x + b), and its column sums.
template <class T, class Act>
struct Backward {
  Act act;
  int64_t columns;
  const T *g, *x, *bias;
  T* dx;

  BOCHNER_DEVICE void operator()(int64_t row, int64_t column, T* sums) const {
    const int64_t at = row * columns + column;
    const T value = g[at] * act.derivative(bias == nullptr ? x[at] : x[at] + bias[column]);
    dx[at] = value;
    sums[0] += value;
  }
};

/// The same without sums.
template <class T, class Act>
struct BackwardElements {
  Backward<T, Act> backward;
  BOCHNER_DEVICE void operator()(int64_t i) const {
    T sums[1] = {};
    backward(i / backward.columns, i % backward.columns, sums);
  }
};

template <class T>
struct Term {
  int64_t columns;
  const T* x;
  BOCHNER_DEVICE void operator()(int64_t row, int64_t column, T* sums) const { sums[0] += x[row * columns + column]; }
};

}  // namespace

void bias_activation(int64_t rows, int64_t columns, const Tensor& x, const Tensor& bias, Activation activation,
                     const Tensor& y) {
  visit_floating(x.dtype(), "bias_activation", [&]<class T>(TypeTag<T>) {
    visit_activation(activation, [&]<class Act>(Act act) {
      const T* from = x.data<T>();
      const T* add = bias.defined() ? bias.data<T>() : nullptr;
      const bool vectors = columns % 4 == 0 && aligned(from) && aligned(y.data<T>()) && aligned(add);
      launch_threads((rows * columns + 3) / 4,
                     Forward<T, Act>{act, columns, rows * columns, vectors, from, add, y.data<T>()});
    });
  });
}

void bias_activation_backward(int64_t rows, int64_t columns, const Tensor& g, const Tensor& x, const Tensor& bias,
                              Activation activation, const Tensor& dx, const Tensor& dbias) {
  visit_floating(x.dtype(), "bias_activation", [&]<class T>(TypeTag<T>) {
    visit_activation(activation, [&]<class Act>(Act act) {
      const Backward<T, Act> backward{
          act, columns, g.data<T>(), x.data<T>(), bias.defined() ? bias.data<T>() : nullptr, dx.data<T>()};
      if (dbias.defined()) {
        strip_sums<1, T>(rows, columns, backward, {dbias.data<T>()});
      } else {
        launch_threads(rows * columns, BackwardElements<T, Act>{backward});
      }
    });
  });
}

void column_sum(int64_t rows, int64_t columns, const Tensor& x, const Tensor& sum) {
  visit_floating(x.dtype(), "column_sum", [&]<class T>(TypeTag<T>) {
    strip_sums<1, T>(rows, columns, Term<T>{columns, x.data<T>()}, {sum.data<T>()});
  });
}

}  // namespace bochner::cuda

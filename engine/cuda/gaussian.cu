#include "engine/ops/gaussian.h"

#include "engine/cuda/parts/elementwise.h"
#include "engine/math.h"

namespace bochner::cuda {
namespace {

template <class T>
struct HalfNorms {
  int64_t columns;
  const T* x;
  T* half;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const T* from = x + team.index() * columns;
    T sum = 0;
    for (int64_t i = team.rank(); i < columns; i += team.size()) sum = math::fma(from[i], from[i], sum);
    sum = team.sum(sum);
    if (team.rank() == 0) half[team.index()] = sum / 2;
  }
};

/// A team per row of C, whose threads take `each` neighbours at once.
template <class T, int each>
struct Gaussian {
  int64_t heads, rows, columns;
  const T* half_x;
  const T* half_y;
  const bool* mask;  ///< or null
  T* C;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const int64_t matrix = team.index() / rows;
    T* const to = C + team.index() * columns;
    const T* const half = half_y + matrix * columns;
    const bool* const real = mask == nullptr ? nullptr : mask + matrix / heads * columns;
    const T own = half_x[team.index()];
    for (int64_t j = team.rank() * each; j < columns; j += team.size() * each) {
      Vector<T, each> value = load<each>(to + j);
      const Vector<T, each> other = load<each>(half + j);
#pragma unroll
      for (int l = 0; l < each; ++l) {
        const T both = own + other.at[l];
        const T exponent = value.at[l] - both;
        const bool near = !(both >= T(1e30)) && (real == nullptr || real[j + l]);
        value.at[l] = near ? math::exp(exponent > T(0) ? T(0) : exponent) : T(0);  // NaN is kept
      }
      store(to + j, value);
    }
  }
};

template <class T, int each>
struct Backward {
  int64_t columns;
  const T* dC;
  const T* C;
  T* W;
  T* sums;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const int64_t at = team.index() * columns;
    T sum = 0;
    for (int64_t j = team.rank() * each; j < columns; j += team.size() * each) {
      const Vector<T, each> gradient = load<each>(dC + at + j);
      Vector<T, each> value = load<each>(C + at + j);
#pragma unroll
      for (int l = 0; l < each; ++l) {
        value.at[l] = value.at[l] == T(0) ? T(0) : gradient.at[l] * value.at[l];
        sum += value.at[l];
      }
      store(W + at + j, value);
    }
    sum = team.sum(sum);
    if (team.rank() == 0) sums[team.index()] = sum;
  }
};

/// One thread per `each` neighbours of a row.
template <class T, int each>
struct SubtractRows {
  int64_t groups;  ///< of a row
  const T* weights;
  const T* x;
  T* to;

  BOCHNER_DEVICE void operator()(int64_t i) const {
    const T weight = -weights[i / groups];
    const Vector<T, each> from = load<each>(x + i * each);
    Vector<T, each> sum = load<each>(to + i * each);
#pragma unroll
    for (int l = 0; l < each; ++l) sum.at[l] = math::fma(weight, from.at[l], sum.at[l]);
    store(to + i * each, sum);
  }
};

/// body(type, integral constant `each`): 4 if rows of this many columns of all `tensors` can be moved in vectors.
template <class Body>
void of_rows(int64_t columns, std::initializer_list<const Tensor*> tensors, const Body& body) {
  visit_floating((*tensors.begin())->dtype(), "gaussian_kernel", [&]<class T>(TypeTag<T> type) {
    bool vectors = columns % 4 == 0;
    for (const Tensor* x : tensors) vectors = vectors && aligned(x->data<T>());
    if (vectors) {
      body(type, std::integral_constant<int, 4>{});
    } else {
      body(type, std::integral_constant<int, 1>{});
    }
  });
}

}  // namespace

void half_norms(int64_t rows, int64_t columns, const Tensor& x, const Tensor& half) {
  visit_floating(x.dtype(), "gaussian_kernel", [&]<class T>(TypeTag<T>) {
    launch_rows(rows, columns, HalfNorms<T>{columns, x.data<T>(), half.data<T>()});
  });
}

void gaussian_kernel(const Tensor& half_x, const Tensor& half_y, const Tensor& mask, const Tensor& C) {
  const int64_t columns = C.size(3);
  const bool* real = mask.defined() ? mask.data<bool>() : nullptr;
  of_rows(columns, {&C, &half_y}, [&]<class T, int each>(TypeTag<T>, std::integral_constant<int, each>) {
    launch_rows(
        half_x.size(), columns,
        Gaussian<T, each>{C.size(1), C.size(2), columns, half_x.data<T>(), half_y.data<T>(), real, C.data<T>()});
  });
}

void gaussian_kernel_backward(int64_t rows, int64_t columns, const Tensor& dC, const Tensor& C, const Tensor& W,
                              const Tensor& sums) {
  of_rows(columns, {&dC, &C, &W}, [&]<class T, int each>(TypeTag<T>, std::integral_constant<int, each>) {
    launch_rows(rows, columns, Backward<T, each>{columns, dC.data<T>(), C.data<T>(), W.data<T>(), sums.data<T>()});
  });
}

void subtract_rows(int64_t rows, int64_t columns, const Tensor& weights, const Tensor& x, const Tensor& to) {
  of_rows(columns, {&x, &to}, [&]<class T, int each>(TypeTag<T>, std::integral_constant<int, each>) {
    launch_threads(rows * columns / each,
                   SubtractRows<T, each>{columns / each, weights.data<T>(), x.data<T>(), to.data<T>()});
  });
}

}  // namespace bochner::cuda

#include "engine/cpu/norm.h"

#include <algorithm>

#include "engine/cpu/lanes.h"
#include "engine/math.h"
#include "engine/parallel.h"

namespace bochner::cpu {
namespace {

// Rows of one piece of work; the parameters' gradients have one partial sum per piece.
constexpr int64_t kRows = 256;

template <class T>
void normalise(const T* x, const T* gamma, const T* beta, double eps, int64_t d, T* y, T& mean, T& rstd) {
  mean = lane_sum<T>(d, [&](int64_t i) { return x[i]; }) / static_cast<T>(d);
  const T centre = mean;
  const T variance = lane_sum<T>(d, [&](int64_t i) { return (x[i] - centre) * (x[i] - centre); }) / static_cast<T>(d);
  rstd = T(1) / math::sqrt(variance + static_cast<T>(eps));
  const T scale = rstd;
  for (int64_t i = 0; i < d; ++i) y[i] = (x[i] - centre) * scale * gamma[i] + beta[i];
}

}  // namespace

void layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps, const Tensor& y,
                const Tensor& mean, const Tensor& rstd) {
  const int64_t d = x.size(-1);
  visit_floating(x.dtype(), "layer_norm", [&]<class T>(TypeTag<T>) {
    parallel_for(x.size(0), kRows, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        normalise(x.data<T>() + row * d, gamma.data<T>(), beta.data<T>(), eps, d, y.data<T>() + row * d,
                  mean.data<T>()[row], rstd.data<T>()[row]);
      }
    });
  });
}

void layer_norm_backward(const Tensor& g, const Tensor& x, const Tensor& gamma, const Tensor& mean, const Tensor& rstd,
                         const Tensor& dx, const Tensor& dgamma, const Tensor& dbeta) {
  const int64_t rows = x.size(0);
  const int64_t d = x.size(-1);
  const int64_t pieces = (rows + kRows - 1) / kRows;
  visit_floating(x.dtype(), "layer_norm", [&]<class T>(TypeTag<T>) {
    const Tensor partial = Tensor::zeros({std::max<int64_t>(pieces, 1), 2, d}, x.dtype());
    parallel_for(rows, kRows, [&](int64_t begin, int64_t end) {
      T* const gamma_sum = partial.data<T>() + begin / kRows * 2 * d;
      T* const beta_sum = gamma_sum + d;
      const T* const scale = gamma.data<T>();
      for (int64_t row = begin; row < end; ++row) {
        const T* gradient = g.data<T>() + row * d;
        const T* value = x.data<T>() + row * d;
        T* to = dx.data<T>() + row * d;
        const T centre = mean.data<T>()[row];
        const T r = rstd.data<T>()[row];
        const T mean_h = lane_sum<T>(d, [&](int64_t i) { return gradient[i] * scale[i]; }) / static_cast<T>(d);
        const T mean_hn =
            lane_sum<T>(d, [&](int64_t i) { return gradient[i] * scale[i] * ((value[i] - centre) * r); }) /
            static_cast<T>(d);
        for (int64_t i = 0; i < d; ++i) {
          const T n = (value[i] - centre) * r;
          gamma_sum[i] += gradient[i] * n;
          beta_sum[i] += gradient[i];
          to[i] = r * (gradient[i] * scale[i] - mean_h - n * mean_hn);
        }
      }
    });
    T* const to_gamma = dgamma.data<T>();
    T* const to_beta = dbeta.data<T>();
    std::fill(to_gamma, to_gamma + d, T(0));
    std::fill(to_beta, to_beta + d, T(0));
    for (int64_t piece = 0; piece < pieces; ++piece) {
      const T* from = partial.data<T>() + piece * 2 * d;
      for (int64_t i = 0; i < d; ++i) to_gamma[i] += from[i];
      for (int64_t i = 0; i < d; ++i) to_beta[i] += from[d + i];
    }
  });
}

}  // namespace bochner::cpu

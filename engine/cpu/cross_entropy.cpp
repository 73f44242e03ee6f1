#include "engine/ops/cross_entropy.h"

#include <limits>
#include <vector>

#include "engine/cpu/parts/lanes.h"
#include "engine/math.h"
#include "engine/ops/index.h"
#include "engine/parallel.h"

namespace bochner::cpu {
namespace {

constexpr int64_t kPiece = 16384;
constexpr int64_t kRowPiece = 2048;  // rows; each of their elements needs an exponential

template <class T>
T maximum(const T* x, int64_t count) {
  using V = Vector<T>;
  T top = -std::numeric_limits<T>::infinity();
  int64_t i = 0;
  if (count >= kLanes<T>) {
    V tops = load<V>(x);
    for (i = kLanes<T>; i + kLanes<T> <= count; i += kLanes<T>) {
      const V next = load<V>(x + i);
      tops = next > tops ? next : tops;
    }
    for (int lane = 0; lane < kLanes<T>; ++lane) top = tops[lane] > top ? tops[lane] : top;
  }
  for (; i < count; ++i) top = x[i] > top ? x[i] : top;
  return top;
}

/// ln sum_j e^(x_j - top), where top is the largest x_j; 0 if that is -inf.
template <class T>
T log_sum_exp_below(const T* x, int64_t count, T top) {
  if (top == -std::numeric_limits<T>::infinity()) return 0;
  return math::log(lane_sum<T>(count, [x, top](int64_t i) { return math::exp(x[i] - top); }));
}

/// The number of rows that count. A label that is neither a class nor `ignore` is the caller's mistake.
int64_t check_labels(const int64_t* labels, int64_t rows, int64_t classes, const std::optional<int64_t>& ignore) {
  int64_t counted = 0;
  for (int64_t row = 0; row < rows; ++row) {
    if (ignore && labels[row] == *ignore) continue;
    if (labels[row] < 0 || labels[row] >= classes)
      fail("{}", out_of_range("cross_entropy", std::to_string(row), labels[row], classes));
    ++counted;
  }
  return counted;
}

/// The sum over [0, count) of term(begin, end), one double per piece, added in order.
template <class Term>
double sum_of_pieces(int64_t count, int64_t grain, const Term& term) {
  std::vector<double> parts(static_cast<size_t>(ceil_div(count, grain)));
  parallel_for(count, grain,
               [&](int64_t begin, int64_t end) { parts[static_cast<size_t>(begin / grain)] = term(begin, end); });
  double total = 0;
  for (const double part : parts) total += part;
  return total;
}

int64_t row_grain(int64_t columns) { return std::max<int64_t>(1, kRowPiece / std::max<int64_t>(1, columns)); }

/// loss = 1/n sum_i term(x_i, t_i)
template <class Term>
void mean_of(const char* op, const Tensor& x, const Tensor& targets, const Tensor& loss, const Term& term) {
  visit_floating(x.dtype(), op, [&]<class T>(TypeTag<T>) {
    const double total =
        sum_of_pieces(x.size(), kPiece, [&, a = x.data<T>(), t = targets.data<T>()](int64_t begin, int64_t end) {
          double sum = 0;
          for (int64_t first = begin; first < end; first += 1024) {
            sum += static_cast<double>(
                lane_sum<T>(std::min<int64_t>(1024, end - first),
                            [&, from = a + first, to = t + first](int64_t i) { return term(from[i], to[i]); }));
          }
          return sum;
        });
    *loss.data<T>() = static_cast<T>(total / static_cast<double>(std::max<int64_t>(1, x.size())));
  });
}

/// dx_i = g / n derivative(x_i, t_i)
template <class Derivative>
void mean_backward(const char* op, const Tensor& g, const Tensor& x, const Tensor& targets, const Tensor& dx,
                   const Derivative& derivative) {
  visit_floating(x.dtype(), op, [&]<class T>(TypeTag<T>) {
    const T scale = *g.data<T>() / static_cast<T>(std::max<int64_t>(1, x.size()));
    parallel_for(x.size(), kPiece,
                 [=, a = x.data<T>(), t = targets.data<T>(), to = dx.data<T>()](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) to[i] = scale * derivative(a[i], t[i]);
                 });
  });
}

}  // namespace

void cross_entropy(int64_t rows, int64_t classes, const Tensor& x, const Tensor& labels,
                   const CrossEntropyOptions& options, const Tensor& loss, const Tensor& rest) {
  const int64_t* label = labels.data<int64_t>();
  const int64_t counted = check_labels(label, rows, classes, options.ignore);
  visit_floating(x.dtype(), "cross_entropy", [&]<class T>(TypeTag<T>) {
    const T smoothing = static_cast<T>(options.smoothing);
    const T uniform = smoothing / static_cast<T>(classes);
    const auto piece = [&, xs = x.data<T>(), rests = rest.data<T>()](int64_t begin, int64_t end) {
      double sum = 0;
      for (int64_t row = begin; row < end; ++row) {
        const T* from = xs + row * classes;
        const T top = maximum(from, classes);
        rests[row] = log_sum_exp_below(from, classes, top);
        if (options.ignore && label[row] == *options.ignore) continue;
        T loss_of_row = rests[row] - (T(1) - smoothing) * (from[label[row]] - top);
        if (smoothing > T(0)) {
          loss_of_row -= uniform * sum_lanes<T>(classes, [from, top]<class V>(TypeTag<V>, int64_t i) {
                           return load<V>(from + i) - top;
                         });
        }
        sum += static_cast<double>(loss_of_row);
      }
      return sum;
    };
    const double total = sum_of_pieces(rows, row_grain(classes), piece);
    *loss.data<T>() = static_cast<T>(total / static_cast<double>(std::max<int64_t>(1, counted)));
  });
}

void cross_entropy_backward(int64_t rows, int64_t classes, const Tensor& g, const Tensor& x, const Tensor& labels,
                            const Tensor& rest, const CrossEntropyOptions& options, const Tensor& dx) {
  const int64_t* label = labels.data<int64_t>();
  const int64_t counted = check_labels(label, rows, classes, options.ignore);
  visit_floating(x.dtype(), "cross_entropy", [&]<class T>(TypeTag<T>) {
    const T scale = *g.data<T>() / static_cast<T>(std::max<int64_t>(1, counted));
    const T smoothing = static_cast<T>(options.smoothing);
    const T uniform = smoothing / static_cast<T>(classes);
    const auto piece = [&, xs = x.data<T>(), rests = rest.data<T>(), dxs = dx.data<T>()](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* from = xs + row * classes;
        T* to = dxs + row * classes;
        if (options.ignore && label[row] == *options.ignore) {
          std::fill(to, to + classes, T(0));
          continue;
        }
        const T top = maximum(from, classes);
        const T below = rests[row];
        for (int64_t j = 0; j < classes; ++j) to[j] = scale * (math::exp(from[j] - top - below) - uniform);
        to[label[row]] -= scale * (T(1) - smoothing);
      }
    };
    parallel_for(rows, row_grain(classes), piece);
  });
}

void binary_cross_entropy(const Tensor& x, const Tensor& targets, const Tensor& loss) {
  mean_of("binary_cross_entropy", x, targets, loss,
          []<class T>(T a, T t) { return math::relu(a) - a * t + math::log1p(math::exp(-math::abs(a))); });
}

void binary_cross_entropy_backward(const Tensor& g, const Tensor& x, const Tensor& targets, const Tensor& dx) {
  mean_backward("binary_cross_entropy", g, x, targets, dx, []<class T>(T a, T t) { return math::sigmoid(a) - t; });
}

void mean_squared_error(const Tensor& x, const Tensor& targets, const Tensor& loss) {
  mean_of("mean_squared_error", x, targets, loss, []<class T>(T a, T t) { return (a - t) * (a - t); });
}

void mean_squared_error_backward(const Tensor& g, const Tensor& x, const Tensor& targets, const Tensor& dx) {
  mean_backward("mean_squared_error", g, x, targets, dx, []<class T>(T a, T t) { return T(2) * (a - t); });
}

}  // namespace bochner::cpu

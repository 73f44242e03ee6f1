#include "engine/ops/cross_entropy.h"

#include <algorithm>
#include <limits>

#include "engine/cuda/parts/launch.h"
#include "engine/math.h"

namespace bochner::cuda {
namespace {

Tensor doubles(int64_t count) { return Tensor::empty({count}, DType::f64, Device::cuda(platform::current())); }

/// to[block] = sum of term(i) over a piece of [0, count).
template <class Term>
struct PieceSum {
  int64_t count, piece;
  Term term;
  double* to;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const int64_t begin = team.index() * piece;
    const int64_t end = begin + piece < count ? begin + piece : count;
    double sum = 0;
    for (int64_t i = begin + team.rank(); i < end; i += team.size()) sum += term(i);
    sum = team.sum(sum);
    if (team.rank() == 0) to[team.index()] = sum;
  }
};
struct Element {
  const double* x;
  BOCHNER_DEVICE double operator()(int64_t i) const { return x[i]; }
};

constexpr int64_t kPiece = 8192;

/// *to = sum of term(i) over [0, count), in an order that follows from count.
template <class Term>
void sum_terms(int64_t count, const Term& term, double* to) {
  const int64_t pieces = std::max<int64_t>(1, ceil_div(count, kPiece));
  if (pieces == 1) {
    launch_blocks<256>(1, 0, PieceSum<Term>{count, kPiece, term, to});
    return;
  }
  const Tensor parts = doubles(pieces);
  launch_blocks<256>(pieces, 0, PieceSum<Term>{count, kPiece, term, parts.data<double>()});
  sum_terms(pieces, Element{parts.data<double>()}, to);
}

/// loss = total / max(1, counted)
template <class T>
struct Mean {
  const double* total;
  const double* counted;  ///< null: `count`
  double count;
  T* loss;
  BOCHNER_DEVICE void operator()(int64_t) const {
    const double n = counted == nullptr ? count : *counted;
    *loss = static_cast<T>(*total / (n > 1 ? n : 1));
  }
};

struct Labels {
  const int64_t* label;
  int64_t classes;
  bool ignores;
  int64_t ignored;
  const char* op = "cross_entropy";  ///< set by the host, which prints it: a literal of a kernel lies on the card
  Fault* fault;

  Labels(const Tensor& labels, int64_t kinds, const CrossEntropyOptions& options)
      : label(labels.data<int64_t>()),
        classes(kinds),
        ignores(options.ignore.has_value()),
        ignored(options.ignore.value_or(0)),
        fault(platform::fault()) {}

  /// Does the row count? Labels outside the classes are reported.
  BOCHNER_DEVICE bool counts(int64_t row) const {
    const int64_t y = label[row];
    if (ignores && y == ignored) return false;
    if (y >= 0 && y < classes) return true;
    raise(fault, op, row, y, classes);
    return false;
  }
};
struct Counted {
  Labels labels;
  BOCHNER_DEVICE double operator()(int64_t row) const { return labels.counts(row) ? 1 : 0; }
};

template <class T>
struct RowLosses {
  Labels labels;
  int64_t columns;
  T smoothing;
  const T* x;
  T* logsumexp;
  double* losses;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const int64_t row = team.index();
    const T* from = x + row * columns;
    T top = -std::numeric_limits<T>::infinity();
    for (int64_t i = team.rank(); i < columns; i += team.size()) top = from[i] > top ? from[i] : top;
    top = team.max(top);
    T sum = 0;
    T plain = 0;
    const bool hidden = top == -std::numeric_limits<T>::infinity();
    for (int64_t i = team.rank(); i < columns && !hidden; i += team.size()) {
      sum += math::exp(from[i] - top);
      plain += from[i];
    }
    sum = team.sum(sum);
    plain = team.sum(plain);
    if (team.rank() != 0) return;
    const T lse = hidden ? top : top + math::log(sum);
    logsumexp[row] = lse;
    if (!labels.counts(row)) {
      losses[row] = 0;
      return;
    }
    T loss = lse - (T(1) - smoothing) * from[labels.label[row]];
    if (smoothing > T(0)) loss -= smoothing / static_cast<T>(columns) * plain;
    losses[row] = static_cast<double>(loss);
  }
};

template <class T>
struct RowGradients {
  Labels labels;
  int64_t columns;
  T smoothing;
  const double* counted;
  const T *g, *x, *logsumexp;
  T* dx;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const int64_t row = team.index();
    const T* from = x + row * columns;
    T* to = dx + row * columns;
    const bool counts = labels.counts(row);
    const T scale = counts ? *g / static_cast<T>(*counted > 1 ? *counted : 1) : T(0);
    const T uniform = smoothing / static_cast<T>(columns);
    const T lse = logsumexp[row];
    for (int64_t i = team.rank(); i < columns; i += team.size()) {
      const T target = uniform + (i == labels.label[row] ? T(1) - smoothing : T(0));
      to[i] = counts ? scale * (math::exp(from[i] - lse) - target) : T(0);
    }
  }
};

// ---- losses of pairs

struct Binary {
  template <class T>
  BOCHNER_DEVICE T forward(T a, T t) const {
    return math::relu(a) - a * t + math::log1p(math::exp(-math::abs(a)));
  }
  template <class T>
  BOCHNER_DEVICE T derivative(T a, T t) const {
    return math::sigmoid(a) - t;
  }
};
struct Squared {
  template <class T>
  BOCHNER_DEVICE T forward(T a, T t) const {
    return (a - t) * (a - t);
  }
  template <class T>
  BOCHNER_DEVICE T derivative(T a, T t) const {
    return T(2) * (a - t);
  }
};

template <class T, class Op>
struct PairTerm {
  const T *x, *t;
  BOCHNER_DEVICE double operator()(int64_t i) const { return static_cast<double>(Op{}.forward(x[i], t[i])); }
};
template <class T, class Op>
struct PairGradient {
  T count;
  const T *g, *x, *t;
  T* dx;
  BOCHNER_DEVICE void operator()(int64_t i) const { dx[i] = *g / count * Op{}.derivative(x[i], t[i]); }
};

template <class Op>
void mean_of(const Tensor& x, const Tensor& targets, const Tensor& loss) {
  visit_floating(x.dtype(), "loss", [&]<class T>(TypeTag<T>) {
    const Tensor total = doubles(1);
    sum_terms(x.size(), PairTerm<T, Op>{x.data<T>(), targets.data<T>()}, total.data<double>());
    launch_threads(1, Mean<T>{total.data<double>(), nullptr, static_cast<double>(x.size()), loss.data<T>()});
  });
}

template <class Op>
void mean_backward(const Tensor& g, const Tensor& x, const Tensor& targets, const Tensor& dx) {
  visit_floating(x.dtype(), "loss", [&]<class T>(TypeTag<T>) {
    const T count = static_cast<T>(std::max<int64_t>(1, x.size()));
    launch_threads(x.size(), PairGradient<T, Op>{count, g.data<T>(), x.data<T>(), targets.data<T>(), dx.data<T>()});
  });
}

}  // namespace

void cross_entropy(int64_t rows, int64_t classes, const Tensor& x, const Tensor& labels,
                   const CrossEntropyOptions& options, const Tensor& loss, const Tensor& logsumexp) {
  visit_floating(x.dtype(), "cross_entropy", [&]<class T>(TypeTag<T>) {
    const Labels all(labels, classes, options);
    const Tensor losses = doubles(std::max<int64_t>(rows, 1));
    const Tensor sums = doubles(2);
    auto* totals = sums.data<double>();
    launch_rows(rows, classes,
                RowLosses<T>{all, classes, static_cast<T>(options.smoothing), x.data<T>(), logsumexp.data<T>(),
                             losses.data<double>()});
    sum_terms(rows, Element{losses.data<double>()}, totals);
    sum_terms(rows, Counted{all}, totals + 1);
    launch_threads(1, Mean<T>{totals, totals + 1, 0, loss.data<T>()});
  });
}

void cross_entropy_backward(int64_t rows, int64_t classes, const Tensor& g, const Tensor& x, const Tensor& labels,
                            const Tensor& logsumexp, const CrossEntropyOptions& options, const Tensor& dx) {
  visit_floating(x.dtype(), "cross_entropy", [&]<class T>(TypeTag<T>) {
    const Labels all(labels, classes, options);
    const Tensor counted = doubles(1);
    sum_terms(rows, Counted{all}, counted.data<double>());
    launch_rows(rows, classes,
                RowGradients<T>{all, classes, static_cast<T>(options.smoothing), counted.data<double>(), g.data<T>(),
                                x.data<T>(), logsumexp.data<T>(), dx.data<T>()});
  });
}

void binary_cross_entropy(const Tensor& x, const Tensor& targets, const Tensor& loss) {
  mean_of<Binary>(x, targets, loss);
}
void binary_cross_entropy_backward(const Tensor& g, const Tensor& x, const Tensor& targets, const Tensor& dx) {
  mean_backward<Binary>(g, x, targets, dx);
}
void mean_squared_error(const Tensor& x, const Tensor& targets, const Tensor& loss) {
  mean_of<Squared>(x, targets, loss);
}
void mean_squared_error_backward(const Tensor& g, const Tensor& x, const Tensor& targets, const Tensor& dx) {
  mean_backward<Squared>(g, x, targets, dx);
}

}  // namespace bochner::cuda

#include "engine/ops/cross_entropy.h"

#include <algorithm>
#include <limits>
#include <numbers>

#include "engine/cuda/parts/held_rows.h"
#include "engine/cuda/parts/warp_tile.h"
#include "engine/math.h"

namespace bochner::cuda {
namespace {

Tensor doubles(int64_t count) { return Tensor::empty({count}, DType::f64, Device::cuda(platform::current())); }

/// end(block, sums), where sums[0 .. N) is what term(i, sums) adds to them over a piece of [0, count).
template <int N, class Term, class End>
struct PieceSums {
  int64_t count, piece;
  Term term;
  End end;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const int64_t begin = team.index() * piece;
    const int64_t stop = begin + piece < count ? begin + piece : count;
    double sums[N] = {};
    for (int64_t i = begin + team.rank(); i < stop; i += team.size()) term(i, sums);
    for (int c = 0; c < N; ++c) sums[c] = team.sum(sums[c]);
    if (team.rank() == 0) end(team.index(), sums);
  }
};
/// Sums of pieces, written and read.
template <int N>
struct Parts {
  double* parts;
  BOCHNER_DEVICE void operator()(int64_t i, double* sums) const {
    for (int c = 0; c < N; ++c) sums[c] += parts[i * N + c];
  }
};
template <int N>
struct ToParts {
  double* parts;
  BOCHNER_DEVICE void operator()(int64_t block, const double* sums) const {
    for (int c = 0; c < N; ++c) parts[block * N + c] = sums[c];
  }
};

/// end(0, sums) with the sums over [0, count), in an order that depends only on count.
template <int N, class Term, class End>
void sum_terms(int64_t count, const Term& term, const End& end) {
  if (count <= 4096) {
    launch_blocks<256>(1, 0, PieceSums<N, Term, End>{count, count, term, end});
    return;
  }
  const int64_t piece = std::max<int64_t>(1024, ceil_div(count, 2048));
  const int64_t pieces = ceil_div(count, piece);
  const Tensor parts = doubles(pieces * N);
  auto* data = parts.data<double>();
  launch_blocks<256>(pieces, 0, PieceSums<N, Term, ToParts<N>>{count, piece, term, {data}});
  launch_blocks<256>(1, 0, PieceSums<N, Parts<N>, End>{pieces, pieces, {data}, end});
}

/// *loss = sums[0] / count
template <class T>
struct Mean {
  double count;
  T* loss;
  BOCHNER_DEVICE void operator()(int64_t, const double* sums) const { *loss = static_cast<T>(sums[0] / count); }
};
/// *loss = sums[0] / max(1, sums[1])
template <class T>
struct MeanOfCounted {
  T* loss;
  BOCHNER_DEVICE void operator()(int64_t, const double* sums) const {
    *loss = static_cast<T>(sums[0] / (sums[1] > 1 ? sums[1] : 1));
  }
};

struct Labels {
  const int64_t* label;
  int64_t classes;
  bool ignores;
  int64_t ignored;
  const char* op = "cross_entropy";  ///< set and printed by the host: a literal in a kernel lies on the card
  Fault* fault;

  Labels(const Tensor& labels, int64_t kinds, const CrossEntropyOptions& options)
      : label(labels.data<int64_t>()),
        classes(kinds),
        ignores(options.ignore.has_value()),
        ignored(options.ignore.value_or(0)),
        fault(platform::fault()) {}

  /// Whether the row counts. Labels outside the classes are reported.
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
  BOCHNER_DEVICE void operator()(int64_t row, double* sums) const { sums[0] += labels.counts(row) ? 1 : 0; }
};
struct LossAndCounted {
  const double* losses;
  Labels labels;
  BOCHNER_DEVICE void operator()(int64_t row, double* sums) const {
    sums[0] += losses[row];
    sums[1] += labels.counts(row) ? 1 : 0;
  }
};

template <class Team, class T>
BOCHNER_DEVICE T maximum(const Team& team, const T* x, int64_t count) {
  T top = -std::numeric_limits<T>::infinity();
  for (int64_t i = team.rank(); i < count; i += team.size()) top = x[i] > top ? x[i] : top;
  return team.max(top);
}

template <class T>
struct RowLosses {
  Labels labels;
  int64_t columns;
  T smoothing;
  const T* x;
  T* rests;
  double* losses;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const int64_t row = team.index();
    const T* from = x + row * columns;
    const T top = maximum(team, from, columns);
    T sum = 0;
    T plain = 0;
    const bool hidden = top == -std::numeric_limits<T>::infinity();
    for (int64_t i = team.rank(); i < columns && !hidden; i += team.size()) {
      sum += math::exp(from[i] - top);
      plain += from[i] - top;
    }
    const bool counts = labels.counts(row);
    write(team, counts, counts ? from[labels.label[row]] : T(0), top, team.sum(sum), team.sum(plain));
  }
  /// own: the element of the label; sum: that of e^(x - top), not usable if top is -inf; plain: that of x - top.
  template <class Team>
  BOCHNER_DEVICE void write(const Team& team, bool counts, T own, T top, T sum, T plain) const {
    if (team.rank() != 0) return;
    const int64_t row = team.index();
    const T rest = top == -std::numeric_limits<T>::infinity() ? T(0) : math::log(sum);
    rests[row] = rest;
    T loss = rest - (T(1) - smoothing) * (own - top);
    if (smoothing > T(0)) loss -= smoothing / static_cast<T>(columns) * plain;
    losses[row] = counts ? static_cast<double>(loss) : 0;
  }
};

/// The same with the row in registers. The exponentials need not be exact at the end of their range, since e^0 is among
/// them.
template <int K>
struct HeldRowLosses {
  RowLosses<float> rows;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    using Row = HeldRow<float, K>;
    const float* from = rows.x + team.index() * rows.columns;
    Row row;
    row.load(team, from);
    const bool counts = rows.labels.counts(team.index());
    const float own = counts ? from[rows.labels.label[team.index()]] : 0.0f;
    const float top = row.max(team);
    Row::each([&](int i, int j) { row.at[i].at[j] -= top; });
    const float plain = row.sum(team);
    Row::each(
        [&](int i, int j) { row.at[i].at[j] = fast_exp2(row.at[i].at[j] * static_cast<float>(std::numbers::log2e)); });
    rows.write(team, counts, own, top, row.sum(team), plain);
  }
};

template <class T>
struct RowGradients {
  Labels labels;
  int64_t columns;
  T smoothing;
  const double* counted;
  const T *g, *x, *rests;
  T* dx;

  /// What the elements of a row have in common.
  struct Row {
    bool counts;
    int64_t label;
    T rest, scale, uniform, own;
    /// below: x_ij - max_j x_ij
    BOCHNER_DEVICE T gradient(T below, bool labelled) const {
      return scale * (math::exp(below - rest) - (uniform + (labelled ? own : T(0))));
    }
  };
  BOCHNER_DEVICE Row row(int64_t index) const {
    const bool counts = labels.counts(index);
    const T scale = counts ? *g / static_cast<T>(*counted > 1 ? *counted : 1) : T(0);
    const T uniform = smoothing / static_cast<T>(columns);
    return {counts, labels.label[index], rests[index], scale, uniform, T(1) - smoothing};
  }
  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const T* from = x + team.index() * columns;
    T* to = dx + team.index() * columns;
    const Row shared = row(team.index());
    const T top = maximum(team, from, columns);
    for (int64_t i = team.rank(); i < columns; i += team.size()) {
      to[i] = shared.counts ? shared.gradient(from[i] - top, i == shared.label) : T(0);
    }
  }
};

/// The same with the row in registers.
template <int K>
struct HeldRowGradients {
  RowGradients<float> rows;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    using Row = HeldRow<float, K>;
    Row row;
    row.load(team, rows.x + team.index() * rows.columns);
    const auto shared = rows.row(team.index());
    if (shared.counts) {
      const auto label = static_cast<int>(shared.label);
      const float top = row.max(team);
      Row::each([&](int i, int j) {
        const bool labelled = label == static_cast<int>(Row::place(team, i)) + j;
        row.at[i].at[j] = shared.gradient(row.at[i].at[j] - top, labelled);
      });
    } else {
      row.clear();
    }
    row.store(team, rows.dx + team.index() * rows.columns);
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
  BOCHNER_DEVICE void operator()(int64_t i, double* sums) const {
    sums[0] += static_cast<double>(Op{}.forward(x[i], t[i]));
  }
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
    const auto count = static_cast<double>(std::max<int64_t>(1, x.size()));
    sum_terms<1>(x.size(), PairTerm<T, Op>{x.data<T>(), targets.data<T>()}, Mean<T>{count, loss.data<T>()});
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
                   const CrossEntropyOptions& options, const Tensor& loss, const Tensor& rest) {
  visit_floating(x.dtype(), "cross_entropy", [&]<class T>(TypeTag<T>) {
    const Labels all(labels, classes, options);
    const Tensor losses = doubles(std::max<int64_t>(rows, 1));
    const RowLosses<T> each{all,         classes,        static_cast<T>(options.smoothing),
                            x.data<T>(), rest.data<T>(), losses.data<double>()};
    const bool held = with_held_rows<T>(classes, {x.data<T>()}, [&]<int K>(std::integral_constant<int, K>) {
      if constexpr (std::is_same_v<T, float>) launch_warps(rows, HeldRowLosses<K>{each});
    });
    if (!held) launch_rows(rows, classes, each);
    sum_terms<2>(rows, LossAndCounted{losses.data<double>(), all}, MeanOfCounted<T>{loss.data<T>()});
  });
}

void cross_entropy_backward(int64_t rows, int64_t classes, const Tensor& g, const Tensor& x, const Tensor& labels,
                            const Tensor& rest, const CrossEntropyOptions& options, const Tensor& dx) {
  visit_floating(x.dtype(), "cross_entropy", [&]<class T>(TypeTag<T>) {
    const Labels all(labels, classes, options);
    const Tensor counted = doubles(1);
    sum_terms<1>(rows, Counted{all}, ToParts<1>{counted.data<double>()});
    const RowGradients<T> each{all,
                               classes,
                               static_cast<T>(options.smoothing),
                               counted.data<double>(),
                               g.data<T>(),
                               x.data<T>(),
                               rest.data<T>(),
                               dx.data<T>()};
    const bool held =
        with_held_rows<T>(classes, {x.data<T>(), dx.data<T>()}, [&]<int K>(std::integral_constant<int, K>) {
          if constexpr (std::is_same_v<T, float>) launch_warps(rows, HeldRowGradients<K>{each});
        });
    if (!held) launch_rows(rows, classes, each);
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

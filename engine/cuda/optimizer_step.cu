// Many tensors in few launches: each takes a table of up to kTensors of them and of the pieces that its blocks have.
#include "engine/cuda/optimizer_step.h"

#include <cmath>

#include "engine/cuda/launch.h"
#include "engine/math.h"

namespace bochner::cuda {
namespace {

constexpr int64_t kPiece = 16384;
constexpr int kTensors = 48;
constexpr int kPieces = 320;

/// Passed by value to a kernel: below 4 KB.
template <int operands>
struct Table {
  void* data[operands][kTensors];
  int64_t sizes[kTensors];
  uint8_t tensor[kPieces];
  int32_t piece[kPieces];
};

/// body(a full table, the number of its pieces, the number of the first) for all tensors; data(i, o) is operand o.
template <int operands, class Size, class Data, class Body>
void for_each_table(size_t count, const Size& size, const Data& data, const Body& body) {
  Table<operands> table{};
  int tensors = 0;
  int pieces = 0;
  int64_t first = 0;
  const auto flush = [&] {
    if (pieces > 0) body(table, pieces, first);
    first += pieces;
    tensors = pieces = 0;
  };
  for (size_t i = 0; i < count; ++i) {
    const int64_t n = size(i);
    bool entered = false;
    for (int64_t piece = 0; piece * kPiece < n; ++piece) {
      if (pieces == kPieces || (!entered && tensors == kTensors)) {
        flush();
        entered = false;
      }
      if (!entered) {
        for (int o = 0; o < operands; ++o) table.data[o][tensors] = data(i, o);
        table.sizes[tensors++] = n;
        entered = true;
      }
      table.tensor[pieces] = static_cast<uint8_t>(tensors - 1);
      table.piece[pieces++] = static_cast<int32_t>(piece);
    }
  }
  flush();
}

/// A block for each piece: body(operands of the piece's elements).
template <int operands, class T, class Element>
struct OverTable {
  Table<operands> table;
  Element element;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const int tensor = table.tensor[team.index()];
    const int64_t begin = static_cast<int64_t>(table.piece[team.index()]) * kPiece;
    const int64_t end = begin + kPiece < table.sizes[tensor] ? begin + kPiece : table.sizes[tensor];
    T* at[operands];
    for (int o = 0; o < operands; ++o) at[o] = static_cast<T*>(table.data[o][tensor]);
    for (int64_t i = begin + team.rank(); i < end; i += team.size()) element(at, i);
  }
};

template <class T>
BOCHNER_DEVICE T clipped(T g, T scale, T limit) {
  g *= scale;
  g = g > limit ? limit : g;
  return g < -limit ? -limit : g;
}

template <class T>
struct Adam {
  T b1, b2, rest1, rest2, eps, keep, pull, rate, root, scale, limit;

  explicit Adam(const AdamStep& step) {
    const double t = static_cast<double>(step.step);
    b1 = static_cast<T>(step.beta1);
    b2 = static_cast<T>(step.beta2);
    rest1 = static_cast<T>(1 - step.beta1);
    rest2 = static_cast<T>(1 - step.beta2);
    eps = static_cast<T>(step.eps);
    keep = static_cast<T>(step.decoupled ? 1 - step.rate * step.weight_decay : 1);
    pull = static_cast<T>(step.decoupled ? 0 : step.weight_decay);
    rate = static_cast<T>(step.rate / (1 - std::pow(step.beta1, t)));
    root = static_cast<T>(1 / std::sqrt(1 - std::pow(step.beta2, t)));
    scale = static_cast<T>(step.gradient_scale);
    limit = static_cast<T>(step.gradient_limit);
  }
  BOCHNER_DEVICE void operator()(T* const* at, int64_t i) const {  // p, g, m, v
    const T old = at[0][i] * keep;
    const T slope = math::fma(pull, old, clipped(at[1][i], scale, limit));
    const T m = math::fma(rest1, slope, b1 * at[2][i]);
    const T v = math::fma(rest2 * slope, slope, b2 * at[3][i]);
    at[2][i] = m;
    at[3][i] = v;
    at[0][i] = old - rate * m / math::fma(math::sqrt(v), root, eps);
  }
};

template <class T>
struct Sgd {
  T momentum, pull, rate, scale, limit, ahead, straight;

  explicit Sgd(const SgdStep& step)
      : momentum(static_cast<T>(step.momentum)),
        pull(static_cast<T>(step.weight_decay)),
        rate(static_cast<T>(step.rate)),
        scale(static_cast<T>(step.gradient_scale)),
        limit(static_cast<T>(step.gradient_limit)),
        ahead(static_cast<T>(step.nesterov ? step.momentum : 1)),
        straight(static_cast<T>(step.nesterov ? 1 : 0)) {}
  BOCHNER_DEVICE void operator()(T* const* at, int64_t i) const {  // p, g, u
    const T slope = math::fma(pull, at[0][i], clipped(at[1][i], scale, limit));
    const T u = math::fma(momentum, at[2][i], slope);
    at[2][i] = u;
    at[0][i] -= rate * math::fma(ahead, u, straight * slope);
  }
};

/// parts[first + block] = the sum of squares of a piece, in double.
template <class T>
struct Squares {
  Table<1> table;
  double* parts;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const int tensor = table.tensor[team.index()];
    const int64_t begin = static_cast<int64_t>(table.piece[team.index()]) * kPiece;
    const int64_t end = begin + kPiece < table.sizes[tensor] ? begin + kPiece : table.sizes[tensor];
    const T* x = static_cast<const T*>(table.data[0][tensor]);
    double sum = 0;
    for (int64_t i = begin + team.rank(); i < end; i += team.size()) sum += static_cast<double>(x[i]) * x[i];
    sum = team.sum(sum);
    if (team.rank() == 0) parts[team.index()] = sum;
  }
};

/// body(TypeTag, the tensors of that type)
template <class Tensors, class Type, class Body>
void by_type(const Tensors& tensors, const Type& type, const char* op, const Body& body) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    Tensors some;
    for (const auto& one : tensors) {
      if (type(one) == dtype) some.push_back(one);
    }
    if (!some.empty()) visit_floating(dtype, op, [&](auto tag) { body(tag, some); });
  }
}

}  // namespace

void adam_step(const AdamStep& step, const std::vector<AdamTensors>& tensors) {
  by_type(
      tensors, [](const AdamTensors& one) { return one.p.dtype(); }, "adam_step",
      [&]<class T>(TypeTag<T>, const std::vector<AdamTensors>& some) {
        for_each_table<4>(
            some.size(), [&](size_t i) { return some[i].p.size(); },
            [&](size_t i, int o) {
              const AdamTensors& one = some[i];
              return (o == 0 ? one.p : (o == 1 ? one.g : (o == 2 ? one.m : one.v))).raw();
            },
            [&](const Table<4>& table, int pieces, int64_t) {
              launch_blocks<256>(pieces, 0, OverTable<4, T, Adam<T>>{table, Adam<T>(step)});
            });
      });
}

void sgd_step(const SgdStep& step, const std::vector<SgdTensors>& tensors) {
  by_type(
      tensors, [](const SgdTensors& one) { return one.p.dtype(); }, "sgd_step",
      [&]<class T>(TypeTag<T>, const std::vector<SgdTensors>& some) {
        for_each_table<3>(
            some.size(), [&](size_t i) { return some[i].p.size(); },
            [&](size_t i, int o) {
              const SgdTensors& one = some[i];
              return (o == 0 ? one.p : (o == 1 ? one.g : one.u)).raw();
            },
            [&](const Table<3>& table, int pieces, int64_t) {
              launch_blocks<256>(pieces, 0, OverTable<3, T, Sgd<T>>{table, Sgd<T>(step)});
            });
      });
}

void sum_of_squares(const std::vector<Tensor>& tensors, double& sum) {
  by_type(
      tensors, [](const Tensor& one) { return one.dtype(); }, "global_norm",
      [&]<class T>(TypeTag<T>, const std::vector<Tensor>& some) {
        int64_t pieces = 0;
        for (const Tensor& one : some) pieces += (one.size() + kPiece - 1) / kPiece;
        const Tensor parts = Tensor::empty({pieces}, DType::f64, some.front().device());
        for_each_table<1>(
            some.size(), [&](size_t i) { return some[i].size(); }, [&](size_t i, int) { return some[i].raw(); },
            [&](const Table<1>& table, int count, int64_t first) {
              launch_blocks<256>(count, 0, Squares<T>{table, parts.data<double>() + first});
            });
        for (const double part : parts.to_vector<double>()) sum += part;  // waits for the device
      });
}

}  // namespace bochner::cuda

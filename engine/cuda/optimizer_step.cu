// Many tensors in few launches: each takes a table of up to kTensors tensors and of the pieces for its blocks.
#include "engine/ops/optimizer_step.h"

#include "engine/cuda/parts/launch.h"
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

/// body(a full table, the number of its pieces) for all tensors; data(i, o) is operand o.
template <int operands, class Size, class Data, class Body>
void for_each_table(size_t count, const Size& size, const Data& data, const Body& body) {
  Table<operands> table{};
  int tensors = 0;
  int pieces = 0;
  const auto flush = [&] {
    if (pieces > 0) body(table, pieces);
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

/// A block for each piece: Element(numbers)(operands of the piece's elements, gradient's scale and limit, number).
template <int operands, class T, class Element>
struct OverTable {
  Table<operands> table;
  const double* numbers;
  ClipAddresses clip;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    if (!clip.open()) return;
    const Element element(numbers);
    const T scale = clip.scale_as<T>();
    const T limit = static_cast<T>(clip.limit);
    const int tensor = table.tensor[team.index()];
    const int64_t begin = static_cast<int64_t>(table.piece[team.index()]) * kPiece;
    const int64_t end = begin + kPiece < table.sizes[tensor] ? begin + kPiece : table.sizes[tensor];
    T* at[operands];
    for (int o = 0; o < operands; ++o) at[o] = static_cast<T*>(table.data[o][tensor]);
    for (int64_t i = begin + team.rank(); i < end; i += team.size()) element(at, scale, limit, i);
  }
};

template <class T>
BOCHNER_DEVICE T clipped(T g, T scale, T limit) {
  g *= scale;
  g = g > limit ? limit : g;
  return g < -limit ? -limit : g;
}

template <class T>
struct Adam : AdamNumbers<T> {
  using AdamNumbers<T>::AdamNumbers;
  BOCHNER_DEVICE void operator()(T* const* at, T scale, T limit, int64_t i) const {  // p, g, m, v
    const T old = at[0][i] * this->keep;
    const T slope = math::fma(this->pull, old, clipped(at[1][i], scale, limit));
    const T m = math::fma(this->rest1, slope, this->b1 * at[2][i]);
    const T v = math::fma(this->rest2 * slope, slope, this->b2 * at[3][i]);
    at[2][i] = m;
    at[3][i] = v;
    at[0][i] = old - this->rate * m / math::fma(math::sqrt(v), this->root, this->eps);
  }
};

template <class T>
struct Sgd : SgdNumbers<T> {
  using SgdNumbers<T>::SgdNumbers;
  BOCHNER_DEVICE void operator()(T* const* at, T scale, T limit, int64_t i) const {  // p, g, u
    const T slope = math::fma(this->pull, at[0][i], clipped(at[1][i], scale, limit));
    const T u = math::fma(this->momentum, at[2][i], slope);
    at[2][i] = u;
    at[0][i] -= this->rate * math::fma(this->ahead, u, this->straight * slope);
  }
};

/// parts[block] = the sum of squares of a piece, in double.
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

/// One block: sum = the sum of all parts.
struct Total {
  int64_t count;
  const double* parts;
  double* to;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    double sum = 0;
    for (int64_t i = team.rank(); i < count; i += team.size()) sum += parts[i];
    sum = team.sum(sum);
    if (team.rank() == 0) *to = sum;
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

void adam_step(const Tensor& numbers, const GradientClip& clip, const std::vector<AdamTensors>& tensors) {
  by_type(
      tensors, [](const AdamTensors& one) { return one.p.dtype(); }, "adam_step",
      [&]<class T>(TypeTag<T>, const std::vector<AdamTensors>& some) {
        for_each_table<4>(
            some.size(), [&](size_t i) { return some[i].p.size(); },
            [&](size_t i, int o) {
              const AdamTensors& one = some[i];
              return (o == 0 ? one.p : (o == 1 ? one.g : (o == 2 ? one.m : one.v))).raw();
            },
            [&](const Table<4>& table, int pieces) {
              launch_blocks<256>(pieces, 0,
                                 OverTable<4, T, Adam<T>>{table, numbers.data<double>(), ClipAddresses(clip)});
            });
      });
}

void sgd_step(const Tensor& numbers, const GradientClip& clip, const std::vector<SgdTensors>& tensors) {
  by_type(
      tensors, [](const SgdTensors& one) { return one.p.dtype(); }, "sgd_step",
      [&]<class T>(TypeTag<T>, const std::vector<SgdTensors>& some) {
        for_each_table<3>(
            some.size(), [&](size_t i) { return some[i].p.size(); },
            [&](size_t i, int o) {
              const SgdTensors& one = some[i];
              return (o == 0 ? one.p : (o == 1 ? one.g : one.u)).raw();
            },
            [&](const Table<3>& table, int pieces) {
              launch_blocks<256>(pieces, 0,
                                 OverTable<3, T, Sgd<T>>{table, numbers.data<double>(), ClipAddresses(clip)});
            });
      });
}

void sum_of_squares(const std::vector<Tensor>& tensors, const Tensor& sum) {
  int64_t pieces = 0;
  for (const Tensor& one : tensors) pieces += ceil_div(one.size(), kPiece);
  const Tensor parts = Tensor::empty({pieces}, DType::f64, sum.device());
  auto* next = parts.data<double>();
  by_type(
      tensors, [](const Tensor& one) { return one.dtype(); }, "global_norm",
      [&]<class T>(TypeTag<T>, const std::vector<Tensor>& some) {
        for_each_table<1>(
            some.size(), [&](size_t i) { return some[i].size(); }, [&](size_t i, int) { return some[i].raw(); },
            [&](const Table<1>& table, int count) {
              launch_blocks<256>(count, 0, Squares<T>{table, next});
              next += count;
            });
      });
  launch_blocks<256>(1, 0, Total{pieces, parts.data<double>(), sum.data<double>()});
}

}  // namespace bochner::cuda

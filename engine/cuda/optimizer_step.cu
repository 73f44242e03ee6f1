// Many tensors in few launches: each launch takes a table of up to kTensors tensors, and has one block per piece of
// them.
#include "engine/ops/optimizer_step.h"

#include "engine/cuda/parts/elementwise.h"

namespace bochner::cuda {
namespace {

constexpr int64_t kPiece = 8192;
constexpr int kTensors = 80;

/// Passed to a kernel by value: less than 4 KB.
template <int operands>
struct Table {
  int tensors = 0;
  int32_t first[kTensors + 1];  ///< tensor t has the blocks first[t] ... first[t + 1] - 1
  int64_t sizes[kTensors];
  void* data[operands][kTensors];
  bool vectors[kTensors];  ///< whether the operands of tensor t can be moved in vectors

  struct Place {
    int tensor;
    int64_t begin, end;
  };
  BOCHNER_DEVICE Place place(int64_t block) const {
    int tensor = 0;
#pragma unroll
    for (int step = 64; step > 0; step /= 2) {
      if (tensor + step < tensors && first[tensor + step] <= block) tensor += step;
    }
    const int64_t begin = (block - first[tensor]) * kPiece;
    return {tensor, begin, begin + kPiece < sizes[tensor] ? begin + kPiece : sizes[tensor]};
  }
};

/// body(a table, the number of its pieces) until all tensors are covered; data(i, o) is operand o of tensor i.
template <int operands, class Size, class Data, class Body>
void for_each_table(size_t count, const Size& size, const Data& data, const Body& body) {
  Table<operands> table{};
  const auto flush = [&] {
    if (table.tensors > 0) body(table, int64_t{table.first[table.tensors]});
    table.tensors = 0;
  };
  for (size_t i = 0; i < count; ++i) {
    const int64_t pieces = ceil_div(static_cast<int64_t>(size(i)), kPiece);
    if (pieces == 0) continue;
    if (table.tensors == kTensors || (table.tensors > 0 && table.first[table.tensors] + pieces > INT32_MAX)) flush();
    const int t = table.tensors++;
    if (t == 0) table.first[0] = 0;
    table.first[t + 1] = table.first[t] + static_cast<int32_t>(pieces);
    table.sizes[t] = size(i);
    table.vectors[t] = true;
    for (int o = 0; o < operands; ++o) {
      table.data[o][t] = data(i, o);
      table.vectors[t] = table.vectors[t] && reinterpret_cast<uintptr_t>(table.data[o][t]) % 16 == 0;
    }
  }
  flush();
}

/// Element(numbers)(operands of one element, gradient's scale and limit), which changes all operands but the last, the
/// gradient.
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
    const auto [tensor, begin, end] = table.place(team.index());
    T* at[operands];
#pragma unroll
    for (int o = 0; o < operands; ++o) at[o] = static_cast<T*>(table.data[o][tensor]);
    const bool vectors = table.vectors[tensor];
    for (int64_t i = begin + 4 * team.rank(); i < end; i += 4 * team.size()) {
      if (vectors && i + 4 <= end) {
        Four<T> x[operands];
#pragma unroll
        for (int o = 0; o < operands; ++o) x[o] = load4(at[o] + i);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          T one[operands];
#pragma unroll
          for (int o = 0; o < operands; ++o) one[o] = x[o].at[j];
          element(one, scale, limit);
#pragma unroll
          for (int o = 0; o < operands; ++o) x[o].at[j] = one[o];
        }
#pragma unroll
        for (int o = 0; o + 1 < operands; ++o) store4(at[o] + i, x[o]);
      } else {
        for (int64_t k = i; k < end && k < i + 4; ++k) {
          T one[operands];
#pragma unroll
          for (int o = 0; o < operands; ++o) one[o] = at[o][k];
          element(one, scale, limit);
#pragma unroll
          for (int o = 0; o + 1 < operands; ++o) at[o][k] = one[o];
        }
      }
    }
  }
};

template <class T>
struct Adam : AdamElement<T> {
  using AdamElement<T>::AdamElement;
  BOCHNER_DEVICE void operator()(T (&x)[4], T scale, T limit) const {  // p, m, v, g
    this->step(x[0], clipped(x[3], scale, limit), x[1], x[2]);
  }
};

template <class T>
struct Sgd : SgdElement<T> {
  using SgdElement<T>::SgdElement;
  BOCHNER_DEVICE void operator()(T (&x)[3], T scale, T limit) const {  // p, u, g
    this->step(x[0], clipped(x[2], scale, limit), x[1]);
  }
};

/// parts[block] = the sum of squares of a piece, in double precision.
template <class T>
struct Squares {
  Table<1> table;
  double* parts;

  template <class Team>
  BOCHNER_DEVICE void operator()(const Team& team) const {
    const auto [tensor, begin, end] = table.place(team.index());
    const T* x = static_cast<const T*>(table.data[0][tensor]);
    const bool vectors = table.vectors[tensor];
    double sum = 0;
#pragma unroll 4
    for (int64_t i = begin + 4 * team.rank(); i < end; i += 4 * team.size()) {
      Four<T> value{};
      if (vectors && i + 4 <= end) {
        value = load4(x + i);
      } else {
        for (int j = 0; j < 4 && i + j < end; ++j) value.at[j] = x[i + j];
      }
      for (int j = 0; j < 4; ++j) sum += static_cast<double>(value.at[j]) * value.at[j];
    }
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
              return (o == 0 ? one.p : (o == 1 ? one.m : (o == 2 ? one.v : one.g))).raw();
            },
            [&](const Table<4>& table, int64_t pieces) {
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
              return (o == 0 ? one.p : (o == 1 ? one.u : one.g)).raw();
            },
            [&](const Table<3>& table, int64_t pieces) {
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
            [&](const Table<1>& table, int64_t count) {
              launch_blocks<256>(count, 0, Squares<T>{table, next});
              next += count;
            });
      });
  launch_blocks<256>(1, 0, Total{pieces, parts.data<double>(), sum.data<double>()});
}

}  // namespace bochner::cuda

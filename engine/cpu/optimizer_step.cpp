#include "engine/ops/optimizer_step.h"

#include "engine/cpu/parts/lanes.h"
#include "engine/parallel.h"

namespace bochner::cpu {
namespace {

/// The elements of a tensor in one piece of work.
constexpr int64_t kPiece = 32768;

struct Piece {
  size_t tensor;
  int64_t begin, end;
};

/// The pieces of tensors of size(i) elements, in order.
template <class Size>
std::vector<Piece> pieces_of(size_t count, const Size& size) {
  std::vector<Piece> pieces;
  for (size_t i = 0; i < count; ++i) {
    for (int64_t begin = 0; begin < size(i); begin += kPiece)
      pieces.push_back({i, begin, std::min(size(i), begin + kPiece)});
  }
  return pieces;
}

/// Many small pieces make one task, so that hundreds of biases do not cost hundreds of tasks.
template <class Body>
void for_each_piece(const std::vector<Piece>& pieces, const Body& body) {
  std::vector<size_t> starts;
  int64_t held = kPiece;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (held >= kPiece) {
      starts.push_back(i);
      held = 0;
    }
    held += pieces[i].end - pieces[i].begin;
  }
  parallel_for(static_cast<int64_t>(starts.size()), 1, [&](int64_t task, int64_t) {
    const auto t = static_cast<size_t>(task);
    const size_t stop = t + 1 < starts.size() ? starts[t + 1] : pieces.size();
    for (size_t i = starts[t]; i < stop; ++i) body(i, pieces[i]);
  });
}

}  // namespace

void adam_step(const Tensor& numbers, const GradientClip& clip, const std::vector<AdamTensors>& tensors) {
  const ClipAddresses entry(clip);
  if (!entry.open()) return;
  const auto move = [&]<class T>(TypeTag<T>, const AdamTensors& one, int64_t begin, int64_t count) {
    T* const value = one.p.data<T>() + begin;
    const T* const gradient = one.g.data<T>() + begin;
    T* const first = one.m.data<T>() + begin;
    T* const second = one.v.data<T>() + begin;
    const AdamElement<T> element(numbers.data<double>());
    const T scale = entry.scale_as<T>();
    const T limit = static_cast<T>(entry.limit);
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      T p = value[i];
      T m = first[i];
      T v = second[i];
      element.step(p, clipped(gradient[i], scale, limit), m, v);
      value[i] = p;
      first[i] = m;
      second[i] = v;
    }
  };
  for_each_piece(pieces_of(tensors.size(), [&](size_t i) { return tensors[i].p.size(); }),
                 [&](size_t, const Piece& piece) {
                   const AdamTensors& one = tensors[piece.tensor];
                   visit_floating(one.p.dtype(), "adam_step",
                                  [&](auto type) { move(type, one, piece.begin, piece.end - piece.begin); });
                 });
}

void sgd_step(const Tensor& numbers, const GradientClip& clip, const std::vector<SgdTensors>& tensors) {
  const ClipAddresses entry(clip);
  if (!entry.open()) return;
  const auto move = [&]<class T>(TypeTag<T>, const SgdTensors& one, int64_t begin, int64_t count) {
    T* const value = one.p.data<T>() + begin;
    const T* const gradient = one.g.data<T>() + begin;
    T* const velocity = one.u.data<T>() + begin;
    const SgdElement<T> element(numbers.data<double>());
    const T scale = entry.scale_as<T>();
    const T limit = static_cast<T>(entry.limit);
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      T p = value[i];
      T u = velocity[i];
      element.step(p, clipped(gradient[i], scale, limit), u);
      value[i] = p;
      velocity[i] = u;
    }
  };
  for_each_piece(pieces_of(tensors.size(), [&](size_t i) { return tensors[i].p.size(); }),
                 [&](size_t, const Piece& piece) {
                   const SgdTensors& one = tensors[piece.tensor];
                   visit_floating(one.p.dtype(), "sgd_step",
                                  [&](auto type) { move(type, one, piece.begin, piece.end - piece.begin); });
                 });
}

void sum_of_squares(const std::vector<Tensor>& tensors, const Tensor& sum) {
  const std::vector<Piece> pieces = pieces_of(tensors.size(), [&](size_t i) { return tensors[i].size(); });
  std::vector<double> parts(pieces.size());
  for_each_piece(pieces, [&](size_t i, const Piece& piece) {
    const Tensor& tensor = tensors[piece.tensor];
    visit_floating(tensor.dtype(), "global_norm", [&]<class T>(TypeTag<T>) {
      const T* x = tensor.data<T>() + piece.begin;
      parts[i] = static_cast<double>(sum_lanes<T>(piece.end - piece.begin, [x]<class V>(TypeTag<V>, int64_t j) {
        const V value = load<V>(x + j);
        return value * value;
      }));
    });
  });
  double& total = *sum.data<double>();
  total = 0;
  for (const double part : parts) total += part;
}

}  // namespace bochner::cpu

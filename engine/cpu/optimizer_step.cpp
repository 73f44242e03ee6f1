#include "engine/cpu/optimizer_step.h"

#include <cmath>

#include "engine/cpu/lanes.h"
#include "engine/math.h"
#include "engine/parallel.h"

namespace bochner::cpu {
namespace {

/// Elements that one piece of work moves, of one tensor.
constexpr int64_t kPiece = 32768;

struct Piece {
  size_t tensor;
  int64_t begin, end;
};

/// The pieces of tensors whose sizes are size(i), in order.
template <class Size>
std::vector<Piece> pieces_of(size_t count, const Size& size) {
  std::vector<Piece> pieces;
  for (size_t i = 0; i < count; ++i) {
    for (int64_t begin = 0; begin < size(i); begin += kPiece)
      pieces.push_back({i, begin, std::min(size(i), begin + kPiece)});
  }
  return pieces;
}

/// Many small pieces to a task, so that hundreds of biases do not cost hundreds of tasks.
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

template <class T>
T clipped(T g, T scale, T limit) {
  g *= scale;
  g = g > limit ? limit : g;
  return g < -limit ? -limit : g;
}

}  // namespace

void adam_step(const AdamStep& step, const std::vector<AdamTensors>& tensors) {
  const double t = static_cast<double>(step.step);
  const double unbias1 = 1 - std::pow(step.beta1, t);
  const double unbias2 = 1 - std::pow(step.beta2, t);
  const auto move = [&]<class T>(TypeTag<T>, const AdamTensors& one, int64_t begin, int64_t count) {
    T* const value = one.p.data<T>() + begin;
    const T* const gradient = one.g.data<T>() + begin;
    T* const first = one.m.data<T>() + begin;
    T* const second = one.v.data<T>() + begin;
    const T b1 = static_cast<T>(step.beta1);
    const T b2 = static_cast<T>(step.beta2);
    const T rest1 = static_cast<T>(1 - step.beta1);
    const T rest2 = static_cast<T>(1 - step.beta2);
    const T eps = static_cast<T>(step.eps);
    const T keep = static_cast<T>(step.decoupled ? 1 - step.rate * step.weight_decay : 1);
    const T pull = static_cast<T>(step.decoupled ? 0 : step.weight_decay);
    const T rate = static_cast<T>(step.rate / unbias1);
    const T root = static_cast<T>(1 / std::sqrt(unbias2));
    const T scale = static_cast<T>(step.gradient_scale);
    const T limit = static_cast<T>(step.gradient_limit);
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      const T old = value[i] * keep;
      const T slope = math::fma(pull, old, clipped(gradient[i], scale, limit));
      const T m = math::fma(rest1, slope, b1 * first[i]);
      const T v = math::fma(rest2 * slope, slope, b2 * second[i]);
      first[i] = m;
      second[i] = v;
      value[i] = old - rate * m / math::fma(math::sqrt(v), root, eps);
    }
  };
  for_each_piece(pieces_of(tensors.size(), [&](size_t i) { return tensors[i].p.size(); }),
                 [&](size_t, const Piece& piece) {
                   const AdamTensors& one = tensors[piece.tensor];
                   visit_floating(one.p.dtype(), "adam_step",
                                  [&](auto type) { move(type, one, piece.begin, piece.end - piece.begin); });
                 });
}

void sgd_step(const SgdStep& step, const std::vector<SgdTensors>& tensors) {
  const auto move = [&]<class T>(TypeTag<T>, const SgdTensors& one, int64_t begin, int64_t count) {
    T* const value = one.p.data<T>() + begin;
    const T* const gradient = one.g.data<T>() + begin;
    T* const velocity = one.u.data<T>() + begin;
    const T momentum = static_cast<T>(step.momentum);
    const T pull = static_cast<T>(step.weight_decay);
    const T rate = static_cast<T>(step.rate);
    const T scale = static_cast<T>(step.gradient_scale);
    const T limit = static_cast<T>(step.gradient_limit);
    const T ahead = static_cast<T>(step.nesterov ? step.momentum : 1);  // p -= rate (straight g + ahead u)
    const T straight = static_cast<T>(step.nesterov ? 1 : 0);
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      const T slope = math::fma(pull, value[i], clipped(gradient[i], scale, limit));
      const T u = math::fma(momentum, velocity[i], slope);
      velocity[i] = u;
      value[i] -= rate * math::fma(ahead, u, straight * slope);
    }
  };
  for_each_piece(pieces_of(tensors.size(), [&](size_t i) { return tensors[i].p.size(); }),
                 [&](size_t, const Piece& piece) {
                   const SgdTensors& one = tensors[piece.tensor];
                   visit_floating(one.p.dtype(), "sgd_step",
                                  [&](auto type) { move(type, one, piece.begin, piece.end - piece.begin); });
                 });
}

void sum_of_squares(const std::vector<Tensor>& tensors, double& sum) {
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
  for (const double part : parts) sum += part;
}

}  // namespace bochner::cpu

#include "engine/cpu/optimizer_step.h"

#include <cmath>

#include "engine/math.h"
#include "engine/parallel.h"

namespace bochner::cpu {
namespace {

constexpr int64_t kPiece = 16384;

}  // namespace

void adam_step(const AdamStep& step, const Tensor& p, const Tensor& g, const Tensor& m, const Tensor& v) {
  visit_floating(p.dtype(), "adam_step", [&]<class T>(TypeTag<T>) {
    const T b1 = static_cast<T>(step.beta1);
    const T b2 = static_cast<T>(step.beta2);
    const T rest1 = static_cast<T>(1 - step.beta1);
    const T rest2 = static_cast<T>(1 - step.beta2);
    const T eps = static_cast<T>(step.eps);
    const T keep = static_cast<T>(step.decoupled ? 1 - step.rate * step.weight_decay : 1);
    const T pull = static_cast<T>(step.decoupled ? 0 : step.weight_decay);
    const T rate = static_cast<T>(step.rate / (1 - std::pow(step.beta1, static_cast<double>(step.step))));
    const T root = static_cast<T>(1 / std::sqrt(1 - std::pow(step.beta2, static_cast<double>(step.step))));
    parallel_for(p.size(), kPiece, [&](int64_t begin, int64_t end) {
      T* const value = p.data<T>();
      const T* const gradient = g.data<T>();
      T* const first = m.data<T>();
      T* const second = v.data<T>();
      for (int64_t i = begin; i < end; ++i) {
        const T old = value[i] * keep;
        const T slope = gradient[i] + pull * old;
        first[i] = b1 * first[i] + rest1 * slope;
        second[i] = b2 * second[i] + rest2 * slope * slope;
        value[i] = old - rate * first[i] / (math::sqrt(second[i]) * root + eps);
      }
    });
  });
}

void sgd_step(const SgdStep& step, const Tensor& p, const Tensor& g, const Tensor& u) {
  visit_floating(p.dtype(), "sgd_step", [&]<class T>(TypeTag<T>) {
    const T momentum = static_cast<T>(step.momentum);
    const T pull = static_cast<T>(step.weight_decay);
    const T rate = static_cast<T>(step.rate);
    parallel_for(p.size(), kPiece, [&](int64_t begin, int64_t end) {
      T* const value = p.data<T>();
      const T* const gradient = g.data<T>();
      T* const velocity = u.data<T>();
      for (int64_t i = begin; i < end; ++i) {
        const T slope = gradient[i] + pull * value[i];
        velocity[i] = momentum * velocity[i] + slope;
        value[i] -= rate * (step.nesterov ? slope + momentum * velocity[i] : velocity[i]);
      }
    });
  });
}

}  // namespace bochner::cpu

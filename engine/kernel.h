// Dispatch: one slot per kernel, filled at compile time, empty where a backend is not built. Every call is a span of
// the trace.
//
//   constexpr Kernel kSoftmax{"softmax", &cpu::softmax, CUDA_KERNEL(softmax)};
//   kSoftmax(x.device(), rows, columns, x, y);
//
// The signature is declared once, in engine/cpu/softmax.h; engine/cuda/softmax.h says decltype(cpu::softmax) softmax.
#pragma once

#include <cstddef>

#include "engine/device.h"
#include "engine/error.h"
#include "engine/trace.h"

#if defined(BOCHNER_CUDA)
#include "engine/cuda/runtime.h"
#define CUDA_KERNEL(...) &::bochner::cuda::__VA_ARGS__
#else
#define CUDA_KERNEL(...) nullptr
#endif

namespace bochner {

template <class Signature>
class Kernel;

template <class... Args>
class Kernel<void(Args...)> {
 public:
  using Function = void (*)(Args...);
  constexpr Kernel(const char* name, Function cpu, Function cuda) : name_(name), cpu_(cpu), cuda_(cuda) {}

  void operator()(Device device, Args... args) const {
    const Function function = device.is_cpu() ? cpu_ : cuda_;
    if (function == nullptr) fail("{}: this build has no {} backend", name_, device.is_cpu() ? "CPU" : "CUDA");
    const trace::Span span(name_);
#if defined(BOCHNER_CUDA)
    if (device.is_cuda()) cuda::begin(device.index, name_);
    function(args...);
    if (device.is_cuda()) cuda::end(name_);
#else
    function(args...);
#endif
  }

 private:
  const char* name_;
  Function cpu_;
  Function cuda_;
};

template <class... Args>
Kernel(const char*, void (*)(Args...), void (*)(Args...)) -> Kernel<void(Args...)>;
template <class... Args>
Kernel(const char*, void (*)(Args...), std::nullptr_t) -> Kernel<void(Args...)>;

}  // namespace bochner

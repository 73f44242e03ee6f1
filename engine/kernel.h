// Dispatch: one slot per kernel, filled at compile time, empty where a backend is not built. Every call is a span of
// the trace.
//
//   const Kernel<void(const Tensor& x, Tensor& y)> softmax_kernel{"softmax", &cpu::softmax, CUDA_KERNEL(softmax)};
//   softmax_kernel(x.device(), x, y);
#pragma once

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

}  // namespace bochner

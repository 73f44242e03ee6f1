// Dispatch: one slot per kernel, filled at compile time, empty if a backend is not built. Every call is a span of the
// trace. Its tensors must be on one device; for tensors within a struct, the op checks this itself. The slot is in the
// op's own file, states the kernel's parameters, and declares it for both backends:
//
//   // x and y (rows, columns), contiguous.
//   BOCHNER_KERNEL(kSoftmax, "softmax", softmax, int64_t rows, int64_t columns, const Tensor& x, const Tensor& y);
//   ...
//   kSoftmax(x.device(), rows, columns, x, y);
//
// engine/cpu/softmax.cpp defines cpu::softmax, and engine/cuda/softmax.cu defines cuda::softmax. A definition whose
// parameters differ from the slot's does not link.
#pragma once

#include <cstddef>

#include "engine/device.h"
#include "engine/error.h"
#include "engine/tensor.h"
#include "engine/trace.h"

#if defined(BOCHNER_CUDA)
#include "engine/cuda/runtime/runtime.h"
#define CUDA_KERNEL(...) &::bochner::cuda::__VA_ARGS__
#else
#define CUDA_KERNEL(...) nullptr
#endif

/// Declares cpu::FUNCTION and cuda::FUNCTION with the parameters that follow, and the slot for both. At namespace
/// scope.
#define BOCHNER_KERNEL(slot, name, function, ...) \
  namespace cpu {                                 \
  void function(__VA_ARGS__);                     \
  }                                               \
  namespace cuda {                                \
  void function(__VA_ARGS__);                     \
  }                                               \
  constexpr Kernel slot { name, &cpu::function, CUDA_KERNEL(function) }

namespace bochner {

/// Refuses, in the name of `op`, an operand on a device other than the call's, since its kernel could not read it.
inline void require_on(Device device, const char* op, const Tensor& operand) {
  if (!operand.defined() || operand.device() == device) return;
  fail("{}: an operand, {}, is not on {}, where the others are; move it with to()", op, operand.str(), device.str());
}
template <class T>
void require_on(Device, const char*, const T&) {}

template <class Signature>
class Kernel;

template <class... Args>
class Kernel<void(Args...)> {
 public:
  using Function = void (*)(Args...);
  constexpr Kernel(const char* name, Function cpu, Function cuda) : name_(name), cpu_(cpu), cuda_(cuda) {}

  void operator()(Device device, Args... args) const {
    (require_on(device, name_, args), ...);
    const Function function = device.is_cpu() ? cpu_ : cuda_;
    if (function == nullptr) fail("{}: this build has no {} backend", name_, device.is_cpu() ? "CPU" : "CUDA");
    const trace::Span span(name_);
#if defined(BOCHNER_CUDA)
    if (device.is_cuda()) cuda::begin(device.index);
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

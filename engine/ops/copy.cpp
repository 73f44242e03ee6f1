#include "engine/ops/copy.h"

#include <cstddef>
#include <utility>

#include "engine/kernel.h"
#include "engine/loop.h"

namespace bochner {

#if defined(BOCHNER_CUDA)
namespace cuda {
/// Copies between tensors of one shape on two devices, at least one of them a card; any strides and types. Waits if
/// `to` is on the CPU.
void copy_between_devices(const Tensor& from, const Tensor& to);
}  // namespace cuda
#endif

// Operands: to, from.
BOCHNER_KERNEL(copy_kernel, "copy", copy, const Loop& loop, DType to, DType from);
BOCHNER_KERNEL(fill_kernel, "fill", fill, const Loop& loop, DType to, double value);
BOCHNER_KERNEL(count_up_kernel, "count_up", count_up, int64_t* to, int64_t count);

/// The bytes from the first to behind the last element, relative to `to`'s first one.
static std::pair<std::ptrdiff_t, std::ptrdiff_t> extent(const Tensor& x, const Tensor& to) {
  const std::ptrdiff_t begin = static_cast<const std::byte*>(x.raw()) - static_cast<const std::byte*>(to.raw());
  int64_t last = 0;
  for (int axis = 0; axis < x.rank(); ++axis) last += (x.size(axis) - 1) * x.strides()[axis];
  return {begin, begin + (last + 1) * static_cast<int64_t>(size_of(x.dtype()))};
}

Tensor apart_from(const Tensor& x, const Tensor& to) {
  if (!x.shares_storage(to) || x.size() == 0 || to.size() == 0) return x;
  const auto [x_begin, x_end] = extent(x, to);
  const auto [to_begin, to_end] = extent(to, to);
  const bool is_apart = x_end <= to_begin || to_end <= x_begin;
  const bool is_same = x_begin == to_begin && x.shape() == to.shape() && x.strides() == to.strides();
  return is_apart || is_same ? x : x.clone();
}

void copy(const Tensor& from, const Tensor& to) {
  if (!to.defined() || !from.defined()) fail("copy: one of the tensors is undefined");
  if (!(from.shape() == to.shape())) fail("copy: {} does not fit {}", from.shape().str(), to.shape().str());
  to.overwritten();
  if (from.device() == to.device()) {
    const Tensor source = apart_from(from, to);
    copy_kernel(to.device(), make_loop("copy", {&to, &source}), to.dtype(), source.dtype());
    return;
  }
#if defined(BOCHNER_CUDA)
  cuda::copy_between_devices(from, to);
#else
  fail("copy: from {} to {}: this build has no CUDA backend", from.device().str(), to.device().str());
#endif
}

void fill(const Tensor& to, double value) {
  if (!to.defined()) fail("fill: the tensor is undefined");
  to.overwritten();
  fill_kernel(to.device(), make_loop("fill", {&to}), to.dtype(), value);
}

void count_up(const Tensor& to) {
  BOCHNER_ASSERT(to.is_contiguous());
  to.overwritten();
  count_up_kernel(to.device(), to.data<int64_t>(), to.size());
}

}  // namespace bochner

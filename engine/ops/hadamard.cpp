#include "engine/ops/hadamard.h"

#include <bit>

#include "engine/kernel.h"

namespace bochner {

// to = H from for each of `rows` contiguous rows of n = 2^k elements; both may be the same tensor.
BOCHNER_KERNEL(kHadamard, "hadamard", hadamard, int64_t rows, int64_t n, const Tensor& from, const Tensor& to);

namespace {

void transform(const Tensor& from, const Tensor& to) {
  if (from.rank() == 0) fail("hadamard: a rank-0 tensor has no last axis");
  const int64_t n = from.size(-1);
  if (!std::has_single_bit(static_cast<uint64_t>(n))) {
    fail("hadamard: the last axis of {} has size {}, not a power of two; pad() it with zeros", from.shape().str(), n);
  }
  require_floating(from.dtype(), "hadamard");
  if (from.size() > 0) kHadamard(from.device(), from.size() / n, n, from, to);
}

}  // namespace

Tensor hadamard(const Tensor& x) {
  const Tensor y = Tensor::empty_like(x);
  transform(x.contiguous(), y);
  return y;
}

void hadamard_(const Tensor& x) {
  const Tensor rows = x.contiguous();
  rows.overwritten();
  transform(rows, rows);
  if (!rows.shares_storage(x)) x.copy_(rows);
}

}  // namespace bochner

#include "layers/attention/landmarks.h"

#include "autograd/ops/binary.h"
#include "autograd/ops/index.h"
#include "engine/ops/binary.h"
#include "engine/ops/index.h"
#include "engine/ops/join.h"
#include "engine/ops/sort.h"
#include "layers/attention/blocks.h"

namespace bochner {
namespace {

/// Which of n items, counted from 0, is at position u in (0, 1]: ceil(u n) - 1, and 0 if there are none.
/// u f64 (1, M), n i64 (B, 1) -> i64 (B, M)
Tensor chosen(const Tensor& u, const Tensor& n) {
  const Tensor at = u * n.cast(DType::f64);
  const Tensor below = at.cast(DType::i64);  // rounded down
  const Tensor whole = equal(below.cast(DType::f64), at).cast(DType::i64);
  return maximum(below - whole, 0);
}

Tensor places_between_0_and_1(int64_t M, Generator& generator, Device device) {
  return uniform({1, M}, generator, 0, 1, DType::f64, device);
}

}  // namespace

Tensor drawn_landmarks(int64_t M, const Tensor& queries, const Tensor& keys, Generator& generator) {
  const Tensor u = places_between_0_and_1(M, generator, keys.device());
  const Tensor real = concat(std::vector{queries, keys}, 1);     // (B, Lq + Lk)
  const Tensor order = argsort(real.cast(DType::i32), 1, true);  // real tokens first
  return gather(order, 1, chosen(u, count_of(real))).view({real.size(0), 1, M, 1});
}

Tensor drawn_landmarks_as_released(int64_t M, const Tensor& queries, const Tensor& keys, Generator& generator) {
  const Tensor u = places_between_0_and_1(M, generator, keys.device());
  const Tensor of_queries = chosen(u.slice(1, 0, M / 2), count_of(queries));
  const Tensor of_keys = chosen(u.slice(1, M / 2, M), count_of(keys));
  const Tensor first_key = Tensor::scalar(static_cast<double>(queries.size(1)), of_keys);
  return concat(std::vector{of_queries, of_keys + first_key}, 1).view({keys.size(0), 1, M, 1});
}

Variable Segments::means(const Variable& x) const {
  const Shape shape{x.size(0), x.size(1), shares.size(2), x.size(3)};
  return scatter_add(shape, 2, index, x) * Variable(shares.cast(x.dtype()));
}

Segments segments(int64_t M, const Tensor& ranks, const Tensor& n, const Tensor& c) {
  const Tensor one = Tensor::scalar(1, ranks);
  const Tensor m = places(M, 1, 2, ranks.device());
  const Tensor tokens = maximum(n, 1);
  const Tensor count = maximum(c, 1);
  // The token of rank r, counted from 1, is the last one or an earlier one of segment m if r <= (m + 1) n / c.
  const Tensor index = maximum((ranks * c - one) / tokens, 0);  // (B, L)
  const Tensor size = (m + one) * n / count - m * n / count;    // (B, M)
  const Tensor full = less(m, c);
  const Tensor shares = full.cast(DType::f64) / maximum(size, 1).cast(DType::f64);
  return {index.view({index.size(0), 1, index.size(1), 1}), shares.view({shares.size(0), 1, M, 1}), full};
}

}  // namespace bochner

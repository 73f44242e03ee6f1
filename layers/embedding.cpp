#include "layers/embedding.h"

#include <cmath>

#include "autograd/fused/embedding.h"
#include "autograd/ops/matmul.h"
#include "layers/init.h"
#include "layers/mixed_precision.h"

namespace bochner {

namespace {
constexpr int64_t kNoPadding = -1;
}  // namespace

Embedding::Embedding(Slot slot, int64_t entries, int64_t dim, double deviation, Generator& init)
    : Module(std::move(slot)), weight(parameter("weight", bochner::init::gaussian({entries, dim}, deviation, init))) {}

Variable Embedding::forward(const Tensor& ids) const { return forward(ids, {}, {}); }

Variable Embedding::forward(const Tensor& ids, const Variable& positions, const Tensor& codes) const {
  const Scope scope(name());
  const Variable table =
      codes.defined() ? matmul(Variable(codes.to(weight.value.device()).cast(weight.value.dtype())), weight) : weight;
  const DType stored = stored_type(table);
  if (!positions.defined()) return embedding(table, ids, kNoPadding, stored);
  return embedding_at(table, ids, positions, kNoPadding, stored);
}

Tensor sinusoidal_positions(int64_t length, int64_t dim) {
  std::vector<float> values(static_cast<size_t>(length * dim));
  for (int64_t i = 0; i < length; ++i) {
    for (int64_t j = 0; j < dim; ++j) {
      const double angle =
          static_cast<double>(i) * std::pow(10000.0, -static_cast<double>(j / 2 * 2) / static_cast<double>(dim));
      values[static_cast<size_t>(i * dim + j)] = static_cast<float>(j % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  }
  return Tensor::from(values, {length, dim});
}

}  // namespace bochner

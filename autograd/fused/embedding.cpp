#include "autograd/fused/embedding.h"

#include "autograd/ops/binary.h"
#include "autograd/ops/view.h"
#include "autograd/tape.h"
#include "engine/ops/embedding.h"

namespace bochner {
namespace {

/// 1 in every row except that of `padding`: (entries, 1).
Tensor rows_but(int64_t padding, int64_t entries, const Variable& like) {
  const Tensor ones = Tensor::full({entries, 1}, 1, like.dtype(), like.device());
  if (padding >= 0 && padding < entries) ones.slice(0, padding, padding + 1).fill_(0);
  return ones;
}

/// y[e, :] = sum of x over the places with ids e: the adjoint of embedding, which is its own adjoint in turn.
Variable scatter_rows(const Variable& x, const Tensor& ids, int64_t entries, int64_t padding) {
  return record("embedding_backward", embedding_backward(x.value(), ids, entries, padding), {&x},
                [ids, entries, padding, stored = x.dtype()](const Variable& g) {
                  const Variable kept = padding < 0 ? g : g * Variable(rows_but(padding, entries, g));
                  return Gradients{embedding(kept, ids, -1, stored)};
                });
}

}  // namespace

// y = E[ids]:  dE[e] = sum of g where ids = e
Variable embedding(const Variable& table, const Tensor& ids, int64_t padding, std::optional<DType> stored) {
  return record("embedding", embedding(table.value(), ids, stored), {&table},
                [ids, padding, entries = table.size(0)](const Variable& g) {
                  return Gradients{scatter_rows(g, ids, entries, padding)};
                });
}

Variable embedding_at_composed(const Variable& table, const Tensor& ids, const Variable& positions, int64_t padding,
                               std::optional<DType> stored) {
  const Variable y = embedding(table, ids, padding) + slice(positions, 0, 0, ids.size(1));
  return stored ? cast(y, *stored) : y;
}

// y_bi = E[ids_bi] + P[i]:  dE as above,  dP[i] = sum_b g_bi
Variable embedding_at(const Variable& table, const Tensor& ids, const Variable& positions, int64_t padding,
                      std::optional<DType> stored) {
  return record_fused(
      "embedding_at", embedding_at(table.value(), ids, positions.value(), stored), {table, positions},
      [=](const auto& in) { return embedding_at_composed(in[0], ids, in[1], padding, stored); },
      [=](const Tensor& g, const auto& in) -> Gradients {
        Gradients result(2);
        if (in[0].tracked()) result[0] = embedding_backward(g, ids, in[0].size(0), padding);
        if (in[1].tracked()) result[1] = positions_backward(g, in[1].size(0));
        return result;
      });
}

}  // namespace bochner

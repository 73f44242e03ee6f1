#include "engine/ops/embedding.h"

#include "engine/bf16.h"
#include "engine/kernel.h"
#include "engine/ops/bias_activation.h"

namespace bochner {

// All contiguous: table, dtable (entries, dim), ids i64 (count), y, g (count, dim). Ids are checked. y and g may be
// bf16.

// Adds row i mod length of positions (length, dim), if defined, to place i. On a card, an id outside the table gives
// zeros, and an Error at the next read by the host.
BOCHNER_KERNEL(kEmbedding, "embedding", embedding, const Tensor& table, const Tensor& ids, const Tensor& positions,
               const Tensor& y);
BOCHNER_KERNEL(kEmbeddingBackward, "embedding_backward", embedding_backward, const Tensor& g, const Tensor& ids,
               int64_t padding, const Tensor& dtable);
namespace {

/// The ids as contiguous i64.
Tensor checked_ids(const Tensor& ids) {
  if (ids.dtype() != DType::i64 && ids.dtype() != DType::i32)
    fail("embedding: ids must be i64 or i32, got {}", name_of(ids.dtype()));
  return ids.cast(DType::i64).contiguous();
}

Tensor gather(const Tensor& table, const Tensor& ids, const Tensor& positions, std::optional<DType> stored) {
  if (table.rank() != 2) fail("embedding: the table must be (entries, dim), got {}", table.shape().str());
  const DType dtype = stored.value_or(table.dtype());
  require_stored(dtype, "embedding");
  if (table.dtype() != compute_dtype(dtype))
    fail("embedding: {} of a table of {} cannot be stored", name_of(dtype), name_of(table.dtype()));
  const Tensor places = checked_ids(ids);
  if (table.size(0) == 0 && ids.size() > 0) fail("embedding: the table {} is empty", table.str());
  Shape shape = ids.shape();
  shape.push_back(table.size(1));
  const Tensor y = Tensor::empty(shape, dtype, table.device());
  kEmbedding(table.device(), table.contiguous(), places, positions, y);
  return y;
}

void check_places(int64_t length, int64_t places) {
  if (length > places) fail("embedding: {} tokens need as many positions; there are {}", length, places);
}

}  // namespace

Tensor embedding(const Tensor& table, const Tensor& ids, std::optional<DType> stored) {
  return gather(table, ids, {}, stored);
}

Tensor embedding_at(const Tensor& table, const Tensor& ids, const Tensor& positions, std::optional<DType> stored) {
  if (ids.rank() != 2) fail("embedding: with positions, ids must be (batch, length), got {}", ids.shape().str());
  if (positions.rank() != 2 || table.rank() != 2 || positions.size(1) != table.size(1) ||
      positions.dtype() != table.dtype()) {
    fail("embedding: positions {} do not fit the table {}", positions.str(), table.str());
  }
  check_places(ids.size(1), positions.size(0));
  return gather(table, ids, positions.slice(0, 0, ids.size(1)).contiguous(), stored);
}

Tensor embedding_backward(const Tensor& g, const Tensor& ids, int64_t entries, int64_t padding) {
  const Tensor places = checked_ids(ids);
  if (g.rank() == 0) fail("embedding: the gradient {} has no axis to sum along", g.str());
  if (!(g.shape().without_last() == ids.shape()))
    fail("embedding: the gradient {} does not fit ids {}", g.str(), ids.str());
  const Tensor dtable = Tensor::empty({entries, g.size(-1)}, compute_dtype(g.dtype()), g.device());
  kEmbeddingBackward(g.device(), g.contiguous(), places, padding, dtable);
  return dtable;
}

Tensor positions_backward(const Tensor& g, int64_t places) {
  if (g.rank() != 3) fail("embedding: the gradient must be (batch, length, dim), got {}", g.str());
  check_places(g.size(1), places);
  const Tensor dpositions = Tensor::zeros({places, g.size(2)}, compute_dtype(g.dtype()), g.device());
  const Shape rows{g.size(1), g.size(2)};
  if (rows.size() > 0) {
    dpositions.slice(0, 0, rows[0]).copy_(column_sum(g.reshape({g.size(0), rows.size()})).view(rows));
  }
  return dpositions;
}

}  // namespace bochner

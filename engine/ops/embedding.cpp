#include "engine/ops/embedding.h"

#include "engine/cpu/embedding.h"
#include "engine/kernel.h"
#if defined(BOCHNER_CUDA)
#include "engine/cuda/embedding.h"
#endif

namespace bochner {
namespace {

using T = const Tensor&;
constexpr Kernel<void(T, T, T)> kForward{"embedding", &cpu::embedding, CUDA_KERNEL(embedding)};
constexpr Kernel<void(T, T, T)> kBackward{"embedding_backward", &cpu::embedding_backward,
                                          CUDA_KERNEL(embedding_backward)};

}  // namespace

Tensor embedding(const Tensor& table, const Tensor& ids) {
  if (table.rank() != 2) fail("embedding: the table must be (entries, dim), got {}", table.shape().str());
  if (ids.dtype() != DType::i64) fail("embedding: ids must be i64, got {}", name_of(ids.dtype()));
  Shape shape = ids.shape();
  shape.push_back(table.size(1));
  const Tensor y = Tensor::empty(shape, table.dtype(), table.device());
  kForward(table.device(), table.contiguous(), ids.contiguous(), y);
  return y;
}

Tensor embedding_backward(const Tensor& g, const Tensor& ids, int64_t entries) {
  const Tensor dtable = Tensor::empty({entries, g.size(-1)}, g.dtype(), g.device());
  kBackward(g.device(), g.contiguous(), ids.contiguous(), dtable);
  return dtable;
}

}  // namespace bochner

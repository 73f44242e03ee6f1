#include "layers/mixed_precision.h"

#include "autograd/ops/view.h"
#include "engine/bf16.h"
#include "engine/card.h"
#include "engine/precision.h"

namespace bochner {

DType stored_type(const Variable& x) {
  const bool rounds = precision() == Precision::bf16 && x.dtype() == DType::f32 && stores_bf16(x.device());
  return rounds ? DType::bf16 : x.dtype();
}

Variable as_stored(const Variable& x) {
  const DType type = stored_type(x);
  return x.dtype() == type ? x : cast(x, type);
}

Variable as_computed(const Variable& x) { return x.dtype() == DType::bf16 ? cast(x, compute_dtype(x.dtype())) : x; }

Variable as_type_of(const Variable& model, const Variable& x) {
  return x.dtype() == model.dtype() ? x : cast(x, model.dtype());
}

}  // namespace bochner

#include "autograd/ops/sort.h"

#include "autograd/ops/index.h"
#include "autograd/ops/unary.h"
#include "engine/ops/sort.h"

namespace bochner {
namespace {

// y_i = x_(order i):  dx_(order i) = g_i, 0 where nothing was chosen
OrderedVariable in_order(const char* op, const Variable& x, int axis, const Ordered& ordered) {
  const Tensor& order = ordered.indices;
  const auto backward = [order, axis, from = x.shape()](const Variable& g) {
    return Gradients{scatter_add(from, axis, order, g)};
  };
  return {record(op, ordered.values, {&x}, backward), order};
}

}  // namespace

OrderedVariable sort(const Variable& x, int axis, bool descending) {
  return in_order("sort", x, axis, sort(x.value(), axis, descending));
}

OrderedVariable topk(const Variable& x, int64_t k, int axis) {
  return in_order("topk", x, axis, topk(x.value(), k, axis));
}

}  // namespace bochner

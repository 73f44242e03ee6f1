#include "autograd/ops/matmul.h"

#include "autograd/ops/binary.h"
#include "autograd/ops/view.h"
#include "engine/ops/matmul.h"

namespace bochner {

// C = A B:  dA = G B^T, dB = A^T G
Variable matmul(const Variable& a, const Variable& b) {
  return record("matmul", matmul(a.value(), b.value()), {&a, &b}, [a, b](const Variable& g) {
    Gradients result(2);
    if (a.tracked()) result[0] = sum_to(matmul(g, transpose(b, -2, -1)), a.shape());
    if (!b.tracked()) return result;
    if (b.rank() == 2 && a.rank() > 2) {  // one product over all rows instead of a batch of products and a sum
      const int64_t rows = a.shape().without_last().size();
      result[1] = matmul(transpose(reshape(a, {rows, a.size(-1)}), 0, 1), reshape(g, {rows, g.size(-1)}));
    } else {
      result[1] = sum_to(matmul(transpose(a, -2, -1), g), b.shape());
    }
    return result;
  });
}

Variable matmul_transposed(const Variable& x, const Variable& w) {
  if (x.rank() > 1) return matmul(x, transpose(w, 0, 1));
  return reshape(matmul(reshape(x, {1, x.size(-1)}), transpose(w, 0, 1)), {w.size(0)});
}

}  // namespace bochner

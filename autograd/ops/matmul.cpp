#include "autograd/ops/matmul.h"

#include "autograd/op_info.h"
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
    if (b.rank() == 2 && a.rank() > 2) {  // one product over all rows instead of a batch of them, summed
      const Variable rows = reshape(a, {a.size() / a.size(-1), a.size(-1)});
      result[1] = matmul(transpose(rows, 0, 1), reshape(g, {rows.size(0), g.size(-1)}));
    } else {
      result[1] = sum_to(matmul(transpose(a, -2, -1), g), b.shape());
    }
    return result;
  });
}

void describe_matmul(OpInfos& infos) {
  OpInfo info{"matmul", "C_ij = sum_k A_ik B_kj", "", {}, {}};
  const std::vector<std::pair<Shape, Shape>> shapes = {
      {{2, 3}, {3, 4}},          {{1, 1}, {1, 1}},       {{5, 7}, {7, 3}},    {{0, 3}, {3, 2}},
      {{2, 0}, {0, 3}},          {{3, 1}, {1, 3}},       {{2, 2, 3}, {3, 2}}, {{2, 3}, {2, 3, 2}},
      {{2, 1, 2, 3}, {2, 3, 1}}, {{3, 2, 2}, {3, 2, 2}}, {{2, 0, 3}, {3, 2}}};
  uint64_t seed = 1100;
  for (const auto& [left, right] : shapes) {
    for (const auto& [label, a] : sample_layouts(left, ++seed)) {
      for (const auto& [other, b] : sample_layouts(right, ++seed)) {
        info.samples.push_back(
            {label + " x " + other, {a, b}, [](const std::vector<Variable>& in) { return matmul(in[0], in[1]); }});
      }
    }
  }
  const auto zeros = [](const Shape& shape) { return Variable(Tensor::zeros(shape)); };
  info.refused = {[zeros] {
                    matmul(zeros({2, 3}), zeros({2, 3}));
                  },
                  [zeros] {
                    matmul(zeros({3}), zeros({3, 3}));
                  },
                  [zeros] {
                    matmul(zeros({2, 2, 3}), zeros({3, 3, 2}));
                  },
                  [zeros] {
                    matmul(zeros({2, 2}), Variable(Tensor::zeros({2, 2}, DType::f64)));
                  }};
  infos.push_back(info);
}

}  // namespace bochner

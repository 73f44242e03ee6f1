// The promises of the ops of autograd/ops/matmul.h, and samples to check them.
#include "autograd/ops/matmul.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/view.h"
#include "engine/ops/matmul.h"

#include "tests/autograd/op_info.h"

namespace bochner {

void describe_matmul(OpInfos& infos) {
  OpInfo info{"matmul", "C_ij = sum_k A_ik B_kj", "", {}, {}};
  const std::vector<std::pair<Shape, Shape>> shapes = {
      {{2, 3}, {3, 4}},          {{1, 1}, {1, 1}},       {{5, 7}, {7, 3}},    {{0, 3}, {3, 2}},
      {{2, 0}, {0, 3}},          {{3, 1}, {1, 3}},       {{2, 2, 3}, {3, 2}}, {{2, 3}, {2, 3, 2}},
      {{2, 1, 2, 3}, {2, 3, 1}}, {{3, 2, 2}, {3, 2, 2}}, {{2, 0, 3}, {3, 2}}, {{2, 3, 0}, {0, 4}}};
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

const bool kMatmulDescribed = add_family(describe_matmul);

}  // namespace bochner

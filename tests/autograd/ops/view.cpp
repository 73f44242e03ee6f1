// The promises of the ops of autograd/ops/view.h, and samples to check them.
#include "autograd/ops/view.h"
#include <algorithm>
#include "autograd/ops/binary.h"
#include "autograd/ops/reduce.h"
#include "autograd/tape.h"

#include "tests/autograd/op_info.h"

namespace bochner {

void describe_view(OpInfos& infos) {
  const std::vector<Shape> matrices = {{2, 3}, {1, 1}, {5, 7}, {0, 3}, {3, 0}, {4, 2}, {3, 1}, {6, 5}};
  const auto zeros = [](const Shape& shape) { return Variable(Tensor::zeros(shape)); };
  infos.push_back(
      describe_on_layouts(900, "reshape", "the same elements in row-major order", matrices, [](const Variable& x) {
        return square(reshape(x, {x.size(1), x.size(0), 1}));
      }));
  infos.back().refused = {[zeros] { reshape(zeros({2, 3}), {4}); }};
  infos.push_back(describe_on_layouts(900, "permute", "y[i_p(1), ..., i_p(n)] = x[i_1, ..., i_n]",
                                      {{2, 3, 2}, {1, 1, 1}, {0, 2, 3}, {3, 5, 1}, {2, 2, 7}}, [](const Variable& x) {
                                        return square(permute(x, {2, 0, 1}));
                                      }));
  infos.back().refused = {[zeros] { permute(zeros({2, 3}), {0, 0}); }, [zeros] { permute(zeros({2, 3}), {0}); }};
  infos.push_back(describe_on_layouts(900, "transpose", "y[.., j, .., i, ..] = x[.., i, .., j, ..]", matrices,
                                      [](const Variable& x) { return square(transpose(x, 0, 1)); }));
  infos.back().refused = {[zeros] { transpose(zeros({2, 3}), 0, 2); }};
  infos.push_back(describe_on_layouts(900, "slice", "y[i] = x[begin + step i]",
                                      {{5, 3}, {5}, {9, 1}, {7, 0}, {6, 2, 2}, {8, 3}, {5, 1, 1}, {1}, {1, 1}},
                                      [](const Variable& x) {
                                        const bool one = x.size(0) == 1;
                                        return square(slice(x, 0, one ? 0 : 1, one ? 1 : 5, 2));
                                      }));
  infos.back().refused = {[zeros] { slice(zeros({3}), 0, 2, 1); }, [zeros] { slice(zeros({3}), 0, 0, 4); }};
  infos.push_back(describe_on_layouts(900, "embed_slice", "y[begin + step i] = x[i], else 0",
                                      {{2, 3}, {2}, {2, 1}, {2, 0}, {2, 5, 2}, {2, 2}, {2, 7}, {1}, {1, 1}},
                                      [](const Variable& x) {
                                        Shape shape = x.shape();
                                        shape[0] = 6;
                                        return square(embed_slice(x, shape, 0, 1, 3));
                                      }));
  infos.back().refused = {[zeros] { embed_slice(zeros({3}), {4}, 0, 2); }};
  infos.push_back(describe_on_layouts(900, "contiguous", "y = x", matrices,
                                      [](const Variable& x) { return square(contiguous(x)); }));
  infos.push_back(describe_on_layouts(900, "cast", "y = x in another type", matrices,
                                      [](const Variable& x) { return square(cast(x, DType::f64)); }));
}

const bool kViewDescribed = add_family(describe_view);

}  // namespace bochner

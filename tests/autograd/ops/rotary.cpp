// The promises of the op of autograd/ops/rotary.h, and samples to check them.
#include "autograd/ops/rotary.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/join.h"
#include "autograd/ops/view.h"
#include "engine/ops/unary.h"

#include "tests/autograd/op_info.h"

namespace bochner {
namespace {

Variable rotary_composed(const Variable& x, const Tensor& cosines, const Tensor& sines, int64_t turned) {
  const int64_t half = x.size(3) / 2;
  const Variable head = slice(x, 2, 0, turned);
  const Variable a = slice(head, 3, 0, half);
  const Variable b = slice(head, 3, half, x.size(3));
  const Variable c = cosines.view({x.size(1), 1, half});
  const Variable s = sines.view({x.size(1), 1, half});
  return concat({concat({a * c - b * s, b * c + a * s}, 3), slice(x, 2, turned, x.size(2))}, 2);
}

}  // namespace

void describe_rotary(OpInfos& infos) {
  OpInfo info{"rotary", "a' = a cos - b sin, b' = b cos + a sin", "Su et al., 2021, Eq. 34", {}, {}};
  uint64_t seed = 2600;
  for (const Shape& shape : {Shape{2, 3, 2, 4}, Shape{1, 1, 1, 2}, Shape{1, 5, 3, 6}, Shape{0, 3, 2, 4},
                             Shape{2, 0, 3, 2}, Shape{3, 2, 1, 34}, Shape{2, 7, 6, 8}}) {
    for (const auto& [label, x] : sample_layouts(shape, ++seed)) {
      const Tensor angles = sample_values({shape[1], shape[3] / 2}, ++seed);
      const int64_t turned = static_cast<int64_t>(seed) % (shape[2] + 1);
      const bool back = seed % 4 < 2;
      const Tensor c = cos(angles);
      const Tensor s = sin(angles);
      info.samples.push_back({label,
                              {x},
                              [=](const std::vector<Variable>& in) {
                                return rotary(in[0], beside(in[0], c), beside(in[0], s), turned, back);
                              },
                              [=](const std::vector<Variable>& in) {
                                return rotary_composed(in[0], beside(in[0], c), beside(in[0], back ? -s : s), turned);
                              }});
    }
  }
  info.composition = [](const Sample& sample, const std::vector<Variable>& in) { return sample.composed(in); };
  const auto refuses = [](const Shape& x, const Shape& table, int64_t turned) {
    return [=] { rotary(Variable(Tensor::zeros(x)), Tensor::zeros(table), Tensor::zeros(table), turned); };
  };
  info.refused = {refuses({2, 3, 4}, {3, 2}, 1), refuses({2, 3, 1, 5}, {3, 2}, 1), refuses({2, 3, 1, 4}, {3, 2}, 2),
                  refuses({2, 3, 1, 4}, {2, 2}, 1), refuses({2, 3, 1, 4}, {3, 4}, 1)};
  infos.push_back(info);
}

const bool kRotaryDescribed = add_family(describe_rotary);

}  // namespace bochner

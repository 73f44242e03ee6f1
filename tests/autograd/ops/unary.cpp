// The promises of the ops of autograd/ops/unary.h, and samples to check them.
#include "autograd/ops/unary.h"

#include <fmt/format.h>

#include <type_traits>

#include "autograd/ops/binary.h"

#include "tests/autograd/op_info.h"

namespace bochner {

namespace {

template <class Op>
OpInfo describe(const Op& op) {
  OpInfo info{Op::name, Op::equation, "", {}, {}};
  double low = -2;
  if constexpr (requires { Op::positive; }) low = 0.3;
  uint64_t seed = 1;
  for (const Shape& shape :
       {Shape{}, Shape{1}, Shape{7}, Shape{0}, Shape{3, 5}, Shape{2, 3, 5}, Shape{1, 1, 3}, Shape{4, 0, 2}}) {
    for (const auto& [label, x] : sample_layouts(shape, ++seed, low, 2)) {
      info.samples.push_back({label, {x}, [op](const std::vector<Variable>& in) { return apply(op, in[0]); }});
    }
  }
  if constexpr (std::is_same_v<Op, unary::PowScalar>) {
    for (const double exponent : {0, 1, 2, 3}) {
      info.samples.push_back({fmt::format("at 0 to the power of {}", exponent),
                              {Tensor::from({0.0, 2.0, -1.0}, {3})},
                              [exponent](const std::vector<Variable>& in) { return pow(in[0], exponent); }});
    }
  }
  info.refused.push_back([op] { apply(op, Tensor::zeros({2}, DType::i64)); });
  return info;
}

}  // namespace

void describe_unary(OpInfos& infos) {
#define BOCHNER_DESCRIBE(Op, ...) infos.push_back(describe(unary::Op{}));
  BOCHNER_PLAIN_UNARY_OPS(BOCHNER_DESCRIBE)
  BOCHNER_PARAMETRIC_UNARY_OPS(BOCHNER_DESCRIBE)
#undef BOCHNER_DESCRIBE
}

const bool kUnaryDescribed = add_family(describe_unary);

}  // namespace bochner

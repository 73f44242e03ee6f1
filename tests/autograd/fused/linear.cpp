// The promises of the ops of autograd/fused/linear.h, and samples to check them.
#include "autograd/fused/linear.h"
#include "autograd/fused/dropout.h"
#include "autograd/fused/norm.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/unary.h"
#include "autograd/ops/view.h"
#include "autograd/tape.h"
#include "engine/random.h"

#include "tests/autograd/op_info.h"

namespace bochner {

void describe_linear(OpInfos& infos) {
  OpInfo info{"linear",
              "y = residual + dropout(LayerNorm(x) W^T + b),  y = dropout(relu(LayerNorm(x) W^T + b))",
              "Vaswani et al., 2017; norm in front: Xiong et al., 2020",
              {},
              {}};
  uint64_t seed = 2500;
  for (const Shape& shape :
       {Shape{4, 5}, Shape{1, 1}, Shape{3, 7}, Shape{2, 2, 6}, Shape{0, 4}, Shape{130, 3}, Shape{5}}) {
    for (const bool norm : {true, false}) {
      for (const bool add : {true, false}) {
        for (const auto& [label, x] : sample_layouts(shape, ++seed)) {
          const int64_t inputs = shape[-1];
          const int64_t outputs = 1 + static_cast<int64_t>(seed % 4);
          LinearSpec spec;
          spec.eps = 0.1;  // large, so that rows of nearly equal values stay far from singular
          if (seed % 3 != 0) spec.drop = Dropout::at(0.25, Generator(seed, 1000));
          spec.relu = !add && seed % 2 == 0;
          std::vector<Tensor> values{x, sample_values({outputs, inputs}, ++seed, -1, 1),
                                     sample_values({outputs}, ++seed)};
          if (norm) values.insert(values.end(), {sample_values({inputs}, ++seed), sample_values({inputs}, ++seed)});
          if (add) {
            Shape whole = shape;
            whole[-1] = outputs;
            values.push_back(sample_values(whole, ++seed));
          }
          const auto weights = [norm](const std::vector<Variable>& in) {
            return norm ? LinearVariables{in[1], in[2], in[3], in[4]} : LinearVariables{in[1], in[2]};
          };
          const auto residual = [add](const std::vector<Variable>& in) { return add ? in.back() : Variable(); };
          info.samples.push_back(
              {label + (norm ? "" : " without norm") + (add ? " with residual" : "") + (spec.relu ? " relu" : ""),
               values, [=](const std::vector<Variable>& in) { return linear(in[0], weights(in), residual(in), spec); },
               [=](const std::vector<Variable>& in) {
                 return linear_composed(in[0], weights(in), residual(in), spec);
               }});
        }
      }
    }
  }
  info.composition = [](const Sample& sample, const std::vector<Variable>& in) { return sample.composed(in); };
  info.refused = {[] {
                    const Variable w = Tensor::zeros({4, 3});
                    linear(Variable(Tensor::zeros({2, 4})), {w});
                  },
                  [] {
                    const Variable w = Tensor::zeros({4, 3});
                    linear(Variable(Tensor::zeros({2, 3})), {w}, Variable(Tensor::zeros({2, 3})));
                  },
                  [] {
                    const Variable w = Tensor::zeros({4, 3});
                    linear(Variable(Tensor::zeros({2, 3})), {w, {}, Variable(Tensor::zeros({3}))});
                  },
                  [] {
                    const Variable w = Tensor::zeros({3, 3});
                    const Variable x = Tensor::zeros({2, 3});
                    linear(x, {w}, x, {.relu = true});
                  }};
  infos.push_back(info);
}

const bool kLinearDescribed = add_family(describe_linear);

}  // namespace bochner

// The promises of the ops of autograd/fused/softmax_attention.h, and samples to check them.
#include "autograd/fused/softmax_attention.h"
#include <limits>
#include <map>
#include "autograd/fused/dropout.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/view.h"

#include "tests/autograd/op_info.h"

namespace bochner {

void describe_softmax_attention(OpInfos& infos) {
  OpInfo info{"softmax_attention",
              "O_i = sum_j P_ij v_j,  P_ij = exp(s_ij) / sum_j exp(s_ij),  s_ij = scale q_i . k_j",
              "Vaswani et al., 2017",
              {},
              {}};
  std::map<std::string, std::function<Variable(const std::vector<Variable>&)>> plain;  // by label
  uint64_t seed = 2200;
  for (const auto& [queries, length] : {std::pair<int64_t, int64_t>{4, 4}, {1, 5}, {5, 1}, {3, 6}, {7, 2}, {0, 3}}) {
    for (const bool causal : {false, true}) {
      for (const double p : {0.0, 0.4}) {
        SoftmaxAttentionOptions options{0.7, causal, Dropout::at(p, Generator(3, 8))};
        Tensor keys;
        if (seed % 4 < 2) {
          keys = less(Tensor::arange(length).unsqueeze(0), Tensor::from<int64_t>({length, length - 1}, {2, 1}));
        }
        const auto split = [&](int64_t l, int64_t d) {
          return sample_values({2, l, 2, d}, ++seed, -1, 1, 0.05).transpose(1, 2);
        };
        Sample sample{fmt::format("{} queries, {} keys, causal {}, dropout {}", queries, length, causal, p),
                      {split(queries, 3), sample_values({2, 2, length, 3}, ++seed, -1, 1), split(length, 2)},
                      [options, keys](const std::vector<Variable>& in) {
                        return softmax_attention(options, in[0], in[1], in[2], beside(in[0], keys));
                      }};
        info.samples.push_back(sample);
        plain[sample.label] = [options, keys](const std::vector<Variable>& in) {
          return composed::softmax_attention(options, in[0], in[1], in[2], beside(in[0], keys));
        };
        ++seed;
      }
    }
  }
  const auto add = [&](const std::string& label, const std::vector<Tensor>& inputs) {
    const SoftmaxAttentionOptions options{0.7, false, Dropout::at(0, Generator(3, 8))};
    info.samples.push_back({label, inputs, [options](const std::vector<Variable>& in) {
                              return softmax_attention(options, in[0], in[1], in[2], {});
                            }});
    plain[label] = [options](const std::vector<Variable>& in) {
      return composed::softmax_attention(options, in[0], in[1], in[2], {});
    };
  };
  const auto values = [&](const Shape& shape) { return sample_values(shape, ++seed, -1, 1, 0.05); };
  add("one query, one key, size 1", {values({1, 1, 1, 1}), values({1, 1, 1, 1}), values({1, 1, 1, 1})});
  add("heads, batches and rows that are one in memory",
      {values({2, 1, 4, 3}).expand({2, 2, 4, 3}), values({1, 2, 5, 3}).expand({2, 2, 5, 3}),
       values({2, 2, 1, 2}).expand({2, 2, 5, 2})});
  info.composition = [plain](const Sample& sample, const std::vector<Variable>& in) {
    return plain.at(sample.label)(in);
  };
  info.refused = {[] {
                    const Variable x = Tensor::zeros({1, 2, 3, 4});
                    softmax_attention({}, x, Variable(Tensor::zeros({1, 2, 3, 5})), x, {});
                  },
                  [] {
                    const Variable x = Tensor::zeros({1, 2, 3, 4});
                    softmax_attention({}, x, x, x, Tensor::zeros({1, 3}));
                  }};
  infos.push_back(info);
}

const bool kSoftmaxAttentionDescribed = add_family(describe_softmax_attention);

}  // namespace bochner

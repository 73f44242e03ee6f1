// The promises of the ops of autograd/fused/kernel_attention.h, and samples to check them.
#include "autograd/fused/kernel_attention.h"
#include <limits>
#include <map>
#include "autograd/ops/binary.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/view.h"
#include "engine/ops/hadamard.h"
#include "engine/ops/index.h"
#include "engine/ops/reduce.h"

#include "tests/autograd/op_info.h"

namespace bochner {

void describe_kernel_attention(OpInfos& infos) {
  using Kind = FeatureMap::Kind;
  OpInfo info{"kernel_attention",
              "O_i = phi(q_i)^T sum_j phi(k_j) v_j^T / (phi(q_i)^T sum_j phi(k_j) + eps)",
              "PERF Eq. 4, KL Eq. 1",
              {},
              {}};
  std::vector<FeatureMap> maps = {{.kind = Kind::positive, .eps = 0},
                                  {.kind = Kind::positive, .norm_factor = 1, .eps = 0, .constant = 0.5},
                                  {.kind = Kind::positive, .norm_factor = 0, .eps = 0.3, .absolute_eps = true},
                                  {.kind = Kind::hyperbolic, .eps = 0},
                                  {.kind = Kind::hyperbolic, .eps = 0.1, .absolute_eps = true},
                                  {.kind = Kind::trigonometric, .eps = 0, .constant = 3},
                                  {.kind = Kind::softmax_trigonometric, .eps = 0, .constant = 3}};
  for (const auto& [name, f] : kFeatureFunctions) {
    maps.push_back({.kind = Kind::elementwise, .function = f, .eps = 3});
  }
  std::map<std::string, std::function<Variable(const std::vector<Variable>&)>> plain;  // by label
  uint64_t seed = 2100;
  for (const FeatureMap& map : maps) {
    for (const bool causal : {false, true}) {
      const int64_t D = 3;
      const int64_t L = causal ? 5 : 4;
      const bool shared = seed % 2 == 0;
      const KernelAttentionSpec spec{map, 0.7, causal, seed % 3 != 0, 0};
      Tensor keys;
      if (seed % 4 < 2) keys = less(Tensor::arange(L).unsqueeze(0), Tensor::from<int64_t>({L, L - 2}, {2, 1}));
      const auto split = [&] { return sample_values({2, L, 2, D}, ++seed, -1, 1, 0.05).transpose(1, 2); };
      Sample sample{fmt::format("sample {}: map {}, function {}{}", info.samples.size(), static_cast<int>(map.kind),
                                static_cast<int>(map.function), causal ? ", causal" : ""),
                    {split(), sample_values({2, 2, L, D}, ++seed, -1, 1), split(),
                     sample_values({shared ? 1 : 2, 4, D}, ++seed, -1, 1, 0.2)},
                    [spec, keys](const std::vector<Variable>& in) {
                      return kernel_attention(spec, in[0], in[1], in[2], in[3], beside(in[0], keys));
                    }};
      info.samples.push_back(sample);
      plain[sample.label] = [spec, keys](const std::vector<Variable>& in) {
        return composed::kernel_attention(spec, in[0], in[1], in[2], in[3], beside(in[0], keys));
      };
      ++seed;
    }
  }
  for (const bool causal : {false, true}) {  // FastFood: two blocks of 4, of which 7 rows are used
    const KernelAttentionSpec spec{maps[static_cast<size_t>(causal ? 3 : 0)], 0.7, causal, true, 0};
    const FastFoodRows rows{Tensor::from<int64_t>({2, 0, 3, 1, 3, 1, 0, 2}, {2, 4}), 7};
    const auto values = [&](const Shape& shape) { return sample_values(shape, ++seed, -1, 1, 0.05); };
    Sample sample{fmt::format("FastFood{}", causal ? ", causal" : ""),
                  {values({2, 2, 5, 3}), values({2, 2, 5, 3}), values({2, 2, 5, 3}), values({causal ? 2 : 1, 6, 4})},
                  [=](const std::vector<Variable>& in) {
                    return kernel_attention(spec, in[0], in[1], in[2], {in[3], rows}, {});
                  }};
    info.samples.push_back(sample);
    plain[sample.label] = [=](const std::vector<Variable>& in) {
      return composed::kernel_attention(spec, in[0], in[1], in[2], {in[3], rows}, {});
    };
  }
  for (const bool causal : {false, true}) {
    const auto add = [&](std::string label, const std::vector<Tensor>& inputs) {
      if (causal) label += ", causal";
      const KernelAttentionSpec spec{maps[0], 0.7, causal, true, 0};
      info.samples.push_back({label, inputs, [spec](const std::vector<Variable>& in) {
                                return kernel_attention(spec, in[0], in[1], in[2], in[3], {});
                              }});
      plain[label] = [spec](const std::vector<Variable>& in) {
        return composed::kernel_attention(spec, in[0], in[1], in[2], in[3], {});
      };
    };
    const auto values = [&](const Shape& shape) { return sample_values(shape, ++seed, -1, 1, 0.05); };
    add("no tokens", {values({2, 2, 0, 3}), values({2, 2, 0, 3}), values({2, 2, 0, 3}), values({1, 4, 3})});
    add("one token, size 1", {values({1, 1, 1, 1}), values({1, 1, 1, 1}), values({1, 1, 1, 1}), values({1, 1, 1})});
    add("heads, batches and rows that are one in memory",
        {values({2, 1, 5, 3}).expand({2, 2, 5, 3}), values({1, 2, 5, 3}).expand({2, 2, 5, 3}),
         values({2, 2, 1, 3}).expand({2, 2, 5, 3}), values({1, 4, 3})});
  }
  info.composition = [plain](const Sample& sample, const std::vector<Variable>& in) {
    return plain.at(sample.label)(in);
  };
  info.refused = {[] {
                    const Variable x = Tensor::zeros({1, 2, 3, 4});
                    kernel_attention({}, x, x, x, Variable(Tensor::zeros({3, 5, 4})), {});
                  },
                  [] {
                    const Variable x = Tensor::zeros({1, 2, 3, 4});
                    kernel_attention({}, x, x, x, Variable(Tensor::zeros({1, 5, 4})), Tensor::zeros({1, 3}));
                  }};
  infos.push_back(info);
}

const bool kKernelAttentionDescribed = add_family(describe_kernel_attention);

}  // namespace bochner

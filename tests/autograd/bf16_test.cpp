// Activations in bf16 (engine/bf16.h) on the CPU, where some ops convert their inputs and outputs, and on a card, whose
// kernels read and write bf16. The squared error of an op against f64 is at most twice that of its composition of plain
// ops that rounds each intermediate to bf16.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <utility>

#include "autograd/fused/bias_activation.h"
#include "autograd/fused/dropout.h"
#include "autograd/fused/embedding.h"
#include "autograd/fused/feed_forward.h"
#include "autograd/fused/kernel_attention.h"
#include "autograd/fused/linear.h"
#include "autograd/fused/norm.h"
#include "autograd/fused/softmax_attention.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/unary.h"
#include "autograd/ops/view.h"
#include "autograd/tape.h"
#include "engine/card.h"
#include "engine/ops/binary.h"
#include "engine/ops/index.h"
#include "engine/ops/unary.h"
#include "engine/random.h"
#include "tests/autograd/op_info.h"
#include "tests/card.h"

namespace bochner {
namespace {

using namespace testing_card;  // NOLINT
using Inputs = std::vector<Variable>;
using Function = std::function<Variable(const Inputs&)>;

/// The CPU, and a card if there is one.
std::vector<Device> devices() {
  std::vector<Device> found{Device::cpu()};
  if (missing().empty()) found.push_back(Device::cuda());
  return found;
}

/// An op with some activations and some parameters.
struct Case {
  std::string label;
  std::vector<Tensor> activations, parameters;
  Function apply, composed;
};

/// Normally distributed numbers in f32, stored as f64.
Tensor values(const Shape& shape, uint64_t seed, double deviation = 1, double mean = 0) {
  Generator generator(seed);
  return normal(shape, generator, mean, deviation, DType::f32).cast(DType::f64);
}

Tensor representable(const Tensor& x) { return x.cast(DType::bf16).cast(x.dtype()); }

/// The value and the gradients of all inputs under a fixed projection.
std::vector<Tensor> run(const Function& f, const Case& given, Device device, DType activations, DType parameters) {
  if (!device.is_cpu()) poison();
  Tape tape;
  Inputs in;
  for (const Tensor& x : given.activations) in.push_back(tape.watch(x.cast(activations).to(device)));
  for (const Tensor& x : given.parameters) in.push_back(tape.watch(x.cast(parameters).to(device)));
  const Variable y = f(in);
  std::vector<Tensor> results{y.value()};
  const Tensor projection = representable(values(y.shape(), 99)).cast(y.dtype()).to(device);
  for (const Variable& gradient : tape.gradients({y}, {projection}, in)) results.push_back(gradient.value());
  return results;
}

std::vector<std::vector<double>> numbers(const std::vector<Tensor>& tensors) {
  std::vector<std::vector<double>> result;
  for (const Tensor& x : tensors) result.push_back(x.to_vector<double>());
  return result;
}

void expect_little_loss(Case given) {
  for (Tensor& x : given.activations) x = representable(x);
  const auto expected = numbers(run(given.composed, given, Device::cpu(), DType::f64, DType::f64));
  const auto least = numbers(run(given.composed, given, Device::cpu(), DType::bf16, DType::bf16));
  const double floor = common_floor(expected);
  for (const Device device : devices()) {
    const std::vector<Tensor> made = run(given.apply, given, device, DType::bf16, DType::f32);
    const auto found = numbers(made);
    EXPECT_EQ(numbers(run(given.apply, given, device, DType::bf16, DType::f32)), found) << "two runs differ";
    ASSERT_EQ(found.size(), expected.size());
    double error_of_few = 0;
    double least_of_few = 0;
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(made[i].dtype(), i <= given.activations.size() ? DType::bf16 : DType::f32) << given.label;
      const double error = squared_error(found[i], expected[i], floor);
      const double allowed = std::max(squared_error(least[i], expected[i], floor), 1e-6);
      if (found[i].size() >= 100) {
        EXPECT_LE(error, 2 * allowed) << given.label << " on " << device.str() << ", result " << i;
      } else {  // with few numbers it is a matter of luck
        error_of_few += error;
        least_of_few += allowed;
      }
    }
    EXPECT_LE(error_of_few, 2 * least_of_few) << given.label << " on " << device.str() << ", small results";
  }
}

constexpr int64_t kRows[] = {1, 7, 1023};

TEST(Bf16, LinearWithNormResidualAndDropout) {
  for (const int64_t rows : kRows) {
    // The norm holds the second in registers, and those 64 wide have their own kernels on a card.
    for (const auto& [columns, outputs] : {std::pair<int64_t, int64_t>{9, 24}, {128, 24}, {64, 64}, {64, 192}}) {
      LinearSpec spec;
      spec.drop = Dropout::at(0.25, Generator(7, outputs == 192 ? 42 : 40));
      const std::vector<Tensor> parameters{values({outputs, columns}, 3, 0.3), values({outputs}, 4),
                                           values({columns}, 5, 0.2, 1), values({columns}, 6, 0.2)};
      const auto weights = [](const Inputs& in) { return LinearVariables{in[2], in[3], in[4], in[5]}; };
      expect_little_loss({fmt::format("linear, {} rows of {}, {} outputs", rows, columns, outputs),
                          {values({rows, columns}, 1), values({rows, outputs}, 2)},
                          parameters,
                          [=](const Inputs& in) { return linear(in[0], weights(in), in[1], spec); },
                          [=](const Inputs& in) { return linear_composed(in[0], weights(in), in[1], spec); }});
    }
  }
}

TEST(Bf16, Embeddings) {
  Generator generator(1);
  const Tensor ids = integers({6, 40}, 0, 9, generator);
  const auto rows_of = [ids](const Variable& table) {
    return matmul(Variable(one_hot(ids.to(table.device()), 9).cast(table.dtype())), table);
  };
  for (const int64_t dim : {9, 64}) {
    const std::vector<Tensor> parameters{values({9, dim}, 3), values({40, dim}, 4)};
    expect_little_loss({fmt::format("embedding, {} wide", dim),
                        {},
                        {parameters[0]},
                        [=](const Inputs& in) { return embedding(in[0], ids.to(in[0].device()), -1, DType::bf16); },
                        [=](const Inputs& in) { return rows_of(in[0]); }});
    expect_little_loss(
        {fmt::format("embedding_at, {} wide", dim),
         {},
         parameters,
         [=](const Inputs& in) { return embedding_at(in[0], ids.to(in[0].device()), in[1], -1, DType::bf16); },
         [=](const Inputs& in) { return rows_of(in[0]) + in[1]; }});
  }
}

TEST(Bf16, LinearAloneAndBehindRelu) {
  for (const int64_t rows : kRows) {
    for (const auto& [columns, outputs] : {std::pair<int64_t, int64_t>{9, 24}, {64, 128}}) {
      LinearSpec spec;
      spec.relu = rows == 7;
      expect_little_loss({fmt::format("linear, {} rows of {}", rows, columns),
                          {values({rows, columns}, 1)},
                          {values({outputs, columns}, 3, 0.3), values({outputs}, 4)},
                          [=](const Inputs& in) {
                            return linear(in[0], {in[1], in[2]}, {}, spec);
                          },
                          [=](const Inputs& in) {
                            return linear_composed(in[0], {in[1], in[2]}, {}, spec);
                          }});
    }
  }
}

TEST(Bf16, FeedForward) {
  ::setenv("BOCHNER_EMULATED_SHARED", "232448", 1);  // as on the cards for which the kernels for narrow blocks are made
  for (const int64_t rows : kRows) {
    for (const auto& [columns, hidden] : {std::pair<int64_t, int64_t>{9, 104}, {128, 104}, {64, 128}}) {
      FeedForwardOptions options;
      options.inner = Dropout::at(0.1, Generator(7, 40 + columns % 10));
      options.outer = Dropout::at(0.25, Generator(8, 40));
      options.keep_hidden = columns == 128;
      const auto weights = [](const Inputs& in) {
        return FeedForwardVariables{in[1], in[2], in[3], in[4], in[5], in[6]};
      };
      expect_little_loss({fmt::format("feed forward, {} rows of {}", rows, columns),
                          {values({rows, columns}, 1)},
                          {values({hidden, columns}, 2, 0.3), values({hidden}, 3), values({columns, hidden}, 4, 0.3),
                           values({columns}, 5), values({columns}, 6, 0.2, 1), values({columns}, 7, 0.2)},
                          [=](const Inputs& in) { return feed_forward(in[0], weights(in), options); },
                          [=](const Inputs& in) { return feed_forward_composed(in[0], weights(in), options); }});
    }
  }
  ::unsetenv("BOCHNER_EMULATED_SHARED");
}

TEST(Bf16, LayerNorm) {
  for (const int64_t rows : kRows) {
    for (const int64_t columns : {9, 64, 128, 1030}) {  // the second has its own kernels on a card
      if (rows > 7 && columns > 128) continue;
      const std::vector<Tensor> parameters{values({columns}, 5, 0.2, 1), values({columns}, 6, 0.2)};
      expect_little_loss({fmt::format("layer norm, {} rows of {}", rows, columns),
                          {values({rows, columns}, 1, 1, 0.5)},
                          parameters,
                          [](const Inputs& in) { return layer_norm(in[0], in[1], in[2]); },
                          [](const Inputs& in) { return layer_norm_composed(in[0], in[1], in[2], 1e-5); }});
    }
  }
}

TEST(Bf16, ElementsAndSums) {
  for (const int64_t rows : kRows) {
    const std::vector<Tensor> two{values({rows, 5}, 1), values({rows, 5}, 2, 0.1, 3)};
    const Dropout drop = Dropout::at(0.25, Generator(7, 40));
    const auto same = [&](const char* label, const std::vector<Tensor>& in, const Function& f) {
      expect_little_loss({fmt::format("{}, {} rows", label, rows), in, {}, f, f});
    };
    same("arithmetic", two, [](const Inputs& in) { return (in[0] + in[1]) * in[0] / in[1] - maximum(in[0], in[1]); });
    same("dropout", two, [=](const Inputs& in) { return dropout_at(in[0], drop); });
    same("matmul", two, [](const Inputs& in) { return matmul(transpose(in[0], 0, 1), in[1]); });
    same("softmax", two, [](const Inputs& in) { return softmax(in[0]) + in[1]; });
    // A sum is rounded once, however long it is; a composition of sums is rounded more often.
    expect_little_loss({fmt::format("sums, {} rows", rows),
                        two,
                        {},
                        [](const Inputs& in) { return sum(in[0], {0}) + mean(in[1], {0}) + sum(in[0]); },
                        [](const Inputs& in) {
                          Variable total = sum(slice(in[0], 0, 0, 1), {0});
                          for (int64_t i = 1; i < in[0].size(0); ++i)
                            total = total + sum(slice(in[0], 0, i, i + 1), {0});
                          return total + mean(in[1], {0}) + sum(in[0]);
                        }});
    expect_little_loss({fmt::format("bias and activation, {} rows", rows),
                        {values({rows, 12}, 1)},
                        {values({12}, 2)},
                        [](const Inputs& in) { return bias_activation(in[0], in[1], Activation::gelu); },
                        [](const Inputs& in) { return bias_activation_composed(in[0], in[1], Activation::gelu); }});
  }
}

TEST(Bf16, EveryElementwiseFunctionIsRoundedOnce) {
  // Half a unit in the last place, plus what f32 adds.
  const auto expect_near = [](const char* name, const Tensor& found, const Tensor& expected) {
    ASSERT_EQ(found.dtype(), DType::bf16) << name;
    const auto a = found.to_vector<double>();
    const auto b = expected.to_vector<double>();
    for (size_t i = 0; i < b.size(); ++i) EXPECT_NEAR(a[i], b[i], std::abs(b[i]) / 250 + 1e-5) << name << " at " << i;
  };
  const Tensor x = representable(abs(values({7, 3}, 1)) + 0.125);
  const Tensor g = representable(values({7, 3}, 2));
  for (const Device device : devices()) {
    const auto there = [&](const Tensor& t) { return t.cast(DType::bf16).to(device); };
    const auto check = [&](const auto& op) {
      const Tensor y = representable(apply(op, x));
      expect_near(op.name, apply(op, there(x)), apply(op, x));
      expect_near(op.name, apply_backward(op, there(g), there(x), there(y)), apply_backward(op, g, x, y));
    };
#define BOCHNER_CHECK(Op, ...) check(unary::Op{});
    BOCHNER_PLAIN_UNARY_OPS(BOCHNER_CHECK)
    BOCHNER_PARAMETRIC_UNARY_OPS(BOCHNER_CHECK)
#undef BOCHNER_CHECK
    EXPECT_EQ(less(there(g), there(x)).to_vector<double>(), less(g, x).to_vector<double>());
  }
}

TEST(Bf16, SoftmaxAttention) {
  for (const int64_t length : kRows) {
    for (const int64_t dim : {6, 32}) {  // the second on tensor cores
      if (length > 100 && dim == 6) continue;
      const Shape shape{1, length > 100 ? 1 : 2, length, dim};
      const SoftmaxAttentionOptions options{1 / std::sqrt(static_cast<double>(dim)), length == 7,
                                            Dropout::at(length == 7 ? 0.2 : 0, Generator(3, 8))};
      Tensor keys;
      if (length > 1) keys = less(Tensor::arange(length).unsqueeze(0), Tensor::full({1, 1}, 0.75 * length, DType::i64));
      expect_little_loss(
          {fmt::format("softmax attention, {} tokens of {}", length, dim),
           {values(shape, 1), values(shape, 2), values(shape, 3)},
           {},
           [=](const Inputs& in) { return softmax_attention(options, in[0], in[1], in[2], beside(in[0], keys)); },
           [=](const Inputs& in) {
             return composed::softmax_attention(options, in[0], in[1], in[2], beside(in[0], keys));
           }});
    }
  }
}

TEST(Bf16, KernelAttention) {
  for (const int64_t length : kRows) {
    for (const int64_t dim : {6, 32}) {
      if (length > 100 && dim == 6) continue;
      for (const bool causal : {false, true}) {
        const Shape shape{1, length > 100 ? 1 : 2, length, dim};
        KernelAttentionSpec spec;
        spec.map = {.kind = FeatureMap::Kind::positive, .eps = 1e-6};
        spec.scale = std::pow(static_cast<double>(dim), -0.25);
        spec.causal = causal;
        spec.denominator_eps = 1e-6;
        Tensor keys;
        if (length > 1) {
          keys = less(Tensor::arange(length).unsqueeze(0), Tensor::full({1, 1}, 0.75 * length, DType::i64));
        }
        expect_little_loss(
            {fmt::format("kernel attention, {} tokens of {}{}", length, dim, causal ? ", causal" : ""),
             {values(shape, 1), values(shape, 2), values(shape, 3)},
             {values({1, 24, dim}, 4)},
             [=](const Inputs& in) { return kernel_attention(spec, in[0], in[1], in[2], in[3], beside(in[0], keys)); },
             [=](const Inputs& in) {
               return composed::kernel_attention(spec, in[0], in[1], in[2], in[3], beside(in[0], keys));
             }});
      }
    }
  }
}

TEST(Bf16, KernelsWriteNothingOutsideTheirTensors) {
  BOCHNER_NEEDS_CARD();
  const int64_t before = broken_card_guards();
  set_card_guards(true);
  const Tensor x = values({7, 33}, 1).cast(DType::bf16).to(Device::cuda());
  const Tensor w = values({5, 33}, 2).cast(DType::f32).to(Device::cuda());
  const Tensor gamma = values({33}, 3).cast(DType::f32).to(Device::cuda());
  const LinearWeights weights{w, {}, gamma, gamma};
  const LinearResult y = linear(x, weights);
  linear_backward(y.y, x, y, weights);
  set_card_guards(false);
  EXPECT_EQ(broken_card_guards(), before);
}

}  // namespace
}  // namespace bochner

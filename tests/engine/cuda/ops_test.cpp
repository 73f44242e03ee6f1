// Ops that are not in autograd's list, or not with these sizes: a card gives the same results as the CPU.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "engine/ops/bias_activation.h"
#include "engine/ops/binary.h"
#include "engine/ops/cross_entropy.h"
#include "engine/ops/dropout.h"
#include "engine/ops/embedding.h"
#include "engine/ops/hadamard.h"
#include "engine/ops/index.h"
#include "engine/ops/join.h"
#include "engine/ops/linalg.h"
#include "engine/ops/matmul.h"
#include "engine/ops/norm.h"
#include "engine/ops/optimizer_step.h"
#include "engine/ops/reduce.h"
#include "engine/ops/scan.h"
#include "engine/ops/softmax.h"
#include "engine/ops/sort.h"
#include "engine/ops/unary.h"
#include "engine/precision.h"
#include "tests/card.h"
#include "tests/engine/cuda/beside_cpu.h"

namespace bochner {
namespace {

using namespace beside_cpu;  // NOLINT: what this file is written in

TEST(CardOps, ElementwiseOfAnyLayout) {
  BOCHNER_NEEDS_CARD();
  for (const int64_t n : kLengths) {
    expect_equal("exp", {values({n}, 1)}, [](const auto& in) { return Results{exp(in[0])}; });
    expect_equal("offset", {values({n + 1}, 2)}, [n](const auto& in) {
      return Results{in[0].slice(0, 1, n + 1) * in[0].slice(0, 0, n)};  // not aligned
    });
    expect_equal("broadcast", {values({3, n}, 3), values({3, 1}, 4), values({n}, 5)}, [](const auto& in) {
      return Results{in[0] * in[1] + in[2], where(less(in[0], in[2]), in[1], in[0])};
    });
    // Adjacent heads, of whole fours: in place, from the second element on, and with one number per row.
    const std::vector<Tensor> heads{values({2, n, 3, 8}, 7), values({2, 1, n, 1}, 8), values({8}, 9)};
    expect_equal("fours", heads, [](const auto& in) {
      const Tensor x = in[0].transpose(1, 2);
      return Results{where(less(in[1], in[2]), x, in[1]), x * in[2], exp(x), x.slice(3, 1, 5) * in[1]};
    });
    expect_equal("permuted", {values({2, n, 3}, 6)}, [](const auto& in) {
      return Results{tanh(in[0].permute({2, 0, 1})), in[0].permute({1, 2, 0}) + in[0].permute({1, 2, 0})};
    });
  }
}

TEST(CardOps, Reductions) {
  BOCHNER_NEEDS_CARD();
  for (const int64_t n : kLengths) {
    expect_equal("sum", {values({3, n, 5}, 1)}, [](const auto& in) {
      return Results{sum(in[0]),      sum(in[0], {0}),    sum(in[0], {1}),
                     sum(in[0], {2}), sum(in[0], {0, 2}), mean(in[0], {1})};
    });
    expect_equal("extremes", {values({3, n, 5}, 2)}, [](const auto& in) {
      return Results{amax(in[0]), amin(in[0], {1}), amax(in[0], {2}, true)};
    });
  }
  expect_equal("long", {values({2, 100003}, 3)}, [](const auto& in) { return Results{sum(in[0], {1}), sum(in[0])}; });
  expect_equal("empty", {Tensor::zeros({3, 0}, DType::f64)}, [](const auto& in) { return Results{sum(in[0], {1})}; });
  const Tensor nan = Tensor::from<float>({1, NAN, 3}, {3});
  EXPECT_TRUE(std::isnan(amax(nan.to(Device::cuda())).item()));
}

TEST(CardOps, RowsOfAnyLength) {
  BOCHNER_NEEDS_CARD();
  for (const int64_t n : kLengths) {
    expect_equal("softmax", {values({5, n}, 1), values({5, n}, 2)}, [](const auto& in) {
      const Tensor y = softmax(in[0]);
      return Results{y, softmax_backward(in[1], y), logsumexp(in[0]), softmax(in[0], 0)};
    });
    expect_equal("layer_norm",
                 {values({5, n}, 1), values({n}, 2), values({n}, 3), values({5, n}, 4), values({5, n}, 5)},
                 [](const auto& in) {
                   const auto y = layer_norm(in[0], in[1], in[2], 1e-3);
                   const auto d = layer_norm_backward(in[3], in[0], in[1], y.statistics, in[4]);
                   const auto [mean, rstd] = y.statistics;
                   return Results{y.y, mean, rstd, d.dx, d.dgamma, d.dbeta};
                 });
    expect_equal("cross_entropy", {values({6, n}, 1), Tensor::scalar(1.5, DType::f64)}, [n](const auto& in) {
      const Tensor labels = Tensor::from<int64_t>({0, n - 1, n / 2, -1, 0, n / 3}, {6}).to(in[0].device());
      const CrossEntropyOptions options{0.1, -1};
      const auto y = cross_entropy(in[0], labels, options);
      return Results{y.loss, y.rest, cross_entropy_backward(in[1], in[0], labels, y.rest, options)};
    });
    expect_equal("pairs", {values({3, n}, 1), values({3, n}, 2), Tensor::scalar(0.5, DType::f64)}, [](const auto& in) {
      return Results{binary_cross_entropy(in[0], in[1]), binary_cross_entropy_backward(in[2], in[0], in[1]),
                     mean_squared_error(in[0], in[1]), mean_squared_error_backward(in[2], in[0], in[1])};
    });
    expect_equal("bias_activation", {values({37, n}, 1), values({n}, 2), values({37, n}, 3)}, [](const auto& in) {
      Results results;
      for (const auto act : {Activation::identity, Activation::relu, Activation::gelu, Activation::gelu_tanh}) {
        const auto d = bias_activation_backward(in[2], in[0], in[1], act);
        for (const Tensor& t : {bias_activation(in[0], in[1], act), d.dx, d.dbias, bias_activation(in[0], {}, act)}) {
          results.push_back(t);
        }
      }
      results.push_back(column_sum(in[0]));
      return results;
    });
    expect_equal("batch_norm", {values({n + 8, 9}, 1), values({9}, 2), values({9}, 3), values({n + 8, 9}, 4)},
                 [](const auto& in) {
                   const auto y = batch_norm(in[0], in[1], in[2], {});
                   const auto d = batch_norm_backward(in[3], in[0], in[1], y.statistics);
                   return Results{y.y, y.statistics.mean, y.statistics.rstd, d.dx, d.dgamma, d.dbeta};
                 });
  }
}

TEST(CardOps, RowsThatAWarpHolds) {
  BOCHNER_NEEDS_CARD();
  for (const int64_t n : {128, 256, 512, 768, 1024}) {
    for (const int64_t rows : {1, 5, 1100}) {
      const std::vector<Tensor> inputs = {values({rows, n}, 1), values({n}, 2), values({n}, 3), values({rows, n}, 4)};
      expect_equal("layer_norm", inputs, [](const auto& in) {
        const auto y = layer_norm(in[0], in[1], in[2]);
        const auto d = layer_norm_backward(in[3], in[0], in[1], y.statistics);
        const auto e = layer_norm_backward(in[3], in[0], in[1], y.statistics, in[0]);
        const auto [mean, rstd] = y.statistics;
        return Results{y.y, mean, rstd, d.dx, d.dgamma, d.dbeta, e.dx};
      });
      expect_equal("softmax", {inputs[0], inputs[3]}, [n](const auto& in) {
        const Tensor x = in[0].clone();
        x.slice(0, 0, 1).slice(1, 1, n).fill_(-std::numeric_limits<double>::infinity());
        const Tensor y = softmax(x);
        return Results{y, softmax_backward(in[1], y)};
      });
      Generator generator(6);
      const Tensor labels = integers({rows}, -1, n, generator);
      expect_equal("cross_entropy", {inputs[0], Tensor::scalar(1.5, DType::f64), labels}, [](const auto& in) {
        Results results;
        for (const double smoothing : {0.0, 0.1}) {
          const CrossEntropyOptions options{smoothing, -1};
          const auto y = cross_entropy(in[0], in[2], options);
          const Tensor dx = cross_entropy_backward(in[1], in[0], in[2], y.rest, options);
          results.insert(results.end(), {y.loss, y.rest, dx});
        }
        return results;
      });
    }
  }
}

TEST(CardOps, CrossEntropyDoesNotDependOnWhatIsAddedToAllLogits) {
  BOCHNER_NEEDS_CARD();
  for (const int64_t n : kLengths) {
    Generator generator(5);
    const Tensor x = integers({7, n}, -100, 100, generator).cast(DType::f32) * (1.0 / 64);
    const Tensor labels = integers({7}, 0, n, generator).to(Device::cuda());
    for (const double smoothing : {0.0, 0.1}) {  // the sums are exact in f32
      const CrossEntropyOptions options{.smoothing = smoothing};
      const auto made = [&](const Tensor& of) {
        const Tensor there = of.to(Device::cuda());
        const CrossEntropy y = cross_entropy(there, labels, options);
        const Tensor dx = cross_entropy_backward(Tensor::scalar(1).to(Device::cuda()), there, labels, y.rest, options);
        return std::pair(y.loss.item(), dx.to_vector<float>());
      };
      EXPECT_EQ(made(x + 8192.0), made(x)) << n;
    }
  }
}

TEST(CardOps, OrderAndPlaces) {
  BOCHNER_NEEDS_CARD();
  for (const int64_t n : kLengths) {
    for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::i64}) {
      Generator generator(9);
      Tensor x = integers({3, n}, -20, 20, generator).cast(dtype);  // many ties
      if (is_floating(dtype) && n > 3) {
        x.slice(1, 2, 3).fill_(NAN);
        x.slice(1, 1, 2).fill_(-0.0);
      }
      const auto run = [n](const Tensor& t) {
        const auto up = sort(t);
        const auto down = sort(t, 1, true);
        const auto top = topk(t, (n + 1) / 2);
        return Results{up.indices,
                       down.indices,
                       top.indices,
                       argmax(t),
                       argmin(t),
                       argsort(t, 0),
                       where(equal(up.values, up.values), up.values, up.values * 0.0 + 0.0)};
      };
      if (is_floating(dtype)) {
        expect_same("sort", {run(x.to(Device::cuda()))[0], run(x.to(Device::cuda()))[3], run(x.to(Device::cuda()))[4]},
                    {run(x)[0], run(x)[3], run(x)[4]});
      } else {
        const auto plain = [](const Tensor& t) {
          const auto up = sort(t);
          const auto down = sort(t, 1, true);
          return Results{up.values, up.indices, down.values, down.indices, argmax(t), argmin(t)};
        };
        expect_same("sort", plain(x.to(Device::cuda())), plain(x));
      }
    }
  }
}

TEST(CardOps, Indices) {
  BOCHNER_NEEDS_CARD();
  for (const int64_t n : kLengths) {
    Generator generator(4);
    const Tensor rows = integers({n}, 0, 6, generator);
    const Tensor each = integers({4, n, 3}, 0, 6, generator);
    expect_equal("take", {values({2, 6, 5}, 1), rows, values({2, n, 5}, 2)}, [](const auto& in) {
      return Results{take(in[0], in[1], 1), take_add({2, 6, 5}, in[1], in[2], 1)};
    });
    expect_equal("gather", {values({4, 6, 3}, 1), each, values({4, n, 3}, 2)}, [](const auto& in) {
      return Results{gather(in[0], 1, in[1]), scatter_add({4, 6, 3}, 1, in[1], in[2])};
    });
    expect_equal("rows", {values({4, 6, 3}, 1), each.slice(2, 0, 1), values({4, n, 3}, 2)}, [](const auto& in) {
      return Results{gather(in[0], 1, in[1]), scatter_add({4, 6, 3}, 1, in[1], in[2])};
    });
    expect_equal("one_hot", {rows}, [](const auto& in) { return Results{one_hot(in[0], 6)}; });
    expect_equal("embedding", {values({6, 70}, 1), rows, values({n, 70}, 2), values({8, 70}, 3)}, [n](const auto& in) {
      return Results{embedding(in[0], in[1]), embedding_backward(in[2], in[1], 6),
                     embedding_backward(in[2], in[1], 9, 2),
                     n <= 8 ? embedding_at(in[0], in[1].view({1, n}), in[3]) : in[2]};
    });
    expect_equal("positions", {values({n, 5, 3}, 1)},
                 [](const auto& in) { return Results{positions_backward(in[0], 6)}; });
    const auto count = [](const Tensor& x) { return Results{cumsum(x, 0)}; };
    expect_same("integers", count(rows.to(Device::cuda())), count(rows));
  }
  Generator generator(3);
  // Few bins with long runs over several pieces and tiles; and one bin with most of the positions.
  const Tensor skewed = integers({5000}, 0, 9, generator);
  skewed.slice(0, 100, 4000).fill_(3);
  for (const int64_t dim : {1, 8, 132}) {
    expect_equal("long runs", {skewed, values({5000, dim}, 2), values({3, 5000, dim}, 3)}, [dim](const auto& in) {
      return Results{embedding_backward(in[1], in[0], 9),
                     embedding_backward(in[1], in[0], 300, 3),
                     take_add({9, dim}, in[0], in[1]),
                     take_add({20000, dim}, in[0] * Tensor::scalar(2000, DType::i64, in[0].device()), in[1]),
                     take_add({3, 9, dim}, in[0], in[2], 1),
                     scatter_add({3, 9, dim}, 1, in[0].view({1, 5000, 1}).expand({3, 5000, dim}), in[2])};
    });
  }
  expect_equal("scattered", {integers({4097}, 0, 100000, generator), values({4097, 2}, 2)}, [](const auto& in) {
    return Results{take_add({100000, 2}, in[0], in[1])};
  });
}

TEST(CardOps, EmbeddingsInBf16AreTheSameBits) {
  BOCHNER_NEEDS_CARD();
  Generator generator(3);
  for (const int64_t dim : {3, 68}) {
    const Tensor ids = integers({5, 70}, 0, 9, generator);
    const auto results = [&](Device device) {
      const Tensor table = values({9, dim}, 1, DType::f32).to(device);
      const Tensor positions = values({70, dim}, 2, DType::f32).to(device);
      const Tensor on_device = ids.to(device);
      return Results{embedding_at(table, on_device, positions, DType::bf16), embedding(table, on_device, DType::bf16)};
    };
    expect_same("embeddings", results(Device::cuda()), results(Device::cpu()));
    const Tensor g = values({5, 70, dim}, 3, DType::bf16).to(Device::cuda());
    const Tensor wide = g.cast(DType::f32);
    const Tensor on_card = ids.to(Device::cuda());
    expect_same("gradients", {embedding_backward(g, on_card, 9, 2), positions_backward(g, 71)},
                {embedding_backward(wide, on_card, 9, 2), positions_backward(wide, 71)});
  }
}

TEST(CardOps, Scans) {
  BOCHNER_NEEDS_CARD();
  for (const int64_t n : kLengths) {
    for (const bool exclusive : {false, true}) {
      for (const bool reverse : {false, true}) {
        expect_equal("cumsum", {values({2, n, 3}, 1)}, [=](const auto& in) {
          return Results{cumsum(in[0], 1, {exclusive, reverse}), cumsum(in[0], 2, {exclusive, reverse})};
        });
      }
    }
  }
}

TEST(CardOps, Hadamard) {
  BOCHNER_NEEDS_CARD();
  for (int64_t n = 1; n <= 65536; n *= 2) {
    expect_equal("hadamard", {values({3, n}, 1)}, [](const auto& in) {
      const Tensor again = in[0].clone();
      hadamard_(again);
      return Results{hadamard(in[0]), again};
    });
    const Tensor x = values({5, n}, 2, DType::f32);
    const auto run = [&](Device device) {
      return Results{hadamard(x.to(device)), hadamard(x.to(device).slice(0, 1, 4))};
    };
    expect_same("hadamard", run(Device::cuda()), run(Device::cpu()));
  }
}

TEST(CardOps, Products) {
  BOCHNER_NEEDS_CARD();
  for (const int64_t n : {1, 7, 130}) {
    expect_equal("matmul", {values({2, 3, 5, n}, 1), values({3, n, 4}, 2), values({n, 6}, 3), values({2, 9, 3, 5}, 4)},
                 [](const auto& in) {
                   return Results{matmul(in[0], in[1]), matmul(in[0], in[2]), matmul(in[0].transpose(-1, -2), in[0]),
                                  matmul(in[3].transpose(1, 2), in[3].permute({0, 2, 3, 1})),  // heads of a projection
                                  matmul(in[0].slice(3, 0, 1), in[1].slice(1, 0, 1))};
                 });
  }
}

/// Under Precision::bf16, the factors of a large product are converted to bf16 beforehand.
TEST(CardOps, LargeProductsRoundTheirFactors) {
  BOCHNER_NEEDS_CARD();
  const auto product = [](const Tensor& a, const Tensor& b) {
    return matmul(a.transpose(-1, -2), b.slice(-1, 8, b.size(-1)));
  };
  const auto rounded = [](const Tensor& x) { return x.cast(DType::bf16).cast(DType::f32); };
  const Tensor a = values({5, 1, 360, 1024}, 1, DType::f32), b = values({2, 360, 1032}, 2, DType::f32);
  const Tensor expected = product(rounded(a), rounded(b));
  const Tensor left = a.to(Device::cuda()), right = b.to(Device::cuda());
  testing_card::poison();
  set_precision(Precision::bf16);
  const Tensor found = product(left, right);
  set_precision(Precision::f32);
  EXPECT_LE(squared_error(found.to_vector<double>(), expected.to_vector<double>()), 1e-11);
}

TEST(CardOps, OptimizerSteps) {
  BOCHNER_NEEDS_CARD();
  const std::vector<Shape> shapes = {{1}, {7}, {1023}, {40, 1000}, {0}, {3, 3}};
  const auto run = [&](Device device, DType dtype) {
    Results results;
    std::vector<AdamTensors> adam;
    std::vector<SgdTensors> sgd;
    for (int copy = 0; copy < 20; ++copy) {  // more than one table holds
      for (const Shape& shape : shapes) {
        const uint64_t seed = 10 * results.size();
        const auto value = [&](uint64_t at) { return values(shape, seed + at, dtype).to(device); };
        adam.push_back({value(1), value(2), value(3), square(value(4))});
        sgd.push_back({value(5), value(6), value(7)});
        results.push_back(adam.back().p);
        results.push_back(sgd.back().p);
      }
    }
    const Tensor scale = Tensor::scalar(0.5, DType::f64, device);
    adam_step({1e-2, 0.9, 0.99, 1e-8, 0.1, true, 3}, adam, {.scale = scale, .limit = 1.0, .guard = scale});
    sgd_step({1e-2, 0.9, 0.1, true}, sgd, {.scale = scale, .limit = 1.0});
    const Tensor lost = Tensor::scalar(NAN, DType::f64, device);
    adam_step({1e-2, 0.9, 0.99, 1e-8, 0.1, true, 4}, adam, {.guard = lost});
    sgd_step({1e-2, 0.9, 0.1, true}, sgd, {.guard = lost});
    results.push_back(sum_of_squares(results));
    results.push_back(clip_scale(results, 1.0));
    return results;
  };
  for (const DType dtype : {DType::f64, DType::f32}) {
    const Results expected = run(Device::cpu(), dtype);
    const Results found = run(Device::cuda(), dtype);
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_LE(squared_error(found[i].to_vector<double>(), expected[i].to_vector<double>()),
                dtype == DType::f64 ? 1e-24 : 1e-12);
    }
  }
}

TEST(CardOps, LinearAlgebraGoesThroughTheCpu) {
  BOCHNER_NEEDS_CARD();
  expect_equal("linalg", {values({2, 6, 6}, 1), values({2, 6, 3}, 2)}, [](const auto& in) {
    const Tensor spd = matmul(in[0], in[0].transpose(-1, -2)) + in[0] * 0.0;
    const auto q = qr(in[0], true);
    return Results{
        q.q, q.r, svd(in[0]).s, eigh(spd).values, pinv(in[0]), solve(in[0], in[1]), least_squares(in[0], in[1], 0.1)};
  });
}

}  // namespace
}  // namespace bochner

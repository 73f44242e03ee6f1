#include "engine/ops/optimizer_step.h"

#include "tests/engine/ops/oracle.h"

namespace bochner {
namespace {

using namespace oracle;  // NOLINT

const std::vector<Shape> kParameterShapes = {{3, 5}, {1}, {0, 4}, {100000}, {64}, {7, 333}};

Tensor one(double x) { return Tensor::scalar(x, DType::f64); }

double clipped(double g, double scale, double limit) { return std::min(limit, std::max(-limit, g * scale)); }

TEST(OptimizerStep, AdamEqualsPlainLoops) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const bool decoupled : {true, false}) {
      for (const double limit : {std::numeric_limits<double>::infinity(), 0.3}) {
        std::vector<AdamTensors> tensors;
        std::vector<std::array<Values, 4>> expected;
        for (size_t k = 0; k < kParameterShapes.size(); ++k) {
          tensors.push_back({values(kParameterShapes[k], dtype, 4 * k), values(kParameterShapes[k], dtype, 4 * k + 1),
                             Tensor::zeros(kParameterShapes[k], dtype), Tensor::zeros(kParameterShapes[k], dtype)});
          expected.push_back({tensors[k].p.to_vector<double>(), tensors[k].g.to_vector<double>(),
                              tensors[k].m.to_vector<double>(), tensors[k].v.to_vector<double>()});
        }
        for (int64_t t = 1; t <= 3; ++t) {
          adam_step({1e-2, 0.9, 0.98, 1e-8, 0.1, decoupled, t}, tensors, {.scale = one(0.7), .limit = limit});
          for (auto& [p, g, m, v] : expected) {
            for (size_t i = 0; i < p.size(); ++i) {
              double slope = clipped(g[i], 0.7, limit);
              if (decoupled) {
                p[i] *= 1 - 1e-2 * 0.1;
              } else {
                slope += 0.1 * p[i];
              }
              m[i] = 0.9 * m[i] + (1 - 0.9) * slope;
              v[i] = 0.98 * v[i] + (1 - 0.98) * slope * slope;
              const double first = m[i] / (1 - std::pow(0.9, t));
              const double second = v[i] / (1 - std::pow(0.98, t));
              p[i] -= 1e-2 * first / (std::sqrt(second) + 1e-8);
            }
          }
        }
        for (size_t k = 0; k < tensors.size(); ++k) {
          expect_close(tensors[k].p, expected[k][0], tolerance_of(dtype), "p");
          expect_close(tensors[k].m, expected[k][2], tolerance_of(dtype), "m");
          expect_close(tensors[k].v, expected[k][3], tolerance_of(dtype), "v");
        }
      }
    }
  }
}

TEST(OptimizerStep, SgdEqualsPlainLoops) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const bool nesterov : {true, false}) {
      std::vector<SgdTensors> tensors;
      std::vector<std::array<Values, 3>> expected;
      for (size_t k = 0; k < kParameterShapes.size(); ++k) {
        tensors.push_back({values(kParameterShapes[k], dtype, 4 * k), values(kParameterShapes[k], dtype, 4 * k + 1),
                           Tensor::zeros(kParameterShapes[k], dtype)});
        expected.push_back(
            {tensors[k].p.to_vector<double>(), tensors[k].g.to_vector<double>(), tensors[k].u.to_vector<double>()});
      }
      for (int t = 0; t < 3; ++t) {
        sgd_step({0.1, 0.9, 0.05, nesterov}, tensors, {.scale = one(0.5), .limit = 0.4});
        for (auto& [p, g, u] : expected) {
          for (size_t i = 0; i < p.size(); ++i) {
            const double slope = clipped(g[i], 0.5, 0.4) + 0.05 * p[i];
            u[i] = 0.9 * u[i] + slope;
            p[i] -= 0.1 * (nesterov ? slope + 0.9 * u[i] : u[i]);
          }
        }
      }
      for (size_t k = 0; k < tensors.size(); ++k) {
        expect_close(tensors[k].p, expected[k][0], tolerance_of(dtype), "p");
        expect_close(tensors[k].u, expected[k][2], tolerance_of(dtype), "u");
      }
    }
  }
}

TEST(OptimizerStep, GlobalNormEqualsPlainLoops) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    std::vector<Tensor> tensors;
    double sum = 0;
    for (const Shape& shape : kParameterShapes) {
      tensors.push_back(strided(shape, dtype, 7));
      sum += dot(tensors.back(), tensors.back());
    }
    EXPECT_NEAR(global_norm(tensors), std::sqrt(sum), std::sqrt(sum) * (dtype == DType::f32 ? 1e-6 : 1e-13));
  }
  EXPECT_EQ(global_norm({}), 0);
}

TEST(OptimizerStep, ClipScaleIsOneUpToTheLimit) {
  const std::vector<Tensor> g = {Tensor::from<float>({3}, {1}), Tensor::from<double>({4}, {1})};  // norm 5
  for (const double limit : {1.0, 4.99}) EXPECT_EQ(clip_scale(g, limit).item(), limit / 5);
  for (const double limit : {5.0, 7.0, std::numeric_limits<double>::max()}) EXPECT_EQ(clip_scale(g, limit).item(), 1);
  EXPECT_TRUE(std::isnan(clip_scale({Tensor::from<double>({NAN}, {1})}, 1).item()));
}

TEST(OptimizerStep, NothingMovesBehindAGuardThatIsNotFinite) {
  const double inf = std::numeric_limits<double>::infinity();
  for (const double guard : {0.0, -3e300, inf, -inf, inf - inf}) {
    const Tensor p = values({5}, DType::f32, 1), g = values({5}, DType::f32, 2);
    const Tensor m = Tensor::zeros({5}), v = Tensor::zeros({5}), u = Tensor::zeros({5});
    const Values before = p.to_vector<double>();
    adam_step({1e-2, 0.9, 0.98, 1e-8, 0.1, true, 1}, {{p, g, m, v}}, {.guard = one(guard)});
    EXPECT_EQ(p.to_vector<double>() == before && m.to_vector<double>() == Values(5, 0.0), !std::isfinite(guard));
    const Values between = p.to_vector<double>();
    sgd_step({0.1, 0.9, 0.05, true}, {{p, g, u}}, {.guard = one(guard)});
    EXPECT_EQ(p.to_vector<double>() == between && u.to_vector<double>() == Values(5, 0.0), !std::isfinite(guard));
  }
}

TEST(OptimizerStep, BytesDoNotDependOnThreads) {
  expect_same_bytes([] {
    const auto tensors = [](int64_t size, uint64_t seed) {
      return AdamTensors{values({size}, DType::f32, seed), values({size}, DType::f32, seed + 1), Tensor::zeros({size}),
                         Tensor::zeros({size})};
    };
    const AdamTensors big = tensors(150001, 1), small = tensors(5, 3), last = tensors(70000, 5);
    adam_step({1e-3, 0.9, 0.999, 1e-8, 0.01, true, 1}, {big, small, last});
    return std::vector<Tensor>{big.p,   big.m,  big.v,
                               small.p, last.p, Tensor::scalar(global_norm({big.p, small.p, last.v}), DType::f64)};
  });
}

TEST(OptimizerStep, RefusesWhatDoesNotFit) {
  const Tensor x = Tensor::zeros({2, 3});
  const AdamStep adam{1e-3, 0.9, 0.999, 1e-8, 0, true, 1};
  EXPECT_THROW(adam_step(adam, {{x, Tensor::zeros({3, 2}), x, x}}), Error);
  EXPECT_THROW(adam_step(adam, {{x, Tensor::zeros({2, 3}, DType::f64), x, x}}), Error);
  EXPECT_THROW(adam_step(adam, {{x, Tensor::zeros({3, 2}).transpose(0, 1), x, x}}), Error);
  AdamStep wrong = adam;
  wrong.step = 0;
  EXPECT_THROW(adam_step(wrong, {{x, x, x, x}}), Error);
  EXPECT_THROW(adam_step(adam, {{x, x, x, x}}, {.limit = -1}), Error);
  EXPECT_THROW(adam_step(adam, {{x, x, x, x}}, {.scale = Tensor::scalar(1)}), Error);  // f32
  EXPECT_THROW(adam_step(adam, {{x, x, x, x}}, {.guard = Tensor::zeros({2}, DType::f64)}), Error);
  EXPECT_THROW(adam_step(Tensor::zeros({3}, DType::f64), {{x, x, x, x}}), Error);
  EXPECT_THROW(clip_scale({x}, 0), Error);
  EXPECT_THROW(sgd_step({0.1, 0.9, 0, false}, {{x, x, Tensor::zeros({2})}}), Error);
}

}  // namespace
}  // namespace bochner

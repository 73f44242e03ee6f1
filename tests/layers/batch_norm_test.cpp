// BatchNorm1d against PyTorch (tests/golden/layers.py), its modes and its checkpoints.
#include "layers/batch_norm.h"

#include "tests/layers/golden.h"

namespace bochner {
namespace {

constexpr double kEps = 1e-3;

struct Case {
  const char* name;
  Shape shape;
  std::optional<double> momentum;
  bool affine;
};

class BatchNormSteps : public testing::TestWithParam<Case> {};

TEST_P(BatchNormSteps, AgreeWithPyTorch) {
  const Case& c = GetParam();
  for (const DType dtype : {DType::f64, DType::f32}) {
    const double tolerance = dtype == DType::f64 ? 1e-12 : 2e-5;
    BatchNorm1d norm(Slot{nullptr, "norm"}, c.shape[1], {kEps, c.momentum, c.affine});
    norm.to(Device::cpu(), dtype);
    const std::vector<Parameter*> parameters = norm.parameters();
    if (c.affine) {
      parameters[0]->value.copy_(wave(5, {c.shape[1]}) * 0.3 + 1);
      parameters[1]->value.copy_(wave(6, {c.shape[1]}));
    }
    Generator noise(1);
    const nlohmann::json steps = golden("batch_norm").at(c.name);
    for (size_t step = 0; step < steps.size(); ++step) {
      const nlohmann::json& expected = steps[step];
      const std::string what = fmt::format("step {} in {}", step, name_of(dtype));
      Tape tape;
      const Variable x = tape.watch((wave(static_cast<double>(step), c.shape) * 2 + 0.5).cast(dtype));
      const Variable y = norm.forward(x, Context{noise, step < 3});
      expect_near(y.value(), expected.at("y"), tolerance, what);
      std::vector<Variable> inputs = {x};
      for (const Parameter* parameter : parameters) inputs.emplace_back(*parameter);
      const Gradients gradients = pulled(tape, y, inputs);
      for (size_t i = 0; i < gradients.size(); ++i) {
        expect_near(gradients[i].value(), expected.at("gradients")[i], 10 * tolerance,
                    fmt::format("{}: gradient {}", what, i));
      }
      const auto state = norm.state();
      expect_near(state.at("norm.running_mean"), expected.at("running_mean"), tolerance, what + ": running mean");
      expect_near(state.at("norm.running_var"), expected.at("running_var"), tolerance, what + ": running variance");
      EXPECT_EQ(state.at("norm.num_batches_tracked").item(), expected.at("num_batches_tracked")) << what;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, BatchNormSteps,
                         testing::Values(Case{"rows", {5, 3}, 0.1, true}, Case{"sequences", {2, 3, 4}, 0.3, true},
                                         Case{"cumulative", {5, 3}, std::nullopt, true},
                                         Case{"plain", {5, 3}, 0.1, false}),
                         [](const testing::TestParamInfo<Case>& tested) { return tested.param.name; });

TEST(BatchNorm1d, SavesItsStatisticsUnderPyTorchsNames) {
  Generator noise(1);
  BatchNorm1d trained(Slot{nullptr, "norm"}, 3);
  for (int step = 0; step < 3; ++step) trained.forward(wave(step, {5, 3}).cast(DType::f32), Context{noise, true});
  std::map<std::string, Tensor> state;
  std::vector<std::string> names;
  for (const auto& [name, value] : trained.state()) {
    names.push_back(name);
    state[name] = value.clone();
  }
  EXPECT_EQ(names, (std::vector<std::string>{"norm.bias", "norm.num_batches_tracked", "norm.running_mean",
                                             "norm.running_var", "norm.weight"}));
  BatchNorm1d restored(Slot{nullptr, "norm"}, 3);
  restored.load_state(state);
  const Tensor x = wave(7, {4, 3}).cast(DType::f32);
  EXPECT_EQ(restored.forward(x, Context{noise}).value().to_vector<float>(),
            trained.forward(x, Context{noise}).value().to_vector<float>());
  // The next training step changes both alike: the number of batches is also restored.
  restored.forward(x, Context{noise, true});
  trained.forward(x, Context{noise, true});
  for (const auto& [name, value] : trained.state()) {
    EXPECT_EQ(restored.state().at(name).to_vector<double>(), value.to_vector<double>()) << name;
  }
}

TEST(BatchNorm1d, InEvaluationRowsAreAloneAndNothingMoves) {
  Generator noise(1);
  BatchNorm1d norm(Slot{nullptr, "norm"}, 3);
  norm.forward(wave(0, {5, 3}).cast(DType::f32), Context{noise, true});
  const auto before = norm.state().at("norm.running_mean").to_vector<float>();
  const Tensor x = wave(1, {4, 3}).cast(DType::f32);
  const auto together = norm.forward(x, Context{noise}).value().slice(0, 2, 3).to_vector<float>();
  EXPECT_EQ(norm.forward(x.slice(0, 2, 3), Context{noise}).value().to_vector<float>(), together);
  EXPECT_EQ(norm.state().at("norm.running_mean").to_vector<float>(), before);
}

TEST(BatchNorm1d, RefusesWhatHasNoVarianceOrOtherFeatures) {
  Generator noise(1);
  BatchNorm1d norm(Slot{nullptr, "norm"}, 3);
  EXPECT_THROW(norm.forward(Tensor::zeros({1, 3}), Context{noise, true}), Error);
  EXPECT_NO_THROW(norm.forward(Tensor::zeros({1, 3}), Context{noise}));
  EXPECT_THROW(norm.forward(Tensor::zeros({4, 2}), Context{noise}), Error);
  EXPECT_THROW(norm.forward(Tensor::zeros({3}), Context{noise}), Error);
  EXPECT_EQ(norm.state().at("norm.num_batches_tracked").item(), 0);
  EXPECT_THROW(BatchNorm1d({}, 0), Error);
  EXPECT_THROW(BatchNorm1d({}, 3, {.momentum = 1.5}), Error);
  EXPECT_THROW(BatchNorm1d({}, 3, {.eps = 0}), Error);
}

}  // namespace
}  // namespace bochner

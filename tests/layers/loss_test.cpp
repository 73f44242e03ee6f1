// Losses against PyTorch (tests/golden/layers.py), in every reduction.
#include "layers/loss.h"

#include <cmath>

#include "autograd/gradcheck.h"
#include "tests/layers/golden.h"

namespace bochner {
namespace {

const Shape kShape = {6, 4};

Tensor labels() { return Tensor::from<int64_t>({2, 0, 3, 1, 2, 3}, {6}); }
Tensor targets() { return (wave(2, kShape) + 1) * 0.5; }
/// softmax of wave(3), except for a row with zeros.
Tensor probabilities() {
  Tensor p = softmax(Variable(wave(3, kShape))).value().clone();
  p.select(0, 1).copy_(Tensor::from({0.0, 0.5, 0.0, 0.5}, {4}));
  return p;
}

using Loss = Variable (*)(const Variable&, Reduction);
struct NamedLoss {
  const char* name;
  Loss loss;
};

const NamedLoss kCases[] = {
    {"cross_entropy",
     [](const Variable& x, Reduction reduction) { return CrossEntropyLoss{.reduction = reduction}(x, labels()); }},
    {"cross_entropy_smooth",
     [](const Variable& x, Reduction reduction) {
       return CrossEntropyLoss{.smoothing = 0.1, .reduction = reduction}(x, labels());
     }},
    {"cross_entropy_ignore",
     [](const Variable& x, Reduction reduction) {
       return CrossEntropyLoss{.smoothing = 0.2, .ignore = 3, .reduction = reduction}(x, labels());
     }},
    {"binary_cross_entropy",
     [](const Variable& x, Reduction reduction) {
       return BinaryCrossEntropyLoss{.reduction = reduction}(x, targets());
     }},
    {"binary_cross_entropy_weighted",
     [](const Variable& x, Reduction reduction) {
       return BinaryCrossEntropyLoss{.positive_weight = 2.5, .reduction = reduction}(x, targets());
     }},
    {"mean_squared_error",
     [](const Variable& x, Reduction reduction) { return MeanSquaredErrorLoss{reduction}(x, targets()); }},
    {"mean_absolute_error",
     [](const Variable& x, Reduction reduction) { return MeanAbsoluteErrorLoss{reduction}(x, targets()); }},
    {"huber", [](const Variable& x,
                 Reduction reduction) { return HuberLoss{.delta = 0.7, .reduction = reduction}(x, targets()); }},
    {"kullback_leibler",
     [](const Variable& x, Reduction reduction) {
       return KullbackLeiblerLoss{reduction}(log_softmax(x), probabilities());
     }},
};

class Losses : public testing::TestWithParam<NamedLoss> {};

TEST_P(Losses, AgreeWithPyTorchInEveryReduction) {
  const auto [name, loss] = GetParam();
  const nlohmann::json expected = golden("loss").at(name);
  for (const auto& [label, reduction] :
       {std::pair{"mean", Reduction::mean}, {"sum", Reduction::sum}, {"none", Reduction::none}}) {
    Tape tape;
    const Variable x = tape.watch(wave(1, kShape) * 3);
    const Variable y = loss(x, reduction);
    expect_near(y.value(), expected.at(label).at("y"), 1e-12, label);
    expect_near(pulled(tape, y, {x})[0].value(), expected.at(label).at("gradients")[0], 1e-12, label);
  }
}

TEST_P(Losses, HaveSecondDerivatives) {
  const auto loss = GetParam().loss;
  for (const Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
    EXPECT_EQ(
        gradcheck_twice([&](const std::vector<Variable>& in) { return loss(in[0], reduction); }, {wave(1, kShape) * 3}),
        "");
  }
}

TEST_P(Losses, StayFiniteForLargeInputs) {
  const auto loss = GetParam().loss;
  Tape tape;
  const Variable x = tape.watch((wave(1, kShape) * 1e4).cast(DType::f64));
  const Variable y = loss(x, Reduction::sum);
  EXPECT_TRUE(std::isfinite(y.item()));
  for (const double g : tape.gradients(y, {x})[0].value().to_vector<double>()) EXPECT_TRUE(std::isfinite(g));
}

INSTANTIATE_TEST_SUITE_P(All, Losses, testing::ValuesIn(kCases),
                         [](const testing::TestParamInfo<NamedLoss>& tested) { return tested.param.name; });

TEST(Losses, DifferentiateTargetsOfRegressionToo) {
  for (const Reduction reduction : {Reduction::mean, Reduction::none}) {
    const auto both = [&](const std::vector<Variable>& in) {
      return MeanSquaredErrorLoss{reduction}(in[0], in[1]) + HuberLoss{0.7, reduction}(in[0], in[1]);
    };
    EXPECT_EQ(gradcheck(both, {wave(1, kShape) * 3, targets()}), "");
  }
}

TEST(Losses, OfNothingAreNothing) {
  const Variable none = Tensor::zeros({0, 4});
  for (const double loss : {MeanAbsoluteErrorLoss{}(none, none).item(), HuberLoss{}(none, none).item(),
                            MeanSquaredErrorLoss{}(none, none).item(), KullbackLeiblerLoss{}(none, none.value()).item(),
                            BinaryCrossEntropyLoss{.positive_weight = 2}(none, none.value()).item(),
                            CrossEntropyLoss{}(none, Tensor::zeros({0}, DType::i64)).item()}) {
    EXPECT_EQ(loss, 0);
  }
  const Variable log_q = Tensor::from<double>({std::log(0.5), std::log(0.5), -INFINITY}, {1, 3});
  EXPECT_NEAR(KullbackLeiblerLoss{}(log_q, Tensor::from<double>({0.5, 0.5, 0}, {1, 3})).item(), 0, 1e-15);
}

TEST(Losses, RefuseWhatDoesNotFit) {
  const Variable x = Tensor::zeros({6, 4});
  for (const Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
    EXPECT_THROW(CrossEntropyLoss{.reduction = reduction}(x, Tensor::zeros({5}, DType::i64)), Error);
    EXPECT_THROW(CrossEntropyLoss{.reduction = reduction}(x, Tensor::full({6}, 4, DType::i64)), Error);
    EXPECT_THROW((CrossEntropyLoss{.smoothing = 1.5, .reduction = reduction}(x, Tensor::zeros({6}, DType::i64))),
                 Error);
    EXPECT_THROW(BinaryCrossEntropyLoss{.reduction = reduction}(x, Tensor::zeros({4})), Error);
    EXPECT_THROW(MeanSquaredErrorLoss{reduction}(x, Tensor::zeros({4})), Error);
    EXPECT_THROW(MeanAbsoluteErrorLoss{reduction}(x, Tensor::zeros({4})), Error);
    EXPECT_THROW(KullbackLeiblerLoss{reduction}(x, Tensor::zeros({4})), Error);
  }
  for (const Reduction reduction : {Reduction::mean, Reduction::sum}) {
    EXPECT_THROW(CrossEntropyLoss{.reduction = reduction}(x, Tensor::zeros({6})), Error) << "labels are integers";
  }
  EXPECT_THROW(HuberLoss{.delta = 0}(x, x), Error);
  EXPECT_THROW(BinaryCrossEntropyLoss{.positive_weight = 0}(x, Tensor::zeros({6, 4})), Error);
}

}  // namespace
}  // namespace bochner

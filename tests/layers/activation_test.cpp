// Activations by name, and dropout as a module.
#include "layers/activation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "layers/dropout.h"

namespace bochner {
namespace {

double at(std::string_view name, double x) { return activation_function(name)(Tensor::scalar(x, DType::f64)).item(); }

TEST(Activations, AreThoseOfThePapers) {
  for (const double x : {-1.5, -0.25, 0.0, 0.5, 2.0}) {
    EXPECT_EQ(at("identity", x), x);
    EXPECT_EQ(at("relu", x), std::max(x, 0.0));
    EXPECT_DOUBLE_EQ(at("leaky_relu", x), x > 0 ? x : 0.01 * x);
    EXPECT_NEAR(at("elu", x), x > 0 ? x : std::expm1(x), 1e-15);
    EXPECT_NEAR(at("elu_plus_one", x), x > 0 ? x + 1 : std::exp(x), 1e-15);
    EXPECT_NEAR(at("gelu", x), x / 2 * std::erfc(-x / std::sqrt(2.0)), 1e-14);
    EXPECT_NEAR(at("gelu_tanh", x), at("gelu", x), 1e-3);
    EXPECT_NEAR(at("sigmoid", x), 1 / (1 + std::exp(-x)), 1e-15);
    EXPECT_NEAR(at("tanh", x), std::tanh(x), 1e-15);
    EXPECT_NEAR(at("softplus", x), std::log1p(std::exp(x)), 1e-15);
    EXPECT_NEAR(at("exp", x), std::exp(x), 1e-14);
    EXPECT_EQ(at("abs", x), std::abs(x));
    EXPECT_NEAR(at("sin", x), std::sin(x), 1e-15);
    EXPECT_NEAR(at("cos", x), std::cos(x), 1e-15);
    EXPECT_NEAR(at("siren", x), std::sin(30 * x), 1e-14);
  }
  EXPECT_EQ(activations().size(), 15U);
}

TEST(Activations, HaveDistinctNamesAndEquations) {
  std::set<std::string_view> names;
  for (const ActivationInfo& info : activations()) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_FALSE(info.equation.empty()) << info.name;
  }
}

TEST(Activations, AnUnknownNameIsAnErrorThatNamesTheNearest) {
  try {
    activation_function("leakyrelu");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("nearest is 'leaky_relu'"), std::string::npos) << error.what();
  }
}

TEST(Activations, AsAModuleNothingIsSaved) {
  ActivationLayer layer({}, "relu");
  EXPECT_TRUE(layer.state().empty());
  EXPECT_EQ(layer.forward(Tensor::from({-1.F, 2.F}, {2})).value().to_vector<float>(), (std::vector<float>{0, 2}));
  EXPECT_THROW(ActivationLayer({}, "nothing"), Error);
}

TEST(DropoutLayer, DropsInTrainingAlone) {
  DropoutLayer layer({}, 0.25);
  EXPECT_TRUE(layer.state().empty());
  const Tensor x = Tensor::full({40000}, 1);
  Generator noise(3);
  Context evaluation{noise};
  EXPECT_EQ(layer.forward(x, evaluation).value().to_vector<float>(), x.to_vector<float>());
  EXPECT_EQ(noise, Generator(3));
  Context training{noise, true};
  const auto first = layer.forward(x, training).value().to_vector<float>();
  int64_t dropped = 0;
  for (const float y : first) {
    EXPECT_TRUE(y == 0 || std::abs(y - 4.F / 3) < 1e-6);
    dropped += y == 0;
  }
  EXPECT_NEAR(static_cast<double>(dropped), 10000, 4 * std::sqrt(40000 * 0.25 * 0.75));
  EXPECT_NE(layer.forward(x, training).value().to_vector<float>(), first);
  Generator again(3);
  Context repeated{again, true};
  EXPECT_EQ(layer.forward(x, repeated).value().to_vector<float>(), first);
  EXPECT_THROW(DropoutLayer({}, 1.5), Error);
}

}  // namespace
}  // namespace bochner

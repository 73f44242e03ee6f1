#include "layers/models/siren.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "autograd/ops/binary.h"
#include "autograd/ops/unary.h"
#include "autograd/ops/view.h"

namespace bochner {
namespace {

TEST(FieldDerivatives, AreThoseOfAFormula) {
  Generator generator(1);
  const Tensor x = normal({7, 2}, generator, 0, 1, DType::f64);
  const FieldDerivatives found =
      field_derivatives([](const Variable& at) { return sin(slice(at, 1, 0, 1)) * exp(slice(at, 1, 1, 2) * 2); }, x);
  const std::vector<double> p = x.to_vector<double>();
  for (size_t i = 0; i < 7; ++i) {
    const double e = std::exp(2 * p[2 * i + 1]);
    EXPECT_NEAR(found.value.to_vector<double>()[i], std::sin(p[2 * i]) * e, 1e-12);
    EXPECT_NEAR(found.gradient.to_vector<double>()[2 * i], std::cos(p[2 * i]) * e, 1e-12);
    EXPECT_NEAR(found.gradient.to_vector<double>()[2 * i + 1], 2 * std::sin(p[2 * i]) * e, 1e-12);
    EXPECT_NEAR(found.laplacian.to_vector<double>()[i], 3 * std::sin(p[2 * i]) * e, 1e-11);
  }
}

TEST(FieldDerivatives, OfALinearFieldHaveNoCurvature) {
  const FieldDerivatives found =
      field_derivatives([](const Variable& at) { return slice(at, 1, 0, 1) * 3; }, Tensor::zeros({4, 2}));
  EXPECT_EQ(found.gradient.to_vector<float>(), (std::vector<float>{3, 0, 3, 0, 3, 0, 3, 0}));
  EXPECT_EQ(found.laplacian.to_vector<float>(), (std::vector<float>(4, 0)));
}

/// Derivatives of the network, plain and with each SNNK layer, against central differences of its values in f64.
TEST(Siren, DerivativesAreThoseOfItsValues) {
  for (const std::string layer : {"", "sin", "cos", "relu"}) {
    SirenOptions options{.inputs = 2, .width = 16, .hidden = 2, .omega = 2};
    if (!layer.empty())
      options.snnk = SnnkOptions{.activation = layer, .features = 8, .scale_inputs = true, .damped = true};
    Generator init(3);
    Siren siren({}, options, init);
    siren.to(Device::cpu(), DType::f64);
    Generator points(4);
    const Tensor x = uniform({5, 2}, points, -1, 1, DType::f64);
    const auto field = [&](const Variable& at) { return siren.forward(at); };
    const FieldDerivatives found = field_derivatives(field, x);
    constexpr double kStep = 1e-4;
    for (int64_t row = 0; row < 5; ++row) {
      double laplacian = 0;
      for (int64_t axis = 0; axis < 2; ++axis) {
        const auto moved = [&](double by) {
          Tensor at = x.clone();
          at.data<double>()[row * 2 + axis] += by;
          return field(at).value().to_vector<double>()[static_cast<size_t>(row)];
        };
        EXPECT_NEAR(found.gradient.to_vector<double>()[static_cast<size_t>(row * 2 + axis)],
                    (moved(kStep) - moved(-kStep)) / (2 * kStep), 1e-4)
            << layer;
        laplacian += (moved(kStep) + moved(-kStep) - 2 * moved(0)) / (kStep * kStep);
      }
      if (layer != "relu") {  // the differences may straddle its kinks
        EXPECT_NEAR(found.laplacian.to_vector<double>()[static_cast<size_t>(row)], laplacian, 1e-3) << layer;
      }
    }
  }
}

TEST(Siren, FieldsNeitherVanishNorGrowWithDepth) {
  Generator init(5);
  SirenOptions options{.hidden = 0, .omega = 30};
  Generator points(6);
  const Tensor x = uniform({500, 2}, points, -1, 1);
  std::vector<double> deviations;
  for (const int64_t hidden : {0, 1, 4}) {
    options.hidden = hidden;
    double square = 0;
    for (int draw = 0; draw < 20; ++draw) {
      Siren siren({}, options, init);
      const std::vector<double> values = siren.forward(x).value().to_vector<double>();
      double mean = 0;
      for (const double value : values) mean += value / 500;
      for (const double value : values) square += (value - mean) * (value - mean);
    }
    deviations.push_back(std::sqrt(square / 10000));
  }
  for (const size_t i : {1, 2}) {  // biases, drawn as PyTorch draws them, take some of the variation
    EXPECT_GT(deviations[i] / deviations[0], 1.0 / 3);
    EXPECT_LT(deviations[i] / deviations[0], 1.5);
  }
}

TEST(Siren, TheLastLayerIsDrawnAsTheOthers) {
  Generator init(1);
  const SirenOptions options{.width = 64, .hidden = 1};
  Siren siren({}, options, init);
  double largest = 0;
  for (const double w : siren.state().at("last.weight").to_vector<double>()) largest = std::max(largest, std::abs(w));
  EXPECT_LE(largest, std::sqrt(6.0 / 64) / options.omega);
  EXPECT_GT(largest, 0.5 * std::sqrt(6.0 / 64) / options.omega);
}

/// The deviation of fields over points, as a root mean square over draws.
double deviation_of(const SirenOptions& options) {
  Generator init(5);
  Generator points(6);
  const Tensor x = uniform({200, 2}, points, -1, 1);
  double square = 0;
  for (int draw = 0; draw < 10; ++draw) {
    const Siren siren({}, options, init);
    const std::vector<double> values = siren.forward(x).value().to_vector<double>();
    double mean = 0;
    for (const double value : values) mean += value / 200;
    for (const double value : values) square += (value - mean) * (value - mean);
  }
  return std::sqrt(square / 2000);
}

TEST(Siren, SpreadSnnkLayersKeepTheFieldThatPsiLetsFade) {
  SirenOptions options{.width = 128, .hidden = 3};
  const double plain = deviation_of(options);
  options.snnk = SnnkOptions{.activation = "sin", .features = 32, .scale_inputs = true, .eta = 2.4, .damped = true};
  const double psi = deviation_of(options);
  options.snnk_start = SnnkStart::spread;
  const double spread = deviation_of(options);
  EXPECT_GT(spread, plain / 2);
  EXPECT_LT(spread, plain * 2);
  EXPECT_LT(psi, spread / 4);
}

TEST(Siren, SnnkStandsInForTheLayersNamed) {
  Generator init(7);
  SirenOptions options{.width = 16, .hidden = 3};
  const int64_t plain = Siren({}, options, init).parameter_count();
  options.snnk = SnnkOptions{.activation = "sin", .features = 8, .scale_inputs = true, .damped = true};
  const int64_t saved = 16 * 16 + 16 - 8 * 16;
  const Siren all({}, options, init);
  EXPECT_EQ(all.snnk_weights().size(), 3);
  options.snnk_layers = {1};
  Siren one({}, options, init);
  EXPECT_EQ(one.parameter_count(), plain - saved);
  ASSERT_EQ(one.snnk_weights().size(), 1);
  EXPECT_EQ(one.snnk_weights()[0]->name, "hidden1.weight");
}

TEST(Siren, RefusesWhatItCanNotBe) {
  Generator init(1);
  EXPECT_THROW(Siren({}, {.hidden = 1, .snnk = SnnkOptions{}, .snnk_layers = {1}}, init), Error);
  EXPECT_THROW(Siren({}, {.omega = 0}, init), Error);
  EXPECT_THROW(field_derivatives([](const Variable& x) { return x; }, Tensor::zeros({3, 2})), Error);
}

}  // namespace
}  // namespace bochner

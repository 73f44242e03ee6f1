// Rotary positions: each pair of numbers is a complex number that is multiplied by e^(i t w), and what attention then
// sees depends only on differences of positions.
#include "layers/rotary.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>

#include "autograd/gradcheck.h"
#include "engine/random.h"
#include "layers/models/encoder.h"

namespace bochner {
namespace {

TEST(Rotary, MultipliesComplexNumbersByUnitsOfTheirPosition) {
  Generator generator(1);
  const Tensor x = normal({2, 5, 1, 6}, generator, 0, 1, DType::f64);
  const std::vector<double> found = RotaryPositions(9, 6).turn(x, 1).value().to_vector<double>();
  const std::vector<double> values = x.to_vector<double>();
  for (size_t row = 0; row < 10; ++row) {
    for (size_t j = 0; j < 3; ++j) {
      const double angle = static_cast<double>(row % 5) / std::pow(10000.0, static_cast<double>(j) / 3);
      const std::complex<double> turned =
          std::complex<double>(values[6 * row + j], values[6 * row + 3 + j]) * std::polar(1.0, angle);
      EXPECT_NEAR(found[6 * row + j], turned.real(), 1e-14);
      EXPECT_NEAR(found[6 * row + 3 + j], turned.imag(), 1e-14);
    }
  }
}

TEST(Rotary, TurnsPixelsByRowAndColumn) {
  Generator generator(6);
  const Tensor x = normal({2, 6, 1, 8}, generator, 0, 1, DType::f64);  // images of 2 rows and 3 columns
  const std::vector<double> found = RotaryPositions(6, 8, 3).turn(x, 1).value().to_vector<double>();
  const std::vector<double> values = x.to_vector<double>();
  for (size_t pixel = 0; pixel < 12; ++pixel) {
    const auto row = static_cast<double>(pixel % 6 / 3);
    const auto column = static_cast<double>(pixel % 3);
    const std::vector<double> angles = {row, row / 10, column, column / 10};  // 100^(-1 / 2) = 1 / 10
    for (size_t j = 0; j < 4; ++j) {
      const std::complex<double> turned =
          std::complex<double>(values[8 * pixel + j], values[8 * pixel + 4 + j]) * std::polar(1.0, angles[j]);
      EXPECT_NEAR(found[8 * pixel + j], turned.real(), 1e-14);
      EXPECT_NEAR(found[8 * pixel + 4 + j], turned.imag(), 1e-14);
    }
  }
}

TEST(Rotary, HasTheDerivativeOfARotation) {
  Generator generator(2);
  const RotaryPositions rotary(3, 4);
  const Tensor x = normal({2, 3, 2, 4}, generator, 0, 1, DType::f64);
  const auto turn = [&](const std::vector<Variable>& in) { return rotary.turn(in[0], 1); };
  EXPECT_EQ(gradcheck(turn, {x}), "");
  EXPECT_EQ(gradcheck_twice(turn, {x}), "");
}

TEST(Rotary, NeedsPairsAndALengthThatIsLongEnough) {
  EXPECT_THROW(RotaryPositions(1, 5), Error);
  EXPECT_THROW(RotaryPositions(4, 6, 2), Error) << "no pair for columns";
  EXPECT_THROW(RotaryPositions(2, 4).turn(Tensor::zeros({1, 3, 1, 4}), 1), Error);
}

EncoderOptions options(EncoderOptions::Positions positions, const std::string& attention) {
  EncoderOptions options{.vocabulary = 9, .length = 12, .classes = 3, .layers = 2, .dim = 8, .hidden = 8};
  options.attention.mechanism = MechanismOptions(attention).set_known({{"features", 8}, {"redraw", 0}});
  options.attention.heads = 2;
  options.positions = positions;
  options.dropout = 0;
  options.embedding_deviation = 1;
  return options;
}

/// Scores for tokens 1 to 5, in that order or another, after the given number of padding tokens.
std::vector<double> scores(const EncoderOptions& options, std::vector<int64_t> tokens, size_t padding) {
  Generator init(3);
  SequenceClassifier model(options, init);
  std::vector<uint8_t> real(padding, 0);
  real.insert(real.end(), tokens.size(), 1);
  tokens.insert(tokens.begin(), padding, 0);
  const auto length = static_cast<int64_t>(tokens.size());
  Generator noise(4);
  Context context{noise, false};
  return model.forward(Tensor::from(tokens, {1, length}), Tensor::from(real, {1, length}).cast(DType::boolean), context)
      .value()
      .to_vector<double>();
}

double apart(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

TEST(Rotary, EncodersSeeDifferencesOfPositions) {
  using Positions = EncoderOptions::Positions;
  for (const std::string attention : {"softmax", "performer", "gaussian", "skyformer"}) {
    const EncoderOptions rotary = options(Positions::rotary, attention);
    const std::vector<double> found = scores(rotary, {1, 2, 3, 4, 5}, 0);
    EXPECT_GT(apart(found, scores(rotary, {1, 3, 2, 4, 5}, 0)), 1e-5) << attention << ": another order is another text";
    if (attention == "softmax" || attention == "gaussian") {  // others approximate them, by features at random angles
      EXPECT_LT(apart(found, scores(rotary, {1, 2, 3, 4, 5}, 7)), 1e-5) << attention << ": all moved by 7";
    }
    const EncoderOptions sinusoidal = options(Positions::sinusoidal, attention);
    EXPECT_GT(apart(scores(sinusoidal, {1, 2, 3, 4, 5}, 0), scores(sinusoidal, {1, 2, 3, 4, 5}, 7)), 1e-3) << attention;
  }
}

TEST(Rotary, ImagesAlikeButForTheirPlaceInTheFrameLookAlike) {
  EncoderOptions image = options(EncoderOptions::Positions::rotary_2d, "softmax");
  image.width = 3;
  const auto pixels = [&](const std::vector<int64_t>& tokens, const std::vector<uint8_t>& seen) {
    Generator init(3), noise(4);
    SequenceClassifier model(image, init);
    Context context{noise, false};
    return model.forward(Tensor::from(tokens, {1, 9}), Tensor::from(seen, {1, 9}).cast(DType::boolean), context)
        .value()
        .to_vector<double>();
  };
  const std::vector<double> above = pixels({1, 2, 0, 3, 4, 0, 0, 0, 0}, {1, 1, 0, 1, 1, 0, 0, 0, 0});
  EXPECT_LT(apart(above, pixels({0, 0, 0, 0, 1, 2, 0, 3, 4}, {0, 0, 0, 0, 1, 1, 0, 1, 1})), 1e-5);
  EXPECT_GT(apart(above, pixels({1, 3, 0, 2, 4, 0, 0, 0, 0}, {1, 1, 0, 1, 1, 0, 0, 0, 0})), 1e-5) << "transposed";
}

TEST(Rotary, TwoDimensionsNeedAnImage) {
  Generator init(3);
  EncoderOptions none = options(EncoderOptions::Positions::rotary_2d, "softmax");
  EXPECT_THROW(SequenceClassifier(none, init), Error);
  none.width = 3;
  none.pooling = EncoderOptions::Pooling::cls;
  EXPECT_THROW(SequenceClassifier(none, init), Error);
}

TEST(Rotary, AddsNoParameters) {
  Generator init(5);
  using Positions = EncoderOptions::Positions;
  SequenceClassifier rotary(options(Positions::rotary, "performer"), init);
  SequenceClassifier sinusoidal(options(Positions::sinusoidal, "performer"), init);
  EXPECT_EQ(rotary.parameter_count(), sinusoidal.parameter_count());
}

}  // namespace
}  // namespace bochner

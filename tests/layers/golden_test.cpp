// Training steps against an independent implementation: tests/golden/encoder_steps.py.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <tuple>

#include "autograd/fused/cross_entropy.h"
#include "autograd/optim/optimizer.h"
#include "engine/ops/binary.h"
#include "layers/models/pair_classifier.h"

namespace bochner {
namespace {

constexpr int64_t kLength = 13;
constexpr int64_t kSequences = 4;

EncoderOptions golden_options(const std::string& head, const std::string& attention) {
  EncoderOptions options;
  options.vocabulary = 11;
  options.length = kLength;
  options.classes = 5;
  options.layers = 2;
  options.dim = 16;
  options.hidden = 24;
  options.dropout = 0;
  options.attention.mechanism = MechanismOptions(attention).set_known({{"features", 8}, {"redraw", 0}});
  options.attention.heads = 2;
  if (head != "single") options.classifier = 6;
  if (head == "skyformer") options.pair = EncoderOptions::Pair::skyformer;
  return options;
}

/// The formula from which both implementations start.
void fill_by_formula(const std::string& name, const Tensor& tensor) {
  const double phase = std::accumulate(name.begin(), name.end(), 0) % 17;
  const auto ends_with = [&](const char* end) { return name.ends_with(end); };
  double base = 0;
  double scale = name == "tokens.weight" || name == "positions" ? 0.5 : 0.2;
  if (ends_with("noise")) scale = 0.5;
  if (ends_with("norm1.weight") || ends_with("norm2.weight") || name == "norm.weight") {
    base = 1;
    scale = 0.1;
  }
  const bool matrix = ends_with("frequencies.scale") && tensor.size(2) > 1;
  if (ends_with("frequencies.scale") && !matrix) base = 1;
  std::vector<double> values(static_cast<size_t>(tensor.size()));
  const int64_t d = tensor.size(-1);
  for (int64_t i = 0; i < tensor.size(); ++i) {
    const bool diagonal = matrix && i / d % d == i % d;
    values[static_cast<size_t>(i)] = base + (diagonal ? 1 : 0) + scale * std::sin(1.3 * static_cast<double>(i) + phase);
  }
  tensor.copy_(Tensor::from(values, tensor.shape()));
}

template <class Model>
std::vector<double> ten_steps(const EncoderOptions& options, const Shape& shape, DType dtype) {
  Generator init(1);
  Model model(options, init);
  model.to(Device::cpu(), dtype);
  for (const auto& [name, tensor] : model.state()) {
    if (!name.ends_with(".age")) fill_by_formula(name, tensor);
  }
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < kSequences * kLength; ++i) ids.push_back((i * 7 + 3) % 11);
  const Tensor lengths = Tensor::from<int64_t>({13, 9, 5, 1}, {kSequences, 1});
  const Tensor mask = less(Tensor::arange(kLength).unsqueeze(0), lengths).reshape(shape);
  const Tensor labels = Tensor::arange(shape[0]);
  AdamW optimizer(model.parameters(), {.eps = 1e-6, .weight_decay = 0.01});
  Generator noise(2);
  Context context{noise, true};
  std::vector<double> losses;
  for (int step = 0; step < 10; ++step) {
    Tape tape;
    const Variable logits = model.forward(Tensor::from(ids, shape), mask, context);
    const Variable loss = cross_entropy(logits, labels);
    tape.backward(loss);
    optimizer.step(2e-3);
    optimizer.clear_gradients();
    losses.push_back(loss.item());
  }
  return losses;
}

/// The head, "single" for one sequence or that of a dual encoder, and the mechanism.
class Golden : public testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  std::vector<double> steps_in(DType dtype) const {
    const auto& [head, attention] = GetParam();
    const EncoderOptions options = golden_options(head, attention);
    if (head == "single") return ten_steps<SequenceClassifier>(options, {kSequences, kLength}, dtype);
    return ten_steps<PairClassifier>(options, {kSequences / 2, 2, kLength}, dtype);
  }
};

TEST_P(Golden, TenAdamWStepsAgreeWithPyTorch) {
  std::ifstream file(BOCHNER_SOURCE_DIR "/tests/golden/encoder_steps.json");
  ASSERT_TRUE(file);
  const auto& [head, attention] = GetParam();
  const std::vector<double> expected = nlohmann::json::parse(file).at(head).at(attention);
  const std::vector<double> in_f64 = steps_in(DType::f64);
  const std::vector<double> in_f32 = steps_in(DType::f32);
  ASSERT_EQ(expected.size(), in_f64.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(in_f64[i], expected[i], 1e-9 * expected[i]) << "step " << i << " in f64";
    EXPECT_NEAR(in_f32[i], expected[i], 1e-5 * expected[i]) << "step " << i << " in f32";
  }
}

INSTANTIATE_TEST_SUITE_P(HeadsAndMechanisms, Golden,
                         testing::Combine(testing::Values("single", "arena", "skyformer"),
                                          testing::Values("softmax", "linear-elu", "performer", "gmm-rks", "gmm-prf")),
                         [](const testing::TestParamInfo<std::tuple<std::string, std::string>>& tested) {
                           std::string name =
                               fmt::format("{}_{}", std::get<0>(tested.param), std::get<1>(tested.param));
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace bochner

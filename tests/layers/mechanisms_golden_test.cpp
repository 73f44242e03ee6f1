// Every mechanism against an independent implementation: tests/golden/mechanisms.py.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "autograd/tape.h"
#include "engine/ops/binary.h"
#include "engine/ops/hadamard.h"
#include "engine/ops/matmul.h"
#include "layers/attention/mechanism.h"

namespace bochner {
namespace {

constexpr int64_t kBatch = 2;
constexpr int64_t kHeads = 2;
constexpr int64_t kLength = 10;
constexpr int64_t kDim = 8;

/// The formula from which both implementations start.
Tensor filled(const std::string& name, const Shape& shape, double base, double scale) {
  const double phase = std::accumulate(name.begin(), name.end(), 0) % 17;
  std::vector<double> values(static_cast<size_t>(shape.size()));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = base + scale * std::sin(1.3 * static_cast<double>(i) + phase);
  }
  return Tensor::from(values, shape);
}

bool is_weight_of_norm(const std::string& name) {
  return name.find("norms.") != std::string::npos && name.ends_with(".weight");
}

void fill_by_formula(Mechanism& mechanism, bool fastfood) {
  for (const Parameter* parameter : mechanism.parameters()) {
    const double base = is_weight_of_norm(parameter->name) ? 1 : 0;
    parameter->value.copy_(filled(parameter->name, parameter->shape(), base, 0.5));
  }
  for (const auto& [name, tensor] : mechanism.state()) {
    if (name == "seed") tensor.fill_(3);
    if (name == "E") tensor.copy_(filled(name, tensor.shape(), 0, 0.5));  // a buffer in linformer's variant of SKY
    if (name.ends_with("frequencies.noise")) {
      tensor.copy_(filled(name, tensor.shape(), 0, 1));
      for (int64_t i = 0; fastfood && i < kDim; ++i) {
        tensor.slice(1, 3, 4).slice(2, i, i + 1).fill_(static_cast<double>((3 * i + 1) % kDim));
      }
    }
  }
}

/// Rows of performer-reg as drawn: in blocks of `dim` orthogonal rows, of norm sqrt(dim) (PERF §2.3).
void expect_orthogonal_rows_of_one_norm(const Tensor& Omega) {
  const std::vector<double> products = matmul(Omega, Omega.transpose(1, 2)).to_vector<double>();  // (1, M, M)
  ASSERT_EQ(products.size(), static_cast<size_t>(kDim * kDim));
  for (size_t i = 0; i < products.size(); ++i) {
    EXPECT_NEAR(products[i], i % (kDim + 1) == 0 ? kDim : 0, 1e-5) << "product " << i;
  }
}

/// Rows of +-1, orthogonal (1, kDim, kDim): frequencies that performer-reg might draw.
Tensor hadamard_rows() {
  return hadamard(equal(Tensor::arange(kDim).view({kDim, 1}), Tensor::arange(kDim).view({1, kDim})).cast(DType::f64))
      .unsqueeze(0);
}

const nlohmann::json& golden() {
  static const nlohmann::json all = [] {
    std::ifstream file(BOCHNER_SOURCE_DIR "/tests/golden/mechanisms.json");
    return nlohmann::json::parse(file);
  }();
  return all;
}

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& [name, values] : golden().items()) names.push_back(name);
  return names;
}

class GoldenMechanism : public testing::TestWithParam<std::string> {};

TEST_P(GoldenMechanism, AgreesWithPyTorch) {
  const std::string name = GetParam().substr(0, GetParam().find(' '));
  const auto is = [&](const char* variant) { return GetParam() == name + " " + variant; };
  const bool is_long = GetParam().ends_with(" long");
  const int64_t length = is_long ? 200 : kLength;
  MechanismOptions options(name);
  options.set_known(
      {{"features", 8},
       {"redraw", 0},
       {"renormalise", !is("unnormalised")},
       {"exact-inverse", is("exact")},
       {"maps", is("maps") ? 2 : 1},
       {"convolution", 3},
       {"length", is_long ? length : 12},
       {"block",
        name == "bigbird" ? 1 : (is("wide") || (name == "sparse" && is("released")) ? 4 : (is("skyformer") ? 8 : 2))},
       {"random-blocks", 1},
       {"summary", 1},
       {"hashes", 2},
       {"factor", is("c=3") ? 3 : 1}});
  if (is("released") || is_long) options.set("as", "released");
  if (GetParam().find(" skyformer") != std::string::npos) options.set("as", "skyformer");
  for (const char* covariance : {"diagonal", "full"}) {
    if (is(covariance)) options.set("covariance", covariance);
  }
  for (const char* synthesis : {"factorized", "dense"}) {
    if (is(synthesis)) options.set("synthesis", synthesis);
  }
  if (is("softmax")) options.set("kernel", "softmax");
  Generator init(5);
  const auto mechanism = make_mechanism({}, kHeads, kDim, options, init);
  mechanism->to(Device::cpu(), DType::f64);
  if (name == "performer-reg") expect_orthogonal_rows_of_one_norm(mechanism->frequencies());
  fill_by_formula(*mechanism, name.starts_with("fastfood"));
  if (name == "performer-reg") mechanism->state().at("frequencies.noise").copy_(hadamard_rows());

  const Shape shape{kBatch, kHeads, length, kDim};
  Tape tape;
  const Variable Q = tape.watch(filled("Q", shape, 0, 1));
  const Variable K = tape.watch(filled("K", shape, 0, 1));
  const Variable V = tape.watch(filled("V", shape, 0, 1));
  const Tensor keys = less(Tensor::arange(length).unsqueeze(0), Tensor::from<int64_t>({length, 7}, {kBatch, 1}));
  Generator noise(7);
  // In training, BatchNorm uses the samples' statistics, and the noise in the buffer serves once if each forward pass
  // redraws.
  const bool is_kl = name.starts_with("gmm") || name.starts_with("fastfood") || name.starts_with("generative");
  Context context{noise, name.starts_with("generative") || (is_kl && is("released"))};
  const Variable O = mechanism->forward(Q, K, V, {keys, is("causal")}, context);
  std::vector<Variable> inputs = {Q, K, V};
  std::vector<std::string> names = {"dQ", "dK", "dV"};
  for (Parameter* parameter : mechanism->parameters()) {
    inputs.push_back(*parameter);
    names.push_back("d" + parameter->name);
  }
  const Gradients gradients = tape.gradients({O}, {filled("dO", shape, 0, 1)}, inputs);

  const double tolerance = is("exact") ? 1e-4 : 2e-9;  // an ill-conditioned matrix is inverted without damping
  const nlohmann::json& expected = golden().at(GetParam());
  EXPECT_EQ(expected.size(), names.size() + 1) << "the same parameters in both";
  const auto compare = [&](const std::string& what, const Tensor& found) {
    ASSERT_TRUE(expected.contains(what)) << what;
    const std::vector<double> reference = expected.at(what);
    const std::vector<double> values = found.to_vector<double>();
    const size_t step = is_long ? 61 : 3;  // as in mechanisms.py
    ASSERT_EQ((values.size() + step - 1) / step, reference.size()) << what;
    for (size_t i = 0; i < reference.size(); ++i) {
      const double x = reference[i];
      ASSERT_NEAR(values[step * i], x, tolerance * std::max(1.0, std::abs(x))) << what << " at " << step * i;
    }
  };
  compare("O", O.value());
  for (size_t i = 0; i < names.size(); ++i) {
    // A token drawn twice makes kappa(Z, Z) singular, where the pseudo-inverse has no derivative: only V has one.
    if (is("exact") && names[i] != "dV") continue;
    compare(names[i], gradients[i].value());
  }
}

INSTANTIATE_TEST_SUITE_P(Mechanisms, GoldenMechanism, testing::ValuesIn(golden_names()),
                         [](const testing::TestParamInfo<std::string>& tested) {
                           std::string name = tested.param;
                           for (char& letter : name) {
                             if (std::isalnum(static_cast<unsigned char>(letter)) == 0) letter = '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace bochner

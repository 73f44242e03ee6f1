// SNNK layers, bundles and their closed forms.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "autograd/fused/cross_entropy.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/unary.h"
#include "engine/ops/binary.h"
#include "engine/ops/matmul.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "layers/snnk/blocks.h"
#include "layers/snnk/bundle.h"

namespace bochner {
namespace {

Tensor drawn(const Shape& shape, uint64_t seed, double deviation = 1) {
  Generator generator(seed);
  return normal(shape, generator, 0, deviation);
}

double largest_entry(const Tensor& x) { return amax(abs(x)).item(); }

TEST(Snnk, StandsForALayerInOneLine) {
  Generator generator(1);
  const Linear linear({}, 12, 5, generator);
  Snnk layer = Snnk::from(linear, "sin", 4096, generator);
  EXPECT_EQ(layer.parameter_count(), 5 * 4096);
  const Tensor x = drawn({7, 3, 12}, 2, 0.3);
  const Tensor y = layer.forward(x).value();
  EXPECT_EQ(y.shape(), (Shape{7, 3, 5}));
  // 105 outputs, each with a deviation of about sqrt(2 / 4096)
  EXPECT_LT(largest_entry(y - sin(linear.forward(x)).value()), 0.15);
  layer.set_trainable(false);
  EXPECT_EQ(layer.parameter_count(), 0);
  EXPECT_THROW(Snnk::from(linear, "gelu", 8, generator), Error);
}

TEST(Snnk, TrainsItsWeightsAndPassesGradientsOn) {
  Generator generator(3);
  Snnk layer({}, 6, 4, {.activation = "cos", .features = 8, .scale_inputs = true}, generator);
  Tape tape;
  const Variable x = tape.watch(drawn({3, 6}, 4));
  const Gradients g = tape.gradients(sum(square(layer.forward(x))), {x, tape.leaf(layer.weight)});
  EXPECT_GT(largest_entry(g[0].value()), 0);
  EXPECT_EQ(g[1].shape(), (Shape{4, 8}));
}

TEST(Snnk, SavesItsFeatures) {
  Generator one(1);
  Generator two(2);
  for (const std::string& name : snnk_activations()) {
    const SnnkOptions options{.activation = name, .features = 12};
    Snnk a({}, 4, 3, options, one);
    Snnk b({}, 4, 3, options, two);
    const Tensor x = drawn({2, 4}, 1, 0.1);
    EXPECT_GT(largest_entry(a.forward(x).value() - b.forward(x).value()), 0) << name;
    b.load_state(a.state());
    EXPECT_EQ(largest_entry(a.forward(x).value() - b.forward(x).value()),
              0)  // A, chosen from other weights, is part of it
        << name;
    const Tensor W = drawn({3, 4}, 2, 0.4);
    if (!has_universal_features(name)) {
      EXPECT_EQ(largest_entry(a.features().weights(W, {}) - b.features().weights(W, {})), 0) << name;
      continue;
    }
    EXPECT_THROW(b.features().weights(W, {}), Error) << name;  // Psi belongs to the constructor's draw
    EXPECT_NO_THROW(a.features().weights(W, {})) << name;
  }
}

TEST(Snnk, RefusesWeightsThatOverflow) {
  Generator g(1);
  const Tensor weights = Tensor::full({2, 3}, 1e200, DType::f64);
  EXPECT_THROW(make_features({}, 3, {.activation = "cos"}, weights, g), WeightsOverflow);
  EXPECT_NO_THROW(make_features({}, 3, {.activation = "cos", .A = -1}, weights, g));
}

// Layers with the same draws and weights, except for one option.
TEST(Snnk, EachOptionChangesTheFeaturesThatReadIt) {
  const Tensor x = drawn({2, 4}, 5, 0.3);
  const auto output = [&](const SnnkOptions& options) {
    Generator generator(6);
    return Snnk({}, 4, 3, options, generator).forward(x).value();
  };
  for (const std::string& name : snnk_activations()) {
    const SnnkOptions plain{.activation = name, .features = 8};
    const auto expect_change = [&](const char* what, const std::function<void(SnnkOptions&)>& change) {
      SnnkOptions options = plain;
      change(options);
      EXPECT_GT(largest_entry(output(options) - output(plain)), 1e-6) << name << " " << what;
    };
    expect_change("scale-inputs", [](SnnkOptions& o) { o.scale_inputs = true; });
    if (name != "tanh") expect_change("orthogonal", [](SnnkOptions& o) { o.orthogonal = true; });
    if (name == "relu") {
      expect_change("order", [](SnnkOptions& o) { o.order = 2; });
      expect_change("bias-coordinate", [](SnnkOptions& o) { o.bias_coordinate = true; });
    }
    if (!has_universal_features(name)) continue;
    expect_change("A", [](SnnkOptions& o) { o.A = -0.3; });
    expect_change("eta", [](SnnkOptions& o) { o.eta = 0.7; });
    expect_change("damped", [](SnnkOptions& o) { o.damped = true; });
    if (name != "sin" && name != "cos") expect_change("block", [](SnnkOptions& o) { o.block = 2; });  // one frequency
  }
}

class BundleOf : public testing::TestWithParam<std::string> {};

TEST_P(BundleOf, RunsCollapseExactly) {
  Generator g(5);
  SnnkOptions options{.activation = GetParam(), .features = 16, .scale_inputs = true};
  options.eta = 3;  // the frequencies of sinc reach pi, and exp(pi^2 |x|^2 / 2) would exceed f32
  const Linear before({}, 10, 20, g);
  const Snnk first({}, 20, 24, options, g);
  const Linear middle({}, 24, 12, g);
  const Snnk second({}, 12, 9, options, g);
  const Linear after({}, 9, 3, g);
  Bundle bundle({}, {&before, &first, &middle, &second, &after});
  EXPECT_EQ(bundle.stages(), 2);
  EXPECT_EQ(bundle.weight().shape(), (Shape{3, 16}));
  const Tensor x = drawn({2, 8, 10}, 6, 0.5);
  const Tensor expected = after.forward(second.forward(middle.forward(first.forward(before.forward(x))))).value();
  const Tensor found = bundle.forward(x).value();
  EXPECT_LT(largest_entry(found - expected), 1e-5 * std::max(1.0, largest_entry(expected))) << GetParam();
  // the Jacobian without backpropagation
  bundle.to(Device::cpu(), DType::f64);
  const Tensor point = drawn({3, 10}, 7, 0.5).cast(DType::f64);
  const Tensor J = bundle.jacobian(point);
  for (int64_t o = 0; o < 3; ++o) {
    Tape tape;
    const Variable leaf = tape.watch(point);
    const Tensor pick = Tensor::zeros({3, 3}, DType::f64);
    pick.slice(1, o, o + 1).fill_(1);
    const Tensor row = tape.gradients({bundle.forward(leaf)}, {pick}, {leaf})[0].value();
    EXPECT_LT(largest_entry(row - J.select(1, o)), 1e-8 * std::max(1.0, largest_entry(row))) << GetParam();
  }
}

INSTANTIATE_TEST_SUITE_P(Names, BundleOf, testing::ValuesIn(snnk_activations()), [](const auto& one) {
  std::string name = one.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(Bundle, OfANetworkEstimatesItAndItsErrorGrowsWithDepth) {
  Generator g(8);
  const Tensor x = drawn({20, 6}, 9, 0.3);
  double previous = 0;
  for (const int depth : {1, 2}) {
    std::deque<Linear> linears;
    std::vector<NetworkLayer> layers;
    Variable y = x;
    for (int i = 0; i < depth; ++i) {
      linears.emplace_back(Slot{}, i == 0 ? 6 : 16, 16, g);
      layers.push_back({&linears.back(), "sin"});
      y = sin(linears.back().forward(y));
    }
    linears.emplace_back(Slot{}, 16, 2, g);
    layers.push_back({&linears.back(), "identity"});
    y = linears.back().forward(y);
    const auto error = [&](int64_t features) {
      double total = 0;
      for (uint64_t seed = 0; seed < 6; ++seed) {
        Generator draw(seed);
        const Bundle bundle = Bundle::of_network({}, layers, {.features = features}, draw);
        total += sum(square(bundle.forward(x).value() - y.value())).item() / 6;
      }
      return total;
    };
    const double few = error(64);
    const double many = error(2048);
    EXPECT_LT(many, few / 4);  // 32 times as many features
    EXPECT_GT(many, previous);
    previous = many;
  }
}

// The inputs of a later layer's map are the features before it.
TEST(Bundle, OfANetworkScalesByTheInputsOfEachLayer) {
  Generator g(41);
  const Linear first({}, 6, 5, g);
  const Linear second({}, 5, 5, g);
  const Linear last({}, 5, 2, g);
  const Tensor x = drawn({20, 6}, 42, 0.5);
  const Variable inner = sin(matmul(x, first.weight.value.transpose(0, 1)) * (1 / std::sqrt(6)) + first.bias->value);
  const auto network = [&](double inputs) {
    const Tensor scaled = matmul(inner.value(), second.weight.value.transpose(0, 1)) * (1 / std::sqrt(inputs));
    return last.forward(sin(scaled + second.bias->value)).value();
  };
  Tensor mean = Tensor::zeros({20, 2});
  constexpr int kDraws = 20;
  for (uint64_t seed = 0; seed < kDraws; ++seed) {
    Generator draw(seed);
    const Bundle bundle = Bundle::of_network({}, {{&first, "sin"}, {&second, "sin"}, {&last, "identity"}},
                                             {.features = 2048, .scale_inputs = true}, draw);
    mean = mean + bundle.forward(x).value() * (1.0 / kDraws);
  }
  EXPECT_LT(largest_entry(mean - network(5)), largest_entry(network(2048) - network(5)) / 4);
}

TEST(Bundle, RefusesOtherLayersAndWrongSizes) {
  Generator g(1);
  const Linear a({}, 3, 4, g);
  const Linear b({}, 5, 2, g);
  const LayerNorm norm({}, 4, 1e-5);
  const Snnk snnk({}, 7, 2, {.features = 4}, g);
  EXPECT_THROW(Bundle({}, {}), Error);
  EXPECT_THROW(Bundle({}, {&a, &b}), Error);
  EXPECT_THROW(Bundle({}, {&a, &norm}), Error);
  EXPECT_THROW(Bundle({}, {&a, &snnk}), Error);
  EXPECT_THROW(Bundle::of_network({}, {}, {}, g), Error);
  EXPECT_THROW(Bundle::of_network({}, {{&a, "identity"}, {&b, "sin"}}, {}, g), Error);
  EXPECT_THROW(Bundle::of_network({}, {{&a, "gelu"}}, {}, g), Error);
  EXPECT_THROW(Bundle::of_network({}, {{nullptr, "sin"}}, {}, g), Error);
  Bundle alone({}, {&a});
  EXPECT_THROW(alone.jacobian(Tensor::zeros({2, 4})), Error);
  EXPECT_THROW(alone.fit(Tensor::zeros({5, 3}), Tensor::zeros({6, 4})), Error);
  EXPECT_THROW(alone.fit(Tensor::zeros({5, 3}), Tensor::zeros({5, 3})), Error);
}

TEST(Ridge, EqualsTheOptimumOfGradientDescent) {
  Generator g(11);
  for (const double ridge : {0.0, 0.3}) {
    Snnk layer({}, 5, 2, {.activation = "relu", .features = 6}, g);
    Bundle bundle({}, {&layer});
    bundle.to(Device::cpu(), DType::f64);
    const Tensor X = drawn({200, 5}, 12).cast(DType::f64);
    const Tensor Y = drawn({200, 2}, 13).cast(DType::f64);
    const double best = bundle.fit(X, Y, ridge);
    // Gradient descent on |Phi W^T + b - Y|^2 + ridge |W|^2 from 0, with steps of 1 / L
    const Tensor Phi = bundle.features(X).value();
    Tensor W = Tensor::zeros({2, 6}, DType::f64);
    Tensor b = Tensor::zeros({2}, DType::f64);
    const double L = 2 * (sum(square(Phi)).item() + 200 + ridge);
    const auto error = [&] { return matmul(Phi, W.transpose(0, 1)) + b - Y; };
    for (int i = 0; i < 60000; ++i) {
      const Tensor e = error();
      W = W - (matmul(e.transpose(0, 1), Phi) * 2.0 + W * (2 * ridge)) * (1 / L);
      b = b - sum(e, {0}) * (2 / L);
    }
    const double descended = sum(square(error())).item() + ridge * sum(square(W)).item();
    EXPECT_NEAR(descended / best, 1, 1e-6);
    EXPECT_GE(descended, best * (1 - 1e-12));
    EXPECT_LT(largest_entry(W - bundle.weight().value), 1e-4 * largest_entry(W));
  }
}

/// A run of several layers, with more rows than are processed at once: the gradient of the sum of squares is 0 there.
TEST(Ridge, TrainsABundledNetworkToItsOptimum) {
  Generator g(31);
  const SnnkOptions options{.activation = "cos", .features = 8, .scale_inputs = true};
  const Linear before({}, 4, 12, g);
  const Snnk first({}, 12, 10, options, g);
  const Snnk second({}, 10, 6, options, g);
  Bundle bundle({}, {&before, &first, &second});
  bundle.to(Device::cpu(), DType::f64);
  EXPECT_EQ(bundle.bias(), nullptr);
  const Tensor X = drawn({4500, 4}, 32, 0.5).cast(DType::f64);
  const Tensor Y = drawn({4500, 6}, 33).cast(DType::f64);
  constexpr double kRidge = 2;
  const double least = bundle.fit(X, Y, kRidge);
  const Tensor Phi = bundle.features(X).value();
  const Tensor W = bundle.weight().value;
  ASSERT_NE(bundle.bias(), nullptr);
  const Tensor rest = bundle.forward(X).value() - Y;
  EXPECT_NEAR((sum(square(rest)).item() + kRidge * sum(square(W)).item()) / least, 1, 1e-10);
  EXPECT_LT(largest_entry(matmul(rest.transpose(0, 1), Phi) + W * kRidge), 1e-7 * 4500);
  EXPECT_LT(largest_entry(sum(rest, {0})), 1e-7 * 4500);
}

TEST(Ridge, PiecesGiveWhatAllRowsGive) {
  const Tensor Phi = drawn({90, 7}, 14).cast(DType::f64);
  const Tensor Y = drawn({90, 2}, 15).cast(DType::f64);
  RidgeFit whole(7, 2);
  whole.add(Phi, Y);
  RidgeFit pieces(7, 2);
  for (int64_t i = 0; i < 90; i += 4) {
    const int64_t end = std::min<int64_t>(90, i + 4);
    pieces.add(Phi.slice(0, i, end).contiguous(), Y.slice(0, i, end).contiguous());
  }
  const auto a = whole.solve(0.1);
  const auto b = pieces.solve(0.1);
  EXPECT_LT(largest_entry(a.weight - b.weight), 1e-12);
  EXPECT_LT(largest_entry(a.bias - b.bias), 1e-12);
  EXPECT_NEAR(a.residual, b.residual, 1e-10);
  EXPECT_THROW(RidgeFit(7, 2).solve(), Error);
  EXPECT_THROW(whole.solve(-1), Error);
  EXPECT_THROW(whole.add(Y, Phi), Error);
}

TEST(Blocks, AdapterBeginsAsTheIdentity) {
  Generator g(16);
  SnnkAdapter adapter({}, 12, {.snnk = {.features = 4}}, g);
  EXPECT_EQ(adapter.parameter_count(), 12 * 4 + 12);
  const Tensor x = drawn({2, 5, 12}, 17);
  EXPECT_EQ(largest_entry(adapter.forward(x).value() - x), 0);
  {
    Tape tape;
    tape.backward(sum(square(adapter.forward(x))));
  }
  EXPECT_GT(largest_entry(adapter.parameters().front()->grad), 0);  // that of the gate, which is what moves first
  SnnkAdapter down({}, 12, {.snnk = {.features = 4}, .down = 3}, g);
  EXPECT_EQ(down.parameter_count(), 3 * 4 + 3 * 12 + 12);
  EXPECT_EQ(largest_entry(down.forward(x).value() - x), 0);
}

TEST(Blocks, PoolerAndFeedForwardAreBundledAway) {
  Generator g(18);
  const Linear pooler({}, 16, 16, g);
  const Linear classifier({}, 16, 3, g);
  const SnnkPooler block({}, pooler, classifier, {.activation = "cos", .features = 8}, g);
  Bundle bundle = block.bundle();
  EXPECT_EQ(bundle.parameter_count(), 3 * 8 + 3);
  const Tensor x = drawn({5, 16}, 19);
  EXPECT_LT(largest_entry(bundle.forward(x).value() - block.forward(x).value()), 1e-5);

  const Linear in({}, 16, 64, g);
  const Linear out({}, 64, 16, g);
  SnnkFeedForward feed({}, in, out, {.activation = "relu", .features = 8}, g);
  EXPECT_EQ(feed.parameter_count(), 64 * 8 + 64 * 16 + 16);
  const Bundle small = feed.bundle();
  const Tensor tokens = drawn({2, 7, 16}, 20);
  EXPECT_LT(largest_entry(small.forward(tokens).value() - feed.forward(tokens).value()), 1e-5);
}

TEST(Blocks, CostWhatThePaperPrintsForBert) {
  constexpr int64_t kDim = 768;
  Generator g(21);
  // Table 6: the billions of multiplications for 64 sequences of 128 tokens fall with each of six layers replaced, from
  // 716 to 601 in training and to 484 once bundled (J.4, 8 features).
  const Linear in({}, kDim, 4 * kDim, g);
  const Linear out({}, 4 * kDim, kDim, g);
  const SnnkFeedForward feed({}, in, out, {.features = 8}, g);
  const double rows = 64 * 128 / 2.0 * 1e-9;  // one addition with each multiplication
  const auto plain = static_cast<double>(2 * (in.weight.value.size() + out.weight.value.size()));
  EXPECT_NEAR((plain - static_cast<double>(feed.flops())) * rows, (716 - 601) / 6.0, 0.2);
  EXPECT_NEAR((plain - static_cast<double>(feed.bundle().flops())) * rows, (716 - 484) / 6.0, 0.2);
  // Section 4.3.1: pooler and classifier for two classes are 18.92 megabit, 0.02 when bundled; here with 256 features.
  const Linear pooler({}, kDim, kDim, g);
  const Linear classifier({}, kDim, 2, g);
  const SnnkPooler block({}, pooler, classifier, {.activation = "cos", .features = 256}, g);
  const auto megabit = [](int64_t numbers) { return static_cast<double>(32 * numbers) * 1e-6; };
  EXPECT_NEAR(megabit(pooler.weight.value.size() + classifier.weight.value.size()), 18.92, 0.005);
  EXPECT_NEAR(megabit(block.bundle().weight().value.size()), 0.02, 0.005);
}

}  // namespace
}  // namespace bochner

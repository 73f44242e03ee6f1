// The code of the guided tour (docs/), which quotes it from here. Each test is a chapter; what a chapter claims is
// checked beneath its code.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "autograd/fused/cross_entropy.h"
#include "autograd/fused/kernel_attention.h"
#include "autograd/gradcheck.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/join.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/view.h"
#include "autograd/optim/optimizer.h"
#include "engine/ops/matmul.h"
#include "engine/ops/reduce.h"
#include "engine/parallel.h"
#include "engine/trace.h"
#include "layers/attention/mechanism.h"
#include "layers/models/encoder.h"
#include "layers/snnk/bundle.h"

namespace bochner {
namespace {

void expect_close(const Tensor& a, const Tensor& b, double tolerance) {
  const std::vector<double> x = a.to_vector<double>(), y = b.to_vector<double>();
  ASSERT_EQ(x.size(), y.size());
  for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], y[i], tolerance * std::max(1.0, std::abs(y[i]))) << i;
}

Tensor sample(const Shape& shape, Generator& generator) { return normal(shape, generator, 0, 1, DType::f64); }

// ---- chapter 1

/// The mean of cos omega . (x - y) over M frequencies omega ~ N(0, I).
double estimate_of_gaussian_kernel(const Tensor& x, const Tensor& y, int64_t M, Generator& generator) {
  const int64_t D = x.size(0);
  const Tensor Omega = normal({M, D}, generator, 0, 1, DType::f64);  // (M, D): frequencies
  const Tensor u = matmul(Omega, (x - y).view({D, 1}));              // (M, 1): omega . (x - y)
  return mean(cos(u)).item();
}

TEST(Tour, Chapter1Theorem) {
  Generator generator(1);
  const Tensor x = Tensor::from({0.3, -0.5, 0.2}, {3});
  const Tensor y = Tensor::from({-0.1, 0.4, 0.6}, {3});
  const double kernel = std::exp(-sum(square(x - y)).item() / 2);
  // The mean of M cosines has a standard error of at most 1 / sqrt(2 M).
  EXPECT_NEAR(estimate_of_gaussian_kernel(x, y, 10'000, generator), kernel, 4 / std::sqrt(20'000.0));
  EXPECT_NEAR(estimate_of_gaussian_kernel(x, y, 1'000'000, generator), kernel, 4 / std::sqrt(2e6));
}

// ---- chapter 2

/// Random kitchen sinks (KL Eq. 3): phi(x) . phi(y) estimates exp(-|x - y|^2 / 2).
Variable rks(const Variable& x, const Variable& Omega) {
  const Variable u = matmul(x, transpose(Omega, -2, -1));                            // (L, M)
  return concat({cos(u), sin(u)}, -1) / std::sqrt(static_cast<double>(u.size(-1)));  // (L, 2 M)
}

/// Positive features: c = 1/2 estimates exp(x . y) (PERF Lemma 1), c = 1 the Gaussian kernel (KL Eq. 9).
Variable prf(const Variable& x, const Variable& Omega, double c) {
  const Variable u = matmul(x, transpose(Omega, -2, -1));                 // (L, M)
  const Variable norm = sum(square(x), {-1}, true);                       // (L, 1)
  return exp(u - norm * c) / std::sqrt(static_cast<double>(u.size(-1)));  // (L, M)
}

TEST(Tour, Chapter2Features) {
  Generator generator(2);
  const Tensor x = sample({5, 3}, generator) * 0.3;
  const Tensor Omega = sample({200'000, 3}, generator);
  const auto kernel = [&](const Variable& phi) { return matmul(phi, transpose(phi, -2, -1)).value(); };
  const Tensor dots = matmul(x, x.transpose(0, 1));
  const Tensor squares = sum(square(x), {1}, true);
  const Tensor gaussian = exp(dots - (squares + squares.transpose(0, 1)) * 0.5);
  expect_close(kernel(rks(x, Omega)), gaussian, 0.02);
  expect_close(kernel(prf(x, Omega, 1)), gaussian, 0.05);
  expect_close(kernel(prf(x, Omega, 0.5)), exp(dots), 0.05);
  for (const double feature : prf(x, Omega, 1).value().to_vector<double>()) ASSERT_GT(feature, 0);
}

// ---- chapter 3

/// The definition: L x L weights.
Variable quadratic(const Variable& phi_q, const Variable& phi_k, const Variable& V) {
  const Variable weights = matmul(phi_q, transpose(phi_k, -2, -1));  // (B, H, L, L)
  return matmul(weights, V) / sum(weights, {-1}, true);              // (B, H, L, D)
}

/// The same, products taken in the other order: nothing of size L x L.
Variable linear(const Variable& phi_q, const Variable& phi_k, const Variable& V) {
  const Variable S = matmul(transpose(phi_k, -2, -1), V);  // (B, H, M, D)
  const Variable z = unsqueeze(sum(phi_k, {-2}), -1);      // (B, H, M, 1)
  return matmul(phi_q, S) / matmul(phi_q, z);              // (B, H, L, D)
}

/// The same again, and not even the L x M features are written.
Variable streaming(const Variable& Q, const Variable& K, const Variable& V, const Variable& Omega) {
  KernelAttentionSpec spec;
  spec.map = {.kind = FeatureMap::Kind::positive, .norm_factor = 0.5, .eps = 0};
  return kernel_attention(spec, Q, K, V, Omega, {});
}

TEST(Tour, Chapter3Attention) {
  Generator generator(3);
  const Shape shape{2, 2, 50, 4};
  const Variable Q = sample(shape, generator) * 0.5, K = sample(shape, generator) * 0.5, V = sample(shape, generator);
  const Variable Omega = sample({1, 16, 4}, generator);
  const Variable phi_q = prf(Q, Omega, 0.5), phi_k = prf(K, Omega, 0.5);
  const Tensor O = quadratic(phi_q, phi_k, V).value();
  expect_close(linear(phi_q, phi_k, V).value(), O, 1e-12);
  expect_close(streaming(Q, K, V, Omega).value(), O, 1e-12);
}

// ---- chapter 4

/// y = x^3:  dx = 3 x^2 g
Variable cube(const Variable& x) {
  const Tensor y = x.value() * square(x.value());
  return record("cube", y, {&x}, [x](const Variable& g) { return Gradients{g * square(x) * 3}; });
}

TEST(Tour, Chapter4Tape) {
  Tape tape;
  const Variable w = tape.watch(Tensor::scalar(3, DType::f64));
  const Variable y = cube(w) + sin(w);
  const Variable dy = tape.gradients(y, {w}, true)[0];  // 3 w^2 + cos w
  const Variable ddy = tape.gradients(dy, {w})[0];      // 6 w - sin w
  EXPECT_DOUBLE_EQ(dy.item(), 27 + std::cos(3));
  EXPECT_DOUBLE_EQ(ddy.item(), 18 - std::sin(3));

  const auto f = [](const std::vector<Variable>& in) { return cube(in[0]); };
  Generator generator(4);
  const std::vector<Tensor> inputs = {sample({3, 5}, generator)};
  EXPECT_EQ(gradcheck(f, inputs), "");        // against central differences, in f64
  EXPECT_EQ(gradcheck_twice(f, inputs), "");  // and its derivative's derivative
}

// ---- chapter 6

/// The losses of `steps` updates.
std::vector<double> train(int steps, uint64_t seed) {
  Generator init(seed), noise(seed + 1);
  SequenceClassifier model(
      {.vocabulary = 10, .length = 16, .classes = 10, .attention = {.mechanism = "performer", .heads = 2}}, init);
  AdamW optimizer(model.parameters());
  Context context{noise, true};
  std::vector<double> losses;
  for (int step = 0; step < steps; ++step) {
    const Tensor ids = integers({32, 16}, 0, 10, noise);
    Tape tape;
    const Variable loss = cross_entropy(model.forward(ids, {}, context), ids.select(1, 0));
    tape.backward(loss);
    optimizer.step(3e-3);
    optimizer.clear_gradients();
    losses.push_back(loss.item());
  }
  return losses;
}

TEST(Tour, Chapter6Training) {
  const int before = threads();
  set_threads(1);
  const std::vector<double> alone = train(5, 1);
  set_threads(2);
  EXPECT_EQ(train(5, 1), alone);  // the same bits
  set_threads(before);
  EXPECT_NE(train(5, 2), alone);
  EXPECT_LT(train(150, 1).back(), 0.5 * alone.front());
}

// ---- chapter 7

/// What is done with the input: (n, d), projections G (m, d) -> (n, 2 m). No weight comes near it.
Variable input_tower(const Variable& x, const Tensor& G) {
  const Variable angle = matmul(x, transpose(Variable(G), 0, 1));  // (n, m): g . x
  const Variable growth = exp(sum(square(x), {-1}, true) * 0.5);   // (n, 1)
  const double scale = 1 / std::sqrt(static_cast<double>(G.size(0)));
  return concat({cos(angle), sin(angle)}, -1) * growth * scale;
}

/// What is done with the weights of a layer: (outputs, d) and biases (outputs, 1) -> (outputs, 2 m). No input comes
/// near it.
Variable weight_tower(const Variable& W, const Variable& b, const Tensor& G) {
  const Variable size =
      exp(matmul(W, transpose(Variable(G), 0, 1)) - sum(square(W), {-1}, true) * 0.5);  // (outputs, m)
  const double scale = 1 / std::sqrt(static_cast<double>(G.size(0)));
  return concat({cos(b) * size, -(sin(b) * size)}, -1) * scale;
}

/// cos(W x + b) as a product of the two, each row of x alone.
Variable cosine_layer(const Variable& x, const Variable& W, const Variable& b, const Tensor& G) {
  return matmul(input_tower(x, G), transpose(weight_tower(W, b, G), 0, 1));  // (n, outputs)
}

TEST(Tour, Chapter7Snnk) {
  Generator generator(7);
  const Variable x = sample({5, 3}, generator) * 0.4, W = sample({4, 3}, generator) * 0.4,
                 b = sample({4, 1}, generator);
  const Tensor exact = cos(matmul(x, transpose(W, 0, 1)) + transpose(b, 0, 1)).value();
  const auto error = [&](int64_t m) {
    const Tensor found = cosine_layer(x, W, b, sample({m, 3}, generator)).value();
    return std::sqrt(mean(square(found - exact)).item());
  };
  double few = 0, many = 0;
  for (int i = 0; i < 20; ++i) few += error(100), many += error(10000);
  EXPECT_GT(few / many, 7);  // ten times less, up to chance
  EXPECT_LT(few / many, 14);

  Snnk hidden = Snnk::from(Linear({}, 3, 16, generator), "cos", 64, generator);
  Linear last({}, 16, 2, generator);
  const Bundle bundle({}, {&hidden, &last});
  const Variable input = x.value().cast(DType::f32);
  expect_close(bundle.forward(input).value(), last.forward(hidden.forward(input)).value(), 1e-4);
  EXPECT_EQ(bundle.outputs(), 2);
  EXPECT_EQ(bundle.features(input).shape(), (Shape{5, 64}));
}

// ---- chapter 8

/// The ops of one training step in the order in which they ran; what only fills, copies or scales is left out.
std::vector<std::string> ops_of_a_step() {
  Generator init(1), noise(2);
  SequenceClassifier model(
      {.vocabulary = 10, .length = 16, .classes = 10, .layers = 1, .attention = {.mechanism = "performer", .heads = 2}},
      init);
  AdamW optimizer(model.parameters());
  Context context{noise, true};
  const Tensor ids = integers({32, 16}, 0, 10, noise);
  trace::start();
  Tape tape;
  const Variable loss = cross_entropy(model.forward(ids, {}, context), ids.select(1, 0));
  tape.backward(loss);
  optimizer.step(3e-3);
  trace::stop();
  std::vector<std::string> ops;
  for (const trace::Event& event : trace::events()) {
    const std::string name = event.name;
    if (name != "fill" && name != "copy" && name != "mul_scalar" && name != "philox") ops.push_back(name);
  }
  return ops;
}

TEST(Tour, Chapter8Step) {
  const int before = threads();
  set_threads(1);
  const std::vector<std::string> ops = ops_of_a_step();
  set_threads(before);
  const std::vector<std::string> forward_of_a_block = {"linear", "kernel_attention", "linear", "feed_forward"};
  const std::vector<std::string> backward_of_a_block = {"feed_forward_backward", "linear_backward",
                                                        "kernel_attention_backward", "linear_backward"};
  const auto place = [&](const std::vector<std::string>& run) {
    return std::search(ops.begin(), ops.end(), run.begin(), run.end()) - ops.begin();
  };
  const auto end = static_cast<std::ptrdiff_t>(ops.size());
  EXPECT_EQ(ops.front(), "embedding");
  EXPECT_LT(place(forward_of_a_block), place({"cross_entropy"}));
  EXPECT_LT(place({"cross_entropy"}), place(backward_of_a_block));
  EXPECT_LT(place(backward_of_a_block), place({"embedding_backward"}));
  EXPECT_LT(place({"embedding_backward"}), end);
  EXPECT_EQ(ops.back(), "adam_step");
}

}  // namespace
}  // namespace bochner

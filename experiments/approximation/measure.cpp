#include "experiments/approximation/measure.h"

#include <cmath>

#include "engine/ops/binary.h"
#include "engine/ops/index.h"
#include "engine/ops/join.h"
#include "engine/ops/linalg.h"
#include "engine/ops/matmul.h"
#include "engine/ops/norm.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"

namespace bochner {
namespace {

Tensor attend(MechanismOptions options, const Tensor& Q, const Tensor& K, const Tensor& V, Generator& generator) {
  options.set_default_length(K.size(2));
  const auto mechanism = make_mechanism({}, Q.size(1), Q.size(3), options, generator);
  mechanism->to(Device::cpu(), Q.dtype());
  Context context{generator, false};
  return mechanism->forward(Q, K, V, {}, context).value();
}

/// A measured error, or a number that it is computed from. An Error if that is not finite.
double checked(double error) {
  if (!std::isfinite(error)) {
    fail("the error is no finite number: queries and keys are too large; take smaller ones, by --scales");
  }
  return error;
}

/// O = A~ V / A~ 1 with A~ = B (S^T B S)^+ B of the matrix B = exp(x y^T / sqrt D) of queries and keys together.
Tensor nystrom_softmax(const Tensor& Q, const Tensor& K, const Tensor& V, int64_t landmarks, Generator& generator) {
  const double scale = std::pow(static_cast<double>(Q.size(-1)), -0.25);
  const Tensor q = Q * scale;
  const Tensor k = K * scale;
  const Tensor all = concat(std::vector<Tensor>{q, k}, 2);
  const Tensor rows = integers({landmarks}, 0, all.size(2), generator);
  const Tensor z = take(all, rows, 2);  // (1, 1, M, D)
  // All entries get a common factor e^-s, which keeps them finite and cancels in the quotient.
  const auto scores = [](const Tensor& x, const Tensor& y) { return matmul(x, y.transpose(-2, -1)); };
  const Tensor zz = scores(z, z);
  const double s = amax(zz).item();
  const Tensor to_queries = exp(scores(q, z) - s);
  const Tensor to_keys = exp(scores(z, k) - s);
  const Tensor inverse = pinv(exp(zz - s));
  const Tensor weights = matmul(inverse, matmul(to_keys, V));
  const Tensor sums = matmul(inverse, sum(to_keys, {-1}, true));
  return matmul(to_queries, weights) / matmul(to_queries, sums);
}

}  // namespace

KernelErrors kernel_errors(double length, double angle) {
  const double l2 = length * length;
  const double plus2 = 2 * l2 * (1 + std::cos(angle));   // |x + y|^2
  const double minus2 = 2 * l2 * (1 - std::cos(angle));  // |x - y|^2
  const double kernel = std::exp(l2 * std::cos(angle));
  return {.trigonometric = std::exp(plus2) / (2 * kernel * kernel) * std::pow(1 - std::exp(-minus2), 2),
          .positive = std::exp(plus2) * kernel * kernel * (1 - std::exp(-plus2))};
}

double error_ratio(double length, double angle) {
  const double l2 = length * length;
  const double plus2 = 2 * l2 * (1 + std::cos(angle));
  const double minus2 = 2 * l2 * (1 - std::cos(angle));
  const double kernel = std::exp(l2 * std::cos(angle));
  return std::pow(1 - std::exp(-minus2), 2) / (2 * std::pow(kernel, 4) * (1 - std::exp(-plus2)));
}

double output_error(const MechanismOptions& mechanism, int64_t length, int64_t dim, double scale,
                    Generator& generator) {
  const auto random = [&](double deviation) { return normal({1, 1, length, dim}, generator, 0, deviation); };
  const Tensor Q = random(scale);
  const Tensor K = random(scale);
  const Tensor V = random(1);
  return checked(mean(square(attend(mechanism, Q, K, V, generator) - attend("softmax", Q, K, V, generator))).item());
}

std::vector<double> layered_errors(const MechanismOptions& mechanism, const Stack& stack, Generator& generator) {
  const int64_t size = stack.heads * stack.dim;
  Tensor x = normal({1, stack.length, size}, generator);
  Tensor y = x;
  const auto weights = [&](int64_t rows, int64_t columns) {
    return normal({rows, columns}, generator, 0, 1 / std::sqrt(static_cast<double>(rows)));
  };
  const auto normed = [](const Tensor& in) { return layer_norm(in, {}, {}).y; };
  std::vector<double> errors;
  for (int64_t layer = 0; layer < stack.layers; ++layer) {
    const Tensor Wq = weights(size, size), Wk = weights(size, size), Wv = weights(size, size);
    const Tensor W1 = stack.hidden > 0 ? weights(size, stack.hidden) : Tensor();
    const Tensor W2 = stack.hidden > 0 ? weights(stack.hidden, size) : Tensor();
    const auto block = [&](const Tensor& in, const MechanismOptions& options) {
      const auto heads = [&](const Tensor& W) {  // (1, L, H D) -> (1, H, L, D)
        return matmul(in, W).view({1, stack.length, stack.heads, stack.dim}).transpose(1, 2).contiguous();
      };
      const Tensor O = attend(options, heads(Wq), heads(Wk), heads(Wv), generator);
      const Tensor a = normed(in + O.transpose(1, 2).reshape({1, stack.length, size}));
      return stack.hidden > 0 ? normed(a + matmul(gelu(matmul(a, W1)), W2)) : a;
    };
    x = block(x, mechanism);
    y = block(y, "softmax");
    const Tensor distance = sqrt(sum(square(x - y), {2}));
    errors.push_back(checked(mean(distance / sqrt(sum(square(y), {2}))).item()));
  }
  return errors;
}

double spectral_error(const std::string& method, int64_t features, const AttentionInputs& inputs,
                      Generator& generator) {
  const auto& [Q, K, V] = inputs;
  const auto norm = [](const Tensor& x) {
    checked(sum(square(x)).item());
    return svd(x.reshape({x.size(2), x.size(3)})).s.to_vector<double>().front();
  };
  const Tensor exact = attend("softmax", Q, K, V, generator);
  const double whole = norm(exact);
  const Tensor found = method == "nystrom"
                           ? nystrom_softmax(Q, K, V, features, generator)
                           : attend(MechanismOptions(method).set_known({{"features", features}, {"convolution", 0}}), Q,
                                    K, V, generator);
  if (whole == 0) fail("the output of softmax attention is 0, so that no error can be compared with it");
  return norm(found - exact) / whole;
}

}  // namespace bochner

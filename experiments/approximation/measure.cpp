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

Tensor attend(const std::string& name, const AttentionOptions& options, const Tensor& Q, const Tensor& K,
              const Tensor& V, Generator& generator) {
  AttentionOptions chosen = options;
  if (chosen.length == 0) chosen.length = K.size(2);
  const auto mechanism = mechanism_named(name).make({}, Q.size(1), Q.size(3), chosen, generator);
  mechanism->to(Device::cpu(), Q.dtype());
  Context context{generator, false};
  return mechanism->forward(Q, K, V, {}, context).value();
}

/// O = A~ V / A~ 1 with A~ = B (S^T B S)^+ B of the matrix B = exp(x y^T / sqrt D) of queries and keys together.
Tensor nystrom_softmax(const Tensor& Q, const Tensor& K, const Tensor& V, int64_t landmarks, Generator& generator) {
  const double scale = std::pow(static_cast<double>(Q.size(-1)), -0.25);
  const Tensor q = Q * scale;
  const Tensor k = K * scale;
  const Tensor all = concat(std::vector<Tensor>{q, k}, 2);
  const Tensor rows = integers({landmarks}, 0, all.size(2), generator);
  const Tensor z = take(all, rows, 2);  // (1, 1, M, D)
  // A common factor e^-s of all entries cancels in the quotient, and keeps them finite.
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

Spread spread_of(const std::vector<double>& values) {
  Spread result;
  const auto n = static_cast<double>(values.size());
  for (const double value : values) result.mean += value / n;
  for (const double value : values) result.deviation += (value - result.mean) * (value - result.mean);
  result.deviation = values.size() < 2 ? 0 : std::sqrt(result.deviation / (n - 1));
  return result;
}

double error_ratio(double length, double angle) {
  const double l2 = length * length;
  const double plus2 = 2 * l2 * (1 + std::cos(angle));   // |x + y|^2
  const double minus2 = 2 * l2 * (1 - std::cos(angle));  // |x - y|^2
  const double kernel = std::exp(l2 * std::cos(angle));
  const double trigonometric = std::pow(1 - std::exp(-minus2), 2) / (2 * kernel * kernel);
  return trigonometric / (kernel * kernel * (1 - std::exp(-plus2)));
}

double output_error(const std::string& mechanism, const AttentionOptions& options, int64_t length, int64_t dim,
                    Generator& generator) {
  const auto random = [&] { return normal({1, 1, length, dim}, generator); };
  const Tensor Q = random();
  const Tensor K = random();
  const Tensor V = random();
  return mean(square(attend(mechanism, options, Q, K, V, generator) - attend("softmax", {}, Q, K, V, generator)))
      .item();
}

double layered_error(const std::string& mechanism, const AttentionOptions& options, int64_t length, int64_t dim,
                     int64_t layers, Generator& generator) {
  Tensor x = normal({length, dim}, generator);
  Tensor y = x;
  for (int64_t layer = 0; layer < layers; ++layer) {
    const double deviation = 1 / std::sqrt(static_cast<double>(dim));
    std::vector<Tensor> W;
    for (int i = 0; i < 3; ++i) W.push_back(normal({dim, dim}, generator, 0, deviation));
    const auto block = [&](const Tensor& in, const std::string& name) {
      const auto projected = [&](int i) { return matmul(in, W[static_cast<size_t>(i)]).view({1, 1, length, dim}); };
      const Tensor O = attend(name, options, projected(0), projected(1), projected(2), generator);
      return layer_norm(in + O.reshape({length, dim}), {}, {}).y;
    };
    x = block(x, mechanism);
    y = block(y, "softmax");
  }
  const Tensor distance = sqrt(sum(square(x - y), {1}));
  return mean(distance / sqrt(sum(square(y), {1}))).item();
}

double spectral_error(const std::string& method, const AttentionOptions& options, const Tensor& Q, const Tensor& K,
                      const Tensor& V, Generator& generator) {
  const Tensor exact = attend("softmax", {}, Q, K, V, generator);
  const Tensor found = method == "nystrom" ? nystrom_softmax(Q, K, V, options.features, generator)
                                           : attend(method, options, Q, K, V, generator);
  const auto norm = [](const Tensor& x) {
    return svd(x.reshape({x.size(2), x.size(3)})).s.to_vector<double>().front();
  };
  return norm(found - exact) / norm(exact);
}

}  // namespace bochner

// The promises of the ops of autograd/ops/linalg.h, and samples to check them.
#include "autograd/ops/linalg.h"
#include <cmath>
#include <utility>
#include "autograd/ops/binary.h"
#include "autograd/ops/join.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/view.h"
#include "autograd/tape.h"
#include "engine/ops/linalg.h"

#include "tests/autograd/op_info.h"

namespace bochner {

namespace {

Variable symmetric(const Variable& x) { return (x + transpose(x, -2, -1)) * 0.5; }

using Inputs = std::vector<Variable>;

/// step, 2 step, ... on the diagonal: added to samples, it keeps singular values apart and away from 0.
Tensor spread(int64_t m, int64_t n, double step) {
  std::vector<double> values(static_cast<size_t>(m * n), 0);
  for (int64_t i = 0; i < std::min(m, n); ++i)
    values[static_cast<size_t>(i * n + i)] = step * static_cast<double>(i + 1);
  return Tensor::from(values, {m, n});
}

/// All outputs in one row, squared: a vector's sign is arbitrary.
Variable together(const Inputs& outputs) {
  std::vector<Variable> flat;
  for (const Variable& output : outputs) flat.push_back(square(reshape(output, {output.size()})));
  return concat(flat, 0);
}

OpInfo describe(const char* name, const char* equation, const char* source, const std::vector<Shape>& shapes,
                double step, const std::function<Variable(const Variable&)>& f) {
  OpInfo info{name, equation, source, {}, {}};
  uint64_t seed = 2600;
  for (const Shape& shape : shapes) {
    for (const auto& [label, x] : sample_layouts(shape, ++seed, -1, 1)) {
      const Tensor apart = spread(shape[-2], shape[-1], step);
      info.samples.push_back({label, {x}, [f, apart](const Inputs& in) { return f(in[0] + beside(in[0], apart)); }});
    }
  }
  info.refused = {[f] { f(Tensor::zeros({3})); },
                  [f] {
                    f(Tensor::zeros({2, 2}, DType::i64));
                  },
                  [f] {
                    f(Tensor::full({2, 2}, NAN));
                  }};
  return info;
}

/// Systems with one matrix for many right-hand sides, and the other way round.
OpInfo describe_system(const char* name, const char* equation,
                       const std::function<Variable(const Variable&, const Variable&)>& f) {
  OpInfo info{name, equation, "", {}, {}};
  const std::vector<std::pair<Shape, Shape>> shapes = {
      {{3, 3}, {3, 2}}, {{1, 1}, {1, 5}},    {{5, 5}, {5, 1}},    {{0, 0}, {0, 2}},
      {{2, 2}, {2, 0}}, {{3, 3}, {2, 3, 2}}, {{2, 3, 3}, {3, 1}}, {{2, 1, 2, 2}, {3, 2, 1}}};
  uint64_t seed = 2700;
  for (const auto& [left, right] : shapes) {
    for (const auto& [label, a] : sample_layouts(left, ++seed, -1, 1)) {
      const Tensor apart = spread(left[-2], left[-1], 3);
      const auto others = sample_layouts(right, ++seed);
      const auto& [other, b] = others[seed % others.size()];
      info.samples.push_back({label + " with " + other, {a, b}, [f, apart](const Inputs& in) {
                                return f(in[0] + beside(in[0], apart), in[1]);
                              }});
    }
  }
  info.refused = {[f] {
                    f(Tensor::full({2, 2}, 1), Tensor::zeros({3, 1}));
                  },
                  [f] {
                    f(Tensor::full({2, 2}, 1), Tensor::zeros({2, 1}, DType::f64));
                  }};
  return info;
}

}  // namespace

void describe_linalg(OpInfos& infos) {
  const std::vector<Shape> squares = {{3, 3}, {1, 1}, {5, 5}, {0, 0}, {2, 3, 3}, {2, 2}, {0, 2, 2}};
  const std::vector<Shape> matrices = {{3, 3}, {1, 1}, {5, 3}, {2, 5}, {0, 3}, {2, 4, 2}, {3, 1}, {1, 4}};
  const char* const kWalter = "Walter & Lehmann, 2010";
  infos.push_back(describe("qr", "A = Q R", kWalter, matrices, 3, [](const Variable& a) {
    const auto [q, r] = qr(a, a.size(-1) % 2 == 0);
    return together({q, r});
  }));
  infos.push_back(describe("eigh", "A = V diag(w) V^T", "", squares, 3, [](const Variable& a) {
    const auto [w, v] = eigh(symmetric(a));
    return together({w, v});
  }));
  infos.back().refused.push_back([] { eigh(Variable(Tensor::zeros({2, 3}))); });
  infos.push_back(describe("svd", "A = U diag(s) V^T", "Townsend, 2016", matrices, 3, [](const Variable& a) {
    const auto [u, s, vt] = svd(a);
    return together({u, s, vt});
  }));
  infos.push_back(describe("cholesky", "A = L L^T", "Murray, 2016", squares, 4,
                           [](const Variable& a) { return cholesky(symmetric(a)); }));
  infos.back().refused.push_back([] { cholesky(Variable(Tensor::full({2, 2}, -1))); });
  infos.push_back(describe("pinv", "A^+ = V diag(1/s) U^T", "Golub & Pereyra, 1973", matrices, 3,
                           [](const Variable& a) { return pinv(a); }));
  infos.push_back(describe_system("triangular_solve", "T X = B", [](const Variable& t, const Variable& b) {
    return triangular_solve(t, b) + square(triangular_solve(t, b, false)) + triangular_solve(t, b, true, true) +
           triangular_solve(t, b, false, true);
  }));
  infos.push_back(describe_system("cholesky_solve", "L L^T X = B",
                                  [](const Variable& l, const Variable& b) { return cholesky_solve(l, b); }));
  infos.push_back(
      describe_system("solve", "A X = B", [](const Variable& a, const Variable& b) { return solve(a, b); }));
  infos.back().refused.push_back([] { solve(Variable(Tensor::zeros({2, 2})), Variable(Tensor::zeros({2, 1}))); });
  infos.push_back(describe_system("least_squares", "X minimises |A X - B|^2 + ridge |X|^2",
                                  [](const Variable& a, const Variable& b) {
                                    const Variable tall = slice(a, -1, 0, (a.size(-1) + 1) / 2);
                                    return square(least_squares(tall, b)) + least_squares(tall, b, 0.3);
                                  }));
}

const bool kLinalgDescribed = add_family(describe_linalg);

}  // namespace bochner

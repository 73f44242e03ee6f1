// Kernel attention by its definition, in double precision, with every weight computed separately, and problems on which
// the op is compared with it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>
#include <vector>

#include "engine/ops/attention/kernel_attention.h"
#include "engine/ops/copy.h"
#include "engine/random.h"
#include "tests/engine/ops/padding.h"

namespace bochner::testing_kernel_attention {

using Kind = FeatureMap::Kind;
using Function = FeatureMap::Function;
using Values = std::vector<double>;

struct Problem {
  Tensor Q, K, V, Omega, dO, keys;
  KernelAttentionSpec spec;

  KernelAttentionResult attend() const { return kernel_attention(spec, Q, K, V, Omega, keys); }
  KernelAttentionGradients gradients(const KernelAttentionResult& forward) const {
    return kernel_attention_backward(spec, dO, Q, K, V, Omega, keys, forward, true);
  }
};

inline double function_of(Function f, double u) {
  switch (f) {
    case Function::elu_plus_one:
      return u > 0 ? u + 1 : std::exp(u);
    case Function::relu:
      return std::max(u, 0.0);
    case Function::sigmoid:
      return 1 / (1 + std::exp(-u));
    case Function::exp:
      return std::exp(u);
    case Function::abs:
      return std::abs(u);
    case Function::gelu:
      return 0.5 * u * (1 + std::erf(u / std::numbers::sqrt2));
    case Function::cos:
      return std::cos(u);
    case Function::tanh:
      return std::tanh(u);
    case Function::identity:
      return u;
    case Function::sgn:
      return static_cast<double>((u > 0) - (u < 0));
  }
  return 0;
}

/// The exponents of one token: one per feature (positive, hyperbolic) or one for all.
inline Values exponents_of(const FeatureMap& map, const Values& u, double norm) {
  Values e;
  if (map.kind == Kind::softmax_trigonometric) return {norm / 2};
  for (const double value : u) e.push_back(value - map.norm_factor * norm);
  if (map.kind == Kind::hyperbolic) {
    for (const double value : u) e.push_back(-value - map.norm_factor * norm);
  }
  return e;
}

inline Values features_of(const FeatureMap& map, const Values& u, double norm, double shift) {
  Values phi;
  const Values e = map.has_exponent() ? exponents_of(map, u, norm) : Values();
  if (map.kind == Kind::positive || map.kind == Kind::hyperbolic) {
    const double eps = map.absolute_eps ? map.eps * std::exp(-shift) : map.eps;
    for (const double value : e) phi.push_back(std::exp(value - shift) + eps);
  } else if (map.kind == Kind::elementwise) {
    for (const double value : u) phi.push_back(function_of(map.function, value) + map.eps);
  } else {
    const double h = map.has_exponent() ? std::exp(e[0] - shift) : 1;
    for (const double value : u) phi.push_back(h * std::cos(value));
    for (const double value : u) phi.push_back(h * std::sin(value));
  }
  if (map.constant != 0) phi.push_back(map.constant);
  return phi;
}

/// O by the definition.
inline Values reference(const Problem& p) {
  const auto Q = p.Q.to_vector<double>();
  const auto K = p.K.to_vector<double>();
  const auto V = p.V.to_vector<double>();
  const auto Omega = p.Omega.defined() ? p.Omega.to_vector<double>() : Values();
  const auto mask = p.keys.defined() ? p.keys.to_vector<double>() : Values();
  const auto B = p.Q.size(0), H = p.Q.size(1), N = p.Q.size(2), M = p.K.size(2), D = p.Q.size(3), E = p.V.size(3);
  Values O(static_cast<size_t>(B * H * N * E));
  const auto token = [&](const Values& x, int64_t row, int64_t h, double& norm) {
    Values u;
    norm = 0;
    const double* at = &x[static_cast<size_t>(row * D)];
    for (int64_t d = 0; d < D; ++d) norm += p.spec.scale * at[d] * p.spec.scale * at[d];
    if (Omega.empty()) {
      for (int64_t d = 0; d < D; ++d) u.push_back(p.spec.scale * at[d]);
      return u;
    }
    const int64_t rows = p.Omega.size(1);
    for (int64_t m = 0; m < rows; ++m) {
      double sum = 0;
      const double* w = &Omega[static_cast<size_t>(((p.Omega.size(0) == 1 ? 0 : h) * rows + m) * D)];
      for (int64_t d = 0; d < D; ++d) sum += p.spec.scale * at[d] * w[d];
      u.push_back(sum);
    }
    return u;
  };
  // A shifted eps is at most 1.
  const bool floors = p.spec.map.absolute_eps && p.spec.map.eps > 0;
  const double floor = floors ? std::log(p.spec.map.eps) : -std::numeric_limits<double>::infinity();
  for (int64_t bh = 0; bh < B * H; ++bh) {
    std::vector<Values> u(static_cast<size_t>(M));
    Values norms(u.size());
    Values tops(u.size());
    std::vector<Values> phi(u.size());  // of the keys, with shift_of_phi
    double shift_of_phi = std::numeric_limits<double>::quiet_NaN();
    const auto real = [&](int64_t j) { return mask.empty() || mask[static_cast<size_t>(bh / H * M + j)] != 0; };
    for (int64_t j = 0; j < M; ++j) {
      const auto at = static_cast<size_t>(j);
      u[at] = token(K, bh * M + j, bh % H, norms[at]);
      const Values e = p.spec.map.has_exponent() ? exponents_of(p.spec.map, u[at], norms[at]) : Values{0};
      tops[at] = std::max(*std::max_element(e.begin(), e.end()), floor);
    }
    for (int64_t i = 0; i < N; ++i) {
      double norm = 0;
      const Values uq = token(Q, bh * N + i, bh % H, norm);
      double query_shift = 0;
      double key_shift = -std::numeric_limits<double>::infinity();
      const auto visible = [&](int64_t j) { return real(j) && !(p.spec.causal && j > i); };
      for (int64_t j = 0; j < M; ++j)
        key_shift = visible(j) ? std::max(key_shift, tops[static_cast<size_t>(j)]) : key_shift;
      if (p.spec.shifts()) {
        const Values e = exponents_of(p.spec.map, uq, norm);
        query_shift = std::max(*std::max_element(e.begin(), e.end()), floor);
      } else {
        key_shift = 0;
      }
      if (key_shift != shift_of_phi && std::isfinite(key_shift)) {
        shift_of_phi = key_shift;
        for (size_t j = 0; j < phi.size(); ++j) phi[j] = features_of(p.spec.map, u[j], norms[j], key_shift);
      }
      const Values phi_q = features_of(p.spec.map, uq, norm, query_shift);
      double total = 0;
      double* o = &O[static_cast<size_t>((bh * N + i) * E)];
      for (int64_t j = 0; j < M; ++j) {
        if (!visible(j)) continue;
        const Values& phi_k = phi[static_cast<size_t>(j)];
        double weight = 0;
        for (size_t m = 0; m < phi_q.size(); ++m) weight += phi_q[m] * phi_k[m];
        total += weight;
        for (int64_t d = 0; d < E; ++d) o[d] += weight * V[static_cast<size_t>((bh * M + j) * E + d)];
      }
      if (!p.spec.renormalise) continue;
      total += p.spec.denominator_eps;
      for (int64_t d = 0; d < E; ++d) o[d] = total != 0 ? o[d] / total : 0;
    }
  }
  return O;
}

struct Sizes {
  int64_t batch = 2, heads = 2, queries = 70, keys = 70, dim = 8, value_dim = 8, frequencies = 16;
};

inline Problem problem(const Sizes& s, const KernelAttentionSpec& spec, DType dtype, uint64_t seed) {
  Generator generator(seed);
  Problem p;
  p.spec = spec;
  p.Q = normal({s.batch, s.heads, s.queries, s.dim}, generator, 0, 1, dtype);
  p.K = normal({s.batch, s.heads, s.keys, s.dim}, generator, 0, 1, dtype);
  p.V = normal({s.batch, s.heads, s.keys, s.value_dim}, generator, 0, 1, dtype);
  p.dO = normal({s.batch, s.heads, s.queries, s.value_dim}, generator, 0, 1, dtype);
  if (s.frequencies > 0) p.Omega = normal({seed % 2 == 0 ? 1 : s.heads, s.frequencies, s.dim}, generator, 0, 1, dtype);
  p.spec.scale = std::pow(static_cast<double>(s.dim), -0.25);
  return p;
}

inline const std::vector<FeatureMap>& maps() {
  static const std::vector<FeatureMap> list = [] {
    std::vector<FeatureMap> all = {{.kind = Kind::positive, .eps = 1e-3},
                                   {.kind = Kind::positive, .norm_factor = 1, .eps = 0},
                                   {.kind = Kind::positive, .eps = 0.1, .constant = 0.5},
                                   {.kind = Kind::hyperbolic, .eps = 1e-3},
                                   {.kind = Kind::trigonometric, .eps = 0, .constant = 4},
                                   {.kind = Kind::softmax_trigonometric, .eps = 0.3},
                                   {.kind = Kind::softmax_trigonometric, .eps = 0, .constant = 5}};
    for (const auto& [name, function] : kFeatureFunctions) {
      const bool signed_values = function == Function::identity || function == Function::tanh ||
                                 function == Function::cos || function == Function::gelu || function == Function::sgn;
      all.push_back({.kind = Kind::elementwise, .function = function, .eps = signed_values ? 4.0 : 1e-3});
    }
    // One eps that matters if exponentials are small, and one that is larger than all of them.
    all.push_back({.kind = Kind::positive, .norm_factor = 1, .eps = 1e-3, .absolute_eps = true});
    all.push_back({.kind = Kind::hyperbolic, .eps = 30, .absolute_eps = true});
    return all;
  }();
  return list;
}

/// A quotient with a denominator near 0 says nothing about the kernel, so it gets a wide tolerance.
inline void check_forward(const Problem& p, double tolerance) {
  const Values expected = reference(p);
  const auto found = p.attend().O.to_vector<double>();
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i]))) << "O at " << i;
  }
}

/// f(x) = <O, dO>: compares the gradients with central differences. Shifts cancel if eps is 0, and are then not part of
/// the gradient.
inline void check_gradients(const Problem& p, int64_t step) {
  const auto grads = p.gradients(p.attend());
  // Smooth maps take large steps of fourth order, which lose fewer digits.
  const bool kinks = p.spec.map.kind == Kind::elementwise &&
                     (p.spec.map.function == Function::relu || p.spec.map.function == Function::abs ||
                      p.spec.map.function == Function::elu_plus_one || p.spec.map.function == Function::sgn);
  const auto loss = [&] {
    const auto O = p.attend().O.to_vector<double>();
    const auto dO = p.dO.to_vector<double>();
    double sum = 0;
    for (size_t i = 0; i < O.size(); ++i) sum += O[i] * dO[i];
    return sum;
  };
  const std::pair<const char*, std::pair<Tensor, Tensor>> all[] = {
      {"dQ", {p.Q, grads.dQ}}, {"dK", {p.K, grads.dK}}, {"dV", {p.V, grads.dV}}, {"dOmega", {p.Omega, grads.dOmega}}};
  for (const auto& [name, pair] : all) {
    const auto& [x, dx] = pair;
    if (!x.defined()) continue;
    const auto found = dx.to_vector<double>();
    for (int64_t i = 0; i < x.size(); i += step) {
      double& at = x.data<double>()[i];
      const double value = at;
      const auto loss_at = [&](double change) {
        at = value + change;
        const double result = loss();
        at = value;
        return result;
      };
      const auto difference = [&](double h) { return (loss_at(h) - loss_at(-h)) / (2 * h); };
      const double expected = kinks ? difference(1e-5) : (4 * difference(1e-3) - difference(2e-3)) / 3;
      const double g = found[static_cast<size_t>(i)];
      ASSERT_NEAR(expected, g, 1e-7 * std::max(1.0, std::abs(g))) << name << " at " << i;
    }
  }
}

}  // namespace bochner::testing_kernel_attention

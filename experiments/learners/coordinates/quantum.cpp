#include "experiments/learners/coordinates/quantum.h"

#include <cmath>
#include <numbers>

#include "autograd/ops/binary.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/unary.h"
#include "autograd/ops/view.h"
#include "engine/ops/binary.h"
#include "engine/ops/join.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "layers/models/siren.h"

namespace bochner::qpnn {
namespace {

/// The coordinates u and v, each (n, 1), of x (n, 2).
template <class Array>
std::pair<Array, Array> normal_coordinates(const Array& first, const Array& second, bool rotated) {
  if (!rotated) return {first, second};
  const double root = 1 / std::numbers::sqrt2;
  return {(first + second) * root, (first - second) * root};
}

}  // namespace

System System::harmonic() { return {1, 1, false}; }

System System::two_body(double spring) {
  if (!(spring >= 0)) fail("qpnn: a spring of strength {}; at least 0", spring);
  return {1, std::sqrt(1 + 2 * spring), true};
}

System System::named(const std::string& name, double spring) {
  if (name == "harmonic") return harmonic();
  if (name == "two-body") return two_body(spring);
  fail("qpnn: there is no system '{}'; there are harmonic and two-body", name);
}

Variable System::wavefunction(int state, const Variable& x) const {
  if (state < 0 || state >= kStates) fail("qpnn: state {}; there are 0 to {}", state, kStates - 1);
  const auto [u, v] = normal_coordinates(slice(x, 1, 0, 1), slice(x, 1, 1, 2), rotated_);
  Variable psi = exp((square(u) * a_ + square(v) * b_) * -0.5);
  if (state % 2 == 1) psi = psi * u * std::sqrt(a_);
  if (state / 2 == 1) psi = psi * v * std::sqrt(b_);
  return psi;
}

double System::energy(int state) const { return a_ * (state % 2 + 0.5) + b_ * (state / 2 + 0.5); }

Tensor System::potential(const Tensor& x) const {
  const auto [u, v] = normal_coordinates(x.slice(1, 0, 1), x.slice(1, 1, 2), rotated_);
  return ((square(u) * (a_ * a_) + square(v) * (b_ * b_)) * 0.5).reshape({x.size(0)});
}

Observations observe(const System& system, int states, int64_t n, double box, Generator& generator) {
  const Tensor x = uniform({n, 2}, generator, -box, box, DType::f64);
  std::vector<Tensor> psi;
  std::vector<Tensor> kinetic;
  for (int state = 0; state < states; ++state) {
    const FieldDerivatives found =
        field_derivatives([&](const Variable& at) { return system.wavefunction(state, at); }, x);
    psi.push_back(found.value.cast(DType::f32));
    kinetic.push_back((found.laplacian * -0.5).cast(DType::f32));
  }
  return {x.cast(DType::f32), stack(psi, 1), stack(kinetic, 1)};
}

Variable schrodinger_residual(const Variable& V, const Tensor& psi, const Tensor& kinetic) {
  const Variable state = psi;
  const Variable norm = mean(square(state), {0});          // (states)
  const Variable H = Variable(kinetic) + V * state;        // (n, states): H psi
  const Variable E = mean(state * H, {0}) / norm;          // (states)
  const Variable rest = mean(square(H - E * state), {0});  // (states)
  return sum(rest / norm);
}

PotentialError potential_error(const Tensor& V, const Tensor& truth, const Tensor& rho) {
  const std::vector<double> found = V.to_vector<double>();
  const std::vector<double> exact = truth.to_vector<double>();
  const std::vector<double> weight = rho.to_vector<double>();
  double total = 0;
  double shift = 0;
  double mean = 0;
  for (size_t i = 0; i < weight.size(); ++i) {
    total += weight[i];
    shift += weight[i] * (found[i] - exact[i]);
    mean += weight[i] * exact[i];
  }
  shift /= total;
  mean /= total;
  double rest = 0;
  double spread = 0;
  for (size_t i = 0; i < weight.size(); ++i) {
    rest += weight[i] * std::pow(found[i] - exact[i] - shift, 2);
    spread += weight[i] * std::pow(exact[i] - mean, 2);
  }
  return {std::sqrt(rest / spread), shift};
}

}  // namespace bochner::qpnn

// The systems of qpnn, and its loss, are as their header says.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/ops/binary.h"
#include "engine/ops/unary.h"
#include "experiments/learners/coordinates/quantum.h"

namespace bochner::qpnn {
namespace {

Tensor column(const Tensor& V) { return V.cast(DType::f32).unsqueeze(1); }

TEST(Quantum, EveryStateSolvesItsEquation) {
  for (const System& system : {System::harmonic(), System::two_body(2)}) {
    Generator generator(1);
    const Observations seen = observe(system, System::kStates, 50, 2, generator);
    const std::vector<double> V = system.potential(seen.points.cast(DType::f64)).to_vector<double>();
    const std::vector<double> psi = seen.psi.to_vector<double>();
    const std::vector<double> kinetic = seen.kinetic.to_vector<double>();
    for (size_t i = 0; i < psi.size(); ++i) {
      const int state = static_cast<int>(i % System::kStates);
      EXPECT_NEAR(kinetic[i] + V[i / System::kStates] * psi[i], system.energy(state) * psi[i], 1e-5) << state;
    }
  }
}

TEST(Quantum, TheLossIsLeastAtTheTruePotentialUpToAConstant) {
  const System system = System::two_body(1);
  Generator generator(2);
  const Observations seen = observe(system, 2, 400, 2, generator);
  const Tensor V = column(system.potential(seen.points.cast(DType::f64)));
  EXPECT_LT(schrodinger_residual(Variable(V), seen.psi, seen.kinetic).item(), 1e-9);
  EXPECT_LT(schrodinger_residual(Variable(V + 3), seen.psi, seen.kinetic).item(), 1e-9);
  EXPECT_GT(schrodinger_residual(Variable(V * 1.1), seen.psi, seen.kinetic).item(), 1e-4);
}

TEST(Quantum, ErrorsForgetAConstantAndCountWhereTheParticlesAre) {
  const Tensor truth = Tensor::from<double>({0, 1, 2, 3}, {4});
  const Tensor rho = Tensor::from<double>({1, 1, 1, 0}, {4});
  ASSERT_EQ(rho.to_vector<double>(), (std::vector<double>{1, 1, 1, 0}));
  const PotentialError shifted = potential_error(Tensor::from<double>({5, 6, 7, -90}, {4}), truth, rho);
  EXPECT_NEAR(shifted.relative, 0, 1e-12);
  EXPECT_NEAR(shifted.shift, 5, 1e-12);
  EXPECT_NEAR(potential_error(Tensor::zeros({4}), truth, rho).relative, 1, 1e-12);
}

TEST(Quantum, RefusesWhatThereIsNot) {
  EXPECT_THROW(System::named("hydrogen", 1), Error);
  EXPECT_THROW(System::two_body(-1), Error);
}

}  // namespace
}  // namespace bochner::qpnn

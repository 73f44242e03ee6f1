#include "layers/snnk/universal.h"

#include <cmath>
#include <numbers>

#include "autograd/ops/binary.h"
#include "autograd/ops/view.h"
#include "engine/ops/binary.h"
#include "engine/ops/join.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"

namespace bochner {
namespace {

constexpr double kTurn = 2 * std::numbers::pi;

const UniversalOptions& checked(const UniversalOptions& options) {
  if (options.features < 2 || options.features % 2 != 0) {
    fail("universal random features: {} features; they come in pairs, so an even number", options.features);
  }
  if (!(options.A <= 0) || !std::isfinite(options.A)) {
    fail("universal random features: A = {}; it must be finite and at most 0", options.A);
  }
  if (!(options.eta > 0) || !(options.scale > 0)) {
    fail("universal random features: eta {} and scale {} must be positive", options.eta, options.scale);
  }
  return options;
}

Projection drawn(int64_t inputs, const UniversalOptions& options, Generator& init) {
  const UniversalOptions& o = checked(options);
  return {.G = gaussian_rows(o.features / 2, inputs, o.orthogonal, init) * o.scale, .scale = o.scale};
}

}  // namespace

double optimal_A(double square_norm, int64_t dim) {
  if (!(square_norm >= 0) || dim < 1) fail("optimal A: |w|^2 = {} in {} dimensions", square_norm, dim);
  const double q = 2 * square_norm / static_cast<double>(dim);
  const double v = ((1 + q) + std::sqrt((1 + q) * (1 + q) + 4 * q)) / 2;
  return (1 - v) / 8;
}

UniversalFeatures::UniversalFeatures(Slot slot, int64_t inputs, UniversalOptions options, Generator& init)
    : TwoTowerFeatures(std::move(slot), drawn(inputs, options, init), !options.damped),
      dim_(inputs),
      A_(options.A),
      eta_(options.eta),
      damped_(options.damped),
      atoms_(options.measure.draw(rows(), options.block, init)),
      speed_(buffer("speed", Tensor::from(speeds(), {rows()}))),
      growth_(buffer("growth", Tensor::zeros({rows()}))),
      log_scale_(buffer("log_scale", Tensor::zeros({rows()}))) {
  const std::vector<double> squares = sum(square(G().cast(DType::f64)), {1}).to_vector<double>();
  const auto d = static_cast<double>(dim_);
  for (int64_t j = 0; j < rows(); ++j) {
    const auto at = static_cast<size_t>(j);
    const double t = kTurn * atoms_[at].frequency / eta_;
    growth_.data<float>()[j] = static_cast<float>(t * t / 2);
    const double g_square = squares[at] / (scale() * scale());
    log_scale_.data<float>()[j] =
        static_cast<float>(d / 4 * std::log(1 - 4 * A_) + A_ * g_square - std::log(static_cast<double>(rows())) / 2);
  }
}

UniversalFeatures::UniversalFeatures(Slot slot, const UniversalFeatures& other, const Projection& projection)
    : TwoTowerFeatures(std::move(slot), projection, !other.damped_),
      dim_(other.dim_),
      A_(other.A_),
      eta_(other.eta_),
      damped_(other.damped_),
      atoms_(other.atoms_),
      speed_(buffer("speed", other.speed_.clone())),
      growth_(buffer("growth", other.growth_.clone())),
      log_scale_(buffer("log_scale", other.log_scale_.clone())) {}

/// t s of each projection, by the constructor's draw.
std::vector<float> UniversalFeatures::speeds() const {
  std::vector<float> all;
  for (const FourierMeasure::Atom& atom : atoms_) {
    all.push_back(static_cast<float>(kTurn * atom.frequency / eta_ * std::sqrt(1 - 4 * A_)));
  }
  return all;
}

void UniversalFeatures::require_own_draw() const {
  const Tensor own = Tensor::from(speeds(), {rows()}).cast(speed_.dtype());
  if (own.to_vector<double>() == speed_.to_vector<double>()) return;
  fail(
      "universal random features: Psi belongs to the frequencies and the A of the constructor, and others were loaded "
      "since; map weights before loading");
}

std::unique_ptr<TwoTowerFeatures> UniversalFeatures::after(Slot slot, const Tensor& W, const Tensor& b) const {
  return std::unique_ptr<TwoTowerFeatures>(new UniversalFeatures(std::move(slot), *this, projection(W, b)));
}

Variable UniversalFeatures::phi(const Variable& u, const Variable& s) const {
  const Variable angle = u * Variable(speed_);  // (n, m)
  Variable exponent = log_scale_;
  if (!damped_) exponent = exponent + s * Variable(growth_);  // (n, 1) x (m)
  const Variable amplitude = exp(exponent);
  return concat(std::vector<Variable>{amplitude * cos(angle), amplitude * sin(angle)}, 1);
}

Tensor UniversalFeatures::slope(const Tensor& u, const Tensor& s, const Tensor& ds) const {
  const Tensor angle = u * speed_;
  Tensor exponent = log_scale_.unsqueeze(0);
  if (!damped_) exponent = exponent + s * growth_;
  const Tensor amplitude = exp(exponent);
  const Tensor c = (amplitude * cos(angle)).unsqueeze(2);  // (n, m, 1)
  const Tensor sn = (amplitude * sin(angle)).unsqueeze(2);
  const Tensor turn = (speed_.unsqueeze(1) * G()).unsqueeze(0);  // (1, m, d)
  Tensor dc = -(sn * turn);
  Tensor dsn = c * turn;
  if (!damped_) {
    const Tensor grow = growth_.unsqueeze(0).unsqueeze(2) * ds.unsqueeze(1);  // (n, m, d)
    dc = dc + c * grow;
    dsn = dsn + sn * grow;
  }
  return concat(std::vector<Tensor>{dc, dsn}, 1);
}

Tensor UniversalFeatures::weights(const Tensor& W, const Tensor& b) const {
  require_own_draw();
  const auto column = [&](const auto& of) {
    std::vector<double> values;
    for (const FourierMeasure::Atom& atom : atoms_) values.push_back(of(atom));
    return Tensor::from(values, {rows()}, W.device());
  };
  const Tensor frequency = column([](const auto& atom) { return kTurn * atom.frequency; });
  const Tensor re = column([](const auto& atom) { return atom.weight.real(); });
  const Tensor im = column([](const auto& atom) { return atom.weight.imag(); });
  const Tensor exponent = log_scale_.cast(DType::f64) +
                          project_weights(W, b) * (std::sqrt(1 - 4 * A_) * eta_) -  // scale g.w
                          weight_norms(W) * (eta_ * eta_ / 2);
  const Tensor amplitude = exp(exponent);  // (outputs, m)
  const Tensor bias =
      (b.defined() ? b.cast(DType::f64) : Tensor::zeros({W.size(0)}, DType::f64, W.device())).unsqueeze(1);
  const Tensor angle = bias * frequency;
  const Tensor c = cos(angle);
  const Tensor s = sin(angle);
  return concat(std::vector<Tensor>{amplitude * (re * c - im * s), -(amplitude * (re * s + im * c))}, 1);
}

double UniversalFeatures::variance(double x_square, double w_square, double product, double b) const {
  require_own_draw();
  const double v = 1 - 8 * A_;
  const double scale2 = scale() * scale();
  const double x2 = scale2 * x_square;
  const double w2 = scale2 * eta_ * eta_ * w_square;
  const double p = scale2 * product;
  const double log_k = static_cast<double>(dim_) / 2 * std::log((1 + v) * (1 + v) / (4 * v));
  double total = 0;
  for (const FourierMeasure::Atom& atom : atoms_) {
    const double f = kTurn * atom.frequency;
    const std::complex<double> weight = atom.weight;
    const double t = f / eta_;
    const double damping = damped_ ? std::exp(-t * t * x2 / 2) : 1;
    const double square = std::norm(weight) * std::exp(log_k + t * t * x2 + w2 / v);
    const std::complex<double> mixed =
        weight * weight *
        std::exp(std::complex<double>(log_k + (w2 - t * t * x2) / v, 2 * f * p * (1 + 1 / v) + 2 * f * b));
    const double mean = (weight * std::exp(std::complex<double>(0, f * (p + b)))).real();
    total += damping * damping * ((square + mixed.real()) / 2 - mean * mean);
  }
  const auto m = static_cast<double>(atoms_.size());
  return total / (m * m);
}

}  // namespace bochner

#include "layers/snnk/measure.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "engine/error.h"

namespace bochner {
namespace {

using Complex = FourierMeasure::Complex;
using std::numbers::pi;

constexpr size_t kCells = 8192;
constexpr Complex kI{0, 1};

double sinc_of(double z) { return z == 0 ? 1 : std::sin(pi * z) / (pi * z); }

}  // namespace

FourierMeasure FourierMeasure::sine(double omega) { return atoms("sin", {{omega / (2 * pi), -kI}}); }
FourierMeasure FourierMeasure::cosine(double omega) { return atoms("cos", {{omega / (2 * pi), 1}}); }

FourierMeasure FourierMeasure::gaussian() {
  const double limit = 8 / (2 * pi);  // 8 deviations of N(0, 1 / (2 pi)^2)
  return density(
      "gaussian", [](double xi) { return Complex(std::sqrt(2 * pi) * std::exp(-2 * pi * pi * xi * xi)); }, limit);
}

FourierMeasure FourierMeasure::sinc() {
  return density(
      "sinc", [](double) { return Complex(1); }, 0.5);
}

FourierMeasure FourierMeasure::relu(double range, double width) {
  if (!(range > 0) || !(width > 0)) {
    fail("measure of relu: range {} and width {} must be positive: without smoothing its tail is too heavy", range,
         width);
  }
  const auto transform = [range, width](double xi) {
    const double hat = range * range * std::pow(sinc_of(range * xi), 2);
    return hat * std::exp(-2 * pi * pi * width * width * xi * xi) * std::exp(-2 * pi * range * xi * kI);
  };
  return density("relu", transform, 1.35 / width);  // the factor of the smoothing is exp(-36) there
}

FourierMeasure FourierMeasure::atoms(std::string name, std::vector<Atom> atoms) {
  if (atoms.empty()) fail("measure of {}: no atom; at least one is needed", name);
  FourierMeasure measure;
  for (const Atom& atom : atoms) {
    if (!(atom.frequency >= 0) || !std::isfinite(atom.frequency) || !std::isfinite(std::abs(atom.weight))) {
      fail(
          "measure of {}: an atom of frequency {} and weight {} + {}i; frequencies must be finite and not negative, "
          "weights finite",
          name, atom.frequency, atom.weight.real(), atom.weight.imag());
    }
    measure.mass_ += std::abs(atom.weight);
  }
  measure.name_ = std::move(name);
  measure.atoms_ = std::move(atoms);
  return measure;
}

FourierMeasure FourierMeasure::density(std::string name, const std::function<Complex(double)>& transform,
                                       double limit) {
  if (!(limit > 0) || !std::isfinite(limit))
    fail("measure of {}: the limit {} must be positive and finite", name, limit);
  FourierMeasure measure;
  measure.name_ = std::move(name);
  measure.transform_ = transform;
  measure.limit_ = limit;
  measure.cumulative_.resize(kCells + 1);
  const double cell = limit / kCells;
  const auto modulus = [&](double xi) {
    const double value = 2 * std::abs(transform(xi));
    if (!std::isfinite(value)) {
      fail(
          "measure of {}: its Fourier transform is not finite at {}; an activation without an integrable transform "
          "needs other features: ReLU-SNNK (`relu`), `tanh`, or a truncated and smoothed form of it",
          measure.name_, xi);
    }
    return value;
  };
  double left = modulus(0);
  for (size_t i = 0; i < kCells; ++i) {
    const double begin = static_cast<double>(i) * cell;
    const double right = modulus(std::min(limit, begin + cell));
    measure.cumulative_[i + 1] = measure.cumulative_[i] + cell / 6 * (left + 4 * modulus(begin + cell / 2) + right);
    left = right;
  }
  measure.mass_ = measure.cumulative_.back();
  if (!(measure.mass_ > 0)) fail("measure of {}: its Fourier transform is 0 up to {}", measure.name_, limit);
  // A thousandth of the proposal is uniform, so that every frequency with weight can be drawn.
  for (size_t i = 0; i <= kCells; ++i) {
    measure.cumulative_[i] =
        0.999 * measure.cumulative_[i] / measure.mass_ + 0.001 * static_cast<double>(i) / static_cast<double>(kCells);
  }
  return measure;
}

double FourierMeasure::operator()(double z) const {
  Complex total = 0;
  for (const Atom& atom : atoms_) total += atom.weight * std::exp(2 * pi * atom.frequency * z * kI);
  if (is_discrete()) return total.real();
  const double half = limit_ / (2 * kCells);
  for (size_t i = 0; i <= 2 * kCells; ++i) {
    const double xi = static_cast<double>(i) * half;
    const double simpson = i == 0 || i == 2 * kCells ? 1 : i % 2 == 1 ? 4 : 2;
    total += simpson * 2 * transform_(xi) * std::exp(2 * pi * xi * z * kI);
  }
  return total.real() * half / 3;
}

std::vector<FourierMeasure::Atom> FourierMeasure::draw(int64_t count, int64_t block, Generator& generator) const {
  std::vector<Atom> drawn;
  if (is_discrete()) {
    const auto kinds = static_cast<int64_t>(atoms_.size());
    if (count < kinds) {
      fail("universal random features: {} projections for the {} atoms of {}; each atom needs at least one", count,
           kinds, name_);
    }
    for (int64_t j = 0; j < count; ++j) {
      const int64_t share = count / kinds + (j % kinds < count % kinds ? 1 : 0);  // features of this atom
      Atom atom = atoms_[static_cast<size_t>(j % kinds)];
      atom.weight *= static_cast<double>(count) / static_cast<double>(share);
      drawn.push_back(atom);
    }
    return drawn;
  }
  if (block < 1) fail("universal random features: blocks of {} frequencies; at least 1", block);
  const double cell = limit_ / kCells;
  for (int64_t j = 0; j < count; ++j) {
    if (j % block != 0) {
      drawn.push_back(drawn.back());
      continue;
    }
    const double place = generator.uniform();
    const auto found = std::lower_bound(cumulative_.begin() + 1, cumulative_.end() - 1, place);
    const auto k = static_cast<size_t>(found - cumulative_.begin()) - 1;
    const double xi = (static_cast<double>(k) + std::min(1.0, generator.uniform())) * cell;
    const double density = (cumulative_[k + 1] - cumulative_[k]) / cell;
    drawn.push_back({xi, 2.0 * transform_(xi) / density});
  }
  return drawn;
}

}  // namespace bochner

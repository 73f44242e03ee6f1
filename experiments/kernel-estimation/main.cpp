// Pointwise kernel estimation (SNNK 4.1, Fig. 2 g, h): the error of an SNNK layer against the layer it replaces, by the
// number of random projections, and its growth with the depth of a bundled network (Appendix B).
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "autograd/ops/unary.h"
#include "engine/ops/binary.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "experiments/common/program/figures.h"
#include "experiments/common/report/spread.h"
#include "layers/snnk/arc_cosine.h"
#include "layers/snnk/bundle.h"
#include "layers/snnk/universal.h"

namespace {

using namespace bochner;  // NOLINT: a program, not a header

constexpr uint64_t kPointStream = 1;
constexpr uint64_t kMapStream = 2;

struct Config {
  RunOptions run;
  int64_t dim = 2000;
  int64_t instantiations = 500;
  std::vector<int64_t> projections = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512};
  double bias = 0.5;
  bool orthogonal = false;
  int64_t width = 32;
  int64_t depth = 4;

  Config() {
    run.task = "sine";
    run.tasks = {"sine", "arc-cosine", "depth"};
  }
  void fields(Fields& f) {
    run.fields(f);
    f.at("task").means("what is measured; A,B,... measures each of them");
    const auto is_depth = [this] { return run.task == "depth"; };
    f("dim", dim, "inputs d of the layer").at_least(1).only("with --task=sine or arc-cosine", [is_depth] {
      return !is_depth();
    });
    f("instantiations", instantiations, "independent draws of the features").at_least(2).at_most(1e6);
    f("projections", projections, "numbers of random projections").at_least(1);
    f("bias", bias, "b of the sine layer").only("with --task=sine", [this] { return run.task == "sine"; });
    f("orthogonal", orthogonal, "orthogonal projections");
    f("width", width, "units of each layer").at_least(1).only("with --task=depth", is_depth);
    f("depth", depth, "sine layers of the deepest network")
        .at_least(1)
        .at_most(1000)
        .only("with --task=depth", is_depth);
  }
};

struct Point {
  std::string series;
  int64_t projections;
  double mean, deviation;   ///< of the relative errors
  double root_mean_square;  ///< of the same errors
  double expected;          ///< the same by formula, as the estimate is unbiased; NaN if there is none
};

double dot(const Tensor& a, const Tensor& b) { return sum(a.cast(DType::f64) * b.cast(DType::f64)).item(); }

/// Entries U(0, 1) / sqrt(d), so that w.x is about 1 / 4. The paper's text has lost a symbol before its "d".
Tensor entries(int64_t dim, Generator& generator) {
  return uniform({1, dim}, generator) * (1 / std::sqrt(static_cast<double>(dim)));
}

/// Statistics of |estimate(i) / exact - 1| over the instantiations; NaN if an estimate overflows.
template <class Estimate>
Point measure(const Config& config, const std::string& series, int64_t projections, double exact,
              const Estimate& estimate, Log& log) {
  std::vector<double> errors;
  for (int64_t i = 0; i < config.instantiations; ++i) {
    Generator generator = Generator(config.run.seed).fork(kMapStream).fork(static_cast<uint64_t>(projections));
    generator = generator.fork(static_cast<uint64_t>(i));
    errors.push_back(std::abs(estimate(generator) / exact - 1));
  }
  const Spread spread = spread_of(errors);
  double square = 0;
  for (const double error : errors) square += error * error / static_cast<double>(errors.size());
  if (!std::isfinite(spread.mean)) {
    if (config.run.task == "sine")
      fail("{}, {} projections: the relative error is no finite number; take a smaller --bias", series, projections);
    log.warning("{}, {} projections: the estimate overflows f32 in some draws; its error is left out", series,
                projections);
    return {series, projections, std::nan(""), std::nan(""), std::nan(""), std::nan("")};
  }
  return {series, projections, spread.mean, spread.deviation, std::sqrt(square), std::nan("")};
}

std::vector<Point> layer(const Config& config, Log& log) {
  Generator points = Generator(config.run.seed).fork(kPointStream);
  const Tensor x = entries(config.dim, points);
  const Tensor w = entries(config.dim, points);
  const double product = dot(x, w);
  std::vector<Point> all;
  for (const int64_t m : config.projections) {
    if (config.run.task == "sine") {
      const Tensor b = Tensor::from<float>({static_cast<float>(config.bias)}, {1});
      UniversalOptions options{.measure = FourierMeasure::sine(), .features = 2 * m};
      options.A = optimal_A(dot(w, w), config.dim);
      options.orthogonal = config.orthogonal;
      const double exact = std::sin(product + config.bias);
      all.push_back(measure(
          config, "sine", m, exact,
          [&](Generator& generator) {
            const UniversalFeatures map({}, config.dim, options, generator);
            return dot(map.forward(x).value(), map.weights(w, b));
          },
          log));
      if (config.orthogonal) continue;  // the formula is for independent projections
      Generator any(0);
      const UniversalFeatures map({}, config.dim, options, any);
      all.back().expected = std::sqrt(map.variance(dot(x, x), dot(w, w), product, config.bias)) / std::abs(exact);
    } else {
      const double norms = std::sqrt(dot(x, x) * dot(w, w));
      const double exact =
          arc_cosine_kernel(1, std::sqrt(dot(x, x)), std::sqrt(dot(w, w)), std::acos(product / norms)) / 2;
      const ArcCosineOptions options{.features = m, .orthogonal = config.orthogonal};
      all.push_back(measure(
          config, "arc-cosine", m, exact,
          [&](Generator& generator) {
            const ArcCosineFeatures map({}, config.dim, options, generator);
            return dot(map.forward(x).value(), map.weights(w, {}));
          },
          log));
    }
    log.info("{} projections: relative error {:.3g}, deviation {:.3g}", m, all.back().mean, all.back().deviation);
  }
  return all;
}

/// |bundled - network| / |network| over 64 inputs, of networks of sine layers and a linear one.
std::vector<Point> depth(const Config& config, Log& log) {
  std::vector<Point> all;
  for (int64_t layers = 1; layers <= config.depth; ++layers) {
    Generator init = Generator(config.run.seed).fork(kPointStream).fork(static_cast<uint64_t>(layers));
    std::deque<Linear> linears;
    std::vector<NetworkLayer> network;
    const Tensor x = uniform({64, config.width}, init) * (1 / std::sqrt(static_cast<double>(config.width)));
    Variable y = x;
    for (int64_t i = 0; i <= layers; ++i) {
      linears.emplace_back(Slot{}, config.width, config.width, init);
      network.push_back({&linears.back(), i < layers ? "sin" : "identity"});
      y = linears.back().forward(y);
      if (i < layers) y = sin(y);
    }
    const double norm = std::sqrt(dot(y.value(), y.value()));
    bool some_finite = false;
    for (const int64_t m : config.projections) {
      all.push_back(measure(
          config, fmt::format("{} {}", layers, layers == 1 ? "layer" : "layers"), m, 1,
          [&](Generator& generator) {
            try {
              const Bundle bundle =
                  Bundle::of_network({}, network, {.features = 2 * m, .orthogonal = config.orthogonal}, generator);
              const Tensor rest = bundle.forward(x).value() - y.value();
              return 1 + std::sqrt(dot(rest, rest)) / norm;
            } catch (const WeightsOverflow&) {
              return std::numeric_limits<double>::infinity();
            }
          },
          log));
      some_finite = some_finite || !std::isnan(all.back().mean);
      if (!std::isnan(all.back().mean))
        log.info("{} layers, {} projections: relative error {:.3g}", layers, m, all.back().mean);
    }
    if (!some_finite && layers < config.depth) {
      log.warning("{} {}: all estimates overflow, so deeper networks are left out", layers,
                  layers == 1 ? "layer" : "layers");
      break;
    }
  }
  return all;
}

void run(Config& config, Session& session) {
  const bool deep = config.run.task == "depth";
  const std::vector<Point> points = deep ? depth(config, session.log) : layer(config, session.log);
  Table table{{"", "projections", "mean relative error", "deviation", "root mean square",
               "deviation of the estimate by formula"},
              {}};
  Figure figure{"Error against projections", "log10 of the projections", "log10 of the mean relative error", {}};
  for (const Point& point : points) {
    const auto number = [](double value) { return std::isnan(value) ? std::string() : fmt::format("{:.4g}", value); };
    table.rows.push_back({point.series, fmt::format("{}", point.projections), number(point.mean),
                          number(point.deviation), number(point.root_mean_square), number(point.expected)});
    if (figure.curves.empty() || figure.curves.back().label != point.series) {
      figure.curves.emplace_back().label = point.series;
    }
    if (std::isnan(point.mean)) continue;
    figure.curves.back().points.emplace_back(std::log10(static_cast<double>(point.projections)),
                                             std::log10(point.mean));
  }
  write_figures(session, {figure}, {{fmt::format("{} draws of the features", config.instantiations), table}});
}

}  // namespace

int main(int argc, char** argv) {
  return bochner::main_of<Config>(
      {.name = "kernel-estimation",
       .summary = "How far SNNK layers are from the layers that they estimate, by number of projections",
       .resources = bochner::embedded_resources(),
       .trains = false,
       .unused = {"attention", "steps", "batch", "data", "device", "precision", "debug-sync", "graphs"}},
      argc, argv, run);
}

// How well features and landmarks approximate attention: the figures of PERF and SKY that need no data.
#include <cmath>
#include <numbers>

#include "engine/io/safetensors.h"
#include "experiments/approximation/measure.h"
#include "experiments/common/figures.h"

namespace bochner {
namespace {

struct Config {
  RunOptions run;
  int64_t length = 4096;
  int64_t dim = 16;
  std::vector<int64_t> features = {16, 32, 64, 128, 256};
  std::vector<int64_t> lengths = {256, 512, 1024};
  std::vector<double> scales = {0.5, 1, 2};
  std::vector<int64_t> layers = {1, 2, 3, 4, 5, 6};
  std::vector<std::string> methods = {"nystrom", "nystromformer", "performer", "linformer"};
  int64_t repeats = 15;
  std::string qkv;

  Config() {
    run.tasks = {"regions", "features", "layers", "spectral"};
    run.task = "features";
  }
  void fields(Fields& f) {
    run.fields(f);
    f("length", length, "tokens, of features and layers").at_least(1);
    f("dim", dim, "size of a head").at_least(1);
    f("features", features, "numbers of random features, or of landmarks").at_least(1);
    f("lengths", lengths, "numbers of tokens, of spectral").at_least(1);
    f("scales", scales, "standard deviations of random queries and keys, of spectral").above(0);
    f("layers", layers, "numbers of layers").at_least(1);
    f("methods", methods, "mechanisms that spectral compares, and nystrom: SKY Eqs. 4-6 on softmax's own matrix");
    f("repeats", repeats, "draws that each point is the mean of").at_least(1);
    f("qkv", qkv, "safetensors file with Q, K, V (batch, heads, length, dim) for spectral, in place of random ones");
  }
};

/// log10 of the mean over `repeats` draws.
double log_mean(const Config& config, uint64_t stream, const std::function<double(Generator&)>& measure) {
  std::vector<double> values;
  const Generator base = Generator(config.run.seed).fork(stream);
  for (int64_t r = 0; r < config.repeats; ++r) {
    Generator generator = base.fork(static_cast<uint64_t>(r));
    values.push_back(measure(generator));
  }
  return std::log10(spread_of(values).mean);
}

/// PERF Fig. 2: log10 of the ratio of errors, along angles for some lengths.
std::vector<Figure> regions() {
  Figure figure{"Trigonometric against positive features (PERF Fig. 2)",
                "angle between x and y, radians",
                "log10 of the ratio of mean squared errors",
                {},
                "Lemma 2 for vectors of one length. Above 0 positive features are better: where the kernel is small."};
  for (const double length : {0.5, 1.0, 1.5, 2.0}) {
    Curve curve{fmt::format("|x| = |y| = {}", length), 0, false, {}};
    for (int i = 1; i < 64; ++i) {
      const double angle = std::numbers::pi * i / 64;
      curve.points.emplace_back(angle, std::log10(error_ratio(length, angle)));
    }
    figure.curves.push_back(curve);
  }
  return {figure};
}

/// PERF Fig. 4
std::vector<Figure> features(const Config& config) {
  Figure figure{"Error of the output against the number of features (PERF Fig. 4)",
                "M",
                "log10 of the mean squared error",
                {},
                fmt::format("L = {}, D = {}, mean of {} draws.", config.length, config.dim, config.repeats)};
  uint64_t stream = 0;
  for (const auto& [label, mechanism, coupling] :
       {std::tuple{"positive, orthogonal", "performer", AttentionOptions::Coupling::orthogonal},
        std::tuple{"positive, independent", "performer", AttentionOptions::Coupling::independent},
        std::tuple{"trigonometric, orthogonal", "performer-trig", AttentionOptions::Coupling::orthogonal},
        std::tuple{"trigonometric, independent", "performer-trig", AttentionOptions::Coupling::independent}}) {
    Curve curve{label, 0, false, {}};
    for (const int64_t M : config.features) {
      const AttentionOptions options{.features = M, .coupling = coupling};
      curve.points.emplace_back(M, log_mean(config, ++stream, [&](Generator& g) {
                                  return output_error(mechanism, options, config.length, config.dim, g);
                                }));
    }
    figure.curves.push_back(curve);
  }
  return {figure};
}

/// PERF Fig. 14
std::vector<Figure> through_layers(const Config& config) {
  Figure figure{"Error through layers (PERF Fig. 14)",
                "layers",
                "log10 of the mean relative error",
                {},
                fmt::format("Performer against softmax with the same random weights, L = {}, D = {}.", config.length,
                            config.dim)};
  uint64_t stream = 1000;
  for (const int64_t M : config.features) {
    Curve curve{fmt::format("M = {}", M), 0, false, {}};
    for (const int64_t layers : config.layers) {
      const AttentionOptions options{.features = M};
      curve.points.emplace_back(layers, log_mean(config, ++stream, [&](Generator& g) {
                                  return layered_error("performer", options, config.length, config.dim, layers, g);
                                }));
    }
    figure.curves.push_back(curve);
  }
  return {figure};
}

/// SKY Fig. 1
std::vector<Figure> spectral(const Config& config) {
  TensorMap given;
  if (!config.qkv.empty()) given = read_safetensors(config.qkv).tensors;
  const auto head = [&](const char* name) {
    const auto found = given.find(name);
    if (found == given.end() || found->second.rank() != 4)
      fail("{}: no tensor '{}' (batch, heads, length, dim)", config.qkv, name);
    return found->second.slice(0, 0, 1).slice(1, 0, 1).contiguous().cast(DType::f64);
  };
  std::vector<Figure> figures;
  uint64_t stream = 2000;
  const std::vector<int64_t> lengths = given.empty() ? config.lengths : std::vector<int64_t>{0};
  const std::vector<double> scales = given.empty() ? config.scales : std::vector<double>{1};
  for (const int64_t length : lengths) {
    for (const double scale : scales) {
      const std::string inputs =
          given.empty() ? fmt::format("L = {}, Q and K of deviation {}", length, scale) : config.qkv;
      Figure figure{"Spectral norm of the error (SKY Fig. 1): " + inputs,
                    "features or landmarks",
                    "log10 of |O~ - O| / |O|",
                    {},
                    "Outputs against those of softmax attention."};
      for (const std::string& method : config.methods) {
        Curve curve{method, 0, false, {}};
        for (const int64_t M : config.features) {
          AttentionOptions options{.features = M};
          options.convolution = 0;
          curve.points.emplace_back(M, log_mean(config, ++stream, [&](Generator& g) {
                                      const Shape shape{1, 1, length, config.dim};
                                      if (!given.empty())
                                        return spectral_error(method, options, head("Q"), head("K"), head("V"), g);
                                      const Tensor Q = normal(shape, g, 0, scale, DType::f64);
                                      const Tensor K = normal(shape, g, 0, scale, DType::f64);
                                      return spectral_error(method, options, Q, K, normal(shape, g, 0, 1, DType::f64),
                                                            g);
                                    }));
        }
        figure.curves.push_back(curve);
      }
      figures.push_back(figure);
    }
  }
  return figures;
}

void run(Config& config, Session& session) {
  const std::string& task = config.run.task;
  write_figures(session, task == "regions"    ? regions()
                         : task == "features" ? features(config)
                         : task == "layers"   ? through_layers(config)
                                              : spectral(config));
}

}  // namespace
}  // namespace bochner

int main(int argc, char** argv) {
  return bochner::main_of<bochner::Config>(
      {"approximation", "How well features and landmarks approximate attention", bochner::embedded_resources()}, argc,
      argv, bochner::run);
}

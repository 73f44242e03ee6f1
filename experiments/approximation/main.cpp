// How well features and landmarks approximate attention: figures of PERF and SKY.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

#include "engine/io/safetensors.h"
#include "engine/nearest.h"
#include "engine/ops/unary.h"
#include "experiments/approximation/pretrained.h"

namespace bochner {
namespace {

struct Config {
  RunOptions run;
  int64_t length = 4096;
  int64_t dim = 16;
  std::vector<int64_t> features = {16, 32, 64, 128, 256};
  std::vector<int64_t> lengths = {256, 512, 1024};
  std::vector<double> scales;
  int64_t layers = 6;
  int64_t heads = 4;
  int64_t hidden = 256;
  std::vector<std::string> methods = {"nystrom", "nystromformer", "performer", "linformer"};
  int64_t repeats = 15;
  std::string qkv;
  std::string pretrained;
  std::vector<std::string> text;

  Config() {
    run.tasks = {"regions", "features", "layers", "spectral"};
    run.task = "features";
  }
  void fields(Fields& f) {
    run.fields(f);
    f.at("task").means("what is measured; A,B,... measures each of them");
    const auto is = [this](auto... tasks) { return ((run.task == tasks) || ...); };
    const auto measures = [is] { return !is("regions"); };
    f("length", length, "number of tokens").at_least(1).only("with --task=features or layers", [is] {
      return is("features", "layers");
    });
    f("dim", dim, "size of a head").at_least(1).only("with random queries and keys", [this, is] {
      return !is("regions") && qkv.empty() && pretrained.empty();
    });
    f("features", features, "numbers of random features, or of landmarks")
        .at_least(1)
        .only("with another --task than regions", measures);
    const auto is_spectral = [is] { return is("spectral"); };
    f("lengths", lengths, "numbers of tokens; with --qkv or --pretrained the first ones")
        .at_least(1)
        .only("with --task=spectral", is_spectral);
    f("scales", scales, "deviations of random queries and keys; empty: 0.5,0.7,1 for features, 0.5,1,2 for spectral")
        .above(0)
        .only("with --task=features or spectral", [is] { return is("features", "spectral"); });
    const size_t before = f.all().size();
    f("layers", layers, "layers of the deepest Transformer").at_least(1).at_most(1000);
    f("heads", heads, "attention heads").at_least(1);
    f("hidden", hidden, "hidden units of feed-forward blocks").at_least(1);
    f.only_behind(before, "with --task=layers", [is] { return is("layers"); });
    f("methods", methods, "mechanisms to compare; nystrom is SKY Eqs. 4-6 on softmax's own matrix")
        .only("with --task=spectral", is_spectral);
    f("repeats", repeats, "number of draws of which each point is the mean; with --pretrained of texts")
        .at_least(1)
        .at_most(10000)
        .only("with another --task than regions", measures);
    f("qkv", qkv, "safetensors file with Q, K, V (batch, heads, length, dim), instead of random ones")
        .only("with --task=spectral", is_spectral);
    f("pretrained", pretrained, "folder of a BERT, with its tokenizer: the Q, K, V of all its heads")
        .only("with --task=spectral", is_spectral);
    f("text", text, "files, folders and archives of text that it reads, with commas between them")
        .only("with --pretrained", [this] { return !pretrained.empty(); });
  }
};

/// Mean and deviation over `repeats` draws. Draw r uses the same generator in every measurement, and so the same
/// inputs. An Error begins with `what`.
Spread repeated(const Config& config, const std::string& what, const std::function<double(Generator&)>& measure) {
  std::vector<double> values;
  for (int64_t r = 0; r < config.repeats; ++r) {
    Generator generator = Generator(config.run.seed).fork(static_cast<uint64_t>(r));
    try {
      values.push_back(measure(generator));
    } catch (const Error& error) {
      fail("{}: {}", what, error.what());
    }
  }
  return spread_of(values);
}

/// PERF Fig. 2: log10 of the ratio of errors, along angles for some lengths; then the errors themselves at one length.
Measured regions() {
  constexpr const char* kAngle = "angle between x and y, radians";
  Figure ratio{"Trigonometric against positive features (PERF Fig. 2, left)",
               kAngle,
               "log10 of the ratio of mean squared errors",
               {},
               "Lemma 2 for vectors of one length. Above 0 positive features are better: where the kernel is small. "
               "The ratio is the same at -angle and at -length."};
  const auto along = [](const std::string& label, const std::function<double(double)>& f) {
    Curve curve{label, 0, false, {}};
    for (int i = 1; i < 64; ++i) {
      const double angle = std::numbers::pi * i / 64;
      curve.points.emplace_back(angle, std::log10(f(angle)));
    }
    return curve;
  };
  for (const double length : {0.5, 1.0, 1.5, 2.0}) {
    ratio.curves.push_back(
        along(fmt::format("|x| = |y| = {}", length), [&](double angle) { return error_ratio(length, angle); }));
  }
  Figure errors{"Errors of both at |x| = |y| = 1 (PERF Fig. 2, right)",
                kAngle,
                "log10 of the mean squared error",
                {},
                "Lemma 2 for one random feature; the kernel is exp(cos(angle)). Where it is smallest the error of "
                "positive features goes to 0, that of trigonometric ones does not."};
  errors.curves.push_back(along("trigonometric", [](double angle) { return kernel_errors(1, angle).trigonometric; }));
  errors.curves.push_back(along("positive", [](double angle) { return kernel_errors(1, angle).positive; }));
  return {{ratio, errors}, {}};
}

/// PERF Fig. 4, for each scale of queries and keys
Measured features(const Config& config, Log& log) {
  struct Estimator {
    const char* label;
    const char* mechanism;
    const char* coupling;
  };
  const Estimator estimators[] = {{"positive, orthogonal", "performer", "orthogonal"},
                                  {"positive, independent", "performer", "independent"},
                                  {"trigonometric, orthogonal", "performer-trig", "orthogonal"},
                                  {"trigonometric, independent", "performer-trig", "independent"}};
  Measured measured;
  for (const double scale : config.scales.empty() ? std::vector<double>{0.5, 0.7, 1} : config.scales) {
    const double seen = scale * std::pow(static_cast<double>(config.dim), 0.25);
    Figure figure{fmt::format("Error of the output against the number of features (PERF Fig. 4): deviation {}", scale),
                  "M",
                  "log10 of the mean squared error",
                  {},
                  fmt::format("L = {}, D = {}, {} draws. Softmax's exp(x.y) has |x| of about {:.2f}.", config.length,
                              config.dim, config.repeats, seen)};
    Table table{{"mean ± deviation, by M"}, {}};
    for (const int64_t M : config.features) table.head.push_back(std::to_string(M));
    std::vector<std::vector<double>> means;
    for (const auto& [label, mechanism, coupling] : estimators) {
      Curve curve{label, 0, false, {}};
      std::vector<std::string> row = {label};
      means.emplace_back();
      for (const int64_t M : config.features) {
        const MechanismOptions options(mechanism, {{"features", M}, {"coupling", coupling}});
        const Spread error =
            repeated(config, fmt::format("deviation {}, {}, M = {}", scale, label, M),
                     [&](Generator& g) { return output_error(options, config.length, config.dim, scale, g); });
        curve.points.emplace_back(M, std::log10(error.mean));
        row.push_back(fmt::format("{:.1e} ± {:.0e}", error.mean, error.deviation));
        means.back().push_back(error.mean);
      }
      log.info("deviation {}, {}: {:.3g} to {:.3g}", scale, label, means.back().front(), means.back().back());
      figure.curves.push_back(curve);
      table.rows.push_back(row);
    }
    const auto ratios = [&](const char* label, size_t over, size_t under) {
      std::vector<std::string> row = {label};
      for (size_t i = 0; i < means[0].size(); ++i)
        row.push_back(fmt::format("{:.2g}", means[over][i] / means[under][i]));
      table.rows.push_back(row);
    };
    ratios("independent / orthogonal, positive", 1, 0);
    ratios("independent / orthogonal, trigonometric", 3, 2);
    ratios("trigonometric / positive, orthogonal", 2, 0);
    measured.tables.push_back({figure.title, table});
    measured.figures.push_back(figure);
  }
  return measured;
}

/// PERF Fig. 14
Measured through_layers(const Config& config, Log& log) {
  Measured measured;
  for (const int64_t hidden : {config.hidden, int64_t{0}}) {
    Figure figure{
        hidden > 0 ? "Error through Transformer layers (PERF Fig. 14)" : "The same without feed-forward blocks",
        "layers",
        "log10 of the mean relative error",
        {},
        fmt::format("Performer with orthogonal features against softmax with the same random weights, L = {}, "
                    "{} heads of {}, {}, mean of {} draws.",
                    config.length, config.heads, config.dim,
                    hidden > 0 ? fmt::format("{} hidden units", hidden) : "attention alone", config.repeats)};
    Table table{{"mean relative error, by layers"}, {}};
    for (int64_t layer = 1; layer <= config.layers; ++layer) table.head.push_back(std::to_string(layer));
    for (const int64_t M : config.features) {
      std::vector<double> sums(static_cast<size_t>(config.layers), 0);
      repeated(config, fmt::format("M = {}", M), [&](Generator& g) {
        const std::vector<double> errors = layered_errors({"performer", {{"features", M}}},
                                                          {.length = config.length,
                                                           .dim = config.dim,
                                                           .heads = config.heads,
                                                           .layers = config.layers,
                                                           .hidden = hidden},
                                                          g);
        for (size_t i = 0; i < errors.size(); ++i) sums[i] += errors[i] / static_cast<double>(config.repeats);
        return errors.back();
      });
      Curve curve{fmt::format("M = {}", M), 0, false, {}};
      std::vector<std::string> row = {curve.label};
      for (size_t i = 0; i < sums.size(); ++i) {
        curve.points.emplace_back(i + 1, std::log10(sums[i]));
        row.push_back(fmt::format("{:.3f}", sums[i]));
      }
      log.info("M = {}: {:.3f} after one layer, {:.3f} after {}", M, sums.front(), sums.back(), config.layers);
      figure.curves.push_back(curve);
      table.rows.push_back(row);
    }
    measured.tables.push_back({figure.title, table});
    measured.figures.push_back(figure);
  }
  return measured;
}

/// One head of the tensors that --qkv names, (1, 1, L, D) each.
AttentionInputs inputs_of(const Config& config) {
  const TensorMap given = read_safetensors(config.qkv).tensors;
  const auto head = [&](const char* name) {
    const auto found = given.find(name);
    if (found == given.end() || found->second.rank() != 4)
      fail("{}: no tensor '{}' (batch, heads, length, dim)", config.qkv, name);
    return found->second.slice(0, 0, 1).slice(1, 0, 1).contiguous().cast(DType::f64);
  };
  const AttentionInputs inputs{head("Q"), head("K"), head("V")};
  if (inputs.K.shape() != inputs.Q.shape() || inputs.V.size(2) != inputs.Q.size(2)) {
    fail("{}: Q {}, K {} and V {} are not of the same tokens", config.qkv, inputs.Q.shape().str(),
         inputs.K.shape().str(), inputs.V.shape().str());
  }
  return inputs;
}

Measured of_pretrained(const Config& config, Log& log) {
  if (!config.qkv.empty()) fail("--qkv and --pretrained: give one of them");
  if (!config.scales.empty()) fail("--scales: those of a model's queries and keys are its own; leave it out");
  if (config.text.empty()) fail("--pretrained={}: name texts that it reads, with --text", config.pretrained);
  return errors_of_heads({.folder = config.pretrained,
                          .texts = config.text,
                          .lengths = config.lengths,
                          .features = config.features,
                          .methods = config.methods,
                          .pieces = config.repeats,
                          .seed = config.run.seed},
                         log);
}

/// SKY Fig. 1
Measured spectral(const Config& config, Log& log) {
  if (!config.pretrained.empty()) return of_pretrained(config, log);
  const bool imported = !config.qkv.empty();
  const AttentionInputs given = imported ? inputs_of(config) : AttentionInputs{};
  std::vector<int64_t> lengths = config.lengths;
  std::vector<double> scales = config.scales.empty() ? std::vector<double>{0.5, 1, 2} : config.scales;
  if (imported) {
    std::erase_if(lengths, [&](int64_t length) { return length > given.Q.size(2); });
    if (lengths.empty()) lengths = {given.Q.size(2)};
    if (config.scales.empty()) scales = {1};
  }
  const auto drawn = [&](int64_t length, double scale, Generator& g) -> AttentionInputs {
    if (imported) {
      const auto first = [&](const Tensor& x) { return x.slice(2, 0, length).contiguous(); };
      return {first(given.Q) * scale, first(given.K) * scale, first(given.V)};
    }
    const Shape shape{1, 1, length, config.dim};
    Tensor Q = normal(shape, g, 0, scale, DType::f64);
    Tensor K = normal(shape, g, 0, scale, DType::f64);
    return {Q, K, normal(shape, g, 0, 1, DType::f64)};
  };
  Measured measured;
  for (const int64_t length : lengths) {
    for (const double scale : scales) {
      const std::string source =
          imported ? fmt::format("Q and K of {}{}", config.qkv, scale == 1 ? "" : fmt::format(" times {}", scale))
                   : fmt::format("Q and K of deviation {}", scale);
      Figure figure{fmt::format("Spectral norm of the error (SKY Fig. 1): L = {}, {}", length, source),
                    "features or landmarks",
                    "log10 of |O~ - O| / |O|",
                    {},
                    fmt::format("Outputs against those of softmax attention, mean of {} draws.", config.repeats)};
      Table table{{"mean ± deviation"}, {}};
      for (const int64_t M : config.features) table.head.push_back(std::to_string(M));
      for (const std::string& method : config.methods) {
        Curve curve{method, 0, false, {}};
        std::vector<std::string> row = {method};
        for (const int64_t M : config.features) {
          const Spread error =
              repeated(config, fmt::format("L = {}, {}, {}, M = {}", length, source, method, M),
                       [&](Generator& g) { return spectral_error(method, M, drawn(length, scale, g), g); });
          curve.points.emplace_back(M, std::log10(error.mean));
          row.push_back(fmt::format("{:.3f} ± {:.3f}", error.mean, error.deviation));
        }
        log.info("L = {}, deviation {}: {} done", length, scale, method);
        figure.curves.push_back(curve);
        table.rows.push_back(row);
      }
      measured.tables.push_back({figure.title, table});
      measured.figures.push_back(figure);
    }
  }
  return measured;
}

void run(Config& config, Session& session) {
  const std::string& task = config.run.task;
  std::vector<std::string> names = {"nystrom"};
  for (const MechanismInfo& info : mechanisms()) names.push_back(info.name);
  for (const std::string& method : config.methods) {
    if (std::find(names.begin(), names.end(), method) != names.end()) continue;
    fail("--methods: there is no '{}'{}", method, valid_names(method, names));
  }
  const Measured measured = task == "regions"    ? regions()
                            : task == "features" ? features(config, session.log)
                            : task == "layers"   ? through_layers(config, session.log)
                                                 : spectral(config, session.log);
  write_figures(session, measured.figures, measured.tables);
}

}  // namespace
}  // namespace bochner

int main(int argc, char** argv) {
  return bochner::main_of<bochner::Config>(
      {.name = "approximation",
       .summary = "How well features and landmarks approximate attention",
       .resources = bochner::embedded_resources(),
       .trains = false,
       .unused = {"attention", "steps", "batch", "data", "device", "precision", "debug-sync", "graphs"}},
      argc, argv, bochner::run);
}

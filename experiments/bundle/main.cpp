// Bundling a trained network (SNNK 3.3, J.3, J.4): its size, operations, latency and accuracy before and after.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "autograd/fused/cross_entropy.h"
#include "engine/io/file.h"
#include "engine/ops/index.h"
#include "engine/ops/sort.h"
#include "engine/stopwatch.h"
#include "experiments/common/config/ini.h"
#include "experiments/common/program/figures.h"
#include "experiments/common/report/spread.h"
#include "experiments/common/run/run_folder.h"
#include "experiments/common/run/state.h"
#include "experiments/learners/rows/mnist.h"
#include "experiments/learners/rows/problem.h"
#include "experiments/learners/rows/uci.h"
#include "layers/models/mlp.h"

namespace {

using namespace bochner;  // NOLINT: a program, not a header

constexpr int64_t kRowsAtOnce = 4096;

struct Config {
  RunOptions run;
  int64_t features = 64;
  double ridge = 1e-6;
  std::vector<int64_t> rows = {1, 1024};
  int64_t rounds = 200;
  std::string tables;

  Config() {
    run.task = "mlp";
    run.tasks = {"mlp"};
    run.data = "";
  }
  void fields(Fields& f) {
    run.fields(f);
    f.at("data").means("folder of a finished run of uci or mnist, whose network is bundled");
    f.at("task").means("what is bundled");
    f("features", features, "features of the SNNK layer that replaces the last hidden layer of a plain network")
        .at_least(1);
    f("ridge", ridge, "ridge of the closed-form fit of a plain network's bundle, relative to the rows").at_least(0);
    f("rows", rows, "numbers of rows that are run at once to measure latency").at_least(1);
    f("rounds", rounds, "repetitions of each measurement of time, of which the median counts").at_least(1).at_most(1e6);
    f("tables", tables, "where the run's data are now; empty: where they were");
  }
};

/// A finished run of uci or mnist: its data, and its best network by validation.
struct Trained {
  std::string name;
  TableSplits data;
  std::unique_ptr<Mlp> network;
};

/// The value of a name; empty if no entry has it.
std::string value_of(const std::vector<IniEntry>& entries, const std::string& name) {
  for (const IniEntry& entry : entries) {
    if (entry.name == name) return entry.value;
  }
  return {};
}

Trained trained_of(rows::Config& of, const std::string& experiment, const std::string& protocol,
                   const std::filesystem::path& folder, const std::string& tables, Log& log) {
  Fields fields = Fields::of(of);
  std::vector<std::string> arguments = {"--config=" + (folder / kConfig).string()};
  if (!tables.empty() && !std::filesystem::exists(tables)) fail("--tables={}: there is no such file or folder", tables);
  if (!tables.empty()) arguments.push_back("--data=" + tables);
  const Resources complete{.presets = {{protocol, ""}}, .paper = {}};  // config.ini has every setting of its preset
  load_config({experiment, "", complete}, fields, of.run, arguments, {});
  Trained result;
  result.name = fmt::format("{} {} {}", experiment, of.run.task, of.run.attention);
  result.data = of.load(messages_to(log));
  Generator init(0);
  const MlpOptions options =
      rows::mlp_options(of.model, of.run.attention, result.data.train.features.size(1), result.data.classes);
  result.network = std::make_unique<Mlp>(Slot{}, options, init);
  const State best = State::load(folder / kCheckpointBest);
  load_module(*result.network, best);
  rows::recall_columns(best, result.data);
  return result;
}

Trained trained(const Config& config, Log& log) {
  const std::filesystem::path folder = config.run.data;
  if (config.run.data.empty()) fail("bundle: no run is given; name its folder with --data=runs/uci/NAME");
  if (!holds_run(folder)) fail("bundle: {}; train one with ./run uci or ./run mnist", no_run_in(folder));
  const std::vector<IniEntry> ini = parse_ini(read_text(folder / kConfig), (folder / kConfig).string());
  const std::string experiment = value_of(ini, "experiment");
  const std::string protocol = value_of(ini, "preset");
  uci_experiment::Config uci;
  mnist::Config mnist;
  const std::map<std::string, rows::Config*> known = {{"uci", &uci}, {"mnist", &mnist}};
  const auto of = known.find(experiment);
  if (of == known.end()) {
    fail("bundle: {} is a run of '{}'; those of uci and mnist can be bundled", folder.string(), experiment);
  }
  return trained_of(*of->second, experiment, protocol, folder, config.tables, log);
}

/// A network before or after bundling.
struct Candidate {
  std::string name;
  std::function<Tensor(const Tensor&)> forward;  ///< (n, inputs) -> logits
  int64_t flops, bytes;
  std::vector<double> milliseconds = {};  ///< for each of config.rows
  double accuracy = 0, loss = 0, apart = 0;
};

/// Accuracy, cross-entropy, and the distance of the logits from those of the first candidate.
void judge(std::vector<Candidate>& candidates, const TableSplit& test) {
  std::vector<double> square(candidates.size());
  double whole = 0;
  for (int64_t begin = 0; begin < test.rows(); begin += kRowsAtOnce) {
    const int64_t end = std::min(test.rows(), begin + kRowsAtOnce);
    const Tensor x = test.features.slice(0, begin, end);
    const Tensor labels = test.labels.slice(0, begin, end);
    const std::vector<int64_t> truths = labels.to_vector<int64_t>();
    std::vector<double> first;
    for (size_t i = 0; i < candidates.size(); ++i) {
      const Tensor logits = candidates[i].forward(x);
      candidates[i].loss += cross_entropy(Variable(logits), labels).item() * static_cast<double>(end - begin);
      const std::vector<int64_t> guesses = argmax(logits, 1).to_vector<int64_t>();
      for (size_t k = 0; k < truths.size(); ++k) candidates[i].accuracy += guesses[k] == truths[k] ? 1 : 0;
      const std::vector<double> values = logits.to_vector<double>();
      if (i == 0) first = values;
      for (size_t k = 0; k < values.size(); ++k) square[i] += std::pow(values[k] - first[k], 2);
    }
    for (const double value : first) whole += value * value;
  }
  for (size_t i = 0; i < candidates.size(); ++i) {
    candidates[i].accuracy /= static_cast<double>(test.rows());
    candidates[i].loss /= static_cast<double>(test.rows());
    candidates[i].apart = std::sqrt(square[i] / whole);
  }
}

/// Median milliseconds of each candidate, measured in turns, so that other load affects all alike.
void race(std::vector<Candidate>& candidates, const Config& config, const TableSplit& test) {
  for (const int64_t rows : config.rows) {
    std::vector<int64_t> places(static_cast<size_t>(rows));  // repeated if there are fewer
    for (int64_t i = 0; i < rows; ++i) places[static_cast<size_t>(i)] = i % test.rows();
    const Tensor x = take(test.features, Tensor::from(places, {rows}));
    std::vector<std::vector<double>> times(candidates.size());
    for (int64_t round = -2; round < config.rounds; ++round) {
      for (size_t i = 0; i < candidates.size(); ++i) {
        const Stopwatch watch;
        candidates[i].forward(x);
        const double milliseconds = 1e3 * watch.seconds();
        if (round >= 0) times[i].push_back(milliseconds);
      }
    }
    for (size_t i = 0; i < candidates.size(); ++i) candidates[i].milliseconds.push_back(quantile(times[i], 0.5));
  }
}

/// The least-squares fit of the bundle to the network's own logits on the training rows.
void fit_to_network(Bundle& bundle, const Mlp& network, const TableSplit& train, double ridge) {
  Generator unused(0);
  Context context{unused, false};
  const Tensor& x = train.features;
  const Tensor before = network.before_bundle(x).value();
  bundle.fit(before, network.forward(x, context).value(), ridge * static_cast<double>(train.rows()));
}

void run(Config& config, Session& session) {
  const Trained run = trained(config, session.log);
  const Mlp& network = *run.network;
  Generator unused(0);
  Context context{unused, false};
  std::vector<std::unique_ptr<Bundle>> bundles;
  std::vector<Candidate> candidates;
  candidates.push_back({"as trained", [&](const Tensor& x) { return network.forward(x, context).value(); },
                        network.flops(), run.network->bytes()});
  const auto add = [&](const std::string& name, std::unique_ptr<Bundle> bundle) {
    Bundle* const tail = bundle.get();
    candidates.push_back({name, [&network, tail](const Tensor& x) { return network.forward_bundled(x, *tail).value(); },
                          network.flops_bundled(*tail), network.bytes_bundled(*tail)});
    bundles.push_back(std::move(bundle));
  };
  if (network.ends_in_snnk()) {
    add("bundled", network.bundle());
  } else {
    const SnnkOptions options{.activation = "relu", .features = config.features};
    for (const bool fitted : {false, true}) {
      Generator init(config.run.seed);
      std::unique_ptr<Bundle> bundle = network.bundle(options, init);
      if (fitted) fit_to_network(*bundle, network, run.data.train, config.ridge);
      add(fmt::format("bundled, {} features, {}", config.features, fitted ? "fitted" : "by Psi"), std::move(bundle));
    }
  }
  judge(candidates, run.data.test);
  race(candidates, config, run.data.test);

  Table table{{run.name, "accuracy %", "loss", "logits apart", "flops a row", "bytes"}, {}};
  for (const int64_t rows : config.rows)
    table.head.push_back(fmt::format("ms for {} {}", rows, rows == 1 ? "row" : "rows"));
  for (const Candidate& one : candidates) {
    table.rows.push_back({one.name, fmt::format("{:.2f}", 100 * one.accuracy), fmt::format("{:.4g}", one.loss),
                          fmt::format("{:.2g}", one.apart), fmt::format("{}", one.flops),
                          fmt::format("{}", one.bytes)});
    for (const double time : one.milliseconds) table.rows.back().push_back(fmt::format("{:.3g}", time));
  }
  write_figures(session, {}, {{"Before and after", table}});
}

}  // namespace

int main(int argc, char** argv) {
  return bochner::main_of<Config>(
      {.name = "bundle",
       .summary = "Size, operations, latency and accuracy of a network before and after bundling",
       .resources = bochner::embedded_resources(),
       .stores_bf16 = true,
       .trains = false,
       .unused = {"attention", "steps", "batch", "device", "debug-sync", "graphs"}},
      argc, argv, run);
}

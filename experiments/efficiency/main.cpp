// Time and memory of attention, and of a whole Transformer, against the length of sequences.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>

#include "autograd/fused/cross_entropy.h"
#include "engine/allocator.h"
#include "engine/stopwatch.h"
#include "experiments/common/program/figures.h"
#include "experiments/learners/mechanism_config.h"
#include "layers/models/encoder.h"

namespace bochner {
namespace {

struct Config {
  RunOptions run;
  std::vector<int64_t> lengths = {256, 512, 1024, 2048, 4096};
  std::vector<std::string> methods = {"softmax", "performer", "performer-relu", "gmm-prf", "fastfood-prf", "none"};
  std::vector<int64_t> features;
  std::vector<int64_t> layers = {6};
  int64_t dim = 64;
  int64_t head_dim = 0;
  int64_t heads = 1;
  int64_t hidden = 64;
  int64_t vocabulary = 256;
  int64_t repeats = 3;
  double limit_seconds = 20;
  double budget_seconds = 0;
  bool causal = false;
  MechanismConfig mechanism;

  Config() {
    run.tasks = {"attention", "model"};
    run.task = "attention";
    run.batch = 1;
  }
  void fields(Fields& f) {
    run.fields(f);
    f("lengths", lengths, "numbers of tokens in a sequence").at_least(1);
    f("methods", methods, "mechanisms to compare; none returns V, the line X of PERF").one_of(attention_names());
    f("features", features, "random features of each method, in their order; empty: --mechanism.features for all")
        .at_least(0);
    f("layers", layers, "numbers of encoder blocks in the model").at_least(1).at_most(1000);
    f("dim", dim, "size of the residual stream").at_least(1);
    f("head-dim", head_dim, "size of a head; 0: dim / heads").at_least(0);
    f("heads", heads, "attention heads").at_least(1);
    f("hidden", hidden, "hidden units of the model's feed-forward blocks").at_least(1);
    f("vocabulary", vocabulary, "number of different tokens").at_least(1);
    f("repeats", repeats, "number of rounds, of which the fastest counts; all methods of a length take turns")
        .at_least(1)
        .at_most(10000);
    f("limit-seconds", limit_seconds, "a mechanism stops after a pass that took longer than this").above(0);
    f("budget-seconds", budget_seconds, "a mechanism stops if it would take longer than this in all; 0: no limit")
        .at_least(0);
    f("causal", causal, "token i sees tokens 0 to i").only("with --task=attention", [this] { return !is_model(); });
    f.group("mechanism", mechanism);
  }

  bool is_model() const { return run.task == "model"; }
  int64_t head_size() const { return head_dim > 0 ? head_dim : dim / heads; }
};

struct Cost {
  double seconds = 0;
  double mebibytes = 0;  ///< peak memory, less that held before
};

struct Costs {
  Cost forward, both;
};

/// One mechanism with its number of features, in a model of so many blocks.
struct Method {
  MechanismOptions mechanism;
  int64_t layers = 0;
  std::string label;
};

/// One mechanism at one length, ready to be measured.
struct Bench {
  std::function<void()> forward, both;  ///< without a tape; with one, and backward
};

MechanismOptions options_at(const Method& method, int64_t length) {
  return MechanismOptions(method.mechanism).set_default_length(length);
}

/// One mechanism on Q, K, V (batch, heads, length, head).
Bench attention_bench(const Config& config, const Method& method, int64_t length) {
  struct State {
    Generator generator;
    std::unique_ptr<Mechanism> mechanism;
    Tensor Q, K, V, dO;
    Mask mask;
  };
  const Device device = Device::named(config.run.device);
  const int64_t head = config.head_size();
  const auto state = std::make_shared<State>();
  state->generator = Generator(config.run.seed);
  state->mechanism = make_mechanism({}, config.heads, head, options_at(method, length), state->generator);
  state->mechanism->to(device, DType::f32);
  for (Tensor* tensor : {&state->Q, &state->K, &state->V, &state->dO}) {
    *tensor = normal({config.run.batch, config.heads, length, head}, state->generator).to(device);
  }
  state->mask = Mask{{}, config.causal};
  return {[state] {
            Context context{state->generator, true};
            state->mechanism->forward(state->Q, state->K, state->V, state->mask, context);
          },
          [state] {
            Context context{state->generator, true};
            Tape tape;
            const Variable q = tape.watch(state->Q), k = tape.watch(state->K), v = tape.watch(state->V);
            tape.gradients({state->mechanism->forward(q, k, v, state->mask, context)}, {state->dO}, {q, k, v});
          }};
}

/// A training step of a classifier without its optimizer.
Bench model_bench(const Config& config, const Method& method, int64_t length) {
  struct State {
    Generator generator;
    std::unique_ptr<SequenceClassifier> model;
    std::vector<Parameter*> parameters;
    Tensor ids, labels;
  };
  const Device device = Device::named(config.run.device);
  const auto state = std::make_shared<State>();
  state->generator = Generator(config.run.seed);
  state->model =
      std::make_unique<SequenceClassifier>(EncoderOptions{.vocabulary = config.vocabulary,
                                                          .length = length,
                                                          .classes = 2,
                                                          .layers = method.layers,
                                                          .dim = config.dim,
                                                          .hidden = config.hidden,
                                                          .attention = {.mechanism = options_at(method, length),
                                                                        .heads = config.heads,
                                                                        .head_dim = config.head_size()}},
                                           state->generator);
  state->model->to(device, DType::f32);
  state->parameters = state->model->parameters();
  state->ids = integers({config.run.batch, length}, 0, config.vocabulary, state->generator).to(device);
  state->labels = integers({config.run.batch}, 0, 2, state->generator).to(device);
  return {[state] {
            Context context{state->generator, true};
            state->model->forward(state->ids, {}, context);
          },
          [state] {
            Context context{state->generator, true};
            {
              Tape tape;
              tape.backward(cross_entropy(state->model->forward(state->ids, {}, context), state->labels));
            }
            for (Parameter* parameter : state->parameters) parameter->grad = Tensor();
          }};
}

/// The cost of one mechanism at one length, or `why_not` if it was not measured.
struct Row {
  const Method* method;
  int64_t length;
  Costs costs;
  std::string why_not;  ///< "limit" or "budget"
};

std::vector<Method> methods_of(const Config& config) {
  if (!config.features.empty() && config.features.size() != config.methods.size()) {
    fail("efficiency: {} --features for {} --methods; give one for each, or none", config.features.size(),
         config.methods.size());
  }
  std::vector<Method> methods;
  for (const int64_t layers : config.is_model() ? config.layers : std::vector<int64_t>{0}) {
    for (size_t i = 0; i < config.methods.size(); ++i) {
      Method method{config.mechanism.chosen(config.methods[i]), layers, config.methods[i]};
      if (!config.features.empty() && config.features[i] > 0) {
        method.mechanism.set_known({{"features", config.features[i]}});
        method.label += fmt::format(" {}", config.features[i]);
      }
      if (config.is_model() && config.layers.size() > 1) method.label += fmt::format(", {} layers", layers);
      methods.push_back(method);
    }
  }
  return methods;
}

/// Measures one call. The first one, `round` 0, finds cold caches and counts only if it exceeds the limit.
void measure(const Config& config, const std::function<void()>& call, int64_t round, Cost& cost) {
  Allocator& allocator = Allocator::of(Device::named(config.run.device));
  const int64_t before = allocator.stats().current_bytes;
  allocator.reset_peak();
  const Stopwatch watch;
  call();
  const double seconds = watch.seconds();
  cost.mebibytes = static_cast<double>(allocator.stats().peak_bytes - before) / (1 << 20);
  cost.seconds = round <= 1 ? seconds : std::min(cost.seconds, seconds);
}

/// Measures all methods at one length in turn, round by round, so that other load affects all alike. `stops` has the
/// reasons of methods that stop here; `spent` are their seconds so far.
std::vector<Row> measured(const Config& config, const std::vector<Method>& methods, int64_t length,
                          std::vector<std::string>& stops, std::vector<double>& spent, Log& log) {
  std::vector<Row> rows;
  std::vector<Bench> benches(methods.size());
  for (size_t i = 0; i < methods.size(); ++i) {
    rows.push_back({&methods[i], length, {}, stops[i]});
    if (!stops[i].empty()) continue;
    benches[i] =
        config.is_model() ? model_bench(config, methods[i], length) : attention_bench(config, methods[i], length);
  }
  for (int64_t round = 0; round <= config.repeats; ++round) {
    for (size_t i = 0; i < methods.size(); ++i) {
      if (!stops[i].empty()) continue;
      const Stopwatch watch;
      measure(config, benches[i].forward, round, rows[i].costs.forward);
      measure(config, benches[i].both, round, rows[i].costs.both);
      spent[i] += watch.seconds();
      if (rows[i].costs.both.seconds > config.limit_seconds) stops[i] = "limit";
    }
  }
  for (size_t i = 0; i < methods.size(); ++i) {
    const auto& [forward, both] = rows[i].costs;
    if (!rows[i].why_not.empty()) continue;
    log.info("{:<20} L = {:<7} {:.3f} ms forward, {:.3f} ms with backward, {:.2f} MiB", methods[i].label, length,
             1e3 * forward.seconds, 1e3 * both.seconds, both.mebibytes);
    if (stops[i] == "limit") {
      log.info("{:<20} stops here: a pass took over {:g} s (--limit-seconds)", methods[i].label, config.limit_seconds);
    }
  }
  return rows;
}

/// Stops the methods whose seconds at the next length, growing at least in proportion to it, would exceed the budget.
void keep_budget(const Config& config, const std::vector<Row>& last, int64_t next, const std::vector<double>& spent,
                 std::vector<std::string>& stops, Log& log) {
  if (config.budget_seconds == 0) return;
  for (size_t i = 0; i < last.size(); ++i) {
    const auto& [forward, both] = last[i].costs;
    const double growth = static_cast<double>(next) / static_cast<double>(last[i].length);
    const double least = growth * static_cast<double>(config.repeats + 1) * (forward.seconds + both.seconds);
    if (!stops[i].empty() || spent[i] + least <= config.budget_seconds) continue;
    stops[i] = "budget";
    log.info("{:<20} stops here: over {:g} s in all (--budget-seconds)", last[i].method->label, config.budget_seconds);
  }
}

/// The row of this mechanism at the same length in an equally deep model, if it was measured.
const Row* beside(const std::vector<Row>& rows, const Row& row, const std::string& name) {
  for (const Row& other : rows) {
    const bool alike = other.length == row.length && other.method->layers == row.method->layers;
    if (alike && other.method->mechanism.name() == name && other.why_not.empty()) return &other;
  }
  return nullptr;
}

/// Compares rows with `none`, the ideal, and with softmax, if these are among the methods.
Table table_of(const std::vector<Row>& rows) {
  Table table{{"mechanism", "length", "forward ms", "both ms", "forward MiB", "both MiB", "time / none",
               "softmax / time", "softmax / memory"},
              {}};
  for (const Row& row : rows) {
    std::vector<std::string> cells = {row.method->label, std::to_string(row.length)};
    if (row.why_not.empty()) {
      const auto& [forward, both] = row.costs;
      const Row* const none = beside(rows, row, "none");
      const Row* const softmax = beside(rows, row, "softmax");
      const auto ratio = [](const Row* row_or_null, double over, double under) {
        return row_or_null == nullptr || under <= 0 ? std::string("–") : fmt::format("{:.2f}", over / under);
      };
      const auto seconds = [](const Row* other) { return other == nullptr ? 0 : other->costs.both.seconds; };
      cells.insert(cells.end(),
                   {fmt::format("{:.3f}", 1e3 * forward.seconds), fmt::format("{:.3f}", 1e3 * both.seconds),
                    fmt::format("{:.2f}", forward.mebibytes), fmt::format("{:.2f}", both.mebibytes),
                    ratio(none, both.seconds, seconds(none)), ratio(softmax, seconds(softmax), both.seconds),
                    ratio(softmax, softmax == nullptr ? 0 : softmax->costs.both.mebibytes, both.mebibytes)});
    } else {
      cells.push_back(row.why_not);
      cells.resize(table.head.size());
    }
    table.rows.push_back(std::move(cells));
  }
  return table;
}

void run(Config& config, Session& session) {
  if (config.head_dim == 0 && config.dim % config.heads != 0) {
    fail("efficiency: {} heads do not divide {}; see --head-dim", config.heads, config.dim);
  }
  const std::vector<Method> methods = methods_of(config);
  const std::string load = machine_load();
  std::vector<Row> rows;
  std::vector<std::string> stops(methods.size());
  std::vector<double> spent(methods.size(), 0);
  for (const int64_t length : config.lengths) {
    if (!rows.empty()) {
      const std::vector<Row> last(rows.end() - static_cast<std::ptrdiff_t>(methods.size()), rows.end());
      keep_budget(config, last, length, spent, stops, session.log);
    }
    for (Row& row : measured(config, methods, length, stops, spent, session.log)) rows.push_back(std::move(row));
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.method < b.method; });

  std::string depths;
  for (const int64_t layers : config.layers) depths += (depths.empty() ? "" : " or ") + std::to_string(layers);
  const std::string sizes = fmt::format(
      "Batch {}, {} heads of {}{}{}. The shortest of {} rounds, methods in turn; {} threads. Load of the machine over "
      "1, 5 and 15 minutes {} "
      "before, {} after.",
      config.run.batch, config.heads, config.head_size(),
      config.features.empty() ? fmt::format(", {} features", config.mechanism.text("features")) : "",
      config.is_model() ? fmt::format(", {} layers, model of {}, {} hidden units", depths, config.dim, config.hidden)
      : config.causal   ? ", causal"
                        : "",
      config.repeats, config.run.threads > 0 ? std::to_string(config.run.threads) : "all", load, machine_load());
  std::string title = sizes;
  const auto says = [&](const char* why) {
    return std::any_of(rows.begin(), rows.end(), [&](const Row& row) { return row.why_not == why; });
  };
  if (says("limit")) title += fmt::format(" limit: not run, after a pass of over {:g} s.", config.limit_seconds);
  if (says("budget")) title += fmt::format(" budget: not run, over {:g} s in all.", config.budget_seconds);
  const std::string x = "log2 of the length";
  std::vector<Figure> figures = {{"Time of forward", x, "log10 of seconds", {}, sizes},
                                 {"Time of forward and backward", x, "log10 of seconds", {}, sizes},
                                 {"Peak memory of forward", x, "log10 of MiB", {}, sizes},
                                 {"Peak memory of forward and backward", x, "log10 of MiB", {}, sizes}};
  for (Figure& figure : figures) {
    for (const Method& method : methods)
      figure.curves.push_back({method.label, 0, method.mechanism.name() == "none", {}});
  }
  for (const Row& row : rows) {
    const auto method = static_cast<size_t>(row.method - methods.data());
    const double values[] = {row.costs.forward.seconds, row.costs.both.seconds, row.costs.forward.mebibytes,
                             row.costs.both.mebibytes};
    for (size_t i = 0; i < figures.size(); ++i) {
      if (values[i] <= 0) continue;
      figures[i].curves[method].points.emplace_back(std::log2(static_cast<double>(row.length)), std::log10(values[i]));
    }
  }
  write_figures(session, figures, {{title, table_of(rows)}});
}

}  // namespace
}  // namespace bochner

int main(int argc, char** argv) {
  return bochner::main_of<bochner::Config>({.name = "efficiency",
                                            .summary = "Time and memory of attention against the length",
                                            .resources = bochner::embedded_resources(),
                                            .trains = false,
                                            .unused = {"attention", "steps"}},
                                           argc, argv, bochner::run);
}

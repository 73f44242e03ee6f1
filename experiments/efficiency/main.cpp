// Time and memory of attention, and of a whole Transformer, against the length of sequences, or against one of the
// other sizes in KL Table 1.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>

#include "engine/allocator.h"
#include "engine/card.h"
#include "engine/stopwatch.h"
#include "experiments/common/program/figures.h"
#include "experiments/efficiency/benches.h"

namespace bochner::efficiency {
namespace {

struct Cost {
  double seconds = 0;
  double mebibytes = 0;  ///< peak memory, less what was held before
};

struct Costs {
  Cost forward, both;
};

/// The cost of one mechanism at one length, or other value, or the reason why it was not measured.
struct Row {
  const Method* method;
  int64_t value;
  Costs costs;
  std::string why_not;  ///< "limit", "budget" or "memory"
};

double now(const Config& config) {
  static const Stopwatch since_first_call;
  if (config.clock == "wall") return since_first_call.seconds();
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Measures one call. The first one, `round` 0, has cold caches and counts only if it exceeds the limit.
void measure(const Config& config, const std::function<void()>& call, int64_t round, Cost& cost) {
  const Device device = Device::named(config.run.device);
  Allocator& allocator = Allocator::of(device);
  const int64_t before = allocator.stats().current_bytes;
  allocator.reset_peak();
  synchronize(device);
  const double start = now(config);
  call();
  synchronize(device);
  const double seconds = now(config) - start;
  cost.mebibytes = static_cast<double>(allocator.stats().peak_bytes - before) / (1 << 20);
  cost.seconds = round <= 1 ? seconds : std::min(cost.seconds, seconds);
}

/// Measures all methods at one length, or other value, in turns, round by round, so that other load affects all alike.
/// `stops` receives the reasons of methods that stop here; `spent` has their seconds so far.
std::vector<Row> measured(const Config& config, const std::vector<Method>& methods, int64_t value,
                          std::vector<std::string>& stops, std::vector<double>& spent, Log& log) {
  std::vector<Row> rows;
  std::vector<Bench> benches(methods.size());
  for (size_t i = 0; i < methods.size(); ++i) {
    rows.push_back({&methods[i], value, {}, stops[i]});
  }
  // A method that needs too much memory at this value stops here, and the others continue.
  const auto within_memory = [&](size_t i, const std::function<void()>& call) {
    try {
      call();
    } catch (const OutOfMemory& error) {
      benches[i] = {};
      stops[i] = rows[i].why_not = "memory";
      log.info("{:<20} stops here: {}", methods[i].label, error.what());
    }
  };
  for (size_t i = 0; i < methods.size(); ++i) {
    if (stops[i].empty()) within_memory(i, [&] { benches[i] = bench_at(config, methods[i], value); });
  }
  for (int64_t round = 0; round <= config.repeats; ++round) {
    for (size_t i = 0; i < methods.size(); ++i) {
      if (!stops[i].empty()) continue;
      const double start = now(config);
      within_memory(i, [&] {
        measure(config, benches[i].forward, round, rows[i].costs.forward);
        measure(config, benches[i].both, round, rows[i].costs.both);
      });
      spent[i] += now(config) - start;
      if (rows[i].costs.both.seconds > config.limit_seconds) stops[i] = "limit";
    }
  }
  for (size_t i = 0; i < methods.size(); ++i) {
    const auto& [forward, both] = rows[i].costs;
    if (!rows[i].why_not.empty()) continue;
    log.info("{:<20} {} {:<7} {:.3f} ms forward, {:.3f} ms with backward, {:.2f} MiB", methods[i].label, config.against,
             value, 1e3 * forward.seconds, 1e3 * both.seconds, both.mebibytes);
    if (stops[i] == "limit") {
      log.info("{:<20} stops here: a pass took over {:g} s (--limit-seconds)", methods[i].label, config.limit_seconds);
    }
  }
  return rows;
}

/// Stops the methods whose time at the next value would exceed the budget: it grows at least in proportion to the
/// length, and does not decrease with the other sizes.
void keep_budget(const Config& config, const std::vector<Row>& last, int64_t next, const std::vector<double>& spent,
                 std::vector<std::string>& stops, Log& log) {
  if (config.budget_seconds == 0) return;
  for (size_t i = 0; i < last.size(); ++i) {
    const auto& [forward, both] = last[i].costs;
    const double growth =
        config.against == "length" ? static_cast<double>(next) / static_cast<double>(last[i].value) : 1;
    const double least = growth * static_cast<double>(config.repeats + 1) * (forward.seconds + both.seconds);
    if (!stops[i].empty() || spent[i] + least <= config.budget_seconds) continue;
    stops[i] = "budget";
    log.info("{:<20} stops here: over {:g} s in all (--budget-seconds)", last[i].method->label, config.budget_seconds);
  }
}

/// The row of this mechanism at the same value in an equally deep model, if it was measured.
const Row* beside(const std::vector<Row>& rows, const Row& row, const std::string& name) {
  for (const Row& other : rows) {
    const bool alike = other.value == row.value && other.method->layers == row.method->layers;
    if (alike && other.method->mechanism.name() == name && other.why_not.empty()) return &other;
  }
  return nullptr;
}

/// Compares rows with `none`, the ideal, and with softmax, if these are among the methods.
Table table_of(const std::vector<Row>& rows, const std::string& against) {
  Table table{{"mechanism", against, "forward ms", "both ms", "forward MiB", "both MiB", "time / none",
               "softmax / time", "softmax / memory"},
              {}};
  for (const Row& row : rows) {
    std::vector<std::string> cells = {row.method->label, std::to_string(row.value)};
    if (row.why_not.empty()) {
      const auto& [forward, both] = row.costs;
      const Row* const none = beside(rows, row, "none");
      const Row* const softmax = beside(rows, row, "softmax");
      const auto ratio = [](const Row* row_or_null, double over, double under) {
        return row_or_null == nullptr || under <= 0 ? std::string(kNoNumber) : fmt::format("{:.2f}", over / under);
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

/// The slope of log y against log x by least squares: e if y grows as x^e; "–" if there are fewer than two points.
std::string exponent(const std::vector<std::pair<double, double>>& points) {
  if (points.size() < 2) return kNoNumber;
  double x_mean = 0, y_mean = 0, above = 0, below = 0;
  for (const auto& [x, y] : points) {
    x_mean += std::log(x) / static_cast<double>(points.size());
    y_mean += std::log(y) / static_cast<double>(points.size());
  }
  for (const auto& [x, y] : points) {
    above += (std::log(x) - x_mean) * (std::log(y) - y_mean);
    below += (std::log(x) - x_mean) * (std::log(x) - x_mean);
  }
  if (below == 0) return kNoNumber;
  return fmt::format("{:.2f}", std::round(100 * above / below) / 100 + 0.0);  // + 0.0: no -0.00
}

/// Over all values, and over the last two, where costs that do not grow weigh least.
Table exponents_of(const std::vector<Method>& methods, const std::vector<Row>& rows) {
  Table table{{"mechanism", "time", "time, last two", "memory", "memory, last two"}, {}};
  for (const Method& method : methods) {
    std::vector<std::pair<double, double>> seconds, mebibytes;
    for (const Row& row : rows) {
      if (row.method != &method || !row.why_not.empty()) continue;
      const auto& [forward, both] = row.costs;
      seconds.emplace_back(static_cast<double>(row.value), both.seconds);
      if (both.mebibytes > 0) mebibytes.emplace_back(static_cast<double>(row.value), both.mebibytes);
    }
    std::vector<std::string> cells = {method.label};
    for (const auto& points : {seconds, mebibytes}) {
      const auto last = points.end() - std::min(std::ssize(points), std::ptrdiff_t{2});
      cells.push_back(exponent(points));
      cells.push_back(exponent({last, points.end()}));
    }
    table.rows.push_back(std::move(cells));
  }
  return table;
}

/// An Error if it is not said what is varied, or is said twice.
void check(const Config& config, const Fields& fields) {
  if (config.head_dim == 0 && config.dim % config.heads != 0) {
    fail("efficiency: {} heads do not divide {}; see --head-dim", config.heads, config.dim);
  }
  if (config.against != "length" && (config.values.empty() || config.lengths.size() != 1)) {
    fail("efficiency: --against={} needs --values, and one number for --lengths", config.against);
  }
  if (config.against == "features" && !config.features.empty()) {
    fail("efficiency: --against=features gives each method its --values; leave --features out");
  }
  if (const Field* const option = fields.find("mechanism." + config.against); option && option->was_given()) {
    fail("efficiency: --against={} gives the mechanisms its --values; leave --{} out", config.against, option->name());
  }
  if (config.clock == "cpu" && !Device::named(config.run.device).is_cpu()) {
    fail("efficiency: --clock=cpu says nothing of a card; leave it out");
  }
}

void run(Config& config, Session& session) {
  check(config, session.fields);
  const std::vector<Method> methods = methods_of(config);
  const std::string load = machine_load();
  std::vector<Row> rows;
  std::vector<std::string> stops(methods.size());
  std::vector<double> spent(methods.size(), 0);
  for (const int64_t value : config.swept()) {
    if (!rows.empty()) {
      const std::vector<Row> last(rows.end() - static_cast<std::ptrdiff_t>(methods.size()), rows.end());
      keep_budget(config, last, value, spent, stops, session.log);
    }
    for (Row& row : measured(config, methods, value, stops, spent, session.log)) rows.push_back(std::move(row));
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.method < b.method; });

  std::string depths;
  for (const int64_t layers : config.layers) depths += (depths.empty() ? "" : " or ") + std::to_string(layers);
  std::string sizes = fmt::format("Batch {}, {} heads", config.run.batch, config.heads);
  if (config.against != "head-dim") sizes += fmt::format(" of {}", config.head_size());
  if (config.against != "features" && config.features.empty()) {
    sizes += fmt::format(", {} features", config.mechanism.text("features"));
  }
  if (config.against != "length") sizes += fmt::format(", {} tokens", config.lengths.front());
  if (config.is_model()) {
    sizes += fmt::format(", {} layers, model of {}, {} hidden units", depths, config.dim, config.hidden);
  }
  if (config.causal) sizes += ", causal";
  sizes += fmt::format(
      ". Rounds: {}, methods in turn, the shortest counts{}. Threads: {}. Load of the machine over 1, 5 and 15 minutes "
      "{} "
      "before, {} after.",
      config.repeats, config.clock == "cpu" ? ", in processor time" : "",
      config.run.threads > 0 ? std::to_string(config.run.threads) : "all", load, machine_load());
  std::string title = sizes;
  const auto says = [&](const char* why) {
    return std::any_of(rows.begin(), rows.end(), [&](const Row& row) { return row.why_not == why; });
  };
  if (says("limit")) title += fmt::format(" limit: not run, after a pass of over {:g} s.", config.limit_seconds);
  if (says("memory")) title += " memory: not run, more than there was.";
  if (says("budget")) title += fmt::format(" budget: not run, over {:g} s in all.", config.budget_seconds);
  const std::string x = "log2 of " + (config.against == "length" ? "the length" : config.against);
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
      figures[i].curves[method].points.emplace_back(std::log2(static_cast<double>(row.value)), std::log10(values[i]));
    }
  }
  write_figures(session, figures,
                {{title, table_of(rows, config.against)},
                 {fmt::format("Exponents: time and memory of forward and backward grow as {} to the power of this",
                              config.against),
                  exponents_of(methods, rows)}});
}

}  // namespace
}  // namespace bochner::efficiency

int main(int argc, char** argv) {
  return bochner::main_of<bochner::efficiency::Config>(
      {.name = "efficiency",
       .summary = "Time and memory of attention against the length, features, Gaussians or size of a head",
       .resources = bochner::embedded_resources(),
       .trains = false,
       .unused = {"attention", "steps", "data"}},
      argc, argv, bochner::efficiency::run);
}

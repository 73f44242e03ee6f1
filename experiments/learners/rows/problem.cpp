#include "experiments/learners/rows/problem.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/io/json_file.h"
#include "engine/ops/sort.h"

namespace bochner::rows {
namespace {

constexpr int64_t kEvaluationRows = 4096;

/// The accuracy of the network with its tail bundled.
double bundled_accuracy(const Mlp& model, const Bundle& bundle, const TableSplit& rows, Device device) {
  std::vector<int64_t> guesses;
  RowFeed feed(rows, kEvaluationRows, 0, false);
  for (int64_t i = feed.steps_per_epoch(); i > 0; --i) {
    const Tensor scores = model.forward_bundled(feed.next().at("x").to(device), bundle).value();
    for (const int64_t guess : argmax(scores, 1).to_vector<int64_t>()) guesses.push_back(guess);
  }
  return accuracy(guesses, rows.labels.to_vector<int64_t>());
}

void add_costs(Mlp& model, bool has_snnk, const TableSplit& test, Device device, Metrics& metrics) {
  metrics.emplace_back("flops", static_cast<double>(model.flops()));
  metrics.emplace_back("bytes", static_cast<double>(model.bytes()));
  if (!has_snnk) return;
  const std::unique_ptr<Bundle> bundle = model.bundle();
  metrics.emplace_back("flops-bundled", static_cast<double>(model.flops_bundled(*bundle)));
  metrics.emplace_back("bytes-bundled", static_cast<double>(model.bytes_bundled(*bundle)));
  metrics.emplace_back("accuracy-bundled", bundled_accuracy(model, *bundle, test, device));
}

/// Names without characters that would end a field of predictions.
std::vector<std::string> in_one_field(std::vector<std::string> names) {
  for (std::string& name : names)
    std::replace_if(
        name.begin(), name.end(), [](char c) { return c >= 0 && c < ' '; }, ' ');
  return names;
}

constexpr const char* kColumns = "columns";
constexpr const char* kClasses = "classes";
constexpr const char* kMean = "columns.mean";
constexpr const char* kScale = "columns.scale";

void keep_columns(const TableSplits& data, State& state) {
  const auto keep = [&](const char* name, const auto& values) { state.set(name, nlohmann::json(values).dump()); };
  keep(kColumns, data.columns);
  keep(kClasses, data.class_names);
  keep(kMean, data.mean);
  keep(kScale, data.scale);
}

template <class T>
std::vector<T> kept(const State& state, const char* name) {
  const nlohmann::ordered_json list = parse_json(state.text(name), state.file + ": " + name);
  std::vector<T> values;
  for (const auto& value : list) {
    if (!(std::is_same_v<T, std::string> ? value.is_string() : value.is_number())) {
      fail("{}: {} holds {}", state.file, name, shown(value.dump()));
    }
    values.push_back(value.template get<T>());
  }
  return values;
}

void require_same(const State& state, const char* name, const std::vector<std::string>& here) {
  const std::vector<std::string> there = kept<std::string>(state, name);
  if (there.size() != here.size())
    fail("{}: there are {} {}, but {} here", state.file, there.size(), name, here.size());
  for (size_t i = 0; i < here.size(); ++i) {
    if (there[i] == here[i]) continue;
    fail("{}: of its {} number {} is {}, but {} here; a model can be asked about a table with the same {} alone",
         state.file, name, i, shown(there[i]), shown(here[i]), name);
  }
}

}  // namespace

void recall_columns(const State& state, TableSplits& data) {
  if (!state.values.contains(kColumns)) return;
  require_same(state, kColumns, data.columns);
  require_same(state, kClasses, data.class_names);
  const std::vector<float> mean = kept<float>(state, kMean);
  const std::vector<float> scale = kept<float>(state, kScale);
  if (mean == data.mean && scale == data.scale) return;
  if (mean.size() != data.mean.size() || scale.size() != data.scale.size()) {
    fail("{}: {} and {} are not of {} columns", state.file, kMean, kScale, data.mean.size());
  }
  standardise_by(data, mean, scale);
}

Examples RowFeed::next() {
  TableBatch batch = loader_.next();
  return {{{"x", batch.x}, {"labels", batch.labels}}, std::move(batch.rows)};
}

void RowFeed::go_to(int64_t step) { loader_.go_to(step); }

Problem classification(const RunOptions& run, const ModelConfig& model, const SnnkOptimConfig& optim, TableSplits& data,
                       const TaskEntry<TableSplits>& task) {
  Generator init = stream_of(run.seed, Stream::init);
  const MlpOptions options = mlp_options(model, run.attention, data.train.features.size(1), data.classes);
  const auto mlp = std::make_shared<Mlp>(Slot{}, options, init);
  Problem problem;
  problem.model = mlp;
  problem.forward = [mlp](const Examples& examples, Context& context) -> Outputs {
    return {mlp->forward(examples.at("x"), context)};
  };
  problem.objective = std::make_shared<Classification>("labels", in_one_field(data.class_names));
  problem.number_of = [&data](int64_t row) { return data.test.number_of(row); };
  problem.train = std::make_unique<RowFeed>(data.train, run.batch, stream_of(run.seed, Stream::order).seed(), true);
  problem.split = [&data](Split split) {
    return std::make_unique<RowFeed>(split == Split::valid ? data.valid : data.test, kEvaluationRows, 0, false);
  };
  problem.metrics = metrics_named(task.metrics, data.classes);
  problem.inputs = data.columns;
  problem.remarks = data.remarks;
  problem.keeps = [&data](State& state) { keep_columns(data, state); };
  problem.recalls = [&data](const State& state) { recall_columns(state, data); };
  problem.groups = optim.rules(mlp->snnk_weights());
  problem.baselines = [&data, own = task.baselines] {
    std::vector<Baseline> all = {of_majority_class(data.train.labels.to_vector<int64_t>(),
                                                   data.test.labels.to_vector<int64_t>(), metrics_named({"accuracy"}))};
    const std::vector<Baseline> more = own ? own(data) : std::vector<Baseline>();
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  problem.further = [&data, mlp, has_snnk = options.snnk.has_value(), device = Device::named(run.device)](
                        Split split, const Answers&, Metrics& metrics) {
    if (split == Split::test) add_costs(*mlp, has_snnk, data.test, device, metrics);
  };
  return problem;
}

}  // namespace bochner::rows

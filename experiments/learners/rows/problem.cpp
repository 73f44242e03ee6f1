#include "experiments/learners/rows/problem.h"

#include "engine/ops/sort.h"

namespace bochner::rows {
namespace {

constexpr int64_t kEvaluationRows = 4096;

std::vector<Baseline> majority(const TableSplits& data) {
  return {{"majority class", of_majority_class(data.train.labels.to_vector<int64_t>(),
                                               data.test.labels.to_vector<int64_t>(), metrics_named({"accuracy"}))}};
}

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

}  // namespace

Examples RowFeed::next() {
  TableBatch batch = loader_.next();
  return {{{"x", batch.x}, {"labels", batch.labels}}, std::move(batch.rows)};
}

void RowFeed::go_to(int64_t step) { loader_.go_to(step); }

Problem classification(const RunOptions& run, const ModelConfig& model, const SnnkOptimConfig& optim,
                       const TableSplits& data, const TaskEntry<TableSplits>& task) {
  Generator init = stream_of(run.seed, Stream::init);
  const MlpOptions options = mlp_options(model, run.attention, data.train.features.size(1), data.classes);
  const auto mlp = std::make_shared<Mlp>(Slot{}, options, init);
  Problem problem;
  problem.model = mlp;
  problem.forward = [mlp](const Examples& examples, Context& context) -> Outputs {
    return {mlp->forward(examples.at("x"), context)};
  };
  problem.objective = std::make_shared<Classification>();
  problem.train = std::make_unique<RowFeed>(data.train, run.batch, stream_of(run.seed, Stream::order).seed(), true);
  problem.split = [&data](Split split) {
    return std::make_unique<RowFeed>(split == Split::valid ? data.valid : data.test, kEvaluationRows, 0, false);
  };
  problem.metrics = metrics_named(task.metrics, data.classes);
  problem.inputs = data.columns;
  problem.groups = optim.rules(mlp->snnk_weights());
  problem.baselines = [&data, own = task.baselines] {
    std::vector<Baseline> all = majority(data);
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

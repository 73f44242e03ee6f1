#include "experiments/learners/adaptation/adapted.h"

#include "engine/io/data_log.h"
#include "engine/io/sha256.h"
#include "engine/ops/join.h"
#include "experiments/common/run/tensor_file.h"
#include "layers/models/hugging_face.h"

namespace bochner {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kFitBatches = 32;

/// So that the record of a run tells which weights it began with.
void record(const fs::path& file, const std::string& sha256) {
  if (DataLog::is_active()) DataLog::add({file.string(), static_cast<int64_t>(fs::file_size(file)), sha256});
}

/// The scores of a batch, or 1 at the class and 0 elsewhere.  (n, outputs)
Tensor target_of(const Examples& batch, int64_t outputs) {
  if (outputs == 1) return batch.at("values").reshape({batch.size(), 1});
  std::vector<float> targets(static_cast<size_t>(batch.size() * outputs));
  const std::vector<int64_t> labels = batch.at("labels").to_vector<int64_t>();
  for (size_t i = 0; i < labels.size(); ++i)
    targets[i * static_cast<size_t>(outputs) + static_cast<size_t>(labels[i])] = 1;
  return Tensor::from(targets, {batch.size(), outputs});
}

}  // namespace

Problem::Base adapt(PretrainedModel& model, const AdaptationConfig& config, const AdaptedFrom& from, Generator& init,
                    const std::function<void(const std::string&)>& say) {
  Problem::Base base;
  if (!config.from_scratch && !from.pretrained.empty()) {
    const LoadedTensors loaded = load_pretrained(model, from.pretrained);
    say(fmt::format("{}: {}", from.pretrained.string(), loaded.text()));
    const fs::path file = pretrained_weights(from.pretrained);
    base = {file.string(), sha256_of_file(file), loaded.filled};
    record(file, base.sha256);
  }
  const Method& method = method_of(config);
  if (method.adds) add_adapter(model, method.adds(config), init);
  if (method.change) method.change(model, config, init);
  if (!from.adapter.empty()) {
    const std::vector<std::string> read = load_adapter(model, read_peft(from.adapter), from.adapter);
    for (const std::string& name : read) base.tensors.erase(name);
    const fs::path file = fs::path(from.adapter) / "adapter_model.safetensors";
    record(file, sha256_of_file(file));
    say(fmt::format("{}: {} tensors read", from.adapter, read.size()));
  }
  return base;
}

void keep_frozen(Problem::Base& base, const std::vector<GroupRule>& rules) {
  std::set<std::string> frozen;
  for (const GroupRule& rule : rules) {
    if (rule.frozen && base.tensors.contains(rule.pattern)) frozen.insert(rule.pattern);
  }
  base.tensors = std::move(frozen);
}

void fit_bundle(const AdaptationConfig& config, const RunOptions& run, Problem& problem,
                const std::function<Variable(const Examples&, Context&)>& states) {
  auto& model = dynamic_cast<PretrainedModel&>(*problem.model);
  Bundle* bundle = model.bundled_pooler();
  if (bundle == nullptr) fail("--model.ridge={}: only the method bundle has a closed form", config.ridge);
  const Device device = Device::named(run.device);
  const int64_t outputs = model.classes();
  model.to(device, DType::f32);
  const NoTape inference;
  Generator unused(0);
  Context context{unused, false};
  RidgeFit regression(bundle->weight().shape()[1], outputs);
  std::vector<Tensor> features;  // a QR of many rows at once is faster
  std::vector<Tensor> targets;
  const int64_t batches = problem.train->steps_per_epoch();
  for (int64_t i = 1; i <= batches; ++i) {
    const Examples batch = problem.train->next();
    features.push_back(model.pool(states(batch.to(device), context)).value().to(Device::cpu()));
    targets.push_back(target_of(batch, outputs));
    if (i % kFitBatches != 0 && i != batches) continue;
    regression.add(concat(features, 0), concat(targets, 0));
    features.clear();
    targets.clear();
  }
  problem.train->go_to(0);
  const RidgeFit::Solution solution = regression.solve(config.ridge);
  bundle->weight().value.copy_(solution.weight.cast(DType::f32).to(device));
  bundle->bias()->value.copy_(solution.bias.cast(DType::f32).to(device));
}

void write_adapter(const AdaptationConfig& config, const RunOptions& run, PretrainedModel& model,
                   const std::set<std::string>& frozen, const fs::path& pretrained, const fs::path& folder) {
  const Method& method = method_of(config);
  // With another attention, or from scratch, other parts of the model may be new, too.
  if (!method.adds || run.attention != "softmax" || config.from_scratch || pretrained.empty()) return;
  Peft peft = method.adds(config);
  if (model.pooler() != nullptr && !frozen.contains("pooler.weight")) peft.modules_to_save.emplace_back("pooler");
  save_adapter(model, peft, folder / "adapter", pretrained.string());
}

fs::path export_folder(const std::string& to, const fs::path& pretrained) {
  if (to.empty()) fail("--export: say --to=FOLDER");
  require_other_folder("to", to, pretrained);
  return to;
}

}  // namespace bochner

#include "experiments/learners/adaptation/adapted.h"

#include <algorithm>

#include "experiments/learners/pretrained.h"
#include "layers/models/hugging_face.h"
#include "layers/models/peft_names.h"

namespace bochner {
namespace {

namespace fs = std::filesystem;

/// A pooler and a classifier that are trained or `made_new` are saved whole, unless they have an update, which is
/// trained instead.
void save_heads(Peft& peft, PretrainedModel& model, const AdaptationConfig& config, const AdaptedFrom& from,
                const std::vector<std::string>& made_new) {
  if (peft.replaces_heads()) return;
  const std::vector<GroupRule> rules = rules_of(method_of(config), config, model);
  const auto is_frozen = [&](const std::string& name) {
    return std::any_of(rules.begin(), rules.end(),
                       [&](const GroupRule& rule) { return rule.frozen && rule.pattern == name; });
  };
  const auto save = [&](const std::string& name, const std::string& in_files, const Linear* head) {
    if (head == nullptr || peft::is_within(in_files, peft.modules_to_save)) return;
    const bool is_new = std::find(made_new.begin(), made_new.end(), in_files) != made_new.end();
    const bool is_trained = !is_frozen(name + ".weight");
    if (is_new && head->has_updates()) {
      fail("{}: holds an update of the {}, which {} lacks; take the model that it was made for", from.adapter, name,
           from.pretrained.string());
    }
    if (is_new && !is_trained && from.adapter.empty() && peft::is_any(name + ".dense", peft.targets)) {
      fail("--model.targets={}: the {} is new and can only be trained whole; add --model.train-{}", config.targets,
           name, name);
    }
    if (is_new || is_trained) peft.modules_to_save.push_back(name);
  };
  save("classifier", "classifier.weight", model.classifier());
  save("pooler", "pooler.dense.weight", model.pooler());
  if (config.train_pooler && model.pooler() != nullptr && model.pooler()->has_updates())
    fail("--model.train-pooler: leave it out; the adapter in {} has an update of the pooler", from.adapter);
}

/// The weights of a new pooler, saved before those of a folder are read and then restored; null: none.
class NewPooler {
 public:
  explicit NewPooler(Linear* pooler) {
    if (pooler == nullptr) return;
    for (Parameter* parameter : pooler->parameters()) drawn_.emplace_back(parameter, parameter->value.clone());
  }
  void put_back(Problem::Base& base, std::vector<std::string>& made_new) const {
    for (const auto& [parameter, drawn] : drawn_) {
      parameter->value.copy_(drawn);
      base.tensors.erase(parameter->name);
    }
    if (!drawn_.empty()) made_new.emplace_back("pooler.dense.weight");
  }

 private:
  std::vector<std::pair<Parameter*, Tensor>> drawn_;
};

}  // namespace

Adapted adapt(PretrainedModel& model, const AdaptationConfig& config, const AdaptedFrom& from, Generator& init,
              const Say& say) {
  Adapted adapted;
  Problem::Base& base = adapted.base;
  std::vector<std::string> made_new = {"pooler.dense.weight", "classifier.weight"};
  const NewPooler new_pooler(config.new_pooler ? model.pooler() : nullptr);
  if (!config.from_scratch && !from.pretrained.empty()) {
    const LoadedTensors loaded = load_pretrained(model, from.pretrained);
    say(fmt::format("{}: {}", from.pretrained.string(), loaded.text()));
    made_new = loaded.made_new;
    const fs::path file = pretrained_weights(from.pretrained);
    base = {file.string(), record_weights(file), loaded.filled};
    new_pooler.put_back(base, made_new);
  }
  const Method& method = method_of(config);
  if (method.change) method.change(model, config, init);
  if (!from.adapter.empty()) {
    adapted.added = read_peft(from.adapter);
    add_adapter(model, *adapted.added, init);
    const std::vector<std::string> read = load_adapter(model, *adapted.added, from.adapter);
    for (const std::string& name : read) base.tensors.erase(name);
    record_weights(fs::path(from.adapter) / "adapter_model.safetensors");
    say(fmt::format("{}: {} tensors read", from.adapter, read.size()));
    save_heads(*adapted.added, model, config, from, made_new);
  } else if (method.adds) {
    adapted.added = method.adds(config);
    save_heads(*adapted.added, model, config, from, made_new);  // so that they get no update beside that
    add_adapter(model, *adapted.added, init);
  }
  return adapted;
}

}  // namespace bochner

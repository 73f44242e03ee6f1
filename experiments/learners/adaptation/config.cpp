#include "experiments/learners/adaptation/config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "engine/math.h"
#include "experiments/learners/adaptation/methods.h"
#include "layers/snnk/snnk.h"

namespace bochner {

void AdaptationConfig::fields(Fields& f) {
  f("method", method, "what is trained, and what is added or replaced; the README explains the methods")
      .one_of(method_names());
  f("from-scratch", from_scratch, "new weights for the model that config.json describes");
  attention_blocks_field(f, attention_blocks);
  f("train-pooler", train_pooler, "train the pooler, too, where the method leaves it as it is");
  f("new-pooler", new_pooler, "begin with a new pooler instead of the one in --pretrained");
  f("dropout", dropout, "dropout everywhere in the model; -1: as config.json says").at_least(-1).below(1);
  f("activation", activation, "activation that SNNK layers stand for").one_of(snnk_activations());
  SnnkConfig::fields(f);
  f("ridge", ridge,
    "first fit the matrix of bundle to the training set in closed form, with this ridge penalty; classes count as 0 "
    "and 1; -1: do not")
      .at_least(-1);
  f("top", top, "number of blocks, the last ones, whose feed-forward network is replaced").at_least(0);
  f("size", size, "bottleneck size of an adapter").at_least(1);
  f("size-activation", size_activation, "activation in the bottleneck").one_of({"relu", "gelu", "gelu_tanh"});
  f("targets", targets,
    "matrices that get a low-rank update, by how their names in files end: query, key, value, "
    "attention.output.dense, intermediate.dense, output.dense, pooler.dense; dense: all that end so");
  f("rank", rank, "rank of the update").at_least(1);
  f("alpha", alpha, "the update is alpha / rank times B A").above(0);
  only_by_method(f);
  const auto activation_is = [this, &adapter = f.at("adapter")](const auto& holds) {
    return [=, this, &adapter] { return !adapter.text().empty() || holds(activation); };  // as in only_by_method
  };
  f.of_part("damped").only("with universal features, such as --model.activation=sin",
                           activation_is(has_universal_features));
  f.of_part("orthogonal").only("with another --model.activation than tanh", activation_is([](const std::string& name) {
                                 return name != "tanh";
                               }));
  f.group("mechanism", mechanism);
}

void AdaptationConfig::only_by_method(Fields& f) {
  std::map<std::string, std::vector<std::string>> readers;  // the methods that read each option
  for (const Method& one : methods()) {
    for (const std::string& option : one.reads) readers[option].push_back(one.name);
  }
  for (const auto& [option, names] : readers) {
    f.at("model." + option)
        .only(fmt::format("with --model.method={}", fmt::join(names, " or ")),
              [this, names = names, &adapter = f.at("adapter")] {
                // The method of an adapter is known only when its folder is read; take() then compares its options.
                return !adapter.text().empty() || std::find(names.begin(), names.end(), method) != names.end();
              });
  }
}

std::vector<std::string> AdaptationConfig::target_names() const {
  std::vector<std::string> names;
  std::stringstream list(targets);
  for (std::string name; std::getline(list, name, ',');) names.push_back(name);
  return names;
}

void AdaptationConfig::take(const std::string& adapter, const Fields& fields) {
  if (adapter.empty()) return;
  const auto take = [&]<class T>(const char* name, T& value, const T& theirs) {
    if (fields.find(name)->was_asked() && value != theirs)
      fail("--{}={}: the adapter in {} has {}; leave it out", name, value, adapter, theirs);
    value = theirs;
  };
  const Peft peft = read_peft(adapter);
  const std::string of_adapter(method_of(peft));
  const Field& field = *fields.find("model.method");
  if (field.was_given() && !field.was_asked() && method != of_adapter) {
    fail("--preset={}: is of the method {}, but the adapter in {} of {}; take a preset of that, or none",
         fields.find("preset")->text(), method, adapter, of_adapter);
  }
  take("model.method", method, of_adapter);
  switch (peft.type) {
    case Peft::Type::lora: {
      const auto in_order = [](const std::vector<std::string>& names) { return std::set(names.begin(), names.end()); };
      const std::string theirs = fmt::format("{}", fmt::join(peft.targets, ","));
      if (in_order(target_names()) == in_order(peft.targets)) targets = theirs;
      take("model.rank", rank, peft.low_rank.rank);
      take("model.alpha", alpha, peft.low_rank.alpha);
      take("model.targets", targets, theirs);
      break;
    }
    case Peft::Type::bottleneck:
      take("model.size", size, peft.bottleneck.size);
      take("model.size-activation", size_activation, std::string(name_of(peft.bottleneck.activation)));
      break;
    case Peft::Type::snnk_adapter:
    case Peft::Type::snnk_pooler:
    case Peft::Type::snnk_bundle:
      take("model.activation", activation, peft.snnk.activation);
      take("model.features", features, peft.snnk.features);
      take("model.orthogonal", orthogonal, peft.snnk.orthogonal);
      take("model.scale-inputs", scale_inputs, peft.snnk.scale_inputs);
      take("model.damped", damped, peft.snnk.damped);
  }
}

void AdaptationConfig::check_top(int64_t layers) const {
  if (method == "uptrain" && top > layers) fail("--model.top={}: the model has {} blocks", top, layers);
}

void FittingConfig::fields(Fields& f, const std::string& beside) {
  f("epochs", epochs, "how often the training set is gone through")
      .above(0)
      .at_most(1e6)
      .only("without --steps", [steps = &f.at("steps")] { return !steps->was_given(); });
  f("adapter", adapter,
    "folder of an adapter to begin with, of this program or of PEFT (LoRA); with --steps=0 it is only measured");
  ExportConfig::fields(f, beside);
  f.computed_unless_given({"steps", "optim.evaluate-every"});
}

void FittingConfig::settle_length(const Fields& fields, RunOptions& run, OptimConfig& optim, int64_t train_examples,
                                  double times) const {
  const auto given = [&](const char* name) { return fields.find(name)->was_given(); };
  const int64_t per_epoch = ceil_div(train_examples, run.batch);
  if (!given("steps")) run.steps = std::max<int64_t>(1, std::llround(times * static_cast<double>(per_epoch)));
  if (!given("optim.evaluate-every")) optim.evaluate_every = per_epoch;
}

}  // namespace bochner

#include "layers/models/peft.h"

#include <set>

#include "engine/io/bytes.h"
#include "engine/io/file.h"
#include "engine/io/finite.h"
#include "engine/io/safetensors.h"
#include "engine/nearest.h"
#include "engine/ops/index.h"
#include "layers/models/hugging_face.h"
#include "layers/models/peft_config.h"
#include "layers/models/peft_names.h"

namespace bochner {
namespace {

using peft::config_text;
using peft::is_target;
using peft::is_targeted;
using peft::is_within;
using peft::kConfig;
using peft::kModel;
using peft::kTensors;
using peft::name_in_peft;
using peft::plain_name;
using peft::refuse_target;
using peft::Target;
using peft::targets_of;
using Type = Peft::Type;

bool is_added(std::string_view ours) {
  return ours.find(".lora_") != std::string_view::npos || ours.find("_adapter.") != std::string_view::npos ||
         ours.starts_with("snnk_pooler.") || ours.starts_with("bundle.");
}

/// Whether each row is one of a class.
bool has_class_rows(std::string_view ours) {
  for (const char* name : {"classifier.weight", "classifier.bias", "classifier.lora_B.weight", "bundle.weight",
                           "bundle.bias", "snnk_pooler.classifier.weight", "snnk_pooler.classifier.bias"}) {
    if (ours == name) return true;
  }
  return false;
}

/// The rows with these numbers; if there are none, all rows as they are.
Tensor with_rows(const Tensor& x, const std::vector<int64_t>& rows) {
  if (rows.empty()) return x;
  return take(x.to(Device::cpu()), Tensor::from<int64_t>(rows, {std::ssize(rows)}));
}

std::vector<int64_t> inverse(const std::vector<int64_t>& rows) {
  std::vector<int64_t> places(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) places[static_cast<size_t>(rows[i])] = static_cast<int64_t>(i);
  return places;
}

/// A tensor of an adapter: its name in the model and a view of it.
struct Saved {
  std::string ours;
  Tensor view;
};

/// What belongs to the adapter, by its name in PEFT, with `bert.` or `vit.` where transformers has it.
std::map<std::string, Saved> saved_tensors(PretrainedModel& model, const Peft& peft) {
  std::map<std::string, Saved> saved;
  for (const auto& [ours, tensor] : model.state()) {
    for (const auto& [name, view] : pretrained_tensors(model, {{ours, tensor}})) {
      if (is_added(ours) || is_within(name, peft.modules_to_save)) saved[name_in_peft(model, name)] = {ours, view};
    }
  }
  return saved;
}

}  // namespace

void add_adapter(PretrainedModel& model, const Peft& peft, Generator& init) {
  const int64_t dim = model.dim();
  const auto adapt = [&](const TransformerBlock::MakeAdapter& make, bool both) {
    for (TransformerBlock& block : model.blocks()) {
      if (both) block.adapt_attention(make);
      block.adapt_feed_forward(make);
    }
  };
  switch (peft.type) {
    case Type::lora: {
      std::set<std::string> unknown(peft.targets.begin(), peft.targets.end());
      bool any = false;
      for (const Target& target : targets_of(model)) {
        std::erase_if(unknown, [&](const std::string& end) { return is_targeted(target, {end}); });
        if (!is_targeted(target, peft.targets) || is_within(target.name + ".weight", peft.modules_to_save)) continue;
        target.linear->add_low_rank(target.part, target.begin, target.end, peft.low_rank, init);
        any = true;
      }
      if (!unknown.empty()) refuse_target("adapter", *unknown.begin());
      if (!any) {
        fail("adapter: nothing would get an update: {} is within {}, trained whole; name another matrix, too",
             shown_names(peft.targets), shown_names(peft.modules_to_save));
      }
      break;
    }
    case Type::bottleneck:
      adapt([&](Slot slot) { return std::make_unique<BottleneckAdapter>(std::move(slot), dim, peft.bottleneck, init); },
            peft.both_halves);
      break;
    case Type::snnk_adapter:
      adapt(
          [&](Slot slot) {
            return std::make_unique<SnnkAdapter>(std::move(slot), dim, AdapterOptions{.snnk = peft.snnk}, init);
          },
          true);
      break;
    case Type::snnk_pooler:
    case Type::snnk_bundle:
      model.replace_pooler(peft.snnk, init);
      if (peft.type == Type::snnk_bundle) model.bundle();
  }
}

std::vector<std::string> load_adapter(PretrainedModel& model, const Peft& peft, const std::filesystem::path& folder) {
  const SafetensorsFile file(folder / kTensors);
  std::map<std::string, std::string> in_file;  // plain_name -> as it is
  for (const std::string& name : file.tensor_names()) {
    const auto [other, is_new] = in_file.emplace(plain_name(model, name), name);
    if (!is_new) {
      fail("{}: {} and {} are one tensor, which can have only one value", file.name(), shown(other->second),
           shown(name));
    }
  }
  std::vector<std::string> read;
  std::vector<std::pair<Tensor, Tensor>> copies;
  for (const auto& [name, saved] : saved_tensors(model, peft)) {
    const auto found = in_file.find(plain_name(model, name));
    if (found == in_file.end()) fail("{}: holds no tensor {}{}", file.name(), kModel, name);
    if (!(file.shape(found->second) == saved.view.shape()) ||
        is_floating(file.dtype(found->second)) != is_floating(saved.view.dtype())) {
      fail("{}: tensor {} is {} {}, the model needs {} {}", file.name(), found->second,
           name_of(file.dtype(found->second)), file.shape(found->second).str(), name_of(saved.view.dtype()),
           saved.view.shape().str());
    }
    const Tensor value = file.read(found->second);
    require_finite(value, found->second, file.name());
    copies.emplace_back(saved.view, has_class_rows(saved.ours) ? with_rows(value, model.rows_in_folder()) : value);
    read.push_back(saved.ours);
    in_file.erase(found);
  }
  for (const auto& [name, as_it_is] : in_file) {
    const std::string module = name.substr(0, name.find(".lora_"));
    if (module != name && !is_target(model, module)) {
      fail(
          "{}: {} is an update of a matrix that can have none here; query, key and value, the dense matrices of "
          "blocks, pooler.dense and classifier can",
          file.name(), shown(as_it_is));
    }
    fail("{}: tensor {} is none of the adapter that {} describes", file.name(), shown(as_it_is), kConfig);
  }
  for (const auto& [view, value] : copies) view.copy_(value.cast(view.dtype()).to(view.device()));
  return read;
}

void save_adapter(PretrainedModel& model, const Peft& peft, const std::filesystem::path& folder,
                  const std::string& base) {
  TensorMap tensors;
  const std::vector<int64_t> places = inverse(model.rows_in_folder());
  for (const auto& [name, saved] : saved_tensors(model, peft)) {
    tensors[std::string(kModel) + name] = has_class_rows(saved.ours) ? with_rows(saved.view, places) : saved.view;
  }
  const std::string config = config_text(model, peft, base);
  std::filesystem::create_directories(folder);
  write_safetensors(folder / kTensors, tensors, {{"format", "pt"}});
  write_file_atomically(folder / kConfig, config);
}

void merge_adapter(PretrainedModel& model) {
  for (const Target& target : targets_of(model)) target.linear->merge_updates();
}

}  // namespace bochner

#include "experiments/bert/io.h"

#include <algorithm>
#include <optional>

#include "autograd/tape.h"
#include "engine/nearest.h"
#include "engine/ops/binary.h"
#include "layers/models/peft_names.h"

namespace bochner {
namespace {

/// An input that must be present if `needed`, or an undefined tensor.
Tensor find(const TensorMap& given, const std::string& name, bool needed = false) {
  const auto found = given.find(name);
  if (found != given.end()) return found->second;
  if (needed) fail("tensor '{}' is missing", name);
  return {};
}

/// Token ids or token types as i64.
Tensor integers_of(const TensorMap& given, const std::string& name, Device device, bool needed = false) {
  Tensor x = find(given, name, needed);
  if (!x.defined()) return x;
  if (is_floating(x.dtype()) || x.dtype() == DType::boolean)
    fail("tensor '{}' is {}, but must hold integers", name, x.str());
  return x.cast(DType::i64).to(device);
}

/// bool from any type: true where not 0.
Tensor mask_of(const TensorMap& given, Device device) {
  const Tensor x = find(given, "attention_mask");
  return x.defined() ? x.cast(DType::boolean).to(device) : x;
}

using Outputs = std::map<std::string, Variable>;

const std::vector<std::string>& inputs_of(const Bert& /*model*/) {
  static const std::vector<std::string> names = {"input_ids", "attention_mask", "token_type_ids"};
  return names;
}
const std::vector<std::string>& inputs_of(const Vit& /*model*/) {
  static const std::vector<std::string> names = {"pixel_values"};
  return names;
}

Outputs outputs_of(const Bert& bert, const TensorMap& given, Device device, Context& context,
                   std::vector<Variable>& states) {
  const BertOptions& options = bert.options();
  const Bert::Input input{integers_of(given, "input_ids", device, true), mask_of(given, device),
                          integers_of(given, "token_type_ids", device)};
  Outputs out;
  const Variable x = bert.forward(input, context, &states);
  out["last_hidden_state"] = x;
  if (options.pooler) out["pooler_output"] = bert.pool(x);
  const bool both = options.masked_tokens && options.next_sentence;
  if (options.masked_tokens) out[both ? "prediction_logits" : "logits"] = bert.token_scores(x);
  if (options.next_sentence) {
    out[both ? "seq_relationship_logits" : "logits"] = bert.next_sentence_scores(out["pooler_output"]);
  }
  if (options.classes > 0) out["logits"] = bert.class_scores(out["pooler_output"], context);
  return out;
}

Outputs outputs_of(const Vit& vit, const TensorMap& given, Device device, Context& context,
                   std::vector<Variable>& states) {
  const Tensor pixels = find(given, "pixel_values", true);
  if (!is_floating(pixels.dtype())) fail("tensor 'pixel_values' is {}, but must be floating", pixels.str());
  Outputs out;
  const Variable x = vit.forward(pixels.cast(DType::f32).to(device), context, &states);
  out["last_hidden_state"] = x;
  const Variable pooled = vit.pool(x);
  if (vit.options().pooler) out["pooler_output"] = pooled;
  if (vit.options().classes > 0) out["logits"] = vit.class_scores(pooled, context);
  return out;
}

/// Refuses names that are neither an input nor the gradient of an output.
void check_names(const TensorMap& given, std::vector<std::string> known, const Outputs& out) {
  for (const auto& [name, value] : out) known.push_back("d" + name);
  for (const auto& [name, tensor] : given) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      fail("tensor '{}' is no input of this model and no gradient of its outputs; the nearest is '{}'", name,
           nearest(name, known));
    }
  }
}

Tensor on_cpu(const Tensor& x) {
  return (x.dtype() == DType::bf16 ? x.cast(DType::f32) : x).to(Device::cpu()).contiguous();
}

template <class Model>
TensorMap computed(Model& model, const ModelCall& call, const TensorMap& given) {
  Generator noise = Generator(call.seed).fork(1);
  Context context{noise, call.training};
  const bool wants_gradients =
      std::any_of(given.begin(), given.end(), [](const auto& each) { return each.first.starts_with("d"); });
  std::optional<Tape> tape;
  if (wants_gradients) tape.emplace();
  std::vector<Variable> states;
  const Outputs out = outputs_of(model, given, call.device, context, states);
  check_names(given, inputs_of(model), out);
  TensorMap result;
  std::vector<Variable> ys;
  Gradients dys;
  for (const auto& [name, y] : out) {
    result[name] = on_cpu(y.value());
    const Tensor dy = find(given, "d" + name);
    if (!dy.defined()) continue;
    if (!(dy.shape() == y.shape())) fail("tensor 'd{}' is {}, but must be {}", name, dy.shape().str(), y.shape().str());
    ys.push_back(y);
    dys.emplace_back(dy.cast(y.dtype()).to(call.device));
  }
  for (size_t i = 0; i < states.size(); ++i) result["hidden_states." + std::to_string(i)] = on_cpu(states[i].value());
  if (!wants_gradients) return result;
  tape->backward(ys, dys);
  std::map<std::string, Tensor> gradients;
  for (const Parameter* parameter : model.parameters()) {
    gradients[parameter->name] =
        parameter->grad.defined() ? parameter->grad : Tensor::zeros(parameter->shape(), DType::f32, call.device);
  }
  for (const auto& [name, gradient] : pretrained_tensors(model, gradients)) result["d" + name] = on_cpu(gradient);
  return result;
}

/// If there are as many classes as the base has, they are the base's, in its order; others have no names, and one is a
/// score.
template <class Options>
void set_count(Options& options, int64_t classes) {
  if (options.classes != classes) {
    options.labels.clear();
    options.problem_type = classes == 1 ? kRegressionProblem : "";
  }
  options.classes = classes;
}

/// A base without a classifier gets one if the adapter has one.
void set_classes(BertOptions& options, const Peft& peft) {
  if (peft.classes == 0) return;
  options.masked_tokens = false;
  options.next_sentence = false;
  options.pooler = true;
  set_count(options, peft.classes);
}
void set_classes(VitOptions& options, const Peft& peft) {
  if (peft.classes == 0) return;
  options.pooler = peft.pooled;
  set_count(options, peft.classes);
}

template <class Model, class Options>
ModelAnswer answer(const ModelCall& call, Options options, const TensorMap& given) {
  set_attention(options, call.folder, call.mechanism, call.blocks);
  Generator init(call.seed);
  std::optional<Peft> peft;
  if (!call.adapter.empty()) peft = read_peft(call.adapter);
  if (peft) set_classes(options, *peft);
  Model model({}, options, init);
  ModelAnswer result;
  result.loaded = load_pretrained(model, call.folder);
  const auto holds = [](const std::vector<std::string>& names) {
    return std::find(names.begin(), names.end(), "classifier.weight") != names.end();
  };
  if (!peft && holds(result.loaded.made_new) && holds(result.loaded.left_over)) {
    fail(
        "{}: config.json has {} classes, and classifier.weight another number of rows; mend its id2label or num_labels",
        call.folder.string(), options.classes);
  }
  if (peft) {
    add_adapter(model, *peft, init);
    load_adapter(model, *peft, call.adapter);
    // The adapter may have what the folder lacks.
    std::vector<std::string> of_adapter = peft->modules_to_save;
    if (peft->replaces_heads()) of_adapter.insert(of_adapter.end(), {"pooler", "classifier"});
    std::erase_if(result.loaded.made_new, [&](const std::string& name) { return peft::is_within(name, of_adapter); });
  }
  if (!given.empty()) {
    model.to(call.device, DType::f32);
    result.tensors = computed(model, call, given);
  }
  if (!call.to.empty()) {
    merge_adapter(model);
    save_pretrained(model, call.to, call.folder);
  }
  return result;
}

}  // namespace

ModelAnswer answer_tensors(const ModelCall& call, const TensorMap& given) {
  if (pretrained_type(call.folder) == "vit") return answer<Vit>(call, read_vit_options(call.folder), given);
  return answer<Bert>(call, read_bert_options(call.folder), given);
}

}  // namespace bochner

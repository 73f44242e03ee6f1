#include "experiments/learners/pretrained.h"

#include "engine/error.h"
#include "engine/io/data_log.h"
#include "engine/io/paths.h"
#include "engine/io/sha256.h"

namespace bochner {
namespace {

void require_type(const std::filesystem::path& folder, const std::string& wanted) {
  if (const std::string type = pretrained_type(folder); type != wanted) {
    fail("{}: the model is of the type '{}', not '{}'", folder.string(), type, wanted);
  }
}

}  // namespace

BertOptions pretrained_bert(const std::filesystem::path& folder) {
  if (folder.empty()) {
    fail(
        "--pretrained: name the folder of a model, with config.json, model.safetensors and vocab.txt or "
        "tokenizer.json");
  }
  require_type(folder, "bert");
  return read_bert_options(folder);
}

VitOptions pretrained_vit(const std::filesystem::path& folder) {
  if (folder.empty()) fail("--pretrained: name the folder of a model, with config.json and model.safetensors");
  require_type(folder, "vit");
  return read_vit_options(folder);
}

std::string record_weights(const std::filesystem::path& file) {
  std::string sha256 = sha256_of_file(file);
  if (DataLog::is_active())
    DataLog::add({file.string(), static_cast<int64_t>(std::filesystem::file_size(file)), sha256});
  return sha256;
}

Bert::Input input_of(const Examples& batch) {
  const auto given = [&](const char* name) { return batch.has(name) ? batch.at(name) : Tensor(); };
  return {batch.at("ids"), given("mask"), given("types")};
}

void ExportConfig::fields(Fields& f, const std::string& beside) {
  f("export", exported, "write the best model of this run folder into --to, for transformers; trains nothing")
      .command_line_only();
  f("to", to, "of --export: a new or empty folder, for config.json, model.safetensors and " + beside)
      .only("with --export", [this] { return !exported.empty(); })
      .command_line_only();
}

std::filesystem::path ExportConfig::folder() const {
  if (to.empty()) fail("--export: say --to=FOLDER");
  require_unused(to, "to");
  return to;
}

void require_positions(const BertOptions& options, int64_t max_length) {
  if (max_length > options.length) fail("--max-length={}: the model has {} positions", max_length, options.length);
}

void require_tokens(const BertOptions& options, int64_t ids, const std::filesystem::path& folder) {
  if (ids <= options.vocabulary) return;
  fail("{}: the tokenizer has {} ids, the model {} tokens; they do not belong together", folder.string(), ids,
       options.vocabulary);
}

void take_attention_of(const std::filesystem::path& folder, Fields& fields, const std::string& group,
                       std::string& attention, MechanismConfig& mechanism) {
  if (folder.empty() || !std::filesystem::exists(folder / "config.json")) return;
  if (pretrained_type(folder) != "bert") return;
  MechanismOptions own = read_bert_options(folder).attention.mechanism;
  if (own.name() == "softmax") return;
  if (!fields.at("attention").was_given()) attention = own.name();
  if (attention != own.name()) return;
  for (const Option& option : own.list()) {
    mechanism.set({option.name(), option.text()});
    fields.at(group + "." + option.name()).only("where --pretrained has no attention of its own", [] { return false; });
  }
}

}  // namespace bochner

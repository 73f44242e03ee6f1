#include "experiments/learners/adaptation/adapted.h"

#include "engine/io/data_log.h"
#include "engine/io/sha256.h"
#include "layers/models/hugging_face.h"

namespace bochner {
namespace {

namespace fs = std::filesystem;

/// So that the record of a run tells which weights it began with.
void record(const fs::path& file, const std::string& sha256) {
  if (DataLog::is_active()) DataLog::add({file.string(), static_cast<int64_t>(fs::file_size(file)), sha256});
}

}  // namespace

Problem::Base adapt(PretrainedModel& model, const AdaptationConfig& config, const AdaptedFrom& from, Generator& init,
                    const Say& say) {
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

}  // namespace bochner

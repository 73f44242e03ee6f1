#include "experiments/common/run/init.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "engine/error.h"
#include "engine/io/json_file.h"
#include "engine/io/xxh3.h"
#include "engine/nearest.h"
#include "experiments/common/run/run_folder.h"

namespace bochner {
namespace {

namespace fs = std::filesystem;

fs::path weights_of(const fs::path& from) {
  if (!fs::exists(from)) fail("--init: there is no {}; name the folder of a run, or a safetensors file", from.string());
  if (!fs::is_directory(from)) return from;
  if (const fs::path checkpoint = checkpoint_in(from); !checkpoint.empty()) return checkpoint;
  if (!holds_run(from)) fail("--init: {}; a safetensors file can be named, too", no_run_in(from));
  fail("--init: {} holds no checkpoint; name the folder of a run, or a safetensors file", from.string());
}

/// The hash of the file whose weights a state leaves out; empty if it has all of its own.
std::string base_of(const State& state) { return state.values.contains(kBaseHash) ? state.text(kBaseHash) : ""; }

/// Whether `stored` leaves out weights of the same file that this model has read. An Error if the file is another one.
bool leaves_out_the_same(const State& stored, const State& kept) {
  if (base_of(stored).empty() || base_of(kept).empty()) return false;
  if (base_of(stored) == base_of(kept)) return true;
  fail("--init: {} leaves out the weights of {} with the SHA-256 {}, but those of {} have {}; begin with the same file",
       stored.file, stored.text(kBaseFile), base_of(stored), kept.text(kBaseFile), base_of(kept));
}

}  // namespace

void require_weights(const fs::path& from) { weights_of(from); }

std::string init_from(Trainable& model, const fs::path& from, Log& log) {
  const fs::path file = weights_of(from);
  const std::string hash = xxh3_of_file(file);
  const State stored = State::load(file);
  if (xxh3_of_file(file) != hash) {
    fail("--init: {} was written anew while it was read; take a copy, or wait until its run has ended", file.string());
  }
  State own;
  model.save_whole_model(own);
  State kept;
  model.save_model(kept);
  const bool same_base = leaves_out_the_same(stored, kept);
  State training;  // the part of checkpoint-last that only training needs, which a new run does not use
  model.save_training(training);
  State merged = own;
  merged.file = stored.file;
  std::vector<std::string> missing;
  std::vector<std::string> left_over;
  std::vector<std::string> different;
  for (const auto& [name, tensor] : own.tensors) {
    const auto found = stored.tensors.find(name);
    if (found == stored.tensors.end()) {
      if (!same_base || kept.tensors.contains(name)) missing.push_back(name);
    } else if (!(found->second.shape() == tensor.shape()) || found->second.dtype() != tensor.dtype()) {
      different.push_back(fmt::format("{} is {} there, {} here", name, found->second.str(), tensor.str()));
    } else {
      merged.tensors[name] = found->second;
    }
  }
  for (const auto& [name, tensor] : stored.tensors) {
    if (!own.tensors.contains(name) && !training.tensors.contains(name)) left_over.push_back(name);
  }
  if (!different.empty()) {
    fail(
        "--init: {}: {}; set the sizes of that run, or name a safetensors file without these tensors, which then begin "
        "anew",
        file.string(), some_of(different));
  }
  if (missing.size() == own.tensors.size()) {
    fail("--init: {} holds none of the model's tensors; it has {}, the model {}", file.string(), shown_names(left_over),
         some_of(missing));
  }
  model.load_model(merged);
  log.info("{} of {} tensors from {}", own.tensors.size() - missing.size(), own.tensors.size(), file.string());
  if (!missing.empty())
    log.warning("--init: {} lacks {}; it starts as without --init", file.string(), some_of(missing));
  if (!left_over.empty()) log.warning("--init: {} holds unused tensors: {}", file.string(), shown_names(left_over));

  nlohmann::ordered_json json = {{"file", file.string()}, {"xxh3_128", hash}};
  if (stored.values.contains("run.id")) json["run"] = stored.text("run.id");
  if (stored.values.contains("run.step")) json["step"] = stored.integer("run.step");
  return json_text(json);
}

}  // namespace bochner

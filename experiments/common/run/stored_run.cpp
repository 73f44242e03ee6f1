#include "experiments/common/run/stored_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

#include "datasets/manifest.h"
#include "engine/error.h"
#include "engine/io/file.h"
#include "engine/io/json_file.h"
#include "engine/io/safetensors.h"
#include "engine/io/xxh3.h"
#include "engine/nearest.h"
#include "experiments/common/config/ini.h"
#include "experiments/common/run/data_record.h"
#include "experiments/common/run/run_folder.h"
#include "experiments/common/run/state.h"

namespace bochner {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStamp = "# run ";
constexpr std::string_view kHash = "; XXH3-128 of the other lines ";
constexpr size_t kDigits = 32;
constexpr int64_t kLargestConfig = 1 << 20;

/// The line of the stamp, and the text without it.
struct Parts {
  std::string id, hash, rest;
};

std::optional<Parts> parted(const std::string& text) {
  const size_t begin = text.find(kStamp);
  if (begin == std::string::npos || (begin != 0 && text[begin - 1] != '\n')) return std::nullopt;
  const size_t end = text.find('\n', begin);
  const std::string line = text.substr(begin, end - begin);
  if (end == std::string::npos || line.size() != kStamp.size() + kDigits + kHash.size() + kDigits ||
      line.compare(kStamp.size() + kDigits, kHash.size(), kHash) != 0) {
    return std::nullopt;
  }
  return Parts{line.substr(kStamp.size(), kDigits), line.substr(line.size() - kDigits),
               text.substr(0, begin) + text.substr(end + 1)};
}

/// The id is hashed too, so the id of another run cannot be inserted.
std::string hash_of(const std::string& id, const std::string& rest) { return xxh3_of(bytes_of(id + '\n' + rest)); }

bool is_intact(const Parts& parts) { return hash_of(parts.id, parts.rest) == parts.hash; }

/// `rate is 0.3 in config.ini, 0.1 in checkpoint-last; ...`
std::string differences(const std::string& found, const std::string& file, const StoredRun& run,
                        const fs::path& checkpoint) {
  const std::string& stored = run.config;
  std::map<std::string, std::pair<std::string, std::string>> values;
  for (const IniEntry& entry : parse_ini(found, file)) values[entry.name].first = entry.value;
  for (const IniEntry& entry : parse_ini(stored, checkpoint.string() + ": run.config"))
    values[entry.name].second = entry.value;
  std::vector<std::string> all;
  for (const auto& [name, both] : values) {
    if (both.first == both.second) continue;
    const auto shown_value = [](const std::string& value) { return value.empty() ? "not set" : value; };
    all.push_back(fmt::format("{} is {} there, but {} in the checkpoint", name, shown_value(both.first),
                              shown_value(both.second)));
  }
  if (!all.empty()) return listed(all);
  const auto [here, there] = std::mismatch(found.begin(), found.end(), stored.begin(), stored.end());
  return fmt::format("line {} is not as it was written", std::count(found.begin(), here, '\n') + 1);
}

}  // namespace

std::string new_run_id() {
  std::random_device device;
  std::string id;
  while (id.size() < kDigits) id += fmt::format("{:08x}", device());
  return id;
}

std::string stamped_config(const std::string& config, const std::string& id) {
  BOCHNER_ASSERT(id.size() == kDigits);
  const size_t second = config.find('\n') + 1;  // after the line that names the experiment
  return config.substr(0, second) + std::string(kStamp) + id + std::string(kHash) + hash_of(id, config) + '\n' +
         config.substr(second);
}

std::string id_of_config(const std::string& text, const std::string& file) {
  const std::optional<Parts> parts = parted(text);
  if (!parts) fail("{}: the line '# run ...' is missing or damaged; was the file changed? Start another run", file);
  if (!is_intact(*parts)) {
    fail("{}: the hash of its lines is {}, but was {}; undo what was changed, or start another run with --config {}",
         file, hash_of(parts->id, parts->rest), parts->hash, file);
  }
  return parts->id;
}

bool config_was_changed(const std::string& text, bool of_run) {
  const std::optional<Parts> parts = parted(text);
  return parts ? !is_intact(*parts) : of_run;
}

std::optional<StoredRun> StoredRun::of(const fs::path& folder) {
  const fs::path path = folder / kCheckpointLast;
  if (!fs::exists(path)) return std::nullopt;
  const State state = State::values_of(SafetensorsFile(path));
  if (!state.values.contains("run.id")) {
    fail(
        "{}: was written by an older version of Bochner, which did not record which data and files belong to it; start "
        "another "
        "run from its weights with --init",
        state.file);
  }
  StoredRun run;
  run.id = state.text("run.id");
  run.config = state.text("run.config");
  run.config_before = state.text("run.config_before");
  run.data = parse_data_json(state.text("run.data"), state.file);
  run.init = state.text("run.init");
  parse_json(run.init, state.file + ": run.init");  // is copied into results.json
  if (state.values.contains("run.overrides")) run.overrides = state.text("run.overrides");
  run.step = state.integer("run.step");
  return run;
}

std::string trusted_config(const fs::path& folder) {
  const fs::path path = folder / kConfig;
  const std::optional<StoredRun> stored = StoredRun::of(folder);
  if (!fs::exists(path)) {
    if (!stored) {
      fail(
          "--resume: {} is missing, and checkpoint-last, which holds the same settings, too; restore one of them from "
          "a "
          "copy, or start another run with another --out",
          path.string());
    }
    return stored->config;
  }
  const std::string found = read_text(path, kLargestConfig);
  if (!stored) {
    id_of_config(found, path.string());
    return found;
  }
  if (found == stored->config || found == stored->config_before) return stored->config;
  const std::optional<Parts> parts = parted(found);
  if (parts && is_intact(*parts) && parts->id != stored->id) {
    fail("--resume: {} is of the run {}, but {} of the run {}; put the files of one run together again", path.string(),
         parts->id, (folder / kCheckpointLast).string(), stored->id);
  }
  fail(
      "--resume: {}: {}; remove it to go on as the checkpoint says, or start another run with --config {} and another "
      "--out",
      path.string(), differences(found, path.string(), *stored, folder / kCheckpointLast), path.string());
}

std::map<std::string, std::string> hashes_of_files(const fs::path& folder) {
  // What training itself writes. Answers, analyses and traces may be written again, and other files are the user's own.
  std::map<std::string, std::string> hashes;
  for (const char* name : {kConfig, kMetrics, kEvents, kReport, kCheckpointLast, kCheckpointBest}) {
    if (fs::is_regular_file(fs::symlink_status(folder / name))) hashes[name] = xxh3_of_file(folder / name);
  }
  return hashes;
}

std::vector<std::string> require_same_files(const fs::path& folder, const std::map<std::string, std::string>& hashes) {
  std::vector<std::string> missing;
  for (const auto& [name, hash] : hashes) {
    if (!is_plain_name(name)) fail("{}: its results name {}, which is no file in it", folder.string(), shown(name));
    const fs::file_status status = fs::symlink_status(folder / name);
    if (!fs::exists(status)) {
      missing.push_back(name);
      continue;
    }
    if (!fs::is_regular_file(status)) {
      fail("{}: is no regular file, but was one when the run finished; put a copy in its place, or remove it",
           (folder / name).string());
    }
    const std::string now = xxh3_of_file(folder / name);
    if (now != hash) {
      fail("{}: has the hash {}, but had {} when the run finished; restore it from a copy, or remove it",
           (folder / name).string(), now, hash);
    }
  }
  return missing;
}

}  // namespace bochner

#include "experiments/common/run/results.h"

#include <fmt/chrono.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <nlohmann/json.hpp>

#include "engine/error.h"
#include "engine/io/bytes.h"
#include "engine/io/file.h"
#include "engine/io/json_file.h"
#include "engine/io/xxh3.h"
#include "engine/parallel.h"
#include "experiments/common/process/build_info.h"
#include "experiments/common/run/data_record.h"
#include "experiments/common/run/run_folder.h"
#include "experiments/common/run/stored_run.h"

namespace bochner {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Metrics& metrics) { return Json::parse(metrics_json(metrics)); }

constexpr int64_t kLargestRecord = int64_t{1} << 30;

/// `"xxh3_128": "..."\n}\n` ends the file: the hash of the whole file with zeros in place of these digits.
constexpr const char* kHashKey = "xxh3_128";
constexpr size_t kHashDigits = 32;
constexpr size_t kHashEnd = kHashDigits + 4;  ///< from the first digit to the end of the file

void require_hash(const std::string& text, const Json& json, const std::string& file) {
  const std::string stated = json.at(kHashKey).get<std::string>();
  std::string zeros = text;
  if (text.size() < kHashEnd || text.compare(text.size() - kHashEnd, kHashDigits, stated) != 0) {
    fail("{}: does not end with its hash; the file was changed since it was written", file);
  }
  const std::string now = xxh3_of(bytes_of(zeros.replace(zeros.size() - kHashEnd, kHashDigits, kHashDigits, '0')));
  if (now != stated) fail("{}: has the hash {}, but states {}; it was changed since it was written", file, now, stated);
}

/// The text of a name, which is printed unchanged.
std::string name_in(const Json& value, const std::string& file) {
  const std::string name = value.get<std::string>();
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (std::ranges::any_of(name, is_control)) fail("{}: the name {} holds control characters", file, shown(name));
  return name;
}

}  // namespace

std::string overrides_json(const Overrides& overrides) {
  Json all = Json::object();
  for (const auto& [name, value] : overrides) all[name] = value;
  return json_text(all);
}

Overrides parse_overrides_json(std::string_view json, const std::string& file) {
  const Json all = parse_json(json, file);
  if (!all.is_object()) fail("{}: its overrides are no object", file);
  Overrides overrides;
  for (const auto& [name, value] : all.items()) {
    if (!value.is_string()) fail("{}: the override {} is no text", file, name);
    overrides.emplace_back(name, value.get<std::string>());
  }
  return overrides;
}

std::string results_json(const RunRecord& run, const PaperTable& papers) {
  const TrainResult& result = run.result;
  const BuildInfo build = build_info();
  Json model = {{"attention", run.attention}};
  model.update(Json::parse(run.model));
  Json paper = nullptr;
  if (const PaperNumber* const number = papers.find(run.protocol, run.task, run.attention); number != nullptr) {
    paper = {{"value", number->value},
             {"metric", number->metric},
             {"protocol", number->protocol},
             {"source", number->source}};
  }
  Json baselines = Json::object();
  for (const Baseline& baseline : result.baselines) baselines[baseline.name] = json_of(baseline.test);
  Json files = Json::object();
  if (!run.folder.empty()) {
    for (const auto& [name, hash] : hashes_of_files(run.folder)) files[name] = hash;
  }
  Json json = {
      {"schema", kResultsSchema},
      {"run", run.id},
      {"date", run.date},
      {"host", run.host},
      {"experiment", run.experiment},
      {"task", run.task},
      {"protocol", run.protocol},
      {"overrides", Json::parse(overrides_json(run.overrides))},
      {"model", model},
      {"parameters", result.parameters},
      {"seed", run.seed},
      {"steps", result.steps},
      {"seconds", result.seconds_limit},
      {"device", run.device},
      {"precision", run.precision},
      {"threads", threads()},
      {"metrics",
       {{"valid", json_of(result.valid)},
        {"test", json_of(result.test)},
        {"best_step", result.best_step},
        {"last", {{"valid", json_of(result.valid_last)}, {"test", json_of(result.test_last)}}}}},
      {"test_examples", result.test_examples},
      {"baselines", baselines},
      {"derived", json_of(run.derived)},
      {"steps_per_second", result.steps_per_second()},
      {"samples_per_second", result.samples_per_second()},
      {"peak_memory_bytes", result.peak_memory_bytes},
      {"train_seconds", result.train_seconds},
      {"waited_seconds", result.waited_seconds},
      {"samples", result.samples},
      {"processes", {{"count", result.processes}, {"bytes_sent_in_a_step", result.bytes_sent}}},
      {"git", build.commit},
      {"build",
       {{"version", build.version},
        {"compiler", build.compiler},
        {"flags", build.flags},
        {"blas", build.blas},
        {"bf16", build.bf16},
        {"cuda", build.cuda}}},
      {"paper", paper},
      {"init", Json::parse(run.init)},
      {"data", Json::parse(data_json(run.data))},
      {"files", files},
  };
  if (!result.inputs.empty()) json["inputs"] = result.inputs;
  if (!result.remarks.empty()) json["remarks"] = result.remarks;
  if (!result.only_set.empty()) json["only_set"] = result.only_set;
  json[kHashKey] = std::string(kHashDigits, '0');
  std::string text = json_text(json, 2) + "\n";
  const std::string hash = xxh3_of(bytes_of(text));
  return text.replace(text.size() - kHashEnd, kHashDigits, hash);
}

std::string utc_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(now));
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

RunRecord read_run(const std::filesystem::path& folder) {
  const std::string file = (folder / kResults).string();
  RunRecord run;
  run.folder = folder;
  try {
    const std::string text = read_text(file, kLargestRecord);
    const Json json = parse_json(text, file);
    if (json.contains("schema") || json.contains(kHashKey)) require_hash(text, json, file);
    run.id = json.value("run", "");
    run.date = json.value("date", "");
    run.host = json.value("host", "");
    if (json.contains("data")) run.data = reads_of(json["data"], file);
    require_same_files(folder, json.value("files", std::map<std::string, std::string>()));
    const auto metrics = [&](const Json& value) { return metrics_of(value, file); };
    run.experiment = name_in(json.at("experiment"), file);
    run.task = name_in(json.at("task"), file);
    run.protocol = name_in(json.at("protocol"), file);
    for (const auto& [name, value] : json.at("overrides").items()) {
      run.overrides.emplace_back(name, value.get<std::string>());
    }
    run.attention = name_in(json.at("model").at("attention"), file);
    run.seed = json.at("seed").get<uint64_t>();
    run.device = json.at("device").get<std::string>();
    run.precision = json.at("precision").get<std::string>();
    run.model = json.at("model").dump();
    run.result.steps = json.at("steps").get<int64_t>();
    run.result.test_examples = json.value("test_examples", int64_t{0});
    run.result.seconds_limit = json.value("seconds", 0.0);
    run.result.parameters = json.at("parameters").get<int64_t>();
    run.result.peak_memory_bytes = json.at("peak_memory_bytes").get<int64_t>();
    run.result.train_seconds = json.at("train_seconds").get<double>();
    run.result.waited_seconds = json.value("waited_seconds", 0.0);
    run.result.samples = json.value("samples", int64_t{0});
    if (json.contains("processes")) {
      run.result.processes = json.at("processes").at("count").get<int>();
      run.result.bytes_sent = json.at("processes").at("bytes_sent_in_a_step").get<int64_t>();
    }
    const Json& all = json.at("metrics");
    run.result.best_step = all.at("best_step").get<int64_t>();
    run.result.valid = metrics(all.at("valid"));
    run.result.test = metrics(all.at("test"));
    run.result.valid_last = metrics(all.at("last").at("valid"));
    run.result.test_last = metrics(all.at("last").at("test"));
    const Json baselines = json.value("baselines", Json::object());
    for (const auto& [name, value] : baselines.items()) {
      run.result.baselines.push_back({name, metrics(value)});
    }
    run.result.inputs = json.value("inputs", std::vector<std::string>());
    run.result.remarks = json.value("remarks", std::vector<std::string>());
    run.result.only_set = json.value("only_set", "");
    run.derived = metrics(json.value("derived", Json::object()));
  } catch (const Json::exception& error) {
    fail("{}: {}; restore the file from a copy, or remove it", file, complaint_of(error));
  }
  run.config = read_text(folder / kConfig, kLargestRecord);
  const std::filesystem::path curves = folder / kMetrics;
  if (std::filesystem::exists(curves)) run.curves = parse_metrics(read_text(curves, kLargestRecord));
  return run;
}

}  // namespace bochner

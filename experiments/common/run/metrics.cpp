#include "experiments/common/run/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "engine/error.h"
#include "engine/io/bytes.h"
#include "engine/io/json_file.h"

namespace bochner {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(double value) {
  return std::isfinite(value) ? Json(value) : Json(fmt::format("{}", value));  // JSON has neither nan nor inf
}

bool number_of(const Json& value, double& number) {
  if (value.is_number()) {
    number = value.get<double>();
    return true;
  }
  if (value == "nan" || value == "-nan")
    number = std::numeric_limits<double>::quiet_NaN();
  else if (value == "inf")
    number = std::numeric_limits<double>::infinity();
  else if (value == "-inf")
    number = -std::numeric_limits<double>::infinity();
  else
    return false;
  return true;
}

struct Reading {
  std::string_view word;  ///< of the metric's name
  bool share = false;
  bool higher_is_better = true;
};

constexpr std::array kReadings = {
    Reading{.word = "loss", .higher_is_better = false},
    Reading{.word = "error", .higher_is_better = false},
    Reading{.word = "perplexity", .higher_is_better = false},
    Reading{.word = "accuracy", .share = true},
    Reading{.word = "next-sentence", .share = true},
    Reading{.word = "f1", .share = true},
    Reading{.word = "mcc", .share = true},
    Reading{.word = "auc", .share = true},
    Reading{.word = "pearson", .share = true},
    Reading{.word = "spearman", .share = true},
};

Reading reading_of(std::string_view metric) {
  const auto found = std::find_if(kReadings.begin(), kReadings.end(), [&](const Reading& reading) {
    return metric.find(reading.word) != std::string_view::npos;
  });
  return found == kReadings.end() ? Reading{} : *found;
}

bool parse_line(std::string_view text, MetricsLine& line) {
  Json json;
  try {
    json = parse_json(text, "");
  } catch (const Error&) {
    return false;
  }
  if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer() || !json.contains("split") ||
      !json["split"].is_string()) {
    return false;
  }
  line.step = json["step"].get<int64_t>();
  line.split = json["split"].get<std::string>();
  for (const auto& [name, value] : json.items()) {
    double number = 0;
    if (name != "step" && name != "split" && number_of(value, number)) line.metrics.emplace_back(name, number);
  }
  return true;
}

}  // namespace

bool is_share(std::string_view metric) { return reading_of(metric).share; }

bool higher_is_better(std::string_view metric) { return reading_of(metric).higher_is_better; }

const double* find_metric(const Metrics& metrics, std::string_view name) {
  for (const auto& [known, value] : metrics) {
    if (known == name) return &value;
  }
  return nullptr;
}

std::string metrics_text(const Metrics& metrics) {
  std::string text;
  for (const auto& [name, value] : metrics) text += fmt::format("{}{} {:.4g}", text.empty() ? "" : ", ", name, value);
  return text;
}

std::string metrics_json(const Metrics& metrics) {
  Json json = Json::object();
  for (const auto& [name, value] : metrics) json[name] = json_of(value);
  return json.dump();
}

Metrics parse_metrics_json(std::string_view json, const std::string& file) {
  return metrics_of(parse_json(json, file + ": the metrics"), file);
}

Metrics metrics_of(const Json& json, const std::string& file) {
  if (!json.is_object()) fail("{}: the metrics are damaged", file);
  Metrics metrics;
  for (const auto& [name, value] : json.items()) {
    double number = 0;
    if (!number_of(value, number)) fail("{}: the metric {} is damaged", file, shown(name));
    metrics.emplace_back(name, number);
  }
  return metrics;
}

std::vector<MetricsLine> parse_metrics(std::string_view text) {
  std::vector<MetricsLine> lines;
  for (size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    MetricsLine line;
    if (!parse_line(text.substr(0, end), line)) break;
    lines.push_back(std::move(line));
    text.remove_prefix(end + 1);
  }
  return lines;
}

MetricsFile::MetricsFile(const std::filesystem::path& path, const FileMark& keep) : file_(path, keep) {}

void MetricsFile::write(int64_t step, std::string_view split, const Metrics& metrics) {
  Json json = {{"step", step}, {"split", split}};
  for (const auto& [name, value] : metrics) json[name] = json_of(value);
  file_.append(json.dump() + "\n");
}

}  // namespace bochner

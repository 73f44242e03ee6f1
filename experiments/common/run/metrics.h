// metrics.jsonl: all measurements, one object per line.
//
//   {"step": 100, "split": "train", "loss": 0.69, "accuracy": 0.53, "seconds": 12.1}
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/common/run/append_file.h"

namespace bochner {

/// Named numbers in the order in which they are shown.
using Metrics = std::vector<std::pair<std::string, double>>;

// How to treat a metric, by the word in its name that says what it measures ("loss", "accuracy"). To add one, write a
// line in metrics.cpp.
/// Whether papers print it in percent, like accuracies, F1 and correlations.
bool is_share(std::string_view metric);
/// False for losses, errors and perplexity.
bool higher_is_better(std::string_view metric);

/// Null if there is none of that name.
const double* find_metric(const Metrics& metrics, std::string_view name);
/// `loss 0.4213, accuracy 0.812`.
std::string metrics_text(const Metrics& metrics);
/// A JSON object that reads back to the same bits; numbers that are not finite become strings such as "nan".
std::string metrics_json(const Metrics& metrics);
/// The reverse; an Error in the name of `file`.
Metrics parse_metrics_json(std::string_view json, const std::string& file);
Metrics metrics_of(const nlohmann::ordered_json& json, const std::string& file);

struct MetricsLine {
  int64_t step = 0;
  std::string split;
  Metrics metrics;
};

/// The lines of a metrics.jsonl up to the first damaged one, such as a crash leaves behind.
std::vector<MetricsLine> parse_metrics(std::string_view text);

class MetricsFile {
 public:
  /// Continues after `keep` (AppendFile); an empty mark begins a new file.
  MetricsFile(const std::filesystem::path& path, const FileMark& keep);
  void write(int64_t step, std::string_view split, const Metrics& metrics);
  void sync() { file_.sync(); }
  FileMark mark() const { return file_.mark(); }

 private:
  AppendFile file_;
};

}  // namespace bochner

// What a run folder says about its run, and whether that can be trusted: `--resume` relies on the checkpoint, which
// hashes protect, and refuses a folder whose files do not agree with it.
//
//   config.ini begins with a comment that holds the run's id, new for each run, and a hash of all else in the file;
//   checkpoint-last holds the id, the text of config.ini, the hashes of the data (data_record.h), and length and hash
//     of metrics.jsonl and the events as they then were;
//   checkpoint-best holds the id;
//   results.json holds the id and the hashes of all files of the finished run, and of itself.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/io/data_log.h"

namespace bochner {

/// 32 random hexadecimal digits.
std::string new_run_id();

/// The text of config.ini with the line that names the run.
std::string stamped_config(const std::string& config, const std::string& id);
/// The id in a stamped text. An Error in the name of `file` where it has none, or where a character was changed since.
std::string id_of_config(const std::string& text, const std::string& file);
/// Was a text stamped and then changed? Without a stamp, no.
bool config_was_changed(const std::string& text);

/// What checkpoint-last says of its run.
struct StoredRun {
  std::string id;
  std::string config;         ///< text of config.ini
  std::string config_before;  ///< that of before the run was made longer; empty if it was not
  std::vector<DataRead> data;
  std::string init;  ///< JSON: where its first weights came from, if from another run, else null
  int64_t step = 0;

  /// None where the folder has no checkpoint-last. An Error if that is damaged or of an older version.
  static std::optional<StoredRun> of(const std::filesystem::path& folder);
};

/// The text of config.ini to go by. An Error names each setting in which config.ini and checkpoint-last differ, and
/// says how to go on.
std::string trusted_config(const std::filesystem::path& folder);

/// XXH3-128 of the files of these names that are there, for results.json.
std::map<std::string, std::string> hashes_of_files(const std::filesystem::path& folder);
/// An Error names the files that are not as these hashes say, and both hashes. Returns those that are missing.
std::vector<std::string> require_same_files(const std::filesystem::path& folder,
                                            const std::map<std::string, std::string>& hashes);

}  // namespace bochner

// The records in a run folder, and whether they can be trusted: `--resume` relies on the checkpoint, which is protected
// by hashes, and refuses a folder whose files do not agree with it.
//
//   config.ini begins with a comment that holds the run's id, new for each run, and a hash of all else in the file;
//   checkpoint-last holds the id, the text of config.ini, the hashes of the data (data_record.h), and the lengths
//     and hashes of metrics.jsonl and the events at that time;
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
/// The id in a stamped text. An Error in the name of `file` if it has none, or if the text was changed since.
std::string id_of_config(const std::string& text, const std::string& file);
/// Whether a text was stamped and then changed, or, with `of_run`, has no stamp, since the config.ini of a run must
/// have one.
bool config_was_changed(const std::string& text, bool of_run);

/// The records of a run in checkpoint-last.
struct StoredRun {
  std::string id;
  std::string config;         ///< text of config.ini
  std::string config_before;  ///< the text before --resume changed it; empty if it did not
  std::vector<DataRead> data;
  std::string init;       ///< JSON: where its initial weights came from, if from another run, else null
  std::string overrides;  ///< JSON: settings that differ from the protocol's; empty in older checkpoints
  int64_t step = 0;

  /// None if the folder has no checkpoint-last. An Error if it is damaged or of an older version.
  static std::optional<StoredRun> of(const std::filesystem::path& folder);
};

/// The text of config.ini to use. An Error names each setting in which config.ini and checkpoint-last differ, and says
/// how to continue.
std::string trusted_config(const std::filesystem::path& folder);

/// XXH3-128 of the files that training has written into the folder, except links, for results.json.
std::map<std::string, std::string> hashes_of_files(const std::filesystem::path& folder);
/// An Error names a file that differs from its hash, with both hashes, or a name that leads out of the folder. Returns
/// the names of missing files.
std::vector<std::string> require_same_files(const std::filesystem::path& folder,
                                            const std::map<std::string, std::string>& hashes);

}  // namespace bochner

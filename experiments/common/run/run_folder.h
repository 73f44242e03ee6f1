// The folder of one run, held by one process at a time: runs/<experiment>/<name>/ with
//   config.ini        complete: `./run NAME --config config.ini` repeats the run
//   metrics.jsonl     one JSON object a line, see metrics.h
//   events.out.tfevents.bochner    the same for TensorBoard
//   checkpoint-last, checkpoint-best    safetensors, see state.h
//   results.json, report.html      written at the end
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "engine/io/file_lock.h"
#include "engine/io/temporary.h"

namespace bochner {

inline constexpr const char* kConfig = "config.ini";
inline constexpr const char* kMetrics = "metrics.jsonl";
inline constexpr const char* kEvents = "events.out.tfevents.bochner";
inline constexpr const char* kReport = "report.html";
inline constexpr const char* kCheckpointLast = "checkpoint-last";
inline constexpr const char* kCheckpointBest = "checkpoint-best";
inline constexpr const char* kResults = "results.json";

class RunFolder {
 public:
  /// Creates the folder, or opens it if `resume`, and locks it until this object or the process ends. An Error for the
  /// reasons of require_place(), if another process holds the folder, or if it cannot be written. Removes temporary
  /// files of killed processes. What was created is removed again unless keep() is called.
  RunFolder(const std::filesystem::path& path, bool resume);
  /// The folder that another process of the same run holds; it need not be visible on this machine.
  static RunFolder of_first(const std::filesystem::path& path) { return RunFolder(path); }

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  /// The run begins: from now on, its folder stays, whatever happens.
  void keep() { made_.keep(); }
  /// It was not a run: removes the folder and its contents, if this object made it.
  void discard();
  /// A warning about the lock; empty if there is none.
  std::string warning() const { return lock_ ? lock_->warning() : ""; }

 private:
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}

  std::filesystem::path path_;
  bool is_new_ = false;
  std::optional<FileLock> lock_;
  Temporaries made_;  ///< after the lock, so removed while it is held
};

/// For programs that write only at the end: an immediate Error if the folder cannot be made, or nothing can be written
/// in it. Leaves everything as it was. `option` is the one that names the folder.
void require_writable(const std::filesystem::path& folder, const std::string& option);

/// The best checkpoint of the run in the folder; before its first evaluation, the last one; empty if there is none.
std::filesystem::path checkpoint_in(const std::filesystem::path& folder);

/// Whether the folder holds a run.
bool holds_run(const std::filesystem::path& path);
/// Whether this folder, or a folder up to three levels below it, holds a run.
bool holds_runs(const std::filesystem::path& path);
/// An Error if the folder is that of a single run: several runs must not be put below it.
void require_no_run_itself(const std::filesystem::path& folder);
/// Says why a folder that holds no run cannot be used as one, and lists the runs in the folders below it.
std::string no_run_in(const std::filesystem::path& path);
/// An Error if a folder holds a run and `resume` is not set, or if it holds none and `resume` is set.
void require_place(const std::filesystem::path& path, bool resume);

/// The first of NAME, NAME-2, NAME-3, ... below `parent` that holds no runs; with `latest`, the last one that does.
std::filesystem::path numbered_folder(const std::filesystem::path& parent, const std::string& name, bool latest);

}  // namespace bochner

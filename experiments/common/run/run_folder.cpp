#include "experiments/common/run/run_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "engine/error.h"
#include "engine/nearest.h"

namespace bochner {
namespace {

/// The runs in the folders below this one, in order.
std::vector<std::string> folders_of_runs_below(const std::filesystem::path& path) {
  constexpr int kDepth = 3;  // task, attention, seed
  std::vector<std::string> runs;
  std::error_code error;
  std::filesystem::recursive_directory_iterator entry(path, error);
  for (const std::filesystem::recursive_directory_iterator end; !error && entry != end; entry.increment(error)) {
    const bool is_run = entry->is_directory() && holds_run(entry->path());
    if (is_run) runs.push_back(entry->path().string());
    if (is_run || entry.depth() + 1 >= kDepth) entry.disable_recursion_pending();
  }
  std::sort(runs.begin(), runs.end());
  return runs;
}

}  // namespace

// Any of these shows a run: even if one was lost, a new run must not be mixed with the rest of the old one.
bool holds_run(const std::filesystem::path& path) {
  const auto exists = [&](const char* name) { return std::filesystem::exists(path / name); };
  return exists(kConfig) || exists(kCheckpointLast) || exists(kResults);
}

std::filesystem::path checkpoint_in(const std::filesystem::path& folder) {
  for (const char* name : {kCheckpointBest, kCheckpointLast}) {
    if (std::filesystem::exists(folder / name)) return folder / name;
  }
  return {};
}

RunFolder::RunFolder(const std::filesystem::path& path, bool resume) : path_(path) {
  require_place(path, resume);
  is_new_ = !std::filesystem::exists(path);
  const std::error_code error = made_.add_folders(path);
  if (error) fail("cannot make the run folder {}: {}; name another with --out", path.string(), error.message());
  const bool had_lock = std::filesystem::exists(path / ".lock");
  lock_.emplace(path / ".lock", "cannot write in the run folder " + path.string(), "name another with --out");
  if (!lock_->held()) {
    fail("the run folder {} is in use by {}; wait for it, or name another with --out", path.string(), lock_->holder());
  }
  if (!had_lock) made_.add(path / ".lock");
  require_place(path, resume);  // another process may have been faster
  remove_leftovers(path);
}

void RunFolder::discard() {
  std::error_code ignored;
  if (is_new_) std::filesystem::remove_all(path_, ignored);
}

bool holds_runs(const std::filesystem::path& path) { return holds_run(path) || !folders_of_runs_below(path).empty(); }

void require_no_run_itself(const std::filesystem::path& folder) {
  if (holds_run(folder)) fail("{} is the folder of one run; name another with --out for several", folder.string());
}

std::string no_run_in(const std::filesystem::path& path) {
  const std::vector<std::string> runs = folders_of_runs_below(path);
  const std::string none = "there is no run in " + path.string();
  return runs.empty() ? none : fmt::format("{} itself; name one of those below it: {}", none, some_of(runs));
}

void require_place(const std::filesystem::path& path, bool resume) {
  if (resume && !holds_run(path)) fail("--resume: {}", no_run_in(path));
  if (!resume && holds_run(path)) {
    fail("{} holds a run already; continue it with --resume, or name another folder with --out", path.string());
  }
}

void require_writable(const std::filesystem::path& folder, const std::string& option) {
  Temporaries made;
  std::error_code error = made.add_folders(folder);
  std::string reason = error ? error.message() : "";
  if (reason.empty()) {
    std::filesystem::path file;
    const int descriptor = open_temporary(folder / "written", file);
    if (descriptor < 0) reason = std::strerror(errno);
    if (descriptor >= 0) close(descriptor);
    std::filesystem::remove(file, error);
  }
  if (!reason.empty())
    fail("cannot write in the folder {}: {}; name another with --{}", folder.string(), reason, option);
}

std::filesystem::path numbered_folder(const std::filesystem::path& parent, const std::string& name, bool latest) {
  const auto numbered = [&](int number) { return parent / (number == 1 ? name : fmt::format("{}-{}", name, number)); };
  int number = 1;
  while (holds_runs(numbered(number))) ++number;
  return numbered(latest && number > 1 ? number - 1 : number);
}

}  // namespace bochner

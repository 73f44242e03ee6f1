#include "experiments/common/run/run_folder.h"

#include <fmt/format.h>

#include "engine/error.h"
#include "engine/io/temporary.h"

namespace bochner {
// Any of them shows a run: even if one was lost, a new run must not be mixed with the rest of the old one.
bool holds_run(const std::filesystem::path& path) {
  const auto exists = [&](const char* name) { return std::filesystem::exists(path / name); };
  return exists("config.ini") || exists("checkpoint-last") || exists("results.json");
}

RunFolder::RunFolder(const std::filesystem::path& path, bool resume) : path_(path) {
  if (resume && !holds_run(path)) fail("--resume: there is no run in {}", path.string());
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) fail("cannot make the run folder {}: {}; name another with --out", path.string(), error.message());
  lock_.emplace(path / ".lock", "cannot write in the run folder " + path.string(), "name another with --out");
  if (!lock_->held()) {
    fail("the run folder {} is in use by {}; wait for it, or name another with --out", path.string(), lock_->holder());
  }
  if (!resume && holds_run(path)) {
    fail("{} holds a run already; continue it with --resume, or name another folder with --out", path.string());
  }
  remove_leftovers(path);
}

bool holds_runs(const std::filesystem::path& path) {
  constexpr int kDepth = 3;  // task, attention, seed
  if (holds_run(path)) return true;
  std::error_code error;
  std::filesystem::recursive_directory_iterator entry(path, error);
  for (const std::filesystem::recursive_directory_iterator end; entry != end; entry.increment(error)) {
    if (error) return false;
    if (entry->is_directory() && holds_run(entry->path())) return true;
    if (entry.depth() + 1 >= kDepth) entry.disable_recursion_pending();
  }
  return false;
}

std::filesystem::path numbered_folder(const std::filesystem::path& parent, const std::string& name, bool latest) {
  const auto numbered = [&](int number) { return parent / (number == 1 ? name : fmt::format("{}-{}", name, number)); };
  int number = 1;
  while (holds_runs(numbered(number))) ++number;
  return numbered(latest && number > 1 ? number - 1 : number);
}

}  // namespace bochner

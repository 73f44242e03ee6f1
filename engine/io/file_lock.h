// A lock between processes: a file that one process holds until it ends, in whatever way.
//
//   const FileLock lock("runs/lra/a/.lock", "cannot write in runs/lra/a", "name another");
//   if (!lock.held()) fail("in use by {}", lock.holder());
#pragma once

#include <filesystem>
#include <string>

namespace bochner {

class FileLock {
 public:
  /// Creates the file if it is missing, and takes the lock unless another process has it. If the file cannot be
  /// created, the Error is `WHAT: REASON; ADVICE`. If the file system has no locks, the lock counts as held, with a
  /// warning.
  FileLock(const std::filesystem::path& path, const std::string& what, const std::string& advice);
  ~FileLock();
  FileLock(FileLock&& other) noexcept;
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  bool held() const { return held_; }
  /// A warning if nothing keeps two processes apart; empty if the lock does.
  const std::string& warning() const { return warning_; }
  /// `process 123`, or `another process`.
  std::string holder() const;

 private:
  int descriptor_ = -1;
  bool held_ = false;
  std::string warning_;
};

}  // namespace bochner

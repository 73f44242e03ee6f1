// Temporary files and folders, and the removal of those that killed processes left behind.
//
//   const Temporary staging(folder / ".making");   // removed at the end, also if a signal ends the program
//
//   remove_leftovers("runs/lra/a");                // NAME.tmp-PID-N of processes that were killed
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

namespace bochner {

/// A file or an empty folder that is removed when this object is destroyed, unless keep() was called. Until then it is
/// on a list that a signal handler can read.
class Temporary {
 public:
  /// The path need not exist.
  explicit Temporary(std::filesystem::path path);
  ~Temporary();
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// The file or folder is kept.
  void keep();

 private:
  std::filesystem::path path_;
  int place_ = -1;
  bool removes_ = true;
};

/// Several of these, such as a folder, its parents and a file within, removed newest first.
class Temporaries {
 public:
  Temporaries() = default;
  ~Temporaries();
  Temporaries(Temporaries&&) = default;
  Temporaries(const Temporaries&) = delete;
  Temporaries& operator=(const Temporaries&) = delete;

  void add(const std::filesystem::path& path);
  /// Creates the folder and its parents; only those that were missing are added. Returns the reason if that failed.
  std::error_code add_folders(const std::filesystem::path& folder);
  /// All are kept.
  void keep();

 private:
  std::vector<std::unique_ptr<Temporary>> all_;
};

/// Removes the file or folder of every Temporary, newest first. Safe in a signal handler that ends the process.
void remove_temporaries() noexcept;

/// Opens a new file `TARGET.tmp-PID-N` for writing and locks it for as long as the descriptor stays open: this is how
/// remove_leftovers() knows the file of a living process, on whichever machine. Returns -1 with errno on failure.
int open_temporary(const std::filesystem::path& target, std::filesystem::path& path);

/// Removes the files `NAME.tmp-PID-N` in the folder whose process is gone: those of one NAME, or all if it is empty.
void remove_leftovers(const std::filesystem::path& folder, const std::string& name = "");

}  // namespace bochner

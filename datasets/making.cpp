#include "datasets/making.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <optional>
#include <system_error>
#include <thread>

#include "engine/error.h"
#include "engine/io/archive.h"
#include "engine/io/bytes.h"
#include "engine/io/file.h"
#include "engine/io/file_lock.h"

namespace bochner {
namespace {

namespace fs = std::filesystem;

/// An Error that names the first option in which the two differ.
void check_same(const fs::path& folder, const Manifest& found, const Recipe& wanted) {
  if (found.dataset != wanted.dataset) {
    fail("{}: holds the data set {}, not {}; choose another folder", folder.string(), shown(found.dataset),
         wanted.dataset);
  }
  // As in a manifest, which is UTF-8, whatever bytes file names hold.
  const Manifest written = parse_manifest(format_manifest({wanted.dataset, wanted.options, {}}), Manifest::kFileName);
  if (found.options == written.options) return;
  for (const auto& [name, value] : written.options) {
    const auto other = found.options.find(name);
    if (other != found.options.end() && other->second == value) continue;
    fail(
        "{}: holds {} made with {} {}, but {} is requested; choose another folder, or remove its files to have them "
        "made again",
        folder.string(), wanted.dataset, name, other == found.options.end() ? "unknown" : shown(other->second), value);
  }
  fail("{}: holds {} made with options that are not known here; choose another folder", folder.string(),
       wanted.dataset);
}

/// Whether all files of the manifest exist and it has all parts. An Error if a file differs from the manifest.
bool complete(const fs::path& folder, const Manifest& manifest, const Recipe& recipe) {
  bool all = std::all_of(recipe.parts.begin(), recipe.parts.end(), [&](const std::string& part) {
    return std::any_of(manifest.files.begin(), manifest.files.end(), [&](const ManifestFile& file) {
      return file.name == part || file.name.starts_with(part + "/");
    });
  });
  for (const ManifestFile& file : manifest.files) {
    const FileState state = state_of(folder, file);
    if (state == FileState::missing) all = false;
    if (state == FileState::wrong_size || state == FileState::wrong_hash) {
      fail("{}: its {} is not that of {}; remove the file to have it made again{}", (folder / file.name).string(),
           state == FileState::wrong_size ? "size" : "SHA-256", (folder / Manifest::kFileName).string(),
           recipe.takes_foreign ? ", or the manifest to use it as it is" : "");
    }
  }
  return all;
}

/// Looks for existing data; nothing if the data must be made.
std::optional<Ensured> find_data(const fs::path& folder, const Recipe& recipe, const Say& say) {
  if (has_manifest(folder)) {
    const Manifest manifest = read_manifest(folder);
    check_same(folder, manifest, recipe);
    if (complete(folder, manifest, recipe)) {
      say(fmt::format("{}: {} in {}, as their manifest says", recipe.dataset, recipe.found, folder.string()));
      return Ensured::verified;
    }
    return std::nullopt;
  }
  const auto present = std::count_if(recipe.parts.begin(), recipe.parts.end(), [&](const std::string& part) {
    return fs::exists(folder / part) || find_packed(folder / part);
  });
  if (present > 0 && !recipe.takes_foreign) {
    fail("{}: holds {} without a manifest; remove the folder to have them made again", folder.string(), recipe.found);
  }
  if (present == std::ssize(recipe.parts)) {
    say(fmt::format("{}: the files in {} have no manifest; left as they are", recipe.dataset, folder.string()));
    return Ensured::foreign;
  }
  if (present > 0) {
    fail("{}: holds {} of the {} and no manifest; add the others, or remove them to have all made", folder.string(),
         present, recipe.parts_in_words);
  }
  return std::nullopt;
}

/// The folder where data are made, and the lock of the process that makes them.
constexpr const char* kStaging = ".making";
constexpr const char* kStagingLock = ".making.lock";

/// The process that makes the data of a folder, or cleans up after one that was killed. Only one at a time; the lock is
/// removed at the end, and so is the folder, if it was made here and nothing in it.
class Maker {
 public:
  /// Waits for another process.
  Maker(const fs::path& folder, const std::string& dataset, const Say& say) {
    bool told = false;
    for (;;) {
      take_lock(folder);
      if (lock_->held()) {
        if (!lock_->warning().empty()) say(fmt::format("{}: {}", dataset, lock_->warning()));
        removed_.emplace(folder / kStagingLock);
        return;
      }
      if (!told)
        say(fmt::format("{}: {} is making the files in {}; waiting for it", dataset, lock_->holder(), folder.string()));
      told = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
  }

 private:
  /// Another process that fails removes the folder, at any moment until the lock is held.
  void take_lock(const fs::path& folder) {
    lock_.reset();
    for (int attempt = 1; !lock_; ++attempt) {
      const std::error_code error = folders_.add_folders(folder);
      if (error) fail("{}: the folder cannot be made: {}", folder.string(), error.message());
      try {
        lock_.emplace(folder / kStagingLock, folder.string() + ": files cannot be made there", "choose another folder");
      } catch (const Error&) {
        if (attempt == kAttempts) throw;
      }
    }
  }

  static constexpr int kAttempts = 100;

  Temporaries folders_;
  std::optional<FileLock> lock_;
  std::optional<Temporary> removed_;  // before the lock is released, since it is declared after it
};

/// Moves the parts of a finished staging folder to their place, the manifest last. It also completes an interrupted
/// move.
void install(const fs::path& folder, const Recipe& recipe) {
  const fs::path staging = folder / kStaging;
  std::vector<std::string> parts = recipe.parts;
  parts.emplace_back(Manifest::kFileName);
  for (const std::string& part : parts) {
    if (!fs::exists(staging / part)) continue;
    if (fs::is_directory(folder / part)) fs::remove_all(folder / part);  // a folder cannot be moved onto another
    fs::rename(staging / part, folder / part);
  }
  fs::remove(staging);
}

/// Cleans up after a killed process: installs what it had finished, and removes the rest.
void clear_up(const fs::path& folder, const Recipe& recipe) {
  const fs::path staging = folder / kStaging;
  if (!fs::exists(staging)) return;
  if (has_manifest(staging)) {  // written last: all is there, or moved already
    install(folder, recipe);
  } else {
    fs::remove_all(staging);
  }
}

/// Whether a process is making the data of this folder, or was killed while making them. False if nothing can be done
/// about that because the folder is not writable.
bool is_unfinished(const fs::path& folder) {
  const bool writable = access(folder.c_str(), W_OK) == 0;
  return writable && (fs::exists(folder / kStaging) || fs::exists(folder / kStagingLock));
}

/// Waits until everything written there is on the disk.
void sync(const fs::path& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool done = descriptor >= 0 && syncfs(descriptor) == 0;
  const int error = errno;
  if (descriptor >= 0) close(descriptor);
  if (!done) fail_for(error, fmt::format("{}: cannot be written: {}", folder.string(), std::strerror(error)));
}

/// Removes a folder and all within it, unless kept.
class Scaffold {
 public:
  explicit Scaffold(fs::path path) : path_(std::move(path)) { fs::create_directory(path_); }
  ~Scaffold() {
    std::error_code error;
    if (removes_) fs::remove_all(path_, error);
  }
  Scaffold(const Scaffold&) = delete;
  Scaffold& operator=(const Scaffold&) = delete;
  void keep() { removes_ = false; }

 private:
  fs::path path_;
  bool removes_ = true;
};

/// The Maker calls it when nothing is left of another process.
Manifest make_all(const fs::path& folder, const Recipe& recipe) {
  const fs::path staging = folder / kStaging;
  // Removed on a signal; folders that are not empty are left to the next start.
  std::deque<Temporary> temporaries;
  temporaries.emplace_back(staging);
  for (const std::string& part : recipe.parts) temporaries.emplace_back(staging / part);
  Scaffold scaffold(staging);
  Manifest manifest = recipe.make(staging);
  sync(staging);
  // Nothing is removed from behind a manifest: another thread may end the program at any moment, and the next start
  // takes what has one for complete.
  for (Temporary& temporary : temporaries) temporary.keep();
  write_manifest(staging, manifest);
  scaffold.keep();
  install(folder, recipe);
  return manifest;
}

}  // namespace

bool holds_finished(const fs::path& folder) { return has_manifest(folder / kStaging); }

void finish_moving(const fs::path& folder, const Recipe& recipe, const Say& say) {
  if (!is_unfinished(folder)) return;
  const Maker maker(folder, recipe.dataset, say);
  clear_up(folder, recipe);
}

Manifest make_data(const fs::path& folder, const Recipe& recipe) {
  const Maker maker(folder, recipe.dataset, [](const std::string&) {});
  clear_up(folder, recipe);
  return make_all(folder, recipe);
}

Ensured ensure_made(const fs::path& folder, const Recipe& recipe, const Say& say) {
  std::optional<Maker> maker;
  const bool writable = access(folder.c_str(), W_OK) == 0;  // otherwise leftovers stay, which is harmless
  // Without a manifest the files may be those that another process is moving to their place.
  if (is_unfinished(folder) || (writable && !has_manifest(folder))) {
    maker.emplace(folder, recipe.dataset, say);
    clear_up(folder, recipe);
  }
  const std::optional<Ensured> found = find_data(folder, recipe, say);
  if (found) return *found;
  if (!maker) {
    maker.emplace(folder, recipe.dataset, say);
    clear_up(folder, recipe);
    // Another process may have made them meanwhile.
    if (has_manifest(folder)) {
      const std::optional<Ensured> now = find_data(folder, recipe, say);
      if (now) return *now;
    }
  }
  say(fmt::format("{}: making {} in {} ...", recipe.dataset, recipe.making, folder.string()));
  const Manifest manifest = make_all(folder, recipe);
  int64_t bytes = 0;
  for (const ManifestFile& file : manifest.files) bytes += file.bytes;
  say(fmt::format("{}: made, {:.1f} MB", recipe.dataset, static_cast<double>(bytes) / 1e6));
  return Ensured::made;
}

}  // namespace bochner

#include "datasets/listops/files.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <iterator>
#include <optional>
#include <span>
#include <system_error>
#include <thread>

#include "engine/io/file.h"
#include "engine/io/file_lock.h"
#include "engine/io/sha256.h"
#include "engine/parallel.h"

namespace bochner::listops {
namespace {

namespace fs = std::filesystem;

/// To be raised whenever the same options give other expressions.
constexpr const char* kVersion = "1";

constexpr int64_t kRowsPerPiece = 64;
constexpr int64_t kPiecesPerRound = 32;

constexpr const char* kFiles[] = {kTrainFile, kValidFile, kTestFile};

std::string join(const std::vector<Operator>& operators) {
  constexpr const char* kWords[] = {"MIN", "MAX", "MED", "SM"};
  std::string text;
  for (const Operator op : operators) {
    if (!text.empty()) text += ' ';
    text += kWords[static_cast<int>(op)];
  }
  return text;
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail("{}: the folder cannot be made: {}", folder.string(), error.message());
}

ManifestFile write_table(const fs::path& folder, const char* name, std::span<const Expression> expressions) {
  AtomicFile file(folder / name);
  Sha256 hash;
  ManifestFile entry = {name, 0, static_cast<int64_t>(expressions.size()), ""};
  const auto put = [&](const std::string& text) {
    file.write(text);
    hash.update(bytes_of(text));
    entry.bytes += static_cast<int64_t>(text.size());
  };
  put("Source\tTarget\n");
  const auto count = static_cast<int64_t>(expressions.size());
  std::vector<std::string> pieces(kPiecesPerRound);
  for (int64_t first = 0; first < count; first += kRowsPerPiece * kPiecesPerRound) {
    for (std::string& piece : pieces) piece.clear();
    const int64_t rows = std::min(count - first, kRowsPerPiece * kPiecesPerRound);
    parallel_for(rows, kRowsPerPiece, [&](int64_t begin, int64_t end) {
      std::string& piece = pieces[static_cast<size_t>(begin / kRowsPerPiece)];
      for (int64_t i = begin; i < end; ++i) {
        const Expression& expression = expressions[static_cast<size_t>(first + i)];
        expression.write(piece);
        piece += '\t';
        piece += static_cast<char>('0' + expression.value());
        piece += '\n';
      }
    });
    for (const std::string& piece : pieces) put(piece);
  }
  file.commit();
  entry.sha256 = hash.hex();
  return entry;
}

/// An Error that names the first option in which the two differ.
void check_same(const fs::path& folder, const Manifest& found, const std::map<std::string, std::string>& wanted) {
  if (found.dataset != "listops") {
    fail("{}: holds the data set {}, not listops; choose another folder", folder.string(), shown(found.dataset));
  }
  if (found.options == wanted) return;
  for (const auto& [name, value] : wanted) {
    const auto other = found.options.find(name);
    if (other != found.options.end() && other->second == value) continue;
    fail(
        "{}: holds listops made with {} {}, but {} is requested; choose another folder, or remove its files to "
        "have them made again",
        folder.string(), name, other == found.options.end() ? "unknown" : shown(other->second), value);
  }
  fail("{}: holds listops made with options that are not known here; choose another folder", folder.string());
}

/// Are all files of the manifest there? An Error if one is there, but not as it should be.
bool complete(const fs::path& folder, const Manifest& manifest) {
  bool all = manifest.files.size() == std::size(kFiles);
  for (const char* name : kFiles) {
    const auto is_it = [&](const ManifestFile& file) { return file.name == name; };
    const auto file = std::find_if(manifest.files.begin(), manifest.files.end(), is_it);
    if (file == manifest.files.end()) {
      all = false;
      continue;
    }
    const FileState state = state_of(folder, *file);
    if (state == FileState::missing) all = false;
    if (state == FileState::wrong_size || state == FileState::wrong_hash) {
      fail("{}: its {} is not that of {}; remove the file to have it made again, or the manifest to use it as it is",
           (folder / name).string(), state == FileState::wrong_size ? "size" : "SHA-256",
           (folder / Manifest::kFileName).string());
    }
  }
  return all;
}

}  // namespace

std::map<std::string, std::string> described(const GeneratorOptions& options) {
  return {{"generator", kVersion},
          {"max_args", fmt::format("{}", options.max_args)},
          {"max_depth", fmt::format("{}", options.max_depth)},
          {"max_length", fmt::format("{}", options.max_length)},
          {"min_length", fmt::format("{}", options.min_length)},
          {"operators", join(options.operators)},
          {"seed", fmt::format("{}", options.seed)},
          {"test", fmt::format("{}", options.test)},
          {"train", fmt::format("{}", options.train)},
          {"valid", fmt::format("{}", options.valid)},
          {"value_probability", fmt::format("{}", options.value_probability)}};
}

namespace {

/// Writes all files into the folder, the manifest last.
Manifest write_all(const fs::path& folder, const GeneratorOptions& options) {
  const std::vector<Expression> expressions = generate(options);
  const std::span<const Expression> all(expressions);
  const auto train = static_cast<size_t>(options.train);
  const auto valid = static_cast<size_t>(options.valid);
  Manifest manifest = {"listops", described(options), {}};
  manifest.files.push_back(write_table(folder, kTrainFile, all.first(train)));
  manifest.files.push_back(write_table(folder, kValidFile, all.subspan(train, valid)));
  manifest.files.push_back(write_table(folder, kTestFile, all.subspan(train + valid)));
  write_manifest(folder, manifest);
  return manifest;
}

/// Looks for files that need not be made; nothing where they do.
std::optional<Ensured> find_files(const fs::path& folder, const GeneratorOptions& options, const Say& say) {
  const auto present =
      std::count_if(std::begin(kFiles), std::end(kFiles), [&](const char* name) { return fs::exists(folder / name); });
  if (has_manifest(folder)) {
    const Manifest manifest = read_manifest(folder);
    check_same(folder, manifest, described(options));
    if (complete(folder, manifest)) {
      say(fmt::format("listops: {} expressions in {}, as their manifest says", options.total(), folder.string()));
      return Ensured::verified;
    }
  } else if (present == std::ssize(kFiles)) {
    say(fmt::format("listops: the files in {} have no manifest; left as they are", folder.string()));
    return Ensured::foreign;
  } else if (present > 0) {
    fail(
        "{}: holds {} of the three files basic_{{train,val,test}}.tsv and no manifest; add the others, or remove them "
        "to have all made",
        folder.string(), present);
  }
  return std::nullopt;
}

/// Where files are made, and the lock of who makes them.
constexpr const char* kStaging = ".making";
constexpr const char* kStagingLock = ".making.lock";

/// Whoever makes the files of a folder, or clears up after one who was killed at it. One process at a time; the lock is
/// removed in the end.
class Maker {
 public:
  /// Waits for another one.
  Maker(const fs::path& folder, const Say& say) {
    bool told = false;
    for (;;) {
      FileLock lock(folder / kStagingLock, folder.string() + ": files cannot be made there", "choose another folder");
      if (lock.held()) {
        lock_.emplace(std::move(lock));
        removed_.emplace(folder / kStagingLock);
        return;
      }
      if (!told)
        say(fmt::format("listops: {} is making the files in {}; waiting for it", lock.holder(), folder.string()));
      told = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
  }

 private:
  std::optional<FileLock> lock_;
  std::optional<Temporary> removed_;  // before the lock is given up, as it is declared after it
};

/// Moves the files of a finished staging folder to their place, from wherever that was interrupted.
void install(const fs::path& folder) {
  const fs::path staging = folder / kStaging;
  for (const char* name : {kTrainFile, kValidFile, kTestFile, Manifest::kFileName}) {
    if (fs::exists(staging / name)) fs::rename(staging / name, folder / name);
  }
  fs::remove(staging);
}

/// Clears up after a process that was killed: installs what it had finished, and removes what it had not.
void clear_up(const fs::path& folder) {
  const fs::path staging = folder / kStaging;
  if (!fs::exists(staging)) return;
  if (has_manifest(staging)) {  // written last: all is there, or moved already
    install(folder);
  } else {
    fs::remove_all(staging);
  }
}

/// All or nothing: they are made in a folder beside, and moved when they are complete.
Manifest make_files(const fs::path& folder, const GeneratorOptions& options) {
  const fs::path staging = folder / kStaging;
  std::optional<Temporary> place(std::in_place, staging);
  std::deque<Temporary> files;
  for (const char* name : {kTrainFile, kValidFile, kTestFile, Manifest::kFileName}) files.emplace_back(staging / name);
  fs::create_directory(staging);
  Manifest manifest = write_all(staging, options);
  for (Temporary& file : files) file.keep();  // from here on a signal leaves what the next start moves
  place->keep();
  install(folder);
  return manifest;
}

}  // namespace

Manifest write_files(const fs::path& folder, const GeneratorOptions& options) {
  make_folder(folder);
  const Maker maker(folder, [](const std::string&) {});
  clear_up(folder);
  return make_files(folder, options);
}

Ensured ensure_files(const fs::path& folder, const GeneratorOptions& options, const Say& say) {
  check(options);
  std::optional<Maker> maker;
  const bool writable = access(folder.c_str(), W_OK) == 0;  // otherwise leftovers stay, and harm nobody
  if (writable && (fs::exists(folder / kStaging) || fs::exists(folder / kStagingLock))) {
    maker.emplace(folder, say);
    clear_up(folder);
  }
  const std::optional<Ensured> found = find_files(folder, options, say);
  if (found) return *found;
  make_folder(folder);
  if (!maker) {
    maker.emplace(folder, say);
    clear_up(folder);
    // Another process may have made them meanwhile.
    if (has_manifest(folder)) {
      const std::optional<Ensured> now = find_files(folder, options, say);
      if (now) return *now;
    }
  }
  say(fmt::format("listops: making {} + {} + {} expressions with seed {} in {} ...", options.train, options.valid,
                  options.test, options.seed, folder.string()));
  const Manifest manifest = make_files(folder, options);
  int64_t bytes = 0;
  for (const ManifestFile& file : manifest.files) bytes += file.bytes;
  say(fmt::format("listops: made, {:.1f} MB", static_cast<double>(bytes) / 1e6));
  return Ensured::made;
}

}  // namespace bochner::listops

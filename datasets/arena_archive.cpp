#include "datasets/arena_archive.h"

#include <algorithm>
#include <functional>
#include <set>
#include <string_view>

#include "engine/error.h"
#include "engine/io/archive.h"
#include "engine/io/file.h"

namespace bochner {
namespace {

namespace fs = std::filesystem;

constexpr const char* kArchive = "lra_release";  ///< its name, and its folder's
/// Begins the name of the data set in the manifest of a copy.
constexpr std::string_view kCopied = "lra_release/";

using Names = std::vector<std::string>;

/// `./a//b/c` as a, b, c.
Names names_of(std::string_view path) {
  Names names;
  while (!path.empty()) {
    const size_t slash = std::min(path.find('/'), path.size());
    const std::string_view name = path.substr(0, slash);
    if (!name.empty() && name != ".") names.emplace_back(name);
    path.remove_prefix(std::min(slash + 1, path.size()));
  }
  return names;
}

std::string joined(const Names& names, size_t begin, size_t end) {
  std::string path;
  for (size_t i = begin; i < std::min(end, names.size()); ++i) path += (path.empty() ? "" : "/") + names[i];
  return path;
}

/// Passes on what is written to it, and subtracts its size from a budget of bytes, which must not run out.
class Measured final : public ByteSink {
 public:
  Measured(ByteSink& to, int64_t& left, std::function<void()> refuse)
      : to_(to), left_(left), refuse_(std::move(refuse)) {}

  using ByteSink::write;
  void write(Bytes bytes) override {
    left_ -= std::ssize(bytes);
    if (left_ < 0) refuse_();
    to_.write(bytes);
  }

 private:
  ByteSink& to_;
  int64_t& left_;
  std::function<void()> refuse_;
};

/// Copies the files of a set out of the archive as they come.
class Copier {
 public:
  Copier(const ArenaSet& set, fs::path to) : set_(set), name_(names_of(set.name)), to_(std::move(to)) {}

  /// An Error that begins with the archive's name, `whose`, if the set is larger than allowed.
  void take(ArchiveReader& archive, const std::string& whose) {
    const Names names = names_of(archive.name());
    if (seen_.size() < kMostTold) seen_.insert(joined(names, 0, std::min(kToldDepth, names.size() - 1)));
    const std::optional<size_t> at = begin_of(names);
    if (!at) return;
    const std::string before = joined(names, 0, *at);
    if (!found_ || *at > depth_) {
      for (const std::string& part : set_.parts) fs::remove_all(to_ / part);
      found_ = before;
      depth_ = *at;
      left_ = set_.most_bytes;
    }
    if (before != *found_) return;
    const fs::path path = to_ / joined(names, *at + name_.size(), names.size());
    fs::create_directories(path.parent_path());
    NewFile file(path);
    Measured measured(file, left_, [&] {
      fail(
          "{}: its folder {} holds more than {:g} MB, the most that there may be of {}; is it the archive of the Long "
          "Range Arena?",
          whose, shown((fs::path(before) / set_.name).string()), static_cast<double>(set_.most_bytes) / 1e6,
          set_.parts_in_words);
    });
    const int64_t bytes = archive.copy_to(measured);
    left_ -= std::max<int64_t>(0, kBlock - bytes);
    if (left_ < 0) measured.write(Bytes());
    file.commit();
  }

  /// An Error that begins with the archive's name if something is missing.
  void finish(const std::string& archive) const {
    if (!found_) {
      std::string all;
      for (const std::string& folder : seen_) all += (all.empty() ? "" : ", ") + shown(folder);
      fail("{}: holds no {} with {}, but {}; is it the archive of the Long Range Arena?", archive, set_.name,
           set_.parts_in_words, all.empty() ? "no files" : "files in " + all);
    }
    for (const std::string& part : set_.parts) {
      if (fs::exists(to_ / part)) continue;
      fail("{}: its folder {} holds no {}; is it the archive of the Long Range Arena?", archive,
           shown((fs::path(*found_) / set_.name).string()), part);
    }
  }

 private:
  static constexpr size_t kMostTold = 12;
  static constexpr size_t kToldDepth = 4;
  static constexpr int64_t kBlock = 4096;

  /// Where the set's name begins in the path of one of its files.
  std::optional<size_t> begin_of(const Names& names) const {
    const auto at = std::search(names.begin(), names.end(), name_.begin(), name_.end());
    const auto below = names.end() - at - std::ssize(name_);
    if (at == names.end() || below < 1 || below > 3 || names.back().starts_with('.')) return std::nullopt;
    const auto part = at + std::ssize(name_);
    if (std::find(set_.parts.begin(), set_.parts.end(), *part) == set_.parts.end()) return std::nullopt;
    if (!std::all_of(part, names.end(), is_plain_name)) return std::nullopt;
    return static_cast<size_t>(at - names.begin());
  }

  const ArenaSet& set_;
  Names name_;
  fs::path to_;
  std::optional<std::string> found_;  ///< what stands before the set's name
  size_t depth_ = 0;                  ///< how many names that are
  int64_t left_ = 0;                  ///< bytes that may still come
  std::set<std::string> seen_;        ///< some of the archive's folders
};

int64_t lines_in(const fs::path& path) {
  InputFile file(path);
  std::vector<std::byte> piece(size_t{1} << 16);
  int64_t lines = 0;
  bool open = false;  // bytes after the last line feed
  while (const size_t count = file.read(piece)) {
    lines += std::count(piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(count), std::byte{'\n'});
    open = piece[count - 1] != std::byte{'\n'};
  }
  return lines + (open ? 1 : 0);
}

/// Adds a file with its lines, or a folder of files with their number; a folder of folders with each of these.
void list(const fs::path& folder, const std::string& name, int64_t header_rows, std::vector<ManifestFile>& files) {
  if (!fs::is_directory(folder / name)) {
    files.push_back(entry_of(folder, name, std::max<int64_t>(0, lines_in(folder / name) - header_rows)));
    return;
  }
  Names below;
  bool flat = true;
  for (const auto& entry : fs::directory_iterator(folder / name)) {
    below.push_back(entry.path().filename().string());
    flat = flat && entry.is_regular_file();
  }
  if (flat && name.find('/') != std::string::npos) {
    files.push_back(entry_of(folder, name, std::ssize(below)));
    return;
  }
  std::sort(below.begin(), below.end());
  for (const std::string& one : below) list(folder, name + "/" + one, header_rows, files);
}

Manifest copied(const ArenaFolder& place, const ArenaSet& set, const fs::path& to, Manifest manifest) {
  if (!place.archive) {
    fail(
        "{}: files of it are missing, and there is no {} any more to copy them from; put it into "
        "the folder of all data (--data) again",
        place.folder.string(), kArenaArchive);
  }
  Copier copier(set, to);
  // What is read of the copy is logged as data of the run, not the archive.
  ArchiveReader archive(std::make_unique<InputFile>(*place.archive));
  with_named_files([&] {
    while (archive.next()) copier.take(archive, place.archive->string());
  });
  copier.finish(place.archive->string());
  for (const std::string& part : set.parts) list(to, part, set.header_rows, manifest.files);
  return manifest;
}

}  // namespace

std::optional<ArenaFolder> arena_folder(const fs::path& data, const std::string& name) {
  const std::optional<fs::path> archive = find_archive(data, kArchive);
  const fs::path inner = data / kArchive / kArchive / name;
  for (const fs::path& folder : {inner, data / kArchive / name}) {
    if (holds_anything(folder)) return ArenaFolder{folder, archive};
  }
  if (!archive) return std::nullopt;
  return ArenaFolder{inner, archive};
}

bool holds_anything(const fs::path& folder) {
  if (!fs::is_directory(folder)) return false;
  return std::any_of(fs::directory_iterator(folder), fs::directory_iterator(), [](const fs::directory_entry& entry) {
    return !entry.path().filename().string().starts_with('.');
  });
}

bool is_arena_copy(const fs::path& folder) {
  return has_manifest(folder) && read_manifest(folder).dataset.starts_with(kCopied);
}

void copy_from_arena(const ArenaFolder& place, const ArenaSet& set, const Say& say) {
  if (!place.archive && !is_arena_copy(place.folder)) return;
  Recipe recipe;
  recipe.dataset = std::string(kCopied) + set.name;
  recipe.parts = set.parts;
  recipe.parts_in_words = set.parts_in_words;
  recipe.found = "copies of " + set.parts_in_words;
  recipe.making = recipe.found;
  if (place.archive) {
    recipe.making += fmt::format(" (one pass over the {:.1f} MB of {}, for this and later runs)",
                                 static_cast<double>(InputFile(*place.archive).size()) / 1e6, place.archive->string());
  }
  recipe.make = [&](const fs::path& to) { return copied(place, set, to, {recipe.dataset, recipe.options, {}}); };
  ensure_made(place.folder, recipe, say);
}

}  // namespace bochner

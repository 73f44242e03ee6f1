// A manifest: which files a folder of data consists of, their SHA-256, and how they were made. It is a JSON file,
// `manifest.json`, written after the files that it lists, so if it exists they are complete.
//
//   {"dataset": "listops", "options": {"seed": "0", ...},
//    "files": [{"name": "basic_train.tsv", "bytes": 634116231, "rows": 96000, "sha256": "..."}]}
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace bochner {

struct ManifestFile {
  std::string name;  ///< below the manifest's folder: of a file, or of a folder of many small files
  int64_t bytes = 0;
  int64_t rows = 0;  ///< examples
  std::string sha256;
  bool operator==(const ManifestFile&) const = default;
};

struct Manifest {
  static constexpr const char* kFileName = "manifest.json";

  std::string dataset;
  std::map<std::string, std::string> options;
  std::vector<ManifestFile> files;

  bool operator==(const Manifest&) const = default;
};

/// Whether it is the name of something in a folder, not a path that leads elsewhere.
bool is_plain_name(const std::string& name);
/// Whether there is a manifest in the folder.
bool has_manifest(const std::filesystem::path& folder);
/// An Error that begins with `file` if the text is not a manifest, or if it names a file outside its folder or a
/// malformed hash.
Manifest parse_manifest(std::string_view text, std::string_view file);
/// Bytes of options that are not UTF-8, which file names may contain, become U+FFFD.
std::string format_manifest(const Manifest& manifest);
Manifest read_manifest(const std::filesystem::path& folder);
void write_manifest(const std::filesystem::path& folder, const Manifest& manifest);

/// The entry of a file or folder on disk. The SHA-256 of a folder is that of all its files in the order of their names,
/// each as `NAME BYTES`, a line feed, and its contents.
ManifestFile entry_of(const std::filesystem::path& folder, const std::string& name, int64_t rows);

/// The state of a file on disk, compared with its manifest or the published file.
enum class FileState {
  right,
  missing,
  incomplete,  ///< only some of its examples, which a program may accept; for sets that are checked as a whole
  wrong_size,
  wrong_hash,
};

/// Compares size, then hash. What is neither a file nor a folder is missing.
FileState state_of(const std::filesystem::path& folder, const ManifestFile& file);

}  // namespace bochner

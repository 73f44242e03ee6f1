#include "datasets/manifest.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/error.h"
#include "engine/io/file.h"
#include "engine/io/json_file.h"
#include "engine/io/sha256.h"

namespace bochner {
namespace {

using nlohmann::json;

constexpr int64_t kLargestManifest = int64_t{16} << 20;
/// For the files of a folder that is one entry.
constexpr int64_t kLargestSmallFile = int64_t{64} << 20;

/// `imgs/17`: plain names with a slash between them.
bool is_path_below(const std::string& name) {
  size_t begin = 0;
  for (;;) {
    const size_t end = std::min(name.find('/', begin), name.size());
    if (!is_plain_name(name.substr(begin, end - begin))) return false;
    if (end == name.size()) return true;
    begin = end + 1;
  }
}

bool is_sha256(const std::string& digits) {
  return digits.size() == 64 && std::all_of(digits.begin(), digits.end(),
                                            [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

/// A count: JSON also allows negative numbers, fractions, and numbers that are too large.
int64_t count_of(const json& value) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > uint64_t{1} << 62) {
    fail("{} is no count", value.dump(-1, ' ', true, json::error_handler_t::replace));
  }
  return value.get<int64_t>();
}

Manifest parse(const json& root) {
  Manifest manifest;
  manifest.dataset = root.at("dataset").get<std::string>();
  manifest.options = root.at("options").get<std::map<std::string, std::string>>();
  for (const json& item : root.at("files")) {
    ManifestFile file = {item.at("name").get<std::string>(), count_of(item.at("bytes")), count_of(item.at("rows")),
                         item.at("sha256").get<std::string>()};
    if (!is_path_below(file.name)) fail("{} is no name of a file in this folder", shown(file.name));
    if (!is_sha256(file.sha256)) fail("{} is no SHA-256 in 64 lower-case digits", shown(file.sha256));
    manifest.files.push_back(std::move(file));
  }
  return manifest;
}

}  // namespace

bool is_plain_name(const std::string& name) {
  return !name.empty() && name.find_first_of("/\\") == std::string::npos && name.find('\0') == std::string::npos &&
         name != "." && name != "..";
}

bool has_manifest(const std::filesystem::path& folder) {
  std::error_code unreadable;
  return std::filesystem::exists(folder / Manifest::kFileName, unreadable);
}

Manifest parse_manifest(std::string_view text, std::string_view file) {
  const json root = parse_json_object(text, fmt::format("{}: no manifest", file));
  try {
    return parse(root);
  } catch (const json::exception& error) {
    std::string_view what = error.what();  // `[json.exception.type_error.302] type must be string, but is number`
    what.remove_prefix(std::min(what.size(), what.find(']') + 2));
    fail("{}: no manifest: {}", file, what);
  } catch (const Error& error) {
    fail("{}: no manifest: {}", file, error.what());
  }
}

std::string format_manifest(const Manifest& manifest) {
  json files = json::array();
  for (const ManifestFile& file : manifest.files) {
    files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"rows", file.rows}, {"sha256", file.sha256}});
  }
  const json root = {{"dataset", manifest.dataset}, {"options", manifest.options}, {"files", files}};
  return json_text(root, 2) + "\n";
}

Manifest read_manifest(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / Manifest::kFileName;
  return parse_manifest(read_text(path, kLargestManifest), path.string());
}

void write_manifest(const std::filesystem::path& folder, const Manifest& manifest) {
  write_file_atomically(folder / Manifest::kFileName, format_manifest(manifest));
}

ManifestFile entry_of(const std::filesystem::path& folder, const std::string& name, int64_t rows) {
  namespace fs = std::filesystem;
  if (!fs::is_directory(folder / name)) {
    return {name, InputFile(folder / name).size(), rows, sha256_of_file(folder / name)};
  }
  std::vector<std::string> names;
  for (const auto& file : fs::directory_iterator(folder / name)) {
    if (!file.is_regular_file()) fail("{}: is no regular file; remove it", file.path().string());
    names.push_back(file.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  Sha256 hash;
  int64_t bytes = 0;
  for (const std::string& file : names) {
    const std::vector<std::byte> content = read_file(folder / name / file, kLargestSmallFile);
    hash.update(bytes_of(fmt::format("{} {}\n", file, content.size())));
    hash.update(content);
    bytes += static_cast<int64_t>(content.size());
  }
  return {name, bytes, rows, hash.hex()};
}

FileState state_of(const std::filesystem::path& folder, const ManifestFile& file) {
  const std::filesystem::path path = folder / file.name;
  const bool regular = std::filesystem::is_regular_file(path);
  if (!regular && !std::filesystem::is_directory(path)) return FileState::missing;
  if (regular && InputFile(path).size() != file.bytes) return FileState::wrong_size;
  const ManifestFile found = entry_of(folder, file.name, file.rows);
  if (found.bytes != file.bytes) return FileState::wrong_size;
  return found.sha256 == file.sha256 ? FileState::right : FileState::wrong_hash;
}

}  // namespace bochner

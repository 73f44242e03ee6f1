#include "datasets/pathfinder/metadata.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "engine/io/file.h"
#include "engine/io/lines.h"

namespace bochner::pathfinder {
namespace {

namespace fs = std::filesystem;

/// The published ones have about 60 KB.
constexpr int64_t kLargestFile = int64_t{4} << 20;
/// Folder, name, number, label; what follows says how the image was drawn.
constexpr size_t kFields = 4;

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  while (!line.empty()) {
    const size_t end = std::min(line.find(' '), line.size());
    if (end > 0) fields.push_back(line.substr(0, end));
    line.remove_prefix(std::min(line.size(), end + 1));
  }
  return fields;
}

/// `imgs/3`, but no way out of the folder.
bool is_below(std::string_view path) {
  const fs::path p(path);
  return p.is_relative() && std::none_of(p.begin(), p.end(), [](const fs::path& part) { return part == ".."; });
}

void read_line(std::string_view line, Row& row) {
  const std::vector<std::string_view> fields = fields_of(line);
  if (fields.size() < kFields) {
    row.fail_with("{} fields, but folder, name, number and label are the first {}", fields.size(), kFields);
  }
  if (!is_below(fields[0]) || !is_below(fields[1])) {
    row.fail_with("{} in {} is no image in this folder", shown(fields[1]), shown(fields[0]));
  }
  if (fields[3] != "0" && fields[3] != "1") row.fail_with("the label {} is neither 0 nor 1", shown(fields[3]));
  row.image = fmt::format("{}/{}", fields[0], fields[1]);
  if (shown(row.image) != "'" + row.image + "'")  // messages hold it as it is
    row.fail_with("{} is no name of an image: these are of ASCII, and at most 80 characters long", shown(row.image));
  row.label = fields[3] == "1" ? 1 : 0;
}

/// Where each image is listed.
using Listed = std::map<std::string, std::string>;

void read_list(const fs::path& path, std::vector<Row>& rows, Listed& listed) {
  const std::vector<std::byte> bytes = read_file(path, kLargestFile);
  const std::string_view text = text_of(bytes);
  if (text.find('\0') != std::string_view::npos) {
    fail("{}: row 1: this is no text; the lists of the Long Range Arena are, though they are called .npy",
         path.string());
  }
  int64_t number = 0;
  for (const std::string_view line : lines_of(text)) {
    rows.push_back({path.string(), ++number, "", 0});
    const Row& row = rows.back();
    read_line(line, rows.back());
    const auto [other, is_new] = listed.emplace(fs::path(row.image).lexically_normal().string(), row.where());
    if (!is_new) row.fail_with("{} is listed already in {}", shown(row.image), other->second);
  }
}

}  // namespace

std::vector<Row> read_metadata(const fs::path& folder) {
  std::vector<std::pair<int64_t, fs::path>> lists;
  for (const auto& entry : fs::directory_iterator(folder / "metadata")) {
    const std::string stem = entry.path().stem().string();
    int64_t number = 0;
    const auto [end, error] = std::from_chars(stem.data(), stem.data() + stem.size(), number);
    // 00.npy is not one of them: it would duplicate 0.npy.
    if (entry.path().extension() != ".npy" || error != std::errc() || stem != std::to_string(number)) continue;
    lists.emplace_back(number, entry.path());
  }
  std::sort(lists.begin(), lists.end());
  std::vector<Row> rows;
  Listed listed;
  for (const auto& [number, path] : lists) read_list(path, rows, listed);
  if (rows.empty()) fail("{}: row 1: no image is listed in 0.npy, 1.npy ...", (folder / "metadata").string());
  return rows;
}

}  // namespace bochner::pathfinder

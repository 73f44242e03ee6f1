#include "datasets/corpora/documents.h"

#include <algorithm>

#include "engine/error.h"
#include "engine/io/archive.h"
#include "engine/io/lines.h"

namespace bochner::text {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLargestInArchive = int64_t{1} << 31;  // WikiText-103 has half of that in one file
constexpr size_t kDocument = 16384;
constexpr size_t kLongDocument = 65536;

bool ends_with_any(std::string_view name, std::initializer_list<const char*> endings) {
  return std::any_of(endings.begin(), endings.end(), [&](const char* ending) { return name.ends_with(ending); });
}
bool is_text(std::string_view name) { return ends_with_any(name, {".txt", ".tokens", ".raw"}); }
bool is_archive(const std::string& name) {
  return ends_with_any(unpacked_name(name), {".tar", ".zip"}) || name.ends_with(".tgz");
}

/// Whether a file in a folder or an archive is a text to train on: not one of IMDb's lists of addresses or ratings, and
/// not a hidden file.
bool is_document(std::string_view name) {
  return is_text(name) && !name.starts_with('.') && !name.starts_with("urls_") && name != "imdbEr.txt";
}

std::string_view last_part(std::string_view path) { return path.substr(path.rfind('/') + 1); }

/// `text` with each `what` replaced.
void replace_all(std::string& text, std::string_view what, std::string_view with) {
  if (text.find(what) == std::string::npos) return;
  std::string replaced;
  std::string_view rest = text;
  for (size_t at = rest.find(what); at != std::string_view::npos; at = rest.find(what)) {
    replaced += rest.substr(0, at);
    replaced += with;
    rest.remove_prefix(at + what.size());
  }
  replaced += rest;
  text = std::move(replaced);
}

/// ` = Title = `, and not ` = = Section = = `.
bool is_title(std::string_view line) {
  return line.size() > 6 && line.starts_with(" = ") && line.ends_with(" = ") && line[3] != '=' &&
         line[line.size() - 4] != '=';
}

class Reader {
 public:
  Reader(const std::function<void(std::string_view)>& line, const std::function<void()>& end)
      : line_(line), end_(end) {}

  void read(const fs::path& path) {
    if (is_archive(path.filename().string())) {
      ArchiveReader archive(path);
      while (archive.next()) {
        const std::string name(last_part(archive.name()));
        if (!is_document(name)) continue;
        const std::vector<std::byte> bytes = archive.read(kLargestInArchive);
        MemorySource source(bytes, path.string() + ": " + shown(archive.name()));
        read(source, name, name.starts_with("wiki."));  // others are one document each
      }
      return;
    }
    const auto source = open_unpacked(path);
    read(*source, unpacked_name(path.filename().string()), true);
  }

 private:
  void read(ByteSource& source, const std::string& name, bool in_parts) {
    const bool marked = name.starts_with("wiki.") && name.ends_with(".tokens");
    Lines lines(source);
    while (const auto next = lines.next()) {
      if (in_parts && is_title(*next)) end();
      text_ = *next;
      replace_all(text_, "<br />", " ");
      if (marked) {
        for (const char* mark : {"-", ",", "."}) replace_all(text_, fmt::format(" @{}@ ", mark), mark);
      }
      line_(text_);
      bytes_ += text_.size() + 1;
      if (in_parts && (bytes_ >= kLongDocument || (bytes_ >= kDocument && text_.empty()))) end();
    }
    end();
  }

  void end() {
    if (bytes_ > 0) end_();
    bytes_ = 0;
  }

  const std::function<void(std::string_view)>& line_;
  const std::function<void()>& end_;
  std::string text_;
  size_t bytes_ = 0;  ///< of the document so far
};

}  // namespace

std::vector<fs::path> text_files(const std::vector<std::string>& paths) {
  std::vector<fs::path> files;
  for (const std::string& path : paths) {
    if (fs::is_regular_file(path)) {
      files.emplace_back(path);
      continue;
    }
    if (!fs::is_directory(path)) fail("{}: there is no such text, neither file nor folder", path);
    std::vector<fs::path> below;
    for (const auto& entry : fs::recursive_directory_iterator(path)) {
      const std::string name = entry.path().filename().string();
      if (!entry.is_regular_file() || name.starts_with('.')) continue;
      const std::string unpacked = unpacked_name(name);
      const bool is_there_unpacked = unpacked != name && fs::exists(entry.path().parent_path() / unpacked);
      if ((is_document(unpacked) || is_archive(name)) && !is_there_unpacked) below.push_back(entry.path());
    }
    if (below.empty()) fail("{}: the folder holds no texts (.txt, .tokens, .raw) and no archives of them", path);
    std::sort(below.begin(), below.end());
    files.insert(files.end(), below.begin(), below.end());
  }
  return files;
}

void read_documents(const std::vector<fs::path>& files, const std::function<void(std::string_view)>& line,
                    const std::function<void()>& end) {
  Reader reader(line, end);
  for (const fs::path& file : files) reader.read(file);
}

}  // namespace bochner::text

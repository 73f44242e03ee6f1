#include "datasets/glue/tables.h"

#include <algorithm>
#include <cmath>

#include "engine/error.h"
#include "engine/io/archive.h"
#include "engine/io/csv.h"
#include "engine/nearest.h"

namespace bochner::glue {
namespace {

namespace fs = std::filesystem;

/// Far more than the largest file, MNLI's training set, holds.
constexpr size_t kMostText = size_t{1} << 31U;

class Reader {
 public:
  Reader(CsvReader& rows, std::string_view file, const Corpus& corpus, const FileLayout& layout)
      : rows_(rows), file_(file), corpus_(corpus), layout_(layout) {
    if (layout.unnamed.empty()) {
      rows_.read_header();
      fields_ = rows_.size();
    } else {
      fields_ = static_cast<int>(layout.unnamed.size());
    }
    for (const std::string& name : layout.sentences) sentences_.push_back(column(name));
    if (!layout.label.empty()) label_ = column(layout.label);
    if (!layout.index.empty()) index_ = column(layout.index);
  }

  Table run() {
    table_.name = fmt::format("{} {}", corpus_.name, layout_.name);
    table_.sentences = static_cast<int>(sentences_.size());
    size_t text = 0;
    while (rows_.next()) {
      if (!is_whole()) continue;
      add_label();
      if (index_) require_index();
      for (const int column : sentences_) {
        text += rows_[column].size();
        if (text > kMostText) rows_.fail_in(column, "the sentences so far have more than {} bytes", kMostText);
        table_.add_sentence(rows_[column]);
      }
    }
    if (table_.size() == 0) fail("{}: row {}: the file holds no sentences", file_, rows_.row() + 1);
    return std::move(table_);
  }

 private:
  int column(const std::string& name) const {
    if (layout_.unnamed.empty()) return rows_.column(name);
    const auto found = std::find(layout_.unnamed.begin(), layout_.unnamed.end(), name);
    BOCHNER_ASSERT(found != layout_.unnamed.end());
    return static_cast<int>(found - layout_.unnamed.begin());
  }

  bool is_whole() {
    if (rows_.size() == fields_) return true;
    if (!layout_.leaves_out_broken_rows) {
      rows_.fail_in(std::min(rows_.size(), fields_) - 1, "the row has {} fields, not {}{}", rows_.size(), fields_,
                    layout_.unnamed.empty() ? "" : fmt::format(": {}", listed(layout_.unnamed)));
    }
    ++table_.left_out;
    return false;
  }

  void add_label() {
    if (!corpus_.is_regression()) {
      table_.labels.push_back(label_ ? label_of(*label_) : kUnlabelled);
      return;
    }
    const double score = label_ ? rows_.number(*label_) : 0;
    if (!(score >= 0 && score <= kLargestScore)) {
      rows_.fail_in(*label_, "the score {} is not one of 0 to {}", shown(rows_[*label_]), kLargestScore);
    }
    table_.scores.push_back(static_cast<float>(score));
  }

  int32_t label_of(int column) const {
    const auto found = std::find(corpus_.classes.begin(), corpus_.classes.end(), rows_[column]);
    if (found == corpus_.classes.end()) {
      rows_.fail_in(column, "the label {} is none of {}", shown(rows_[column]), listed(corpus_.classes));
    }
    return static_cast<int32_t>(found - corpus_.classes.begin());
  }

  /// The server counts answers: a missing one shifts all that follow.
  void require_index() const {
    if (rows_.integer(*index_) == table_.size()) return;
    rows_.fail_in(*index_, "the row has the index {}, not {}; rows are missing, or in another order",
                  shown(rows_[*index_]), table_.size());
  }

  CsvReader& rows_;
  std::string file_;
  const Corpus& corpus_;
  const FileLayout& layout_;
  int fields_ = 0;
  std::vector<int> sentences_;
  std::optional<int> label_, index_;
  Table table_;
};

/// Fields are counted here, where it is known how many a file should have.
CsvOptions tsv() {
  CsvOptions options = CsvOptions::tsv();
  options.ragged = true;
  return options;
}

/// The file or, if parts are allowed, the first part; empty if there is none.
fs::path find(const fs::path& folder, const Corpus& corpus, const FileLayout& layout, bool partial) {
  const fs::path below = folder / corpus.folder;
  if (const auto whole = find_packed(below / (layout.name + ".tsv"))) return *whole;
  std::vector<fs::path> parts;
  if (partial && fs::is_directory(below)) {
    for (const auto& entry : fs::directory_iterator(below)) {
      const std::string name = entry.path().filename().string();
      if (!name.starts_with(layout.name + ".part") || !entry.is_regular_file()) continue;
      if (unpacked_name(name).ends_with(".tsv")) parts.push_back(entry.path());
    }
  }
  return parts.empty() ? fs::path() : *std::min_element(parts.begin(), parts.end());
}

}  // namespace

std::string_view Table::sentence(int64_t row, int which) const {
  BOCHNER_ASSERT(row >= 0 && row < size() && which >= 0 && which < sentences);
  const auto k = static_cast<size_t>(row * sentences + which);
  return std::string_view(text_).substr(static_cast<size_t>(offsets_[k]),
                                        static_cast<size_t>(offsets_[k + 1] - offsets_[k]));
}

void Table::add_sentence(std::string_view sentence) {
  text_ += sentence;
  offsets_.push_back(static_cast<int64_t>(text_.size()));
  empty += sentence.empty() ? 1 : 0;
}

Table Table::part(int64_t begin, int64_t end) const {
  BOCHNER_ASSERT(0 <= begin && begin <= end && end <= size());
  Table part;
  part.name = name;
  part.sentences = sentences;
  if (!labels.empty()) part.labels.assign(labels.begin() + begin, labels.begin() + end);
  if (!scores.empty()) part.scores.assign(scores.begin() + begin, scores.begin() + end);
  for (int64_t row = begin; row < end; ++row) {
    for (int s = 0; s < sentences; ++s) part.add_sentence(sentence(row, s));
  }
  return part;
}

Table parse(Bytes bytes, std::string_view file, const Corpus& corpus, const FileLayout& layout) {
  CsvReader rows(bytes, file, tsv());
  return Reader(rows, file, corpus, layout).run();
}

bool is_there(const fs::path& folder, const Corpus& corpus, const FileLayout& layout, const ReadOptions& options) {
  return !find(folder, corpus, layout, options.partial.taken).empty();
}

Table read(const fs::path& folder, const Corpus& corpus, const FileLayout& layout, const ReadOptions& options,
           const Say& say) {
  const fs::path path = find(folder, corpus, layout, options.partial.taken);
  if (path.empty()) {
    const fs::path missing = folder / corpus.folder / (layout.name + ".tsv");
    const fs::path part = find(folder, corpus, layout, true);
    fail("{}: is missing{}", missing.string(),
         part.empty()
             ? "; put it there, from gluebenchmark.com/tasks"
             : fmt::format(", but {} is there; to take it, give {}", part.filename().string(), options.partial.option));
  }
  CsvReader rows(path, tsv());
  Table table = Reader(rows, path.string(), corpus, layout).run();
  if (table.size() != layout.rows && !options.partial.taken) {
    fail("{}: {} rows, the published file has {}; to take it as it is, give {}", path.string(), table.size(),
         layout.rows, options.partial.option);
  }
  std::string line = fmt::format("{}: {} rows", path.string(), table.size());
  if (table.size() < layout.rows) line += fmt::format(" of the {} that are published", layout.rows);
  if (table.size() > layout.rows) line += fmt::format(", more than the {} that are published", layout.rows);
  if (table.left_out > 0) line += fmt::format("; {} more are broken and were left out", table.left_out);
  if (table.empty > 0) line += fmt::format("; {} sentences are empty", table.empty);
  say(line);
  return table;
}

}  // namespace bochner::glue

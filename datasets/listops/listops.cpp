#include "datasets/listops/listops.h"

#include <algorithm>
#include <exception>

#include "datasets/listops/expression.h"
#include "engine/io/archive.h"
#include "engine/io/csv.h"
#include "engine/parallel.h"

namespace bochner::listops {
namespace {

// Rows are read one after the other and processed in parallel, in rounds of this many bytes of text.
constexpr size_t kRoundBytes = size_t{8} << 20;
constexpr int64_t kRowsPerPiece = 32;
constexpr int kColumns = 2;

CsvOptions form() {
  CsvOptions options = CsvOptions::tsv();
  options.ragged = true;  // so that a row with a wrong number of fields is reported here
  return options;
}

struct Row {
  int64_t number;
  size_t begin, size;  ///< of the expression, in the text of the round
  int label;
};

/// Rows of a round, and their results.
struct Round {
  std::string text;
  std::vector<Row> rows;

  void clear() {
    text.clear();
    rows.clear();
  }
};

struct Piece {
  std::vector<uint8_t> tokens;
  std::vector<int64_t> lengths;
  std::exception_ptr failure;
};

/// The examples of all rounds so far, end to end.
struct Examples {
  std::vector<uint8_t> tokens;
  std::vector<int64_t> offsets = {0};
  std::vector<int32_t> labels;
};

class Reader {
 public:
  Reader(const std::filesystem::path& path, const ReadOptions& options)
      : options_(options),
        file_(path.string()),
        table_(path, form()),
        source_(options.layout == Layout::lra ? 0 : 1),
        target_(1 - source_) {}

  Examples run() {
    if (options_.layout == Layout::lra) read_header();
    Round round;
    while (table_.next()) {
      if (table_.size() != kColumns) {
        table_.fail_in(std::min(table_.size(), kColumns), "the row has {} fields, not {}: an expression and its value",
                       table_.size(), kColumns);
      }
      const std::string_view source = table_[source_];
      round.rows.push_back({table_.row(), round.text.size(), source.size(), label()});
      round.text += source;
      if (round.text.size() >= kRoundBytes) work(round);
    }
    work(round);
    if (examples_.labels.empty()) fail("{}: row {}: the file holds no expressions", file_, table_.row() + 1);
    examples_.tokens.shrink_to_fit();
    return std::move(examples_);
  }

 private:
  void read_header() {
    table_.read_header();
    const std::vector<std::string> wanted = {"Source", "Target"};
    if (table_.header() != wanted) {
      table_.fail_in(0, "the header should be Source, Target; {}",
                     "is it a file in the layout of the Long Range Arena?");
    }
  }

  int label() const {
    const std::string_view text = table_[target_];
    if (text.size() != 1 || text[0] < '0' || text[0] > '9') {
      table_.fail_in(target_, "the label {} is no digit 0 ... 9", shown(text));
    }
    return text[0] - '0';
  }

  void work(Round& round) {
    const auto count = static_cast<int64_t>(round.rows.size());
    std::vector<Piece> pieces(static_cast<size_t>(ceil_div(count, kRowsPerPiece)));
    parallel_for(count, kRowsPerPiece, [&](int64_t begin, int64_t end) {
      Piece& piece = pieces[static_cast<size_t>(begin / kRowsPerPiece)];
      try {
        for (int64_t i = begin; i < end; ++i) read_row(round, round.rows[static_cast<size_t>(i)], piece);
      } catch (...) {
        piece.failure = std::current_exception();
      }
    });
    for (const Piece& piece : pieces) {
      if (piece.failure != nullptr) std::rethrow_exception(piece.failure);  // the first bad row of the file
      examples_.tokens.insert(examples_.tokens.end(), piece.tokens.begin(), piece.tokens.end());
      for (const int64_t length : piece.lengths) examples_.offsets.push_back(examples_.offsets.back() + length);
    }
    for (const Row& row : round.rows) examples_.labels.push_back(row.label);
    round.clear();
    constexpr size_t kPerRow = sizeof(examples_.offsets[0]) + sizeof(examples_.labels[0]);
    if (static_cast<int64_t>(examples_.tokens.size() + examples_.labels.size() * kPerRow) > options_.most_bytes) {
      fail("{}: row {}: the expressions so far take more than {} bytes; is it the right file?", file_, table_.row(),
           options_.most_bytes);
    }
  }

  void read_row(const Round& round, const Row& row, Piece& piece) const {
    const std::string_view text = std::string_view(round.text).substr(row.begin, row.size);
    const Place place = {file_, row.number, source_ + 1};
    const size_t before = piece.tokens.size();
    encode(text, options_.tokenisation, options_.max_length, piece.tokens, place);
    piece.lengths.push_back(static_cast<int64_t>(piece.tokens.size() - before));
    if (!options_.check_labels) return;
    const int value = evaluate(text, place);
    if (value != row.label) {
      fail(
          "{}: row {} column {}: the label is {}, but the expression is worth {}; the file is damaged or of another "
          "task",
          file_, row.number, target_ + 1, row.label, value);
    }
  }

  ReadOptions options_;
  std::string file_;
  CsvReader table_;
  int source_;
  int target_;
  Examples examples_;
};

}  // namespace

std::shared_ptr<const PackedDataset<uint8_t>> read(const std::filesystem::path& path, const std::string& name,
                                                   const ReadOptions& options) {
  if (options.max_length < 1) fail("listops: max_length {} must be at least 1", options.max_length);
  Examples examples = Reader(path, options).run();
  return std::make_shared<const PackedDataset<uint8_t>>(name, std::move(examples.tokens), std::move(examples.offsets),
                                                        std::move(examples.labels));
}

Task task(const TaskOptions& options) {
  return {.name = "listops",
          .classes = 10,
          .vocabulary = vocabulary_size(options.read.tokenisation),
          .max_length = options.read.max_length};
}

namespace {

constexpr const char* kArenaFolder = "listops-1000";

void require_found(const std::filesystem::path& folder) {
  if (has_manifest(folder) && !is_arena_copy(folder)) {
    fail("{}: the files have a manifest, which says how they were made; leave out --listops.found", folder.string());
  }
  for (const char* name : {kTrainFile, kValidFile, kTestFile}) {
    if (!find_packed(folder / name)) {
      fail(
          "{}: is missing, but --listops.found asks for files that are there; put the Long Range Arena's there, or its "
          "archive {} as it is into the folder of all data (--data)",
          (folder / name).string(), kArenaArchive);
    }
  }
}

}  // namespace

ArenaFolder find(const std::filesystem::path& data) {
  const ArenaFolder own{data / "listops"};
  const bool there = holds_anything(own.folder) && !has_manifest(own.folder);
  return there ? own : arena_folder(data, kArenaFolder).value_or(own);
}

TaskData load_task(const TaskOptions& options, const Say& say) {
  const std::filesystem::path& folder = options.place.folder;
  if (options.found) {
    constexpr int64_t kHeader = 1;
    constexpr int64_t kMostBytes = 4'000'000'000;  // the generator's 100,000 expressions of such lengths are 661 MB
    copy_from_arena(options.place,
                    {kArenaFolder,
                     {kTrainFile, kValidFile, kTestFile},
                     "three files basic_{train,val,test}.tsv",
                     kMostBytes,
                     kHeader},
                    say);
    require_found(folder);
    say(fmt::format("listops: the files in {}, as they are", folder.string()));
  } else if (ensure_files(folder, options.generator, say) == Ensured::foreign) {
    fail(
        "{}: the files have no manifest, so it is unknown how many were requested and with which seed; take them as "
        "they are with --listops.found, or choose another folder with --data",
        folder.string());
  }
  const auto part = [&](const char* file, const char* name) {
    return read(find_packed(folder / file).value(), name, options.read);
  };
  TaskData data{task(options), part(kTrainFile, "listops train"), part(kValidFile, "listops valid"),
                part(kTestFile, "listops test")};
  const GeneratorOptions published;
  if (options.found && (data.train->size() != published.train || data.valid->size() != published.valid ||
                        data.test->size() != published.test)) {
    data.remarks.push_back(fmt::format(
        "the files that were found hold {} + {} + {} expressions, the published ones {} + "
        "{} + {}",
        data.train->size(), data.valid->size(), data.test->size(), published.train, published.valid, published.test));
  }
  return data;
}

}  // namespace bochner::listops

// The tables of GLUE (Wang et al., ICLR 2019), as they are published: which file of which task has which columns, and
// what is in them.
//
//   const glue::Corpus& mrpc = glue::corpus_named("mrpc");
//   const glue::Table train = glue::read("data/glue", mrpc, mrpc.train, {}, say);
//   train.sentence(0, 1);  // `Referring to him as only " the witness " , Amrozi accused his brother of ...`
//
// Fields are separated by tabs, and quotes are characters like any other. Files may be packed with gzip.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/making.h"
#include "datasets/partial.h"
#include "engine/io/bytes.h"

namespace bochner::glue {

/// A file of a task, and what its columns are.
struct FileLayout {
  std::string name = {};                    ///< without `.tsv` or `.tsv.gz`
  int64_t rows = 0;                         ///< that the published file has
  std::vector<std::string> sentences = {};  ///< names of their columns: one, or two for pairs
  std::string label = {};                   ///< name of its column; empty: the file has none
  std::string index = {};                   ///< name of the column that counts rows from 0; empty: it has none
  /// Names of the columns of a file without a header line; empty: the file has one.
  std::vector<std::string> unnamed = {};
  /// Rows with a wrong number of fields are left out and counted. QQP has some, where a question contains a line break,
  /// and every reader of it leaves them out.
  bool leaves_out_broken_rows = false;
};

/// The test set of a task, and the file that the server takes for it.
struct TestSet {
  FileLayout file;
  std::string submission;  ///< `MNLI-m.tsv`
};

/// A task of GLUE.
struct Corpus {
  std::string name;                       ///< `sst-2`
  std::string folder;                     ///< `SST-2`
  std::vector<std::string> classes = {};  ///< as files write them; empty: the label is a number, 0 to kLargestScore
  FileLayout train = {};                  ///< without a name if there is none (AX)
  std::vector<FileLayout> dev = {};       ///< MNLI has two: one with the genres of the training set, one with others
  std::vector<TestSet> test = {};

  bool is_regression() const { return classes.empty(); }
};

inline constexpr double kLargestScore = 5;

/// CoLA, SST-2, MRPC, QQP, STS-B, MNLI, QNLI, RTE, WNLI and AX, the diagnostic set, which has no training set and is
/// for models of MNLI.
const std::vector<Corpus>& corpora();
/// An Error lists the names.
const Corpus& corpus_named(std::string_view name);

/// The label of a row of a file without labels.
inline constexpr int32_t kUnlabelled = -100;

/// All rows of a file, in order.
class Table {
 public:
  std::string name;             ///< for messages: `mrpc train`
  int sentences = 1;            ///< in each row
  std::vector<int32_t> labels;  ///< places in Corpus::classes, or kUnlabelled
  std::vector<float> scores;    ///< of regression, instead of labels
  int64_t empty = 0;            ///< sentences without a character
  int64_t left_out = 0;         ///< broken rows

  int64_t size() const { return static_cast<int64_t>(offsets_.size() - 1) / sentences; }
  /// A sentence as it stands in the file.
  std::string_view sentence(int64_t row, int which = 0) const;
  void add_sentence(std::string_view sentence);
  /// Rows [begin, end).
  Table part(int64_t begin, int64_t end) const;

 private:
  std::string text_;
  std::vector<int64_t> offsets_ = {0};
};

/// A table in memory, plain or gzip. An Error names file, row, column and value if a column is missing, a label or a
/// score is not one of the task's, an index is not the row's number, a row has a wrong number of fields, or there are
/// no rows at all.
Table parse(Bytes bytes, std::string_view file, const Corpus& corpus, const FileLayout& layout);

struct ReadOptions {
  /// Take a file with fewer rows than the published one. If there is no TRAIN.tsv, TRAIN.part*.tsv serves as well.
  Partial partial = {};
};

/// Whether the file is there, or a part of it if `options` allow that.
bool is_there(const std::filesystem::path& folder, const Corpus& corpus, const FileLayout& layout,
              const ReadOptions& options);
/// Reads the file of a task below `folder`. Errors are those of parse(), and also a missing file (the Error says where
/// to get it) or one with fewer rows than the published one. Tells `say` how many rows were read, and what is unusual.
Table read(const std::filesystem::path& folder, const Corpus& corpus, const FileLayout& layout,
           const ReadOptions& options, const Say& say);

}  // namespace bochner::glue

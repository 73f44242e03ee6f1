#include "experiments/learners/rows/uci.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "datasets/tables/header.h"
#include "engine/nearest.h"

namespace bochner::uci_experiment {
namespace {

/// The first of the names below `folder` that exists, plain or gzip.
std::filesystem::path found(const std::filesystem::path& folder, const std::vector<std::string>& names,
                            const std::string& source) {
  for (const std::string& name : names) {
    for (const char* end : {"", ".gz"}) {
      if (std::filesystem::is_regular_file(folder / (name + end))) return folder / (name + end);
    }
  }
  if (!std::filesystem::exists(folder)) {
    fail("--data={}: there is no such file or folder; {}, plain or .gz, should lie in it, from {}", folder.string(),
         names.front(), source);
  }
  fail("uci: {} is missing, plain or .gz; it comes from {}; or name its folder with --data",
       (folder / names.front()).string(), source);
}

/// The character that separates fields. One that numbers or words may hold would cut them.
char separator_of(const std::string& text) {
  if (text == "tab") return '\t';
  if (text == "space") return ' ';
  if (text.size() != 1) fail("--csv.separator: '{}' is not one character, tab or space", text);
  const char c = text[0];
  if (std::isalnum(static_cast<unsigned char>(c)) != 0 || std::string_view("+-.\"").find(c) != std::string_view::npos) {
    fail("--csv.separator: '{}' can not separate fields, as fields hold it", text);
  }
  return c;
}

/// Is the label a number, and no name?
bool is_number(const std::string& label) {
  const size_t sign = label.starts_with('-') ? 1 : 0;
  return label.size() > sign && std::all_of(label.begin() + static_cast<std::ptrdiff_t>(sign), label.end(),
                                            [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// Does the table begin with the names of its columns? Says what was found, and what to say where it is wrong.
bool has_header(const CsvConfig& csv, const std::string& file, const std::string& label, const Say& say,
                const Say& warn) {
  const FirstRow first = judge_first_row(file, separator_of(csv.separator));
  std::string row = listed(first.fields);
  if (row.size() > 80) row = row.substr(0, 80) + " ...";
  if (csv.header == "auto") {
    const bool named = std::find(first.fields.begin(), first.fields.end(), label) != first.fields.end();
    const bool header = first.is_names || (!is_number(label) && named);
    say(header ? fmt::format("{}: the first row is taken as the names of the columns ({}); --csv.header=off says that "
                             "it is data",
                             file, row)
               : fmt::format("{}: the first row is taken as data ({}); --csv.header=on says that it holds names", file,
                             row));
    return header;
  }
  const bool header = csv.header == "on" || csv.header == "true";
  if (header != first.is_names && !first.fields.empty()) {
    warn(fmt::format("--csv.header={}: {} of {} looks like {}: {}", csv.header,
                     header ? "the first row, which is not read as data," : "the first row, which is read as data,",
                     file, header ? "data" : "the names of the columns", row));
  }
  return header;
}

}  // namespace

void CsvConfig::fields(Fields& f) {
  f("header", header, "task csv: does the file begin with the names of its columns; auto finds out, and says")
      .one_of({"auto", "on", "off", "true", "false"});
  f("separator", separator, "task csv: one character, tab or space");
  f("missing", missing, "task csv: what stands for a missing value; an empty field does in any case");
  f("categories", categories,
    "task csv: columns whose numbers are names of categories; columns of words are so anyway");
  f("leave-out", leave_out, "task csv: columns that are not read, such as identifiers");
  f("valid-share", valid_share, "task csv: share of rows for validation").above(0).below(1);
  f("test-share", test_share, "task csv: share of rows for testing").above(0).below(1);
  f("split-seed", split_seed, "task csv: seed of the split");
  f("cache", cache, "keep the numbers beside the file for the next start");
}

Config::Config() {
  run.task = "covertype";
  run.tasks = {"covertype", "higgs", "hepmass", "adult", "csv"};
  run.attentions = rows::layer_names();
  run.attention = "snnk-relu";
  run.steps = 5000;
  run.batch = 1024;
  run.data = "data/uci";
}

void Config::fields(Fields& f) {
  run.fields(f);
  f("label", label,
    "with --data=FILE, which makes it task csv: the column of the class, by name or by number from 0, from -1 counted "
    "from the end");
  f.group("csv", csv);
  f.group("model", model);
  f.group("optim", optim);
  f.group("sweep", sweep);
  f.then([this](const Fields& given) { settle(given); });
}

/// A file and a label make it task csv; what would be passed over in silence is refused.
void Config::settle(const Fields& given) {
  separator_of(csv.separator);
  if (csv.valid_share + csv.test_share >= 1) {
    fail("--csv.valid-share={} and --csv.test-share={} leave no rows for training", csv.valid_share, csv.test_share);
  }
  const Field* const task = given.find("task");
  const bool other_task = task->was_given() && run.task != "csv";
  if (!label.empty() && other_task) {
    fail("--task={} has files of its own, in which --label={} names nothing; leave out one of them", run.task, label);
  }
  if (!label.empty()) run.task = "csv";
}

TableSplits Config::load(const Say& say, const Say& warn) const {
  const std::filesystem::path data = run.data;
  if (run.task == "csv") return load_table(say, warn);
  if (std::filesystem::is_regular_file(data)) {
    fail("--data={} is a file; with --label=COLUMN it is read as a table, while --task={} reads a folder", run.data,
         run.task);
  }
  const std::string archive = "https://archive.ics.uci.edu/dataset/";
  if (run.task == "covertype") {
    return uci::covertype(found(data, {"covtype.data", "covtype.first20000.data"}, archive + "31/covertype"), say);
  }
  if (run.task == "higgs") {
    return uci::higgs(found(data, {"HIGGS.csv", "HIGGS.part7000.csv"}, archive + "280/higgs"), say);
  }
  if (run.task == "adult") {
    return uci::adult(found(data, {"adult.data"}, archive + "2/adult"),
                      found(data, {"adult.test"}, archive + "2/adult"), say);
  }
  return uci::hepmass(found(data, {"all_train.csv", "1000_train.csv", "not1000_train.csv"}, archive + "347/hepmass"),
                      found(data, {"all_test.csv", "1000_test.csv", "not1000_test.csv"}, archive + "347/hepmass"), say);
}

TableSplits Config::load_table(const Say& say, const Say& warn) const {
  if (!std::filesystem::exists(run.data)) fail("--data={}: there is no such file", run.data);
  if (!std::filesystem::is_regular_file(run.data)) {
    fail("--data={} is no file; --task=csv, which --label stands for, reads one table", run.data);
  }
  if (label.empty()) fail("--task=csv needs --label, the column that holds the class: its name, or its number");
  TableFormat format{.separator = separator_of(csv.separator), .label = label, .cache = csv.cache};
  format.words = true;
  format.missing = csv.missing;
  format.categories = csv.categories;
  format.leave_out = csv.leave_out;
  format.header = has_header(csv, run.data, label, say, warn);
  return split_at_random(read_table(run.data, format, say), csv.valid_share, csv.test_share, csv.split_seed);
}

}  // namespace bochner::uci_experiment

#include "experiments/learners/rows/uci.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <functional>
#include <memory>

#include "datasets/tables/header.h"
#include "engine/io/archive.h"
#include "engine/nearest.h"

namespace bochner::uci_experiment {
namespace {

struct CsvConfig {
  std::string header = "auto";
  std::string separator = ",";
  std::vector<std::string> missing = {"?", "NA"};
  std::vector<std::string> categories = {};
  std::vector<std::string> leave_out = {};
  double valid_share = 0.1;
  double test_share = 0.1;
  uint64_t split_seed = 0;
  bool cache = true;

  void fields(Fields& f) {
    f("header", header,
      "task csv: whether the file begins with the names of its columns; auto finds out and prints what it found")
        .one_of({"auto", "on", "off", "true", "false"});
    f("separator", separator, "task csv: what separates fields: one character, tab or space");
    f("missing", missing, "task csv: words that mean a missing value; an empty field always does");
    f("categories", categories, "task csv: columns whose numbers are names of categories; columns of words always are");
    f("leave-out", leave_out, "task csv: columns to leave out, such as identifiers");
    f("valid-share", valid_share, "task csv: share of rows for validation").above(0).below(1);
    f("test-share", test_share, "task csv: share of rows for testing").above(0).below(1);
    f("split-seed", split_seed, "task csv: seed of the split");
    f("cache", cache, "keep what was read in a file beside the table, for the next start");
  }
};

bool is_there(const std::filesystem::path& folder, const std::string& name) {
  return find_packed(folder / name) || find_packed(folder / "uci" / name);
}

/// The first of the names that exists in `folder`, or in its folder `uci`, plain or compressed.
std::filesystem::path found(const std::filesystem::path& folder, const std::vector<std::string>& names,
                            const std::string& source) {
  for (const std::string& name : names) {
    for (const std::filesystem::path& place : {folder, folder / "uci"}) {
      if (const auto path = find_packed(place / name)) return *path;
    }
  }
  if (!std::filesystem::exists(folder)) {
    fail("--data={}: there is no such file or folder; {}, plain or packed (.gz, .zst), should lie in it, from {}",
         folder.string(), names.front(), source);
  }
  fail("uci: {} is missing, plain or packed (.gz, .zst); it comes from {}; or name its folder with --data",
       (folder / names.front()).string(), source);
}

/// The character that separates fields. Characters that occur in numbers and words are refused.
char separator_of(const std::string& text) {
  if (text == "tab") return '\t';
  if (text == "space") return ' ';
  if (text.size() != 1) fail("--csv.separator: '{}' is not one character, tab or space", text);
  const char c = text[0];
  if (std::isalnum(static_cast<unsigned char>(c)) != 0 || std::string_view("+-.\"").find(c) != std::string_view::npos) {
    fail("--csv.separator: '{}' cannot separate fields, as fields hold it", text);
  }
  return c;
}

/// Whether the label is a number instead of a name.
bool is_number(const std::string& label) {
  const size_t sign = label.starts_with('-') ? 1 : 0;
  return label.size() > sign && std::all_of(label.begin() + static_cast<std::ptrdiff_t>(sign), label.end(),
                                            [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// Whether the table begins with the names of its columns. Reports what was found and which option changes it.
bool has_header(const CsvConfig& csv, const std::string& file, const std::string& label, const Say& say,
                const Say& warn) {
  const FirstRow first = judge_first_row(file, separator_of(csv.separator));
  std::string row = listed(first.fields);
  if (row.size() > 80) row = row.substr(0, 80) + " ...";
  if (csv.header == "auto") {
    if (first.fields.empty()) return false;  // an empty file, which its reader refuses
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

/// A task whose files are in the folder --data.
rows::RowTask of_folder(const std::string& name,
                        const std::function<TableSplits(const std::filesystem::path&, const Messages&)>& load) {
  rows::RowTask task;
  task.name = name;
  task.metrics = {"loss", "accuracy", "auc"};
  task.best_by = "loss";
  task.load = [load](const RunOptions& run, const Messages& messages) {
    if (std::filesystem::is_regular_file(run.data)) {
      fail("--data={} is a file; with --label=COLUMN it is read as a table, while --task={} reads a folder", run.data,
           run.task);
    }
    return load(run.data, messages);
  };
  return task;
}

constexpr const char* kArchive = "https://archive.ics.uci.edu/dataset/";

rows::RowTask covertype() {
  return of_folder("covertype", [](const std::filesystem::path& data, const Messages& messages) {
    const auto file = found(data, {"covtype.data", "covtype.first20000.data"}, std::string(kArchive) + "31/covertype");
    return uci::covertype(file, messages.say);
  });
}

rows::RowTask higgs() {
  return of_folder("higgs", [](const std::filesystem::path& data, const Messages& messages) {
    return uci::higgs(found(data, {"HIGGS.csv", "HIGGS.part7000.csv"}, std::string(kArchive) + "280/higgs"),
                      messages.say);
  });
}

rows::RowTask hepmass() {
  return of_folder("hepmass", [](const std::filesystem::path& data, const Messages& messages) {
    const std::string source = std::string(kArchive) + "347/hepmass";
    for (const std::string set : {"all", "1000", "not1000"}) {
      const std::string train = set + "_train.csv";
      const std::string test = set + "_test.csv";
      if (!is_there(data, train) && !is_there(data, test)) continue;
      return uci::hepmass(found(data, {train}, source), found(data, {test}, source), messages.say);
    }
    return uci::hepmass(found(data, {"all_train.csv"}, source), {}, messages.say);  // says what is missing
  });
}

rows::RowTask adult() {
  return of_folder("adult", [](const std::filesystem::path& data, const Messages& messages) {
    const std::string source = std::string(kArchive) + "2/adult";
    const auto train = found(data, {"adult.data"}, source);
    return uci::adult(train, found(data, {"adult.test"}, source), messages.say);
  });
}

/// The task csv, which is chosen by giving a file and a label.
struct CsvTask {
  std::string label;
  CsvConfig csv;

  void fields(Fields& f, RunOptions& run) {
    f("label", label,
      "with --data=FILE, which makes it task csv: the column of the class, by name or by number from 0, from -1 "
      "counted from the end");
    f.group("csv", csv);
    f.then([this, &run](const Fields& given) { settle(given, run); });
  }

  /// A file and a label choose the task csv; options that would be ignored are refused.
  void settle(const Fields& given, RunOptions& run) const {
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

  TableSplits load(const RunOptions& run, const Messages& messages) const {
    if (!std::filesystem::exists(run.data)) fail("--data={}: there is no such file", run.data);
    if (!std::filesystem::is_regular_file(run.data)) {
      fail("--data={} is no file; --task=csv, which --label stands for, reads one table", run.data);
    }
    if (label.empty()) fail("--task=csv needs --label, the column that holds the class: its name, or its number");
    TableFormat format{.separator = separator_of(csv.separator), .label = label, .cache = csv.cache, .words = true};
    format.options = "--csv.";
    format.missing = csv.missing;
    format.categories = csv.categories;
    format.leave_out = csv.leave_out;
    format.header = has_header(csv, run.data, label, messages.say, messages.warn);
    return split_at_random(read_table(run.data, format, messages.say), csv.valid_share, csv.test_share, csv.split_seed);
  }
};

/// Sets the task in `run` to csv.
rows::RowTask any_table(RunOptions& run) {
  const auto csv = std::make_shared<CsvTask>();
  rows::RowTask task;
  task.name = "csv";
  task.metrics = {"loss", "accuracy", "auc"};
  task.best_by = "loss";
  task.fields = [csv, &run](Fields& f) { csv->fields(f, run); };
  task.load = [csv](const RunOptions& of, const Messages& messages) { return csv->load(of, messages); };
  return task;
}

}  // namespace

Config::Config() {
  tasks = {covertype(), higgs(), hepmass(), adult(), any_table(run)};
  run.tasks = names_of(tasks);
  run.task = run.tasks.front();
  run.attentions = rows::layer_names();
  run.attention = "snnk-relu";
  run.steps = 5000;
  run.batch = 1024;
  run.data = "data/uci";
}

}  // namespace bochner::uci_experiment

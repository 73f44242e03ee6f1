#include "experiments/learners/rows/uci.h"

#include <filesystem>

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
  fail("uci: {} is missing, plain or .gz; it comes from {}; or name its folder with --data",
       (folder / names.front()).string(), source);
}

}  // namespace

void CsvConfig::fields(Fields& f) {
  f("header", header, "task csv: does the file begin with the names of its columns");
  f("separator", separator, "task csv: one character, or tab");
  f("valid-share", valid_share, "task csv: share of rows for validation").above(0).below(1);
  f("test-share", test_share, "task csv: share of rows for testing").above(0).below(1);
  f("split-seed", split_seed, "task csv: seed of the split");
  f("cache", cache, "keep the numbers beside the file for the next start");
}

Config::Config() {
  run.task = "covertype";
  run.tasks = {"covertype", "higgs", "hepmass", "csv"};
  run.attentions = classifier::layer_names();
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
  f.then([this] {
    if (!label.empty() && std::filesystem::is_regular_file(run.data)) run.task = "csv";
  });
}

TableSplits Config::load(const Say& say) const {
  const std::filesystem::path data = run.data;
  if (run.task != "csv" && std::filesystem::is_regular_file(data)) {
    fail("uci: --data={} is a file; with --label=COLUMN it is read as a table, --task={} reads a folder", run.data,
         run.task);
  }
  const std::string archive = "https://archive.ics.uci.edu/dataset/";
  if (run.task == "covertype") {
    return uci::covertype(found(data, {"covtype.data", "covtype.first20000.data"}, archive + "31/covertype"), say);
  }
  if (run.task == "higgs") {
    return uci::higgs(found(data, {"HIGGS.csv", "HIGGS.part7000.csv"}, archive + "280/higgs"), say);
  }
  if (run.task == "hepmass") {
    return uci::hepmass(found(data, {"all_train.csv", "1000_train.csv", "not1000_train.csv"}, archive + "347/hepmass"),
                        found(data, {"all_test.csv", "1000_test.csv", "not1000_test.csv"}, archive + "347/hepmass"),
                        say);
  }
  if (!std::filesystem::is_regular_file(data)) {
    fail("uci: --task=csv reads one file; --data='{}' is none", data.string());
  }
  if (label.empty()) fail("uci: --task=csv needs --label, the column that holds the class");
  const std::string& separator = csv.separator;
  if (separator != "tab" && separator.size() != 1)
    fail("uci: --csv.separator='{}' must be one character or tab", separator);
  TableFormat format{.header = csv.header, .separator = separator == "tab" ? '\t' : separator[0]};
  format.label = label;
  format.cache = csv.cache;
  return split_at_random(read_table(data, format, say), csv.valid_share, csv.test_share, csv.split_seed);
}

}  // namespace bochner::uci_experiment

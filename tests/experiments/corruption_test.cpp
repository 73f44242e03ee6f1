// Random damage to the files of a run and to its data: each must be detected when the run is continued, or change
// nothing. BOCHNER_CORRUPTIONS=600 tries 600 cases; the default is a few.
#include <gtest/gtest.h>

#include <cctype>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/io/elements.h"
#include "engine/io/file.h"
#include "engine/io/gzip.h"
#include "engine/io/idx.h"
#include "engine/random.h"
#include "experiments/common/run/state.h"
#include "tests/experiments/process.h"

namespace bochner {
namespace {

namespace fs = std::filesystem;

using test::contents;
using test::Ended;
using test::Process;
using test::put;
using test::TemporaryFolder;

size_t place_in(const std::string& bytes, Generator& generator) {
  return static_cast<size_t>(generator.uniform() * static_cast<double>(bytes.size()));
}

/// Changes a digit or a byte, removes, zeroes or doubles some bytes, or truncates the file.
std::string damaged(std::string bytes, Generator& generator) {
  const std::string before = bytes;
  while (bytes == before) {
    const size_t at = place_in(bytes, generator);
    switch (static_cast<int>(generator.uniform() * 6)) {
      case 0:
      case 1: {  // the most treacherous, so the most frequent
        size_t digit = at;
        while (digit < bytes.size() && std::isdigit(static_cast<unsigned char>(bytes[digit])) == 0) ++digit;
        if (digit < bytes.size()) bytes[digit] = static_cast<char>('0' + static_cast<int>(generator.uniform() * 10));
        break;
      }
      case 2:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << static_cast<int>(generator.uniform() * 8)));
        break;
      case 3:
        bytes.erase(at, 1 + static_cast<size_t>(generator.uniform() * 16));
        break;
      case 4:
        for (size_t i = at; i < std::min(bytes.size(), at + 16); ++i) bytes[i] = '\0';
        break;
      default:
        bytes.resize(at);
    }
  }
  return bytes;
}

/// Whether a warning names the file.
bool warned_of(const std::string& err, const std::string& file) {
  std::istringstream lines(err);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("warning: ") && line.find(file) != std::string::npos) return true;
  }
  return false;
}

/// A run that can be continued, and the files after its continuation.
struct Case {
  std::string kind;                               ///< of its data
  std::vector<std::string> command;               ///< without --resume and --out
  std::vector<std::string> data;                  ///< files
  std::string run;                                ///< its folder
  std::map<std::string, std::string> after = {};  ///< what it leaves if nothing is damaged
};

/// Results that must not depend on undetected damage.
std::map<std::string, std::string> outcome(const fs::path& run) {
  std::map<std::string, std::string> files;
  for (const char* name : {"config.ini", "metrics.jsonl", "events.out.tfevents.bochner"})
    files[name] = contents(run / name);
  for (const char* name : {"checkpoint-last", "checkpoint-best"}) {
    for (const auto& [tensor, values] : State::load(run / name).tensors) {
      files[name + ("/" + tensor)] = std::string(text_of(bytes_of(values)));
    }
  }
  const auto results = nlohmann::json::parse(contents(run / "results.json"));
  for (const char* name : {"metrics", "data", "seed", "steps"}) files[name] = results[name].dump();
  return files;
}

class Corruption : public testing::Test {
 protected:
  void SetUp() override {
    std::string table = "x,y,class\n";
    for (int i = 0; i < 300; ++i) {
      table += fmt::format("{:.3f},{},{}\n", 0.37 * (i % 71) - 11, i % 5, i % 7 < 3 ? "left" : "right");
    }
    put(folder_ / "plain.csv", table);
    write_file_atomically(folder_ / "packed.csv.gz", format_gzip(bytes_of(table)));
    fs::create_directories(folder_ / "idx");
    Generator generator(1);
    for (const auto& [name, count] : {std::pair{"train", 200}, std::pair{"t10k", 40}}) {
      const Tensor labels = integers({count}, 0, 10, generator);
      write_idx(folder_ / fmt::format("idx/{}-labels-idx1-ubyte", name), labels.cast(DType::u8));
      write_idx(folder_ / fmt::format("idx/{}-images-idx3-ubyte", name),
                integers({count, 6, 6}, 0, 256, generator).cast(DType::u8));
    }
    const std::vector<std::string> small = {
        "--model.first=8", "--model.hidden=8", "--model.features=8", "--optim.evaluate-every=5",
        "--steps=10",      "--batch=16",       "--threads=1"};
    const auto add = [&](const std::string& kind, std::vector<std::string> command, std::vector<std::string> data) {
      command.insert(command.end(), small.begin(), small.end());
      Case one = {kind, command, std::move(data), "run-" + kind};
      command.insert(command.end(), {"--out=" + one.run, "--quiet"});
      const Ended ended = Process(command, folder_.path()).wait();
      ASSERT_EQ(ended.code, 0) << ended.err;
      cases_.push_back(one);
    };
    add("csv", {BOCHNER_UCI, "--data=plain.csv", "--label=class"}, {"plain.csv"});
    add("csv.gz", {BOCHNER_UCI, "--data=packed.csv.gz", "--label=class"}, {"packed.csv.gz"});
    add("idx", {BOCHNER_MNIST, "--data=idx", "--task=mnist"},
        {"idx/train-images-idx3-ubyte", "idx/train-labels-idx1-ubyte", "idx/t10k-images-idx3-ubyte",
         "idx/t10k-labels-idx1-ubyte"});
  }

  /// A copy of the run, to be continued: killed before it wrote its results, or finished.
  fs::path copy_of(const Case& one, bool finished) {
    fs::remove_all(folder_ / "copy");
    fs::copy(folder_ / one.run, folder_ / "copy");
    if (!finished) fs::remove(folder_ / "copy/results.json");
    return folder_ / "copy";
  }

  Ended continued(const Case& one) {
    std::vector<std::string> command = {one.command.front(), "--resume", "--out=copy", "--threads=1"};
    return Process(command, folder_.path()).wait();
  }

  TemporaryFolder folder_;
  std::vector<Case> cases_;
};

TEST_F(Corruption, IsNeverSilent) {
  struct Count {
    int trials = 0, refused = 0, warned = 0, harmless = 0;
  };
  std::map<std::string, Count> counts;
  const char* const asked = std::getenv("BOCHNER_CORRUPTIONS");
  const int trials = asked == nullptr ? 48 : std::atoi(asked);
  unsetenv("BOCHNER_CORRUPTIONS");  // it is not an option of the programs, which would warn about it
  Generator generator(11);
  for (Case& one : cases_) {
    copy_of(one, false);
    ASSERT_EQ(continued(one).code, 0);
    one.after = outcome(folder_ / "copy");
  }
  for (int trial = 0; trial < trials; ++trial) {
    const Case& one = cases_[static_cast<size_t>(trial) % cases_.size()];
    const bool finished = trial / 3 % 4 == 0;
    const fs::path run = copy_of(one, finished);
    // Data half of the time, otherwise any of the files that the run has.
    std::vector<std::pair<std::string, fs::path>> files;
    if (trial / 12 % 2 == 0) {
      for (const std::string& file : one.data) files.emplace_back("data: " + one.kind, folder_ / file);
    } else {
      for (const auto& entry : fs::directory_iterator(run)) {
        const std::string name = entry.path().filename().string();
        if (name.starts_with('.') || (!finished && name == "report.html")) continue;  // written anew
        files.emplace_back(name, entry.path());
      }
    }
    std::sort(files.begin(), files.end());
    const auto& [kind, file] = files[static_cast<size_t>(generator.uniform() * static_cast<double>(files.size()))];
    const std::string good = contents(file);
    const std::string bad = damaged(good, generator);
    put(file, bad);
    const Ended ended = continued(one);
    Count& count = counts[kind + (finished && kind.starts_with("data") ? ", finished run" : "")];
    ++count.trials;
    const size_t named = ended.err.find(file.filename().string());
    if (ended.code != 0) {
      EXPECT_EQ(ended.code, 2) << ended.err;
      EXPECT_NE(named, std::string::npos) << kind << "\n" << ended.err;
      ++count.refused;
    } else if (warned_of(ended.err, file.filename().string())) {
      ++count.warned;
    } else {
      ++count.harmless;
      EXPECT_EQ(outcome(run), one.after) << "silent: " << kind << ", trial " << trial << "\n" << ended.err;
    }
    put(file, good);
  }
  for (const auto& [kind, count] : counts) {
    fmt::print("{:<30} {:>4} trials: {} refused, {} told in a warning, {} without effect\n", kind, count.trials,
               count.refused, count.warned, count.harmless);
  }
}

}  // namespace
}  // namespace bochner

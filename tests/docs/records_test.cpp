// docs/results/make.py --check finds every number on a page that is not in its record (CTest docs.results runs it on
// the pages themselves), and records are as their runs wrote them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>

#include "engine/io/xxh3.h"
#include "tests/docs/documents.h"
#include "tests/files.h"

namespace bochner {
namespace {

namespace fs = std::filesystem;

/// A copy of the pages, their records, the papers' numbers and the arena's presets.
class Records : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(copy_ / "docs");
    fs::copy(kRoot / "docs/results", results_, fs::copy_options::recursive);
    for (const auto& entry : fs::directory_iterator(kRoot / "experiments")) {
      if (!fs::exists(entry.path() / "paper.csv")) continue;
      const fs::path folder = copy_ / "experiments" / entry.path().filename();
      fs::create_directories(folder);
      fs::copy_file(entry.path() / "paper.csv", folder / "paper.csv");
    }
    fs::copy(kRoot / "experiments/lra/presets", copy_ / "experiments/lra/presets", fs::copy_options::recursive);
  }

  /// The output of the check; empty if it finds nothing.
  std::string said() const {
    const fs::path log = copy_ / "log";
    const int status =
        std::system(("python3 " + (results_ / "make.py").string() + " --check >" + log.string() + " 2>&1").c_str());
    const std::string text = text_of(log);
    EXPECT_EQ(status == 0, text.empty()) << text;
    return text;
  }

  void replace(const char* file, const std::string& old, const std::string& by) const {
    std::string text = text_of(results_ / file);
    const size_t at = text.find(old);
    ASSERT_NE(at, std::string::npos) << file << " holds no " << old;
    text.replace(at, old.size(), by);
    std::ofstream(results_ / file) << text;
  }

  test::TemporaryFolder copy_;
  fs::path results_ = copy_ / "docs/results";
};

TEST_F(Records, AreWhatThePagesSay) { EXPECT_EQ(said(), ""); }

TEST_F(Records, ANumberThatIsChangedOnAPageIsFound) {
  replace("efficiency.md", "| 4568.809 |", "| 4568.808 |");
  EXPECT_NE(said().find("docs/results/efficiency.md:"), std::string::npos) << said();
}

TEST_F(Records, ANumberThatIsChangedInARecordIsFound) {
  replace("sparsity/0.9/gmm-prf/results.json", "0.966", "0.956");
  const std::string text = said();
  EXPECT_NE(text.find("docs/results/sparsity.md:"), std::string::npos) << text;
  EXPECT_NE(text.find("docs/results/README.md:"), std::string::npos) << text;  // the scoreboard also quotes it
}

TEST_F(Records, APictureIsMadeOfThem) {
  replace("listops.svg", "polyline points=\"", "polyline points=\"1,1 ");
  EXPECT_NE(said().find("docs/results/listops.svg:"), std::string::npos);
}

TEST_F(Records, ATypedMeasurementIsRefused) {
  const std::string page = text_of(results_ / "turing.md");
  for (const char* typed :
       {"It took 12 ms.", "It is 3.1 as fast.", "97 % are right.", "| a | b |\n|---|---|\n| 1 | 2 |"}) {
    std::ofstream(results_ / "turing.md") << page << "\n" << typed << "\n";
    EXPECT_NE(said().find("turing.md: a typed "), std::string::npos) << typed;
  }
  std::ofstream(results_ / "turing.md") << page << "\nSee PERF Fig. 20, KL Section 3.1 and `--scales 0.5`.\n";
  EXPECT_EQ(said(), "");
}

TEST_F(Records, ANameThatNothingUsesIsFound) {
  replace("turing.md", "<!-- names\n",
          "<!-- names\nold, other = 1, [n for n in (1, 2)]\ndef older(x): return other + x\n");
  EXPECT_NE(said().find("turing.md: no block uses old and older\n"), std::string::npos) << said();
}

TEST_F(Records, ARecordThatNoLinkLeadsToIsFound) {
  replace("pathfinder.md", ", [record](pathfinder/convolutions.json)", "");
  EXPECT_NE(said().find("pathfinder.md: no link leads to pathfinder/convolutions.json\n"), std::string::npos) << said();
}

// Markdown ends a table there, and shows the rest of it as text.
TEST_F(Records, ACellOfSeveralLinesIsRefused) {
  const std::string claims = text_of(results_ / "claims.csv");
  std::ofstream(results_ / "claims.csv") << claims << "Performer,Fig. 99,\"two\nlines\",,,not run,,\n";
  EXPECT_NE(said().find("several lines"), std::string::npos) << said();
}

TEST_F(Records, ARecordThatIsMissingIsNamed) {
  fs::remove(results_ / "turing/palindrome.json");
  EXPECT_NE(said().find("turing/palindrome.json"), std::string::npos);
}

TEST_F(Records, AnUnknownVerdictIsRefused) {
  replace("claims.csv", ",does not hold,", ",holds nearly,");
  EXPECT_NE(said().find("holds nearly"), std::string::npos);
}

// Whatever reads a run refuses one that was edited, so a record that somebody tidied up is lost to `--table`.
TEST(Runs, AreAsTheyWereWritten) {
  size_t records = 0, files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / "docs")) {
    if (entry.path().filename() != "results.json") continue;
    std::string text = text_of(entry.path());
    const auto json = nlohmann::json::parse(text);
    if (!json.contains("xxh3_128")) continue;  // of a version without hashes
    ++records;
    for (const auto& [name, hash] : json.at("files").items()) {
      const fs::path file = entry.path().parent_path() / name;
      if (!fs::exists(file)) continue;  // not everything that a run writes is committed
      ++files;
      EXPECT_EQ(xxh3_of_file(file), hash) << file;
    }
    text.replace(text.rfind("\"\n}") - 32, 32, 32, '0');  // the hash is that of the file with zeros in its place
    EXPECT_EQ(xxh3_of(bytes_of(text)), json.at("xxh3_128")) << entry.path();
  }
  EXPECT_GT(records, 300U);
  EXPECT_GT(files, 500U);
}

// A number for another protocol would never appear next to a run's own.
TEST(PapersNumbers, AreOfAPreset) {
  size_t count = 0;
  for (const auto& entry : fs::directory_iterator(kRoot / "experiments")) {
    if (!fs::exists(entry.path() / "paper.csv")) continue;
    for (const auto& row : rows_of(entry.path() / "paper.csv")) {
      ++count;
      const fs::path preset = entry.path() / "presets" / row.at("protocol");
      EXPECT_TRUE(row.at("protocol") == "custom" || fs::exists(preset) || fs::exists(preset.string() + ".ini"))
          << entry.path().filename() << ": " << row.at("source") << " has the protocol " << row.at("protocol");
    }
  }
  EXPECT_GT(count, 300U);
}

/// `Suite.Name` of every test, one per line.
std::string tests_there() {
  std::string names;
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / "tests")) {
    if (entry.path().extension() != ".cpp") continue;
    const std::string text = text_of(entry.path());
    for (const std::smatch& found : matches(text, std::regex(R"(\nTEST(_F|_P)?\((\w+), (\w+)\))"))) {
      names += found[2].str() + "." + found[3].str() + "\n";
    }
  }
  return names;
}

// A claim backed by a test names a test that exists.
TEST(Claims, NameTestsThatAreThere) {
  const std::string names = tests_there();
  size_t count = 0;
  for (const auto& row : rows_of(kRoot / "docs/results/claims.csv")) {
    const std::string start = "./run test -R ", command = row.at("command");
    if (!command.starts_with(start)) continue;
    ++count;
    EXPECT_NE(names.find(command.substr(start.size())), std::string::npos) << command;
  }
  EXPECT_GT(count, 8U);
}

// The script for a first card chooses tests by patterns; one that matches nothing would leave its part unchecked.
TEST(Claims, TheScriptForACardNamesTestsThatAreThere) {
  const std::string names = tests_there(), script = text_of(kRoot / "tests/gpu/all.sh");
  size_t count = 0;
  for (const std::smatch& filter : matches(script, std::regex("(--gtest_filter=|small=)'([^-'][^']*)'"))) {
    std::istringstream patterns(filter[2].str());
    for (std::string pattern; std::getline(patterns, pattern, ':');) {
      ++count;
      if (pattern.starts_with('-')) pattern.erase(0, 1);         // and the patterns after it are left out
      std::string regex = pattern.substr(0, pattern.find('/'));  // what follows is a parameter
      for (size_t at = 0; (at = regex.find_first_of(".*", at)) != std::string::npos; at += 2) {
        regex.replace(at, 1, regex[at] == '.' ? "\\." : ".*");
      }
      EXPECT_FALSE(matches(names, std::regex("(^|\n)" + regex + "(\n|$)")).empty()) << pattern;
    }
  }
  EXPECT_GT(count, 8U);
}

}  // namespace
}  // namespace bochner

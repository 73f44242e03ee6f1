// The rules of the source tree: which folder may use which, how long a file may be, how many files a folder may have,
// that each header begins with its purpose, and what the root of the repository contains.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "engine/environment.h"

namespace {

namespace fs = std::filesystem;

struct Source {
  std::string path;  ///< from the root
  std::vector<std::string> lines;
};

/// The C++ and CUDA files of the five folders and, if requested, of the tests.
std::vector<Source> sources(bool tests) {
  const fs::path root = BOCHNER_SOURCE_DIR;
  std::vector<Source> found;
  for (const char* folder : {"engine", "autograd", "layers", "datasets", "experiments", "tests"}) {
    if (!tests && std::string(folder) == "tests") continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".h" && extension != ".cpp" && extension != ".cu") continue;
      Source source{fs::relative(entry.path(), root).generic_string(), {}};
      std::ifstream file(entry.path());
      for (std::string line; std::getline(file, line);) source.lines.push_back(line);
      found.push_back(std::move(source));
    }
  }
  EXPECT_GT(found.size(), 300U) << "the sources are not where they are looked for: " << root;
  return found;
}

TEST(House, AFolderUsesOnlyThoseAboveIt) {
  const std::map<std::string, std::set<std::string>> may_use = {
      {"engine", {}},
      {"autograd", {"engine"}},
      {"layers", {"engine", "autograd"}},
      {"datasets", {"engine"}},
      {"experiments", {"engine", "autograd", "layers", "datasets"}}};
  int includes = 0;
  for (const Source& source : sources(false)) {
    const std::string own = source.path.substr(0, source.path.find('/'));
    for (const std::string& line : source.lines) {
      const std::string begin = "#include \"";
      if (line.rfind(begin, 0) != 0) continue;
      const std::string used = line.substr(begin.size(), line.find('/') - begin.size());
      if (used == own || used.find('"') != std::string::npos) continue;
      ++includes;
      EXPECT_TRUE(may_use.at(own).count(used)) << source.path << " may not use " << used << ": " << line;
    }
  }
  EXPECT_GT(includes, 300);
}

// A program uses what all programs share, and no other program. README.md of experiments says what the folders of
// common contain.
TEST(House, FoldersOfExperimentsIncludeOneWayOnly) {
  const std::string root = "experiments/";
  const std::vector<std::string> order = {"common/process/", "common/config/",  "common/run/",
                                          "common/report/",  "common/program/", "learners/"};
  const auto place = [&](const std::string& path) {
    const auto is_in = [&](const std::string& folder) { return path.rfind(root + folder, 0) == 0; };
    return std::find_if(order.begin(), order.end(), is_in) - order.begin();
  };
  const auto folder = [](const std::string& path) { return path.substr(0, path.find('/', path.find('/') + 1)); };
  std::set<std::ptrdiff_t> seen;
  for (const Source& source : sources(false)) {
    if (source.path.rfind(root, 0) != 0) continue;
    const auto own = place(source.path);
    seen.insert(own);
    for (const std::string& line : source.lines) {
      const std::string begin = "#include \"";
      if (line.rfind(begin + root, 0) != 0) continue;
      const std::string used = line.substr(begin.size(), line.find('"', begin.size()) - begin.size());
      const bool is_program = own == std::ssize(order);
      EXPECT_TRUE(place(used) < own || (place(used) == own && (!is_program || folder(used) == folder(source.path))))
          << source.path << " may not use " << used;
    }
  }
  EXPECT_EQ(std::ssize(seen), std::ssize(order) + 1) << "a folder is not where it is looked for";
}

// What a tool or a person leaves there belongs elsewhere, or in .gitignore. Hidden names belong to such tools.
TEST(House, TheRootHoldsNothingElse) {
  const std::set<std::string> known = {
      "CMake", "CMakeLists.txt", "CMakePresets.json", "LICENSE", "README.md", "autograd", "datasets",
      "docs",  "engine",         "experiments",       "layers",  "run",       "tests"};
  std::set<std::string> found;
  for (const auto& entry : fs::directory_iterator(BOCHNER_SOURCE_DIR)) {
    const std::string name = entry.path().filename().string();
    const bool is_ignored = name.starts_with(".") || name.starts_with("build") || name == "runs" || name == "data";
    if (!is_ignored) found.insert(name);
  }
  EXPECT_EQ(found, known);
}

TEST(House, NoFileIsLongerThanFourHundredLinesOrSo) {
  for (const Source& source : sources(true)) {
    EXPECT_LE(source.lines.size(), 420U) << source.path << " holds two things; part them";
  }
}

TEST(House, EachHeaderBeginsWithItsPurpose) {
  for (const Source& source : sources(true)) {
    if (fs::path(source.path).extension() != ".h") continue;
    ASSERT_FALSE(source.lines.empty()) << source.path;
    EXPECT_EQ(source.lines[0].rfind("// ", 0), 0U)
        << source.path << " must begin with a comment that says what it is for";
  }
}

// So that programs do not report a variable that is obeyed as unknown. Kernels read none.
TEST(House, TheEngineReadsTheVariablesThatItNamesInOnePlace) {
  const std::set<std::string> named(bochner::kEngineVariables.begin(), bochner::kEngineVariables.end());
  std::set<std::string> read;
  const std::regex call("getenv\\(\"(BOCHNER_\\w+)\"");
  for (const Source& source : sources(false)) {
    if (source.path.rfind("engine/", 0) != 0 || fs::path(source.path).extension() == ".cu") continue;
    for (const std::string& line : source.lines) {
      std::smatch found;
      if (line.find("getenv") != std::string::npos && std::regex_search(line, found, call)) read.insert(found[1]);
    }
  }
  EXPECT_EQ(read, named);
}

// A header and its source count as one.
TEST(House, NoFolderIsAFlatListOfMoreThanTwentyFive) {
  std::map<std::string, std::set<std::string>> names;
  for (const Source& source : sources(true)) {
    const fs::path path = source.path;
    names[path.parent_path().generic_string()].insert(path.stem().string());
  }
  for (const auto& [folder, files] : names) {
    EXPECT_LE(files.size(), 25U) << folder << "/ answers more than one question; group it by subject";
  }
}

}  // namespace

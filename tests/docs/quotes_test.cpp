// The documents tell the truth: code they quote stands in the file they name, files they name exist, and every row of
// the map of papers names a function that its file holds.
//
// A quotation is a block of code under a line that names its file in a link: From [x.cpp](../engine/x.cpp):
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

namespace bochner {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = BOCHNER_SOURCE_DIR;

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Without blanks and line ends: a quotation may be indented otherwise.
std::string squeezed(std::string text) {
  text.erase(std::remove_if(text.begin(), text.end(), [](unsigned char c) { return std::isspace(c) != 0; }),
             text.end());
  return text;
}

std::vector<fs::path> documents() {
  std::vector<fs::path> found = {kRoot / "README.md"};
  for (const char* folder : {"docs", "engine", "autograd", "layers", "datasets", "experiments", "tests"}) {
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder)) {
      if (entry.path().extension() == ".md") found.push_back(entry.path());
    }
  }
  return found;
}

std::vector<std::smatch> matches(const std::string& text, const std::regex& pattern) {
  return {std::sregex_iterator(text.begin(), text.end(), pattern), std::sregex_iterator()};
}

TEST(Documents, LinksLeadToFiles) {
  const std::regex link(R"(\]\(([^)#]+)(#[^)]*)?\))");
  size_t count = 0;
  for (const fs::path& document : documents()) {
    const std::string text = std::regex_replace(text_of(document), std::regex("```[^`]*```"), "");
    for (const std::smatch& found : matches(text, link)) {
      if (found[1].str().starts_with("http")) continue;
      ++count;
      EXPECT_TRUE(fs::exists(document.parent_path() / found[1].str())) << document << " links to " << found[1];
    }
  }
  EXPECT_GT(count, 50U);
}

TEST(Documents, QuotedCodeStandsInTheFileThatTheyName) {
  const std::regex quotation(R"(\]\(([^)]+)\):\n\n```cpp\n([^`]*)```)");
  size_t count = 0;
  for (const fs::path& document : documents()) {
    const std::string text = text_of(document);
    size_t quoted = 0;
    for (const std::smatch& found : matches(text, quotation)) {
      ++quoted;
      const std::string source = squeezed(text_of(document.parent_path() / found[1].str()));
      EXPECT_NE(source.find(squeezed(found[2])), std::string::npos)
          << document << " quotes what " << found[1] << " does not hold:\n"
          << found[2];
    }
    const size_t blocks = matches(text, std::regex("```cpp")).size();
    EXPECT_EQ(quoted, blocks) << document << ": code that is not quoted from a file";
    count += quoted;
  }
  EXPECT_GE(count, 10U);
}

TEST(Documents, TheMapOfPapersNamesFunctionsThatAreThere) {
  const std::string text = text_of(kRoot / "docs/paper_map.md");
  const std::regex row(R"(\n\|[^|\n]*\|[^|\n]*\| \[[^\]]*\]\(\.\./([^)]+)\) \| ([^|\n]*)\|)");
  const auto rows = matches(text, row);
  EXPECT_GT(rows.size(), 25U);
  for (const std::smatch& found : rows) {
    const std::string source = text_of(kRoot / found[1].str());
    const std::string names = found[2];
    const auto quoted = matches(names, std::regex("`([^`]+)`"));
    EXPECT_FALSE(quoted.empty()) << found[0];
    for (const std::smatch& name : quoted) {
      EXPECT_NE(source.find(name[1]), std::string::npos) << found[1] << " holds no " << name[1];
    }
  }
}

}  // namespace
}  // namespace bochner

// The documents are true: code that they quote is in the file that they name, line by line; files that they name exist;
// and every row of the map of papers names what its file defines or sets, including numbers.
//
// A quotation is a block of code under a line that names its file in a link: From [x.cpp](../engine/x.cpp):
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>

#include "tests/docs/documents.h"

namespace bochner {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> documents() {
  std::vector<fs::path> found = {kRoot / "README.md"};
  for (const char* folder : {"docs", "engine", "autograd", "layers", "datasets", "experiments", "tests"}) {
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder)) {
      if (entry.path().extension() == ".md") found.push_back(entry.path());
    }
  }
  return found;
}

/// A page without its hidden parts, such as the templates of docs/results.
std::string without_remarks(std::string page) {
  for (size_t begin = 0; (begin = page.find("<!--", begin)) != std::string::npos;) {
    const size_t end = page.find("-->", begin);
    page.erase(begin, end == std::string::npos ? end : end + 3 - begin);
  }
  return page;
}

/// What a reader sees as text: no hidden parts or blocks of code.
std::string prose_of(const fs::path& document) {
  return std::regex_replace(without_remarks(text_of(document)), std::regex("```[^`]*```"), "");
}

/// The name after # by which a link leads to a heading: its letters, digits, _ and -, in lower case, and - for a space.
std::string anchor_of(const std::string& heading) {
  std::string anchor;
  for (const char c : heading) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x80 || std::isalnum(byte) || c == '_' || c == '-') anchor += static_cast<char>(std::tolower(byte));
    if (c == ' ') anchor += '-';
  }
  return anchor;
}

bool has_heading(const std::string& prose, const std::string& anchor) {
  const auto headings = matches(prose, std::regex("(^|\n)#+ ([^\n]*)"));
  return std::any_of(headings.begin(), headings.end(),
                     [&](const std::smatch& heading) { return anchor_of(heading[2]) == anchor; });
}

/// Lines without their common indentation.
std::vector<std::string> outdented(std::vector<std::string> lines) {
  size_t least = std::string::npos;
  for (const std::string& line : lines) least = std::min(least, line.find_first_not_of(' '));
  for (std::string& line : lines) line.erase(0, std::min(least, line.size()));
  return lines;
}

/// Whether the lines occur in the text, whole and consecutively; the indentation of the block may differ.
bool holds_lines(const std::string& text, const std::string& quotation) {
  const std::vector<std::string> lines = lines_of(text), quoted = outdented(lines_of(quotation));
  for (size_t i = 0; i + quoted.size() <= lines.size(); ++i) {
    const auto begin = lines.begin() + static_cast<std::ptrdiff_t>(i);
    if (outdented({begin, begin + static_cast<std::ptrdiff_t>(quoted.size())}) == quoted) return true;
  }
  return false;
}

/// Source without comments, in which names do not count.
std::string without_comments(const std::string& source) {
  return std::regex_replace(source, std::regex("//[^\n]*"), "");
}

/// Whether a file defines or sets what a quoted name says: a line of settings; `protocol,task,attention,metric = value`
/// of the papers' numbers; a whole name of code outside of comments.
bool holds(const fs::path& file, const std::string& quoted) {
  const std::string extension = file.extension();
  if (extension == ".csv") {
    for (const auto& row : rows_of(file)) {
      const auto at = [&](const char* column) { return row.at(column); };
      const std::string place = at("protocol") + "," + at("task") + "," + at("attention") + "," + at("metric");
      if (place + " = " + at("value") == quoted) return true;
    }
    return false;
  }
  if (extension == ".ini") {
    const std::vector<std::string> lines = lines_of(text_of(file));
    return std::find(lines.begin(), lines.end(), quoted) != lines.end();
  }
  const std::regex name("(^|[^A-Za-z0-9_])" + quoted + "([^A-Za-z0-9_]|$)");
  return std::regex_search(without_comments(text_of(file)), name);
}

TEST(Documents, LinksLeadToFiles) {
  const std::regex link(R"(\]\(([^)#]+)(#[^)]*)?\))");
  size_t count = 0;
  for (const fs::path& document : documents()) {
    const std::string text = prose_of(document);
    for (const std::smatch& found : matches(text, link)) {
      if (found[1].str().starts_with("http")) continue;
      ++count;
      EXPECT_TRUE(fs::exists(document.parent_path() / found[1].str())) << document << " links to " << found[1];
    }
  }
  EXPECT_GT(count, 50U);
}

TEST(Documents, LinksLeadToHeadings) {
  const std::string page = "# One `bit`, at x_1\n\n    # no heading\n\n## Two-fold\n";
  EXPECT_TRUE(has_heading(page, "one-bit-at-x_1"));
  EXPECT_TRUE(has_heading(page, "two-fold"));
  for (const char* wrong : {"two", "no-heading", "One-bit-at-x_1"}) EXPECT_FALSE(has_heading(page, wrong)) << wrong;
  size_t count = 0;
  for (const fs::path& document : documents()) {
    const std::string text = prose_of(document);
    for (const std::smatch& found : matches(text, std::regex(R"(\]\(([^)#]*)#([^)]*)\))"))) {
      const std::string file = found[1];
      if (file.starts_with("http")) continue;
      ++count;
      EXPECT_TRUE(has_heading(file.empty() ? text : prose_of(document.parent_path() / file), found[2]))
          << document << " links to " << file << "#" << found[2];
    }
  }
  EXPECT_GT(count, 10U);
}

TEST(Documents, QuotationsAreWholeLines) {
  const std::string source = "int f() {\n  // a remark\n  return 12;\n}\nint g();\n";
  EXPECT_TRUE(holds_lines(source, "// a remark\nreturn 12;\n"));
  for (const char* wrong : {"return 1;\n", "return 12\n", "int f() {\n  return 12;\n", "int f() {\n// a remark\n"}) {
    EXPECT_FALSE(holds_lines(source, wrong)) << wrong;
  }
}

TEST(Documents, QuotedCodeStandsInTheFileThatTheyName) {
  const std::regex quotation(R"(\]\(([^)]+)\):\n\n```cpp\n([^`]*)```)");
  size_t count = 0;
  for (const fs::path& document : documents()) {
    const std::string text = text_of(document);
    size_t quoted = 0;
    for (const std::smatch& found : matches(text, quotation)) {
      ++quoted;
      EXPECT_TRUE(holds_lines(text_of(document.parent_path() / found[1].str()), found[2]))
          << document << " quotes what " << found[1] << " does not hold:\n"
          << found[2];
    }
    const size_t blocks = matches(text, std::regex("```cpp")).size();
    EXPECT_EQ(quoted, blocks) << document << ": code that is not quoted from a file";
    count += quoted;
  }
  EXPECT_GE(count, 10U);
}

TEST(Documents, TheMapOfPapersNamesWhatIsThere) {
  const std::string text = text_of(kRoot / "docs/paper_map.md");
  const std::regex row(R"(\n\|[^|\n]*\|[^|\n]*\| \[[^\]]*\]\(\.\./([^)]+)\) \| ([^\n]*)\|(?=\n))");
  const auto rows = matches(text, row);
  EXPECT_EQ(rows.size(), matches(text, std::regex(R"(\n\|[^\n]*\]\(\.\./)")).size())
      << "a row that this test cannot read";
  EXPECT_GT(rows.size(), 50U);
  for (const std::smatch& found : rows) {
    const std::string names = found[2];
    const auto quoted = matches(names, std::regex("`([^`]+)`"));
    EXPECT_FALSE(quoted.empty()) << found[0];
    for (const std::smatch& name : quoted)
      EXPECT_TRUE(holds(kRoot / found[1].str(), name[1])) << found[1] << ": " << name[1];
  }
}

// A number after the name of a table, as in (KL Table 2: Softmax 36.38), is in that table.
TEST(Documents, NumbersOfThePapersStandInTheirTables) {
  const std::map<std::string, std::string> papers = {
      {"KL", "Learning the Transformer Kernel"}, {"SKY", "Skyformer"}, {"Skyformer", "Skyformer"}};
  std::map<std::string, std::string> values;  // of a source, each between spaces
  for (const char* file : {"experiments/lra/paper.csv", "docs/results/paper.csv"}) {
    for (const auto& row : rows_of(kRoot / file)) values[row.at("source")] += " " + row.at("value") + " ";
  }
  size_t count = 0;
  for (const fs::path& document : documents()) {
    const std::string text = text_of(document);
    for (const std::smatch& found : matches(text, std::regex("(KL|SKY|Skyformer) (Table [0-9]+): ([^;)|`]*)"))) {
      const std::string source = papers.at(found[1]) + ", " + found[2].str(), quoted = found[3];
      for (const std::smatch& number : matches(quoted, std::regex("[0-9]+\\.[0-9]+"))) {
        ++count;
        EXPECT_NE(values[source].find(" " + number.str() + " "), std::string::npos)
            << document << ": " << source << " does not hold " << number.str();
      }
    }
  }
  EXPECT_GE(count, 5U);
}

// The papers' tables as experiments/lra/paper.csv has them: whole, and with the means that the papers print themselves.
TEST(Papers, TablesOfTheArenaAreWhole) {
  std::map<std::string, size_t> count;
  std::map<std::string, std::map<std::string, double>> means;  // source and mechanism: task: accuracy
  for (const auto& row : rows_of(kRoot / "experiments/lra/paper.csv")) {
    ++count[row.at("source")];
    if (row.at("metric") == "accuracy")
      means[row.at("source") + " " + row.at("attention")][row.at("task")] = std::stod(row.at("value"));
  }
  EXPECT_EQ(count["Skyformer, Table 1"], 9U * 6);
  EXPECT_EQ(count["Skyformer, Table 2"], 9U * 10);
  EXPECT_EQ(count["Skyformer, Table 3"], 3U * 5);
  EXPECT_EQ(count["Learning the Transformer Kernel, Table 2"], 18U * 4);
  EXPECT_EQ(count["Learning the Transformer Kernel, Table 5"], 18U);
  EXPECT_EQ(count["Performer, Fig. 19"], 11U * 6);
  for (const auto& row : rows_of(kRoot / "docs/results/paper.csv")) ++count[row.at("source")];
  EXPECT_EQ(count["Performer, Fig. 19, lower table"], 9U * 8);
  // Wrong as printed; the rows' notes say so.
  const std::map<std::string, double> errata = {{"Learning the Transformer Kernel, Table 2 linformer", 47.08},
                                                {"Performer, Fig. 19 sinkhorn", 51.476}};
  size_t checked = 0;
  for (const auto& [name, accuracies] : means) {
    if (!accuracies.contains("average")) continue;
    double sum = 0;
    for (const auto& [task, accuracy] : accuracies) sum += task == "average" ? 0 : accuracy;
    const double printed = errata.contains(name) ? errata.at(name) : accuracies.at("average");
    EXPECT_NEAR(sum / static_cast<double>(accuracies.size() - 1), printed, 0.0101) << name;
    ++checked;
  }
  EXPECT_EQ(checked, 9U + 18 + 11);
  // SKY, Section 5: "2.75% and 1.37% accuracy improvement over the standard self-attention".
  const auto gain = [&](const char* task) {
    return means["Skyformer, Table 1 skyformer"][task] - means["Skyformer, Table 1 softmax"][task];
  };
  EXPECT_NEAR(gain("text"), 2.75, 1e-9);
  EXPECT_NEAR(gain("retrieval"), 1.37, 1e-9);
}

}  // namespace
}  // namespace bochner

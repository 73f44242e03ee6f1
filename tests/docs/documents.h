// Helpers of the tests of documents: the texts of the repository, and tables of comma-separated values.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "engine/io/csv.h"

namespace bochner {

inline const std::filesystem::path kRoot = BOCHNER_SOURCE_DIR;

inline std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

inline std::vector<std::smatch> matches(const std::string& text, const std::regex& pattern) {
  return {std::sregex_iterator(text.begin(), text.end(), pattern), std::sregex_iterator()};
}

/// The rows of a file, by the names of its columns.
inline std::vector<std::map<std::string, std::string>> rows_of(const std::filesystem::path& csv) {
  CsvReader reader(csv);
  reader.read_header();
  std::vector<std::map<std::string, std::string>> rows;
  while (reader.next()) {
    auto& row = rows.emplace_back();
    for (int i = 0; i < reader.size(); ++i) row[reader.header()[static_cast<size_t>(i)]] = reader[i];
  }
  return rows;
}

}  // namespace bochner

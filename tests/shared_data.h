// The locations of files that tests read but do not write: the sources, and the real data.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

namespace bochner::test {

/// The folder of the sources: $BOCHNER_SOURCE_DIR if the tests run on a machine other than the one that built them.
inline std::filesystem::path source_folder() {
  const char* folder = std::getenv("BOCHNER_SOURCE_DIR");
  return folder != nullptr ? folder : BOCHNER_SOURCE_DIR;
}

/// $BOCHNER_DATA, which names the folder of the real data. It is removed from the environment before tests begin, since
/// programs that they start would read it as --data.
inline const std::optional<std::filesystem::path> chosen_data = [] {
  const char* value = std::getenv("BOCHNER_DATA");
  std::optional<std::filesystem::path> folder;
  if (value != nullptr) folder = value;
  unsetenv("BOCHNER_DATA");
  return folder;
}();

/// A file or folder of the real data, in $BOCHNER_DATA or in ../shared/data next to the sources; empty if there is
/// none.
inline std::filesystem::path shared_data(const std::string& name) {
  const std::filesystem::path folder = chosen_data.value_or(source_folder() / "../shared/data");
  return std::filesystem::exists(folder / name) ? folder / name : std::filesystem::path();
}

}  // namespace bochner::test

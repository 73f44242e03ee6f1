// Where the files lie that tests read but do not write: the sources, and the real data.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace bochner::test {

/// The folder of the sources: $BOCHNER_SOURCE_DIR where the tests run on another machine than the one that built them.
inline std::filesystem::path source_folder() {
  const char* folder = std::getenv("BOCHNER_SOURCE_DIR");
  return folder != nullptr ? folder : BOCHNER_SOURCE_DIR;
}

/// A file or folder of the real data, in $BOCHNER_DATA or in ../shared/data beside the sources; empty if there is none.
inline std::filesystem::path shared_data(const std::string& name) {
  const char* chosen = std::getenv("BOCHNER_DATA");
  const std::filesystem::path folder = chosen != nullptr ? chosen : source_folder() / "../shared/data";
  return std::filesystem::exists(folder / name) ? folder / name : std::filesystem::path();
}

}  // namespace bochner::test

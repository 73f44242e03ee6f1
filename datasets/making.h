// Generated data in a folder, all or nothing, made by one process at a time, with a manifest.
//
//   ensure_made("data/listops", {.dataset = "listops", .options = described(options), ...}, say);
//
// The data are made in `.making` within the folder, under a lock, and moved when they are complete. If a process was
// killed, the next call finishes moving complete data and removes incomplete data.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "datasets/manifest.h"
#include "datasets/say.h"

namespace bochner {

/// What is made, and how.
struct Recipe {
  std::string dataset;  ///< as the manifest names it
  /// As the manifest records them, with the version of the generator: equal options give equal files.
  std::map<std::string, std::string> options;
  /// The files and folders that the data consist of.
  std::vector<std::string> parts;
  std::string parts_in_words;  ///< `three files basic_{train,val,test}.tsv`
  std::string found;           ///< `100000 expressions`
  /// Whether files without a manifest, such as the official ones, are used as they are; otherwise they are refused.
  bool takes_foreign = true;
  std::string making;  ///< `96000 + 2000 + 2000 expressions with seed 0`
  /// Writes the parts into an empty folder; the returned manifest is written afterwards.
  std::function<Manifest(const std::filesystem::path& folder)> make;
};

/// Makes the data, even if the folder held some or all of them before, and returns their manifest.
Manifest make_data(const std::filesystem::path& folder, const Recipe& recipe);

/// What ensure_made did.
enum class Ensured {
  made,      ///< there was nothing, or a file was missing: all were made (again)
  verified,  ///< the files are those of the manifest, made with these options
  foreign,  ///< all parts are there, plain or packed, without a manifest: from somebody else, such as the official ones
};

/// Makes the folder and the data in it unless they exist, and reports to `say` what it finds and does. If another
/// process is making them, it waits. If making them fails, nothing is left of them. If a file differs from its
/// manifest, if the manifest has other options, or if only some of the parts exist without a manifest, it throws an
/// Error and changes nothing.
Ensured ensure_made(const std::filesystem::path& folder, const Recipe& recipe, const Say& say);

/// Whether a killed process left data in the folder that are complete, but not all in their place.
bool holds_finished(const std::filesystem::path& folder);
/// For a reader that makes nothing: waits while another process makes data in the folder, and cleans up after one that
/// was killed, as ensure_made does. The recipe needs only its dataset and its parts.
void finish_moving(const std::filesystem::path& folder, const Recipe& recipe, const Say& say);

}  // namespace bochner

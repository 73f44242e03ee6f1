// The files of generated Pathfinder, laid out as the Long Range Arena publishes them:
//
//   pathfinder32/curv_contour_length_14/imgs/3/sample_17.png     an image of 8 bits of grey
//   pathfinder32/curv_contour_length_14/metadata/3.npy           text, in spite of its name: one line an image
//
//   imgs/3 sample_17.png 17 1 1.0 14 4 2 0.5 1 1
//
// which is the image's folder, name, number in the folder and label, and then how it was drawn: continuity, dashes of
// the two contours and of the others, length and thickness of a dash, margin, contrasts to choose from.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "datasets/making.h"
#include "datasets/pathfinder/drawing.h"

namespace bochner::pathfinder {

/// Images in each numbered folder except the last.
inline constexpr int64_t kImagesPerFolder = 1000;
/// The number of images of each difficulty that the Long Range Arena publishes.
inline constexpr int64_t kPublished = 200'000;

struct GeneratorOptions {
  int64_t size = 32;
  int64_t dashes = 14;  ///< of a contour (dashes_of)
  int64_t count = kPublished;
  uint64_t seed = 0;
};

/// An Error if an option is out of bounds.
void check(const GeneratorOptions& options);

/// `pathfinder32/curv_contour_length_14`, or `curv_baseline` for 6 dashes, as the Long Range Arena names them.
std::filesystem::path folder_of(int64_t size, int64_t dashes);

/// Makes the images, metadata and manifest in that folder, all or nothing (making.h). Image i is drawn from stream i of
/// the seed, so the files depend on the options alone, and a larger set begins with the smaller one.
Manifest write_files(const std::filesystem::path& folder, const GeneratorOptions& options);

/// Makes the files unless they exist (ensure_made).
Ensured ensure_files(const std::filesystem::path& folder, const GeneratorOptions& options, const Say& say);

/// The options as a manifest records them, with the version of the generator.
std::map<std::string, std::string> described(const GeneratorOptions& options);

}  // namespace bochner::pathfinder

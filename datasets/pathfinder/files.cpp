#include "datasets/pathfinder/files.h"

#include <algorithm>
#include <vector>

#include "engine/error.h"
#include "engine/io/file.h"
#include "engine/io/png.h"
#include "engine/parallel.h"

namespace bochner::pathfinder {
namespace {

namespace fs = std::filesystem;

/// Increase it whenever the same options give other images.
constexpr const char* kVersion = "1";

constexpr int64_t kImagesPerPiece = 8;
constexpr int64_t kMostImages = 10'000'000;

void write_new_file(const fs::path& path, Bytes bytes) {
  NewFile file(path);
  file.write(bytes);
  file.commit();
}

std::vector<std::byte> png_of(const Drawing& drawing) {
  const int64_t size = drawing.parameters.size;
  const std::vector<uint8_t> pixels = render(drawing);
  const Tensor image = Tensor::empty({size, size}, DType::u8);
  std::copy(pixels.begin(), pixels.end(), image.data<uint8_t>());
  return format_png(image);
}

std::string pixels(int64_t units) { return fmt::format("{}", static_cast<double>(units) / kUnits); }

/// One image with its line, except the parts that depend on its position.
struct Sample {
  std::vector<std::byte> png;
  int label = 0;
  int64_t margin = 0;
};

/// Makes the images of a numbered folder and its metadata.
void write_batch(const fs::path& folder, const Parameters& p, int64_t batch, int64_t count, uint64_t seed) {
  std::vector<Sample> samples(static_cast<size_t>(count));
  parallel_for(count, kImagesPerPiece, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto stream = static_cast<uint64_t>(batch * kImagesPerFolder + i);
      const Drawing drawing = draw(p, Generator(seed).fork(stream));
      samples[static_cast<size_t>(i)] = {png_of(drawing), drawing.label, drawing.margin};
    }
  });
  const std::string images = fmt::format("imgs/{}", batch);
  fs::create_directory(folder / images);
  std::string lines;
  for (int64_t i = 0; i < count; ++i) {
    const Sample& sample = samples[static_cast<size_t>(i)];
    const std::string name = fmt::format("sample_{}.png", i);
    write_new_file(folder / images / name, sample.png);
    lines += fmt::format("{} {} {} {} {:.1f} {} {} {} {} {} 1\n", images, name, i, sample.label, p.continuity,
                         p.contour_length, p.distractor_length, pixels(p.paddle_length), pixels(p.thickness),
                         pixels(sample.margin));
  }
  write_new_file(folder / fmt::format("metadata/{}.npy", batch), bytes_of(lines));
}

Manifest write_all(const fs::path& folder, const GeneratorOptions& options) {
  const Parameters p = parameters(options.size, options.dashes);
  fs::create_directory(folder / "imgs");
  fs::create_directory(folder / "metadata");
  Manifest manifest = {"pathfinder", described(options), {}};
  for (int64_t first = 0; first < options.count; first += kImagesPerFolder) {
    const int64_t batch = first / kImagesPerFolder;
    const int64_t count = std::min(kImagesPerFolder, options.count - first);
    write_batch(folder, p, batch, count, options.seed);
    manifest.files.push_back(entry_of(folder, fmt::format("imgs/{}", batch), count));
    manifest.files.push_back(entry_of(folder, fmt::format("metadata/{}.npy", batch), count));
  }
  return manifest;
}

Recipe recipe(const GeneratorOptions& options) {
  return {.dataset = "pathfinder",
          .options = described(options),
          .parts = {"imgs", "metadata"},
          .parts_in_words = "two folders imgs and metadata",
          .found = fmt::format("{} images", options.count),
          .making = fmt::format("{} images of {} x {}, contours of {} dashes, with seed {}", options.count,
                                options.size, options.size, options.dashes, options.seed),
          .make = [options](const fs::path& folder) { return write_all(folder, options); }};
}

}  // namespace

void check(const GeneratorOptions& options) {
  parameters(options.size, options.dashes);
  if (options.count < 1 || options.count > kMostImages) {
    fail("pathfinder: the number of images is {}, outside 1 ... {}", options.count, kMostImages);
  }
}

fs::path folder_of(int64_t size, int64_t dashes) {
  return fs::path(fmt::format("pathfinder{}", size)) /
         (dashes == 6 ? "curv_baseline" : fmt::format("curv_contour_length_{}", dashes));
}

std::map<std::string, std::string> described(const GeneratorOptions& options) {
  return {{"count", fmt::format("{}", options.count)},
          {"dashes", fmt::format("{}", options.dashes)},
          {"generator", kVersion},
          {"seed", fmt::format("{}", options.seed)},
          {"size", fmt::format("{}", options.size)}};
}

Manifest write_files(const fs::path& folder, const GeneratorOptions& options) {
  check(options);
  return make_data(folder, recipe(options));
}

Ensured ensure_files(const fs::path& folder, const GeneratorOptions& options, const Say& say) {
  check(options);
  return ensure_made(folder, recipe(options), say);
}

}  // namespace bochner::pathfinder

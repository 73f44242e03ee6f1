#include "datasets/pathfinder/pathfinder.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "datasets/making.h"
#include "datasets/pathfinder/metadata.h"
#include "engine/error.h"
#include "engine/io/data_log.h"
#include "engine/io/file.h"
#include "engine/io/png.h"
#include "engine/io/sha256.h"
#include "engine/parallel.h"
#include "engine/random.h"

namespace bochner::pathfinder {
namespace {

namespace fs = std::filesystem;

/// Far more than an image of 256 x 256 can take.
constexpr int64_t kLargestImage = int64_t{1} << 20;
constexpr int64_t kRowsPerRound = 4096;
constexpr int64_t kRowsPerPiece = 16;

/// Whether a manifest says that the images were drawn here. Without one, their origin is unknown.
bool is_made(const fs::path& folder) { return has_manifest(folder) && !is_arena_copy(folder); }

/// The image that is empty in the Long Range Arena's archive.
bool is_published_empty(const fs::path& folder, const std::string& name) {
  return name == "imgs/0/sample_172.png" && !is_made(folder) &&
         fs::absolute(folder).lexically_normal().filename() == "curv_baseline";
}

Tensor decoded(Bytes bytes, int64_t size, std::string_view file) {
  Tensor image = parse_png(bytes, file, size * size);
  const Shape& shape = image.shape();
  if (shape[0] != size || shape[1] != size || shape[2] != 1) {
    fail("the image is {} x {}{}, not {} x {} of grey", shape[1], shape[0], shape[2] == 1 ? "" : " of colours", size,
         size);
  }
  return image;
}

/// The bytes of a row's image after checking them; none for the published empty one.
std::vector<std::byte> read_image(const fs::path& folder, const Row& row, int64_t size) {
  const fs::path path = folder / row.image;
  if (!fs::is_regular_file(path)) row.fail_with("{}: there is no such image", path.string());
  try {
    std::vector<std::byte> bytes = read_file(path, kLargestImage);
    if (bytes.empty()) {
      if (is_published_empty(folder, row.image)) return bytes;
      fail("the file is empty");
    }
    decoded(bytes, size, row.image);
    return bytes;
  } catch (const Error& error) {
    row.fail_with("{}: {}", path.string(), error.what());
  }
}

/// The images that a folder should have.
int64_t expected_in(const fs::path& folder) {
  if (!is_made(folder)) return kPublished;
  int64_t rows = 0;
  for (const ManifestFile& file : read_manifest(folder).files) {
    if (file.name.starts_with("metadata/")) rows += file.rows;
  }
  return rows;
}

class Part final : public Dataset {
 public:
  Part(std::string name, std::shared_ptr<const Images> images, std::vector<int64_t> examples)
      : name_(std::move(name)), images_(std::move(images)), examples_(std::move(examples)) {}

  const std::string& name() const override { return name_; }
  int64_t size() const override { return static_cast<int64_t>(examples_.size()); }
  int64_t length(int64_t example, int) const override {
    image_of(example);
    return images_->size * images_->size;
  }
  void copy_tokens(int64_t example, int, std::span<int64_t> ids) const override {
    const size_t i = image_of(example);
    const auto begin = static_cast<size_t>(images_->offsets[i]);
    const auto end = static_cast<size_t>(images_->offsets[i + 1]);
    const Tensor image = decoded(std::span(images_->png).subspan(begin, end - begin), images_->size, images_->names[i]);
    BOCHNER_ASSERT(static_cast<int64_t>(ids.size()) <= images_->size * images_->size);
    std::copy_n(image.data<uint8_t>(), ids.size(), ids.begin());
  }
  int64_t label(int64_t example) const override { return images_->labels[image_of(example)]; }

 private:
  size_t image_of(int64_t example) const {
    if (example < 0 || example >= size()) fail("{}: example {} lies outside 0 ... {}", name_, example, size() - 1);
    return static_cast<size_t>(examples_[static_cast<size_t>(example)]);
  }

  std::string name_;
  std::shared_ptr<const Images> images_;
  std::vector<int64_t> examples_;
};

std::string task_name(int64_t size) { return size == 128 ? "pathx" : "pathfinder"; }

}  // namespace

std::shared_ptr<const Images> read(const fs::path& folder, const ReadOptions& options, const Say& say) {
  const std::vector<Row> rows = read_metadata(folder);
  const auto count = static_cast<int64_t>(rows.size());
  const int64_t expected = expected_in(folder);
  const char* const those = is_made(folder) ? "the manifest tells of" : "are published";
  if (count > expected) {
    rows[static_cast<size_t>(expected)].fail_with("an image more than the {} that {}; remove what was added", expected,
                                                  those);
  }
  if (count < expected) {
    const std::string what = fmt::format("{} images are listed, of the {} that {}", count, expected, those);
    if (!options.partial.taken) {
      rows.back().fail_with("the list ends here: {}; add the others, or ask for these with {}", what,
                            options.partial.option);
    }
    say(fmt::format("{}: {}: {}", task_name(options.size), folder.string(), what));
  }
  auto images = std::make_shared<Images>();
  images->size = options.size;
  images->offsets.push_back(0);
  Sha256 hash;
  for (int64_t first = 0; first < count; first += kRowsPerRound) {
    const int64_t size = std::min(kRowsPerRound, count - first);
    std::vector<std::vector<std::byte>> files(static_cast<size_t>(size));
    parallel_for(size, kRowsPerPiece, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        files[static_cast<size_t>(i)] = read_image(folder, rows[static_cast<size_t>(first + i)], options.size);
      }
    });
    for (int64_t i = 0; i < size; ++i) {
      const Row& row = rows[static_cast<size_t>(first + i)];
      const std::vector<std::byte>& file = files[static_cast<size_t>(i)];
      if (file.empty()) {
        say(fmt::format("{}: {} is empty, as published; it is left out", row.where(), row.image));
        ++images->left_out;
        continue;
      }
      images->png.insert(images->png.end(), file.begin(), file.end());
      images->offsets.push_back(static_cast<int64_t>(images->png.size()));
      images->labels.push_back(static_cast<uint8_t>(row.label));
      images->names.push_back(row.image);
    }
  }
  if (DataLog::is_active()) {
    hash.update(images->png);
    hash.update(std::as_bytes(std::span(images->labels)));
    const auto bytes = static_cast<int64_t>(images->png.size() + images->labels.size());
    DataLog::add({.name = folder.string(), .bytes = bytes, .sha256 = hash.hex()});
  }
  return images;
}

Task task(const TaskOptions& options) {
  return {.name = task_name(options.read.size),
          .classes = 2,
          .vocabulary = 256,
          .max_length = options.read.size * options.read.size,
          .image_width = options.read.size};
}

ArenaFolder find(const fs::path& data, int64_t size, int64_t dashes) {
  const fs::path below = folder_of(size, dashes);
  const bool published =
      (size == 32 || size == 64 || size == 128 || size == 256) && (dashes == 6 || dashes == 9 || dashes == 14);
  const ArenaFolder own{data / below};
  if (!published || holds_anything(own.folder) || holds_finished(own.folder)) return own;
  return arena_folder(data, below.string()).value_or(own);
}

std::string make_command(int64_t size, const std::string& difficulty, const std::string& data) {
  return fmt::format("./run data make pathfinder --size={} --difficulty={} --data={}", size, difficulty, data);
}

std::string remedy(const std::string& make) {
  return fmt::format(
      "put the Long Range Arena's there (imgs and metadata of its folder of that name), or its archive {} as it is "
      "into the folder of all data (--data), or make some with {}",
      kArenaArchive, make);
}

TaskData load_task(const TaskOptions& options, const Say& say) {
  const fs::path& folder = options.place.folder;
  const fs::path below = folder.parent_path().filename() / folder.filename();
  const std::vector<std::string> parts = {"imgs", "metadata"};
  // Images whose manifest is not there yet would be taken for published ones.
  Recipe unfinished;
  unfinished.dataset = task_name(options.read.size);
  unfinished.parts = parts;
  finish_moving(folder, unfinished, say);
  // Twice the bytes of the pixels and two blocks of 4 KiB for each image, as PNG makes grey images smaller.
  const int64_t most_bytes = kPublished * (2 * options.read.size * options.read.size + 8192);
  copy_from_arena(options.place, {below.string(), parts, "two folders imgs and metadata", most_bytes}, say);
  if (!fs::is_directory(folder / "metadata")) {
    fail("{}: there are no images; {}", folder.string(), remedy(options.make));
  }
  const std::shared_ptr<const Images> images = read(folder, options.read, say);
  const int64_t count = images->count();
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  if (options.split == Split::shuffled) {
    Generator random(options.seed);
    const Tensor shuffled = permutation(count, random);
    std::copy_n(shuffled.data<int64_t>(), count, order.begin());
  }
  const int64_t train = count * 8 / 10;
  const int64_t valid = count / 10;
  if (train < 1 || valid < 1) fail("{}: {} images are too few to be split", folder.string(), count);
  TaskData data;
  data.task = task(options);
  const auto part = [&](const char* name, int64_t begin, int64_t end) {
    return std::make_shared<Part>(data.task.name + " " + name, images,
                                  std::vector<int64_t>(order.begin() + begin, order.begin() + end));
  };
  data.train = part("train", 0, train);
  data.valid = part("valid", train, train + valid);
  data.test = part("test", train + valid, count);
  if (is_made(folder)) {
    data.remarks.push_back(fmt::format("{} images that were made here, not the published ones", count));
  } else if (count + images->left_out < kPublished) {
    data.remarks.push_back(has_manifest(folder)
                               ? fmt::format("only {} of the {} published images", count, kPublished)
                               : fmt::format("{} images of unknown origin, as they have no manifest; {} are published",
                                             count, kPublished));
  }
  say(fmt::format(
      "{}: {} + {} + {} images in {}, {}", data.task.name, train, valid, count - train - valid, folder.string(),
      options.split == Split::arena ? "in their order" : fmt::format("shuffled with seed {}", options.seed)));
  return data;
}

}  // namespace bochner::pathfinder

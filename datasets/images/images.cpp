#include "datasets/images/images.h"

#include <algorithm>
#include <cmath>

#include "engine/error.h"
#include "engine/io/archive.h"
#include "engine/io/idx.h"
#include "engine/nearest.h"

namespace bochner::images {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kDigits = 10;  // classes of MNIST and of sets with its layout

Images empty_like(const Images& images) {
  return {.channels = images.channels, .side = images.side, .pixels = {}, .labels = {}};
}

/// The images of the classes `kept`; class kept[k] becomes class k.
Images those_of(const Images& images, const std::vector<size_t>& kept) {
  Images chosen = empty_like(images);
  for (int64_t i = 0; i < images.count(); ++i) {
    const auto found = std::find(kept.begin(), kept.end(), images.labels[static_cast<size_t>(i)]);
    if (found != kept.end()) chosen.add(images, i, static_cast<uint8_t>(found - kept.begin()));
  }
  return chosen;
}

/// The file in `folder`, plain or packed.
fs::path found(const fs::path& folder, const std::string& name, const std::string& how) {
  if (const auto path = find_packed(folder / name)) return *path;
  fail("mnist: {} is missing, plain or packed (.gz, .zst); {}", (folder / name).string(), how);
}

Images read_idx_set(const fs::path& folder, const std::string& name, const std::string& how) {
  const fs::path images_file = found(folder, name + "-images-idx3-ubyte", how);
  const fs::path labels_file = found(folder, name + "-labels-idx1-ubyte", how);
  const Tensor pixels = read_idx(images_file);
  const Tensor labels = read_idx(labels_file);
  if (pixels.rank() != 3 || labels.rank() != 1 || pixels.size(0) != labels.size(0) || pixels.size() == 0 ||
      pixels.dtype() != DType::u8 || labels.dtype() != DType::u8 || pixels.size(1) != pixels.size(2)) {
    fail("{}: images {} and labels {} of {}; they must be bytes (n, side, side) and (n)", images_file.string(),
         pixels.str(), labels.str(), labels_file.string());
  }
  Images images{.channels = 1,
                .side = pixels.size(1),
                .pixels = pixels.to_vector<uint8_t>(),
                .labels = labels.to_vector<uint8_t>()};
  for (size_t i = 0; i < images.labels.size(); ++i) {
    if (images.labels[i] >= kDigits) {
      fail("{}: label {}, counted from 0, is {}; there are 0 to {}", labels_file.string(), i, images.labels[i],
           kDigits - 1);
    }
  }
  return images;
}

}  // namespace

void Images::add(const Images& from, int64_t i, uint8_t label) {
  BOCHNER_ASSERT(from.channels == channels && from.side == side);
  pixels.insert(pixels.end(), from.image(i), from.image(i) + from.bytes_of_one());
  labels.push_back(label);
}

ImageSets of_classes(const ImageSets& sets, const std::vector<std::string>& classes) {
  if (classes.empty()) return sets;
  if (classes.size() < 2) fail("classes: {} alone leaves nothing to tell apart", classes.front());
  std::vector<size_t> kept;
  for (const std::string& name : classes) {
    const auto found = std::find(sets.classes.begin(), sets.classes.end(), name);
    if (found == sets.classes.end()) fail("classes: there is no class '{}'; there are {}", name, listed(sets.classes));
    const auto number = static_cast<size_t>(found - sets.classes.begin());
    if (std::find(kept.begin(), kept.end(), number) != kept.end()) fail("classes: {} comes twice", name);
    kept.push_back(number);
  }
  ImageSets chosen{.train = those_of(sets.train, kept),
                   .valid = those_of(sets.valid, kept),
                   .test = those_of(sets.test, kept),
                   .classes = classes,
                   .remarks = sets.remarks};
  chosen.remarks.push_back(fmt::format("of {} classes only {}: {}; tested on {} images", sets.classes.size(),
                                       classes.size(), listed(classes), chosen.test.count()));
  return chosen;
}

ImageSets hold_out(ImageSets sets, double share) {
  const Images all = std::move(sets.train);
  sets.train = empty_like(all);
  sets.valid = empty_like(all);
  std::vector<int64_t> seen(sets.classes.size());
  for (int64_t i = 0; i < all.count(); ++i) {
    const uint8_t label = all.labels[static_cast<size_t>(i)];
    const auto n = static_cast<double>(seen[label]++);
    const bool validates = std::floor((n + 1) * share) > std::floor(n * share);
    (validates ? sets.valid : sets.train).add(all, i, label);
  }
  if (sets.train.count() == 0 || sets.valid.count() == 0) {
    fail("{} training images are too few to hold {} of each class out for validation", all.count(), share);
  }
  return sets;
}

ImageSets first_of_each(ImageSets sets, int64_t each) {
  if (each == 0) return sets;
  const Images all = std::move(sets.train);
  sets.train = empty_like(all);
  std::vector<int64_t> seen(sets.classes.size());
  for (int64_t i = 0; i < all.count(); ++i) {
    const uint8_t label = all.labels[static_cast<size_t>(i)];
    if (seen[label]++ < each) sets.train.add(all, i, label);
  }
  for (size_t label = 0; label < seen.size(); ++label) {
    if (seen[label] < each) fail("there are {} training images of {}, not {}", seen[label], sets.classes[label], each);
  }
  sets.remarks.push_back(fmt::format("learnt from the first {} training images of each class", each));
  return sets;
}

ImageSets read_mnist(const fs::path& data, const std::string& name) {
  const fs::path folder = fs::is_directory(data / name) ? data / name : data;
  const std::string how =
      name == "fashion-mnist"
          ? "./run data make fashion-mnist --data DIR fetches Fashion-MNIST into DIR/fashion-mnist"
          : "name the folder of the four IDX files with --data; ./run data check says where they come from";
  ImageSets sets{.train = read_idx_set(folder, "train", how),
                 .valid = {},
                 .test = read_idx_set(folder, "t10k", how),
                 .classes = {},
                 .remarks = {}};
  if (sets.test.side != sets.train.side) {
    fail("{}: test images have {} pixels, training images {}", folder.string(), sets.test.bytes_of_one(),
         sets.train.bytes_of_one());
  }
  for (int64_t i = 0; i < kDigits; ++i) sets.classes.push_back(std::to_string(i));
  return sets;
}

}  // namespace bochner::images

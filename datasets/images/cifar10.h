// CIFAR-10 (Krizhevsky, 2009): which of ten things does a picture of 32 x 32 pixels show? Either in colour, or as the
// task Image of the Long Range Arena: in grey, pixel by pixel, row by row, 1,024 tokens.
//
//   const ImageSets sets = images::read_cifar10({.folder = "data/cifar10"});
//   const TaskData data = images::load_task({.folder = "data/cifar10"}, say);
//
// The files are those of the binary version: data_batch_1.bin ... data_batch_5.bin and test_batch.bin, plain or packed
// with gzip or Zstandard, in the folder or in its folder cifar-10-batches-bin; or cifar-10-binary.tar.gz (or .tar,
// .tar.zst, .zip) as it is. A token is a grey value, 0 ... 255; 0 is black and real, as masks come from lengths.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "datasets/catalogue.h"
#include "datasets/images/images.h"
#include "datasets/making.h"
#include "datasets/partial.h"
#include "datasets/task.h"
#include "engine/io/stream.h"

namespace bochner::images {

inline constexpr int64_t kSide = 32;  // pixels in a row
inline constexpr int64_t kPixels = kSide * kSide;
inline constexpr int64_t kClasses = 10;
/// A record: the class, then the planes of red, green and blue.
inline constexpr int64_t kRecordBytes = 1 + 3 * kPixels;
inline constexpr int64_t kPublishedTrain = 50'000;
inline constexpr int64_t kPublishedTest = 10'000;

/// The luminance of TensorFlow's rgb_to_grayscale on bytes, by which the Long Range Arena and SKY make their images
/// grey: 0.2989 R + 0.5870 G + 0.1140 B of values up to 1, times 255.5, cut to an integer. It is computed exactly,
/// whereas theirs rounds.
constexpr uint8_t grey(uint8_t red, uint8_t green, uint8_t blue) {
  return static_cast<uint8_t>(511 * (2989 * red + 5870 * green + 1140 * blue) / (510 * 10'000));
}

/// Adds the records of a file. A class above 9, half a record and more than 10,000 records are Errors that name the
/// file, the record and the offset.
void read_records(ByteSource& source, Images& images);

struct TaskOptions {
  std::filesystem::path folder = {};
  /// Take fewer training images than are published; fewer test images are always accepted, with a remark.
  Partial partial = {};
};

/// Where to get the files, for an Error and `data check` that name the folder first.
std::string cifar10_remedy();
/// Compares the training files in `data`, which holds the folder cifar10, with the published ones: an entry for each,
/// or a single one if their archive cannot be read.
std::vector<CheckedFile> check_cifar10(const std::filesystem::path& data, const std::vector<KnownFile>& files);
/// Whether the folder holds a test file, or the archive.
bool has_cifar10_test(const std::filesystem::path& folder);

/// The names of its classes.
const std::vector<std::string>& cifar10_classes();

/// All training images and all test images, in colour and in the order of their files. The remarks say if there are
/// fewer than published. An Error says what is missing and what to do.
ImageSets read_cifar10(const TaskOptions& options);

/// What a model must know of the data, without loading them.
Task task();
/// The task with its data: the first nine tenths of the training images are for training, the others for validation, as
/// in the Long Range Arena and SKY. The remarks say if a test file has fewer images than published.
TaskData load_task(const TaskOptions& options, const Say& say);

}  // namespace bochner::images

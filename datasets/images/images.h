// Square images of bytes, each with a class, and how they are divided into sets.
//
//   ImageSets sets = read_cifar10({.folder = "data/cifar10"});
//   sets = hold_out(of_classes(sets, {"cat", "dog"}), 0.1);        // a tenth of each class validates
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace bochner::images {

struct Images {
  int64_t channels = 3;
  int64_t side = 32;            ///< height and width, in pixels
  std::vector<uint8_t> pixels;  ///< (count, channels, side, side)
  std::vector<uint8_t> labels;  ///< (count), below the number of classes

  int64_t count() const { return static_cast<int64_t>(labels.size()); }
  int64_t bytes_of_one() const { return channels * side * side; }
  const uint8_t* image(int64_t i) const { return pixels.data() + i * bytes_of_one(); }
  /// Adds a copy of image i of another set with the same channels and size, with this label.
  void add(const Images& from, int64_t i, uint8_t label);
};

struct ImageSets {
  Images train;
  Images valid;  ///< empty until hold_out()
  Images test;
  std::vector<std::string> classes;  ///< their names
  std::vector<std::string> remarks;  ///< on the data, to report with every result
};

/// Only the images of these classes, which are renumbered in this order; a remark names the classes and says how many
/// test images are left. No names: all classes. An Error for an unknown or repeated class, and for a single one.
ImageSets of_classes(const ImageSets& sets, const std::vector<std::string>& classes);

/// Moves every (1 / share)-th training image of each class to the validation set: image n of a class, from 0, if
/// floor((n + 1) share) > floor(n share). An Error if nothing is left for one of the two sets.
ImageSets hold_out(ImageSets sets, double share);

/// Only the first `each` training images of each class; 0: all. A remark says so. An Error if a class has fewer.
ImageSets first_of_each(ImageSets sets, int64_t each);

/// MNIST or Fashion-MNIST: four IDX files, plain or packed, in the folder data/`name`, else in data itself. Their
/// classes are called 0 to 9. An Error says what is missing and what to do.
ImageSets read_mnist(const std::filesystem::path& data, const std::string& name);

}  // namespace bochner::images

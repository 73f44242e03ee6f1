// Prepares images of bytes for a model: they are resized to the size that it needs, scaled and standardised, as
// preprocessor_config.json of Hugging Face's ViTImageProcessor says, and in training randomly shifted and mirrored.
//
//   const Preparation preparation = read_preparation(folder, options.image, options.channels);
//   const Tensor pixels = prepared(images, {0, 1, 2}, preparation);              // f32 (3, channels, side, side)
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "datasets/images/images.h"
#include "datasets/images/resize.h"
#include "engine/random.h"
#include "engine/tensor.h"

namespace bochner::images {

/// The defaults are those of ViT's.
struct Preparation {
  int64_t side = 224;    ///< height and width that the model needs
  int64_t channels = 3;  ///< likewise; grey images are repeated
  Filter filter = Filter::bilinear;
  double scale = 1.0 / 255;                         ///< of bytes
  std::vector<double> mean = {0.5, 0.5, 0.5};       ///< of each channel, or one for all: subtracted after scaling
  std::vector<double> deviation = {0.5, 0.5, 0.5};  ///< likewise; divided by
};

/// Reads preprocessor_config.json of the folder for a model of these sizes; the defaults if there is none. An Error
/// names what is not supported, or a size other than the model's.
Preparation read_preparation(const std::filesystem::path& folder, int64_t side, int64_t channels);
/// The text of that file.
std::string preparation_text(const Preparation& preparation);

/// Random changes of a training image, drawn anew in each epoch (He et al., 2016, section 4.2): it is padded with
/// `crop` black pixels on each side, and a random part of the original size is cut out; half of the images are
/// mirrored.
struct Augmentation {
  int64_t crop = 0;
  bool flip = false;

  bool is_any() const { return crop > 0 || flip; }
};

/// The changes drawn for one image.
struct Change {
  int64_t down = 0;   ///< row y of the result is row y + down of the image
  int64_t right = 0;  ///< likewise columns
  bool mirrored = false;
};
Change drawn(const Augmentation& augmentation, Generator generator);

/// The images with these numbers: changed, resized, then (scale x - mean) / deviation: f32 (n, channels, side, side).
/// `changes` has one entry for each image, or is empty. An Error if a model of one channel is given colour.
Tensor prepared(const Images& images, const std::vector<int64_t>& numbers, const Preparation& preparation,
                const std::vector<Change>& changes = {});

}  // namespace bochner::images

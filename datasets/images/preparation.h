// What is done to images of bytes before a model sees them: made as large as it wants them, scaled and standardised, as
// preprocessor_config.json of Hugging Face's ViTImageProcessor says; and in training moved and mirrored at random.
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
  int64_t side = 224;    ///< height and width that the model wants
  int64_t channels = 3;  ///< likewise; grey images are repeated
  Filter filter = Filter::bilinear;
  double scale = 1.0 / 255;                         ///< of bytes
  std::vector<double> mean = {0.5, 0.5, 0.5};       ///< of each channel, or one for all: subtracted then
  std::vector<double> deviation = {0.5, 0.5, 0.5};  ///< likewise; divided by
};

/// preprocessor_config.json of the folder for a model of these sizes, the defaults where there is none. An Error names
/// what is not known here, and a size other than the model's.
Preparation read_preparation(const std::filesystem::path& folder, int64_t side, int64_t channels);
/// The text of that file.
std::string preparation_text(const Preparation& preparation);

/// What a training image is changed by, each epoch anew (He et al., 2016, section 4.2): `crop` pixels of black are put
/// around it, and a part of its own size is cut out anywhere; half of the images are mirrored.
struct Augmentation {
  int64_t crop = 0;
  bool flip = false;

  bool is_any() const { return crop > 0 || flip; }
};

/// What is drawn for one image.
struct Change {
  int64_t down = 0;   ///< row y of the result is row y + down of the image
  int64_t right = 0;  ///< likewise columns
  bool mirrored = false;
};
Change drawn(const Augmentation& augmentation, Generator generator);

/// Images of these numbers: changed, resized, then (scale x - mean) / deviation in f32.  f32 (n, channels, side, side)
/// `changes` has one for each of them, or none. An Error where colour is given to a model of one channel.
Tensor prepared(const Images& images, const std::vector<int64_t>& numbers, const Preparation& preparation,
                const std::vector<Change>& changes = {});

}  // namespace bochner::images

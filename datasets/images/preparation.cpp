#include "datasets/images/preparation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/error.h"
#include "engine/io/json_file.h"
#include "engine/parallel.h"

namespace bochner::images {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr int64_t kLargestConfig = int64_t{1} << 20;
constexpr int64_t kLargestSide = int64_t{1} << 14;
constexpr int64_t kBilinear = 2, kBicubic = 3;  // Pillow's numbers

/// One number for each channel.
std::vector<double> per_channel(const JsonMembers& members, const std::string& path, const char* name, int64_t channels,
                                double otherwise) {
  const json* found = members.find(name);
  if (found == nullptr) return std::vector<double>(static_cast<size_t>(channels), otherwise);
  if (!found->is_array() || std::ssize(*found) != channels) {
    fail("{}: {} is {}, but the model has {} channels", path, name, brief(*found), channels);
  }
  std::vector<double> values;
  for (const json& value : *found) {
    if (!value.is_number()) fail("{}: {} holds {}, which is no number", path, name, brief(value));
    values.push_back(value.get<double>());
  }
  return values;
}

/// `size`: a number, or an object of height and width. 0 if there is none.
int64_t side_in(const JsonMembers& members, const std::string& path) {
  const json* found = members.find("size");
  if (found == nullptr || found->is_number()) return members.number("size", 1, kLargestSide, 0);
  if (!found->is_object()) fail("{}: size is {}, neither a number nor height and width", path, brief(*found));
  const JsonMembers size(*found, path + ": size");
  const int64_t height = size.number("height", 1, kLargestSide, 0);
  if (height == 0 || height != size.number("width", 1, kLargestSide, 0))
    fail("{}: size is {}; known here are an equal height and width", path, brief(*found));
  return height;
}

/// The changed image, as bytes.
void change(const uint8_t* in, const Images& images, const Change& change, uint8_t* out) {
  const int64_t side = images.side;
  for (int64_t c = 0; c < images.channels; ++c, in += side * side) {
    for (int64_t y = 0; y < side; ++y) {
      for (int64_t x = 0; x < side; ++x) {
        const int64_t row = y + change.down;
        const int64_t column = (change.mirrored ? side - 1 - x : x) + change.right;
        const bool inside = row >= 0 && row < side && column >= 0 && column < side;
        *out++ = inside ? in[row * side + column] : 0;
      }
    }
  }
}

/// What each byte becomes in each channel, rounded where transformers rounds.
std::vector<std::array<float, 256>> values_of_bytes(const Preparation& preparation) {
  std::vector<std::array<float, 256>> values(static_cast<size_t>(preparation.channels));
  for (size_t c = 0; c < values.size(); ++c) {
    const auto mean = static_cast<float>(preparation.mean[c]);
    const auto deviation = static_cast<float>(preparation.deviation[c]);
    for (size_t byte = 0; byte < values[c].size(); ++byte) {
      const auto scaled = static_cast<float>(static_cast<double>(byte) * preparation.scale);
      values[c][byte] = (scaled - mean) / deviation;
    }
  }
  return values;
}

}  // namespace

Preparation read_preparation(const std::filesystem::path& folder, int64_t side, int64_t channels) {
  Preparation preparation{.side = side, .channels = channels};
  preparation.mean.assign(static_cast<size_t>(channels), 0.5);
  preparation.deviation.assign(static_cast<size_t>(channels), 0.5);
  const std::filesystem::path file = folder / "preprocessor_config.json";
  if (!std::filesystem::exists(file)) return preparation;
  const std::string path = file.string();
  const json root = read_json_object(file, kLargestConfig);
  const JsonMembers members(root, path);
  for (const char* name : {"do_center_crop", "do_pad"}) {
    if (members.flag(name, false)) fail("{}: {} is true, which is not known here", path, name);
  }
  if (!members.flag("do_resize", true)) fail("{}: do_resize is false, which is not known here", path);
  const int64_t written = side_in(members, path);
  if (written != 0 && written != side) {
    fail("{}: images of {} pixels, but config.json beside it says image_size {}", path, written, side);
  }
  const int64_t resample = members.number("resample", 0, 5, kBilinear);
  if (resample != kBilinear && resample != kBicubic) {
    fail("{}: resample is {}; known here are {} (bilinear) and {} (bicubic)", path, resample, kBilinear, kBicubic);
  }
  preparation.filter = resample == kBicubic ? Filter::bicubic : Filter::bilinear;
  if (members.flag("do_rescale", true)) {
    preparation.scale = members.real("rescale_factor", 0, 1, preparation.scale);
  } else {
    preparation.scale = 1;
  }
  const bool normalises = members.flag("do_normalize", true);
  preparation.mean = per_channel(members, path, "image_mean", channels, 0.5);
  preparation.deviation = per_channel(members, path, "image_std", channels, 0.5);
  if (!normalises) {
    std::fill(preparation.mean.begin(), preparation.mean.end(), 0.0);
    std::fill(preparation.deviation.begin(), preparation.deviation.end(), 1.0);
  }
  for (const double deviation : preparation.deviation) {
    if (!(static_cast<float>(deviation) > 0)) fail("{}: image_std must be above 0", path);
  }
  for (const std::vector<double>* values : {&preparation.mean, &preparation.deviation}) {
    if (!std::ranges::all_of(*values, [](double value) { return std::isfinite(static_cast<float>(value)); }))
      fail("{}: image_mean or image_std is too large for float32", path);
  }
  return preparation;
}

std::string preparation_text(const Preparation& preparation) {
  ordered_json config;
  config["image_processor_type"] = "ViTImageProcessor";
  config["do_resize"] = true;
  config["size"] = {{"height", preparation.side}, {"width", preparation.side}};
  config["resample"] = preparation.filter == Filter::bicubic ? kBicubic : kBilinear;
  config["do_rescale"] = true;
  config["rescale_factor"] = preparation.scale;
  config["do_normalize"] = true;
  config["image_mean"] = preparation.mean;
  config["image_std"] = preparation.deviation;
  return config.dump(2) + "\n";
}

Change drawn(const Augmentation& augmentation, Generator generator) {
  Change change;
  if (augmentation.crop > 0) {
    change.down = generator.below(2 * augmentation.crop + 1) - augmentation.crop;
    change.right = generator.below(2 * augmentation.crop + 1) - augmentation.crop;
  }
  change.mirrored = augmentation.flip && generator.below(2) == 1;
  return change;
}

Tensor prepared(const Images& images, const std::vector<int64_t>& numbers, const Preparation& preparation,
                const std::vector<Change>& changes) {
  BOCHNER_ASSERT(changes.empty() || changes.size() == numbers.size());
  if (images.channels != 1 && images.channels != preparation.channels) {
    fail("images of {} channels for a model of {}", images.channels, preparation.channels);
  }
  const int64_t side = preparation.side;
  const int64_t plane = side * side;
  const auto count = static_cast<int64_t>(numbers.size());
  const Resizer resizer(images.side, side, preparation.filter);
  const Tensor pixels = Tensor::empty({count, preparation.channels, side, side}, DType::f32);
  auto* const all = pixels.data<float>();
  const std::vector<std::array<float, 256>> values = values_of_bytes(preparation);
  parallel_for(count, 1, [&](int64_t begin, int64_t end) {
    std::vector<uint8_t> changed(static_cast<size_t>(images.bytes_of_one()));
    std::vector<uint8_t> resized(static_cast<size_t>(images.channels * plane));
    for (int64_t i = begin; i < end; ++i) {
      const uint8_t* image = images.image(numbers[static_cast<size_t>(i)]);
      if (!changes.empty()) {
        change(image, images, changes[static_cast<size_t>(i)], changed.data());
        image = changed.data();
      }
      resizer.run(image, images.channels, resized.data());
      for (int64_t c = 0; c < preparation.channels; ++c) {
        const uint8_t* const from = resized.data() + (images.channels == 1 ? 0 : c * plane);
        float* const to = all + (i * preparation.channels + c) * plane;
        const std::array<float, 256>& value = values[static_cast<size_t>(c)];
        for (int64_t k = 0; k < plane; ++k) to[k] = value[from[k]];
      }
    }
  });
  return pixels;
}

}  // namespace bochner::images

#include "datasets/pathfinder/samples.h"

#include <algorithm>

#include "datasets/pathfinder/drawing.h"

namespace bochner::pathfinder {
namespace {

constexpr int64_t kOfEachLabel = 4;
constexpr int64_t kSmallest = 96;  ///< pixels of an image in the picture
constexpr int64_t kLine = 2;       ///< pixels between images; as many again between the labels
constexpr uint8_t kGrey = 128;

}  // namespace

Tensor samples(int64_t size, uint64_t seed) {
  const char* const difficulties[] = {"easy", "intermediate", "hard"};
  const int64_t enlarged = std::max<int64_t>(1, kSmallest / size);
  const int64_t step = size * enlarged + kLine;
  const int64_t rows = std::size(difficulties);
  const int64_t width = 2 * kOfEachLabel * step + kLine;
  const Tensor picture = Tensor::full({rows * step - kLine, width}, kGrey, DType::u8);
  auto* to = picture.data<uint8_t>();
  for (int64_t row = 0; row < rows; ++row) {
    const Parameters p = parameters(size, dashes_of(size, difficulties[row]));
    int64_t placed[2] = {0, 0};
    for (uint64_t i = 0; placed[0] < kOfEachLabel || placed[1] < kOfEachLabel; ++i) {
      const Drawing drawing = draw(p, Generator(seed).fork(i));
      int64_t& place = placed[drawing.label];
      if (place == kOfEachLabel) continue;
      const int64_t left = drawing.label == 1 ? place * step : (kOfEachLabel + place) * step + kLine;
      ++place;
      const std::vector<uint8_t> pixels = render(drawing);
      for (int64_t y = 0; y < size * enlarged; ++y) {
        for (int64_t x = 0; x < size * enlarged; ++x) {
          to[(row * step + y) * width + left + x] = pixels[static_cast<size_t>(y / enlarged * size + x / enlarged)];
        }
      }
    }
  }
  return picture;
}

}  // namespace bochner::pathfinder

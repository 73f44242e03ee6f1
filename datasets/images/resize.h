// Resizes images of bytes, bit for bit as Pillow 13.0.0 does, which transformers uses to prepare images.
//
//   const Resizer to_224(32, 224, Filter::bilinear);
//   to_224.run(plane, 3, resized);
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace bochner::images {

enum class Filter : unsigned char {
  bilinear,  ///< f(t) = 1 - |t| up to 1
  bicubic  ///< Keys (1981) with a = -1/2: 1.5 |t|^3 - 2.5 |t|^2 + 1 up to 1, -0.5 |t|^3 + 2.5 |t|^2 - 4 |t| + 2 up to 2
};

/// From squares of `from` pixels a side to squares of `to`. With s = from / to and r = max(1, s), pixel i is
///   y_i = sum_j w_ij x_j,   w_ij = f((j + 1/2 - c_i) / r) / sum_j f((j + 1/2 - c_i) / r),   c_i = (i + 1/2) s,
/// over all pixels j of the image: first along rows, then along columns, each time with weights in units of 2^-22,
/// rounded to a byte and clamped to 0 ... 255. When images get smaller, the filter is wider, so that no pixel is left
/// out.
class Resizer {
 public:
  /// An Error for a size below 1.
  Resizer(int64_t from, int64_t to, Filter filter);
  /// (planes, from, from) -> (planes, to, to). May be called by several threads at once.
  void run(const uint8_t* in, int64_t planes, uint8_t* out) const;

 private:
  int64_t from_;
  int64_t to_;
  int64_t most_ = 0;             ///< weights of one pixel
  std::vector<int64_t> first_;   ///< (to): the first pixel j with a weight
  std::vector<int64_t> count_;   ///< (to): how many have one
  std::vector<int32_t> weight_;  ///< (to, most): in units of 2^-22
};

}  // namespace bochner::images

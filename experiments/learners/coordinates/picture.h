// The picture to fit: a grey image with its derivatives.
#pragma once

#include <string>
#include <vector>

#include "engine/tensor.h"

namespace bochner::siren {

/// A grey image whose pixels are the values of a function on [-1, 1]^2, rows along the first coordinate.
struct Picture {
  Tensor values;     ///< f32 (height, width), in [-1, 1]
  Tensor gradient;   ///< f32 (height, width, 2): central differences per unit of the coordinates
  Tensor laplacian;  ///< f32 (height, width): from the four neighbours; derivatives are 0 at the outermost pixels

  int64_t height() const { return values.size(0); }
  int64_t width() const { return values.size(1); }
  int64_t pixels() const { return values.size(); }
  /// (pixels, 2)
  Tensor coordinates() const;
};

/// A still life by formula: a shaded ball and its shadow, rings, stripes that grow finer, tiles. size x size pixels.
Picture still_life(int64_t size);
/// Dead leaves: discs that hide one another, with radii r of density r^-3 from 1/50 to 1/2, each disc a grey with a
/// linear slope. Like photographs on average, such pictures have edges at every scale and a spectrum that falls as 1 /
/// frequency (Ruderman, 1997; Lee, Mumford & Huang, 2001), so a network cannot fit them to the last pixel. size x size
/// pixels, each the mean of 16 samples; the leaves are the same at every size.
Picture dead_leaves(int64_t size);
/// Any PNG; colours become luma (Rec. 601). An Error if it is smaller than 3 x 3.
Picture read_picture(const std::string& file);

/// 10 log10(peak^2 / mean squared error) of two lists of the same length, in dB.
double psnr(const std::vector<double>& values, const std::vector<double>& truths, double peak);
/// 10 log10(peak^2 / mean squared error) of two fields of the same shape, in dB. Pixels within `margin` of the border
/// do not count.
double psnr(const Tensor& field, const Tensor& truth, double peak, int64_t margin = 0);

}  // namespace bochner::siren

// Pictures of Pathfinder: two long contours of dashes among short ones, and two discs, each at an end of a long
// contour. Do both discs lie on the same contour? (Linsley et al., "Learning long-range spatial dependencies with
// horizontal gated recurrent units", NeurIPS 2018; Kim et al., ICLR 2020; in the Long Range Arena since Tay et al.,
// ICLR 2021.)
//
//   const Drawing drawing = draw(parameters(32, dashes_of(32, "hard")), Generator(0).fork(7));
//   const std::vector<uint8_t> pixels = render(drawing);          // 32 x 32, row by row
//
// A contour is a chain of straight dashes. The next dash begins `margin` behind a pivot that lies `margin` behind the
// end of the last one, and turns by an angle of density cos^2(min(continuity * angle, pi / 2)):
//
//   from ----------- to    (margin)  pivot  (margin)    from ----------- to
//
// Dashes that do not follow each other keep 2 * margin + thickness between their centre lines, so a walk from dash to
// dash over gaps of up to 2 * margin stays on one contour. This makes the label well defined.
//
// Everything is computed in integers, 64 units to a pixel, so the same stream gives the same picture on any machine.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/random.h"

namespace bochner::pathfinder {

inline constexpr int64_t kUnits = 64;  ///< of length in a pixel

/// The number of dashes of a contour: 6, 9 and 14 for `easy`, `intermediate` and `hard`; 3, 4 and 5 in pictures of 16
/// pixels, and linearly interpolated between 16 and 32 pixels. A number from 2 to 14 is taken as it is, and anything
/// else is an Error. The Long Range Arena reports `hard`.
int64_t dashes_of(int64_t size, std::string_view difficulty);

/// How pictures are drawn; lengths in units, contrasts in percent.
struct Parameters {
  int64_t size = 32;  ///< of the picture, in pixels
  int64_t padding = 0;
  int64_t seed_distance = 0;
  std::vector<int64_t> margins;  ///< one of these, chosen for each picture
  int64_t paddle_length = 0;     ///< of a dash
  int64_t thickness = 0;
  int64_t marker_radius = 0;      ///< of a disc
  int64_t contour_length = 0;     ///< dashes of each of the two contours
  int64_t distractor_length = 0;  ///< dashes of each other contour
  int64_t distractors = 0;        ///< other contours, at most; only as many as there is room for
  double continuity = 1;
  int64_t contour_contrast = 100;     ///< of the two contours; discs have 100
  int64_t distractor_contrast = 100;  ///< of the others
};

/// For 32, 64, 128 and 256 pixels, the parameters of the Long Range Arena for the generator of Linsley et al. Sizes 16,
/// 20, 24 and 28 are ours: they have the parameters of 32, but contours that begin closer to each other, and fewer
/// dashes of all other contours together, both in proportion to the size. An Error for other sizes.
Parameters parameters(int64_t size, int64_t dashes);

struct Point {
  int64_t x = 0, y = 0;
  bool operator==(const Point&) const = default;
};

struct Dash {
  Point from, to;
  bool operator==(const Dash&) const = default;
};

struct Drawing {
  Parameters parameters;
  int64_t margin = 0;
  /// First the two long ones, then the others; dashes in the order in which they follow each other.
  std::vector<std::vector<Dash>> contours;
  std::array<Point, 2> discs;
  int label = 0;  ///< 1 if both discs lie on the same contour
};

/// Whether the two dashes are at least that far from each other.
bool apart(const Dash& a, const Dash& b, int64_t distance);

/// Draws a picture with the numbers of a random stream. Labels 0 and 1 are equally likely.
Drawing draw(const Parameters& parameters, Generator random);

/// The picture before smoothing, with `scale` x `scale` points to a pixel: 255 inside a dash or disc, else 0.
std::vector<uint8_t> strokes(const Drawing& drawing, int64_t scale);

/// The picture: size * size values of grey. It is drawn twice as large, reduced with a Lanczos filter, and stretched so
/// that its darkest point is 0 and its brightest 255, like the published ones.
std::vector<uint8_t> render(const Drawing& drawing);

}  // namespace bochner::pathfinder

#include "datasets/pathfinder/drawing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <numeric>

#include "engine/io/sha256.h"
#include "engine/sanitizer.h"
#include "tests/message_of.h"

namespace bochner::pathfinder {
namespace {

constexpr const char* kDifficulties[] = {"easy", "intermediate", "hard"};
constexpr uint64_t kPictures = kAddressSanitizer ? 30 : 500;

Drawing picture(int64_t size, const std::string& difficulty, uint64_t number) {
  return draw(parameters(size, dashes_of(size, difficulty)), Generator(0).fork(number));
}

/// Sets that can be merged.
class Union {
 public:
  explicit Union(size_t count) : parent_(count) { std::iota(parent_.begin(), parent_.end(), size_t{0}); }
  size_t of(size_t i) const { return parent_[i] == i ? i : of(parent_[i]); }
  void join(size_t a, size_t b) { parent_[of(a)] = of(b); }

 private:
  std::vector<size_t> parent_;
};

double distance(double x, double y, const Dash& dash) {
  const auto along_x = static_cast<double>(dash.to.x - dash.from.x);
  const auto along_y = static_cast<double>(dash.to.y - dash.from.y);
  const double px = x - static_cast<double>(dash.from.x);
  const double py = y - static_cast<double>(dash.from.y);
  const double t = std::clamp((px * along_x + py * along_y) / (along_x * along_x + along_y * along_y), 0.0, 1.0);
  return std::hypot(px - t * along_x, py - t * along_y);
}

/// The distance between two dashes, from points all along one of them.
double distance(const Dash& a, const Dash& b) {
  double least = 1e9;
  for (int i = 0; i <= 64; ++i) {
    const double t = i / 64.0;
    least = std::min(least, distance(static_cast<double>(a.from.x) * (1 - t) + static_cast<double>(a.to.x) * t,
                                     static_cast<double>(a.from.y) * (1 - t) + static_cast<double>(a.to.y) * t, b));
  }
  return least;
}

/// The label, found by walking from one disc from dash to dash, over gaps that are too small to separate contours. It
/// does not use which dash belongs to which contour.
int label_by_dashes(const Drawing& drawing) {
  std::vector<Dash> dashes;
  for (const auto& contour : drawing.contours) dashes.insert(dashes.end(), contour.begin(), contour.end());
  const double step = static_cast<double>(2 * drawing.margin + drawing.parameters.thickness / 2);
  Union reached(dashes.size());
  for (size_t i = 0; i < dashes.size(); ++i) {
    for (size_t k = 0; k < i; ++k) {
      if (std::abs(dashes[i].from.x - dashes[k].from.x) > 16 * kUnits) continue;
      if (distance(dashes[i], dashes[k]) < step) reached.join(i, k);
    }
  }
  const auto dash_at = [&](Point disc) {
    size_t best = 0;
    const auto away = [&](size_t i) {
      return distance(static_cast<double>(disc.x), static_cast<double>(disc.y), dashes[i]);
    };
    for (size_t i = 1; i < dashes.size(); ++i) best = away(i) < away(best) ? i : best;
    EXPECT_LT(away(best), 1);
    return best;
  };
  return reached.of(dash_at(drawing.discs[0])) == reached.of(dash_at(drawing.discs[1])) ? 1 : 0;
}

/// The label from the strokes as drawn, eight points per pixel and not smoothed: points of ink that are close enough
/// belong to one contour. The discs are drawn in a separate picture, which shows where they are.
int label_by_ink(Drawing drawing) {
  constexpr int64_t kScale = 8;
  const int64_t side = drawing.parameters.size * kScale;
  const std::array<Point, 2> discs = drawing.discs;
  drawing.discs = {Point{-1000 * kUnits, -1000 * kUnits}, Point{-1000 * kUnits, -1000 * kUnits}};
  const std::vector<uint8_t> ink = strokes(drawing, kScale);
  // Ink within 2 * reach of other ink touches it if both are thickened by reach.
  const auto reach = static_cast<int64_t>(
      std::lround(static_cast<double>(2 * drawing.margin - drawing.parameters.thickness / 2) * kScale / kUnits / 2));
  std::vector<uint8_t> thick(ink.size(), 0);
  for (int64_t y = 0; y < side; ++y) {
    for (int64_t x = 0; x < side; ++x) {
      if (ink[static_cast<size_t>(y * side + x)] == 0) continue;
      for (int64_t v = std::max<int64_t>(0, y - reach); v <= std::min(side - 1, y + reach); ++v) {
        for (int64_t u = std::max<int64_t>(0, x - reach); u <= std::min(side - 1, x + reach); ++u) {
          if ((u - x) * (u - x) + (v - y) * (v - y) <= reach * reach) thick[static_cast<size_t>(v * side + u)] = 1;
        }
      }
    }
  }
  const auto place = [&](Point p) { return p.y * kScale / kUnits * side + p.x * kScale / kUnits; };
  std::vector<int64_t> open = {place(discs[0])};
  EXPECT_EQ(thick[static_cast<size_t>(open[0])], 1);
  EXPECT_NE(ink[static_cast<size_t>(place(discs[1]))] + thick[static_cast<size_t>(place(discs[1]))], 0);
  while (!open.empty()) {
    const int64_t at = open.back();
    open.pop_back();
    if (thick[static_cast<size_t>(at)] != 1) continue;
    thick[static_cast<size_t>(at)] = 2;
    const int64_t x = at % side;
    if (x > 0) open.push_back(at - 1);
    if (x + 1 < side) open.push_back(at + 1);
    if (at >= side) open.push_back(at - side);
    if (at + side < side * side) open.push_back(at + side);
  }
  return thick[static_cast<size_t>(place(discs[1]))] == 2 ? 1 : 0;
}

TEST(PathfinderDrawing, LabelsAreFoundByFollowingTheDashes) {
  for (const std::string difficulty : kDifficulties) {
    for (uint64_t i = 0; i < kPictures; ++i) {
      const Drawing drawing = picture(32, difficulty, i);
      ASSERT_EQ(label_by_dashes(drawing), drawing.label) << difficulty << " image " << i;
    }
  }
}

TEST(PathfinderDrawing, LabelsAreFoundByFollowingTheInk) {
  for (const std::string difficulty : kDifficulties) {
    for (uint64_t i = 0; i < kPictures; ++i) {
      const Drawing drawing = picture(32, difficulty, i);
      ASSERT_EQ(label_by_ink(drawing), drawing.label) << difficulty << " image " << i;
    }
  }
}

TEST(PathfinderDrawing, LabelsOfOtherSizesAreFoundByFollowingTheDashes) {
  for (const int64_t size : {16, 64, 128, 256}) {
    for (const std::string difficulty : kDifficulties) {
      for (uint64_t i = 0; i < (kAddressSanitizer ? 2 : size <= 64 ? 10 : 30); ++i) {
        const Drawing drawing = picture(size, difficulty, i);
        ASSERT_EQ(label_by_dashes(drawing), drawing.label) << size << " " << difficulty << " image " << i;
      }
    }
  }
}

/// The same walk on a picture with a wrong label or a cut contour must disagree.
TEST(PathfinderDrawing, FollowersSeeWrongLabelsAndCutContours) {
  int seen = 0;
  for (uint64_t i = 0; i < 40; ++i) {
    Drawing drawing = picture(32, "hard", i);
    if (drawing.label == 0) continue;
    ++seen;
    for (auto c : {0, 1}) {
      auto& dashes = drawing.contours[static_cast<size_t>(c)];
      dashes.erase(dashes.begin() + 6, dashes.begin() + 8);
    }
    EXPECT_EQ(label_by_dashes(drawing), 0);
    EXPECT_EQ(label_by_ink(drawing), 0);
  }
  EXPECT_GT(seen, 10);
}

TEST(PathfinderDrawing, ContoursHaveTheirDashesAndKeepApart) {
  for (const int64_t size : {16, 24, 32, 128}) {
    for (const std::string difficulty : kDifficulties) {
      for (uint64_t i = 0; i < 30; ++i) {
        const Drawing drawing = picture(size, difficulty, i);
        const Parameters& p = drawing.parameters;
        ASSERT_GE(std::ssize(drawing.contours), 2);
        ASSERT_LE(std::ssize(drawing.contours), 2 + p.distractors);
        const auto gap = static_cast<double>(2 * drawing.margin + p.thickness);
        for (size_t c = 0; c < drawing.contours.size(); ++c) {
          const auto& dashes = drawing.contours[c];
          EXPECT_EQ(std::ssize(dashes), c < 2 ? p.contour_length : p.distractor_length);
          for (size_t k = 0; k < dashes.size(); ++k) {
            const double length = std::hypot(static_cast<double>(dashes[k].to.x - dashes[k].from.x),
                                             static_cast<double>(dashes[k].to.y - dashes[k].from.y));
            EXPECT_NEAR(length, static_cast<double>(p.paddle_length), 3);
            for (const Point& end : {dashes[k].from, dashes[k].to}) {
              EXPECT_GE(std::min(end.x, end.y), p.padding + drawing.margin);
              EXPECT_LE(std::max(end.x, end.y), size * kUnits - p.padding - drawing.margin);
            }
            if (k > 0) {
              EXPECT_LE(distance(dashes[k - 1], dashes[k]), static_cast<double>(2 * drawing.margin) + 3);
            }
            for (size_t d = 0; d <= c; ++d) {
              for (size_t j = 0; j < drawing.contours[d].size(); ++j) {
                if (c == d && j + 1 >= k) break;
                ASSERT_GE(distance(dashes[k], drawing.contours[d][j]), gap - 1e-6) << i;
              }
            }
          }
        }
        const auto& [a, b] = drawing.discs;
        EXPECT_GT(std::hypot(static_cast<double>(a.x - b.x), static_cast<double>(a.y - b.y)),
                  static_cast<double>(2 * p.marker_radius));
      }
    }
  }
}

/// Properties of a whole data set: labels are a fair coin (one deviation for 500 is 2.2 %), short contours fill the
/// remaining space, and the distance between the discs does not reveal the label.
TEST(PathfinderDrawing, StatisticsOfASet) {
  const std::map<std::string, double> least = {{"easy", 9.5}, {"intermediate", 5}, {"hard", 2.3}};
  for (const std::string difficulty : kDifficulties) {
    const Parameters p = parameters(32, dashes_of(32, difficulty));
    int64_t positive = 0;
    int64_t distractors = 0;
    double apart[2] = {0, 0};
    for (uint64_t i = 0; i < 500; ++i) {
      const Drawing drawing = picture(32, difficulty, i);
      positive += drawing.label;
      distractors += std::ssize(drawing.contours) - 2;
      const auto& [a, b] = drawing.discs;
      apart[drawing.label] += std::hypot(static_cast<double>(a.x - b.x), static_cast<double>(a.y - b.y)) / kUnits;
    }
    EXPECT_NEAR(static_cast<double>(positive) / 500, 0.5, 0.08);
    const double mean = static_cast<double>(distractors) / 500;
    EXPECT_LE(mean, static_cast<double>(p.distractors));
    EXPECT_GE(mean, least.at(difficulty)) << difficulty;
    const double ratio = (apart[1] / static_cast<double>(positive)) / (apart[0] / static_cast<double>(500 - positive));
    EXPECT_NEAR(ratio, 1, 0.25) << difficulty;
  }
}

/// A turn of density cos^2(1.8 x) is on average (pi / 4 - 1 / pi) / 1.8 = 0.259. This needs space on all sides: in
/// small pictures, contours that bend more fit more often.
TEST(PathfinderDrawing, TurnsHaveTheDensityOfTheContinuity) {
  double turned = 0;
  double squared = 0;
  int64_t joints = 0;
  for (uint64_t i = 0; i < 300; ++i) {
    const Drawing drawing = picture(256, "easy", i);
    for (const size_t c : {0, 1}) {
      const auto angle = [&](size_t k) {
        const Dash& dash = drawing.contours[c][k];
        return std::atan2(static_cast<double>(dash.to.y - dash.from.y), static_cast<double>(dash.to.x - dash.from.x));
      };
      for (size_t k = 1; k < drawing.contours[c].size(); ++k, ++joints) {
        const double turn = std::remainder(angle(k) - angle(k - 1), 2 * std::numbers::pi);
        EXPECT_LT(std::abs(turn), std::numbers::pi / 2 / 1.8 + 0.05);
        turned += std::abs(turn);
        squared += turn * turn;
      }
    }
  }
  ASSERT_EQ(joints, 3000);
  // One deviation of the mean of 3000 is 0.0035. The square's mean is (pi^2 / 12 - 1 / 2) / 1.8^2 = 0.0995.
  EXPECT_NEAR(turned / 3000, 0.259, 0.016);
  EXPECT_NEAR(squared / 3000, 0.0995, 0.012);
}

TEST(PathfinderDrawing, PicturesAreStretchedAndShowDiscsWhereTheyAre) {
  for (const int64_t size : {16, 20, 24, 28, 32, 64, 128, 256}) {
    const Drawing drawing = picture(size, "easy", 3);
    const std::vector<uint8_t> pixels = render(drawing);
    ASSERT_EQ(std::ssize(pixels), size * size);
    EXPECT_EQ(*std::min_element(pixels.begin(), pixels.end()), 0);
    EXPECT_EQ(*std::max_element(pixels.begin(), pixels.end()), 255);
    const auto dark = std::count(pixels.begin(), pixels.end(), 0);
    EXPECT_GT(static_cast<double>(dark) / static_cast<double>(size * size), 0.4);
    for (const Point& disc : drawing.discs) {
      EXPECT_GE(pixels[static_cast<size_t>(disc.y / kUnits * size + disc.x / kUnits)], 120) << size;
    }
  }
}

// A disc about the middle of the picture is as symmetric as before smoothing.
TEST(PathfinderDrawing, SmoothingIsSymmetric) {
  Drawing drawing;
  drawing.parameters = parameters(32, 6);
  drawing.parameters.marker_radius = 4 * kUnits;
  drawing.discs = {Point{16 * kUnits, 16 * kUnits}, Point{16 * kUnits, 16 * kUnits}};
  const std::vector<uint8_t> pixels = render(drawing);
  EXPECT_EQ(pixels[16 * 32 + 16], 255);
  EXPECT_EQ(pixels[16 * 32 + 2], 0);
  for (size_t i = 0; i < 32; ++i) {
    for (size_t k = 0; k < 32; ++k) {
      EXPECT_EQ(pixels[i * 32 + k], pixels[(31 - i) * 32 + k]);
      EXPECT_EQ(pixels[i * 32 + k], pixels[k * 32 + i]);
    }
  }
}

// This hash never changes: a different one means different images for the same options, which requires a new kVersion.
TEST(PathfinderDrawing, SeedZeroGivesThePicturesItAlwaysGave) {
  const auto hash_of = [](const std::vector<int64_t>& sizes) {
    Sha256 hash;
    for (const int64_t size : sizes) {
      for (uint64_t i = 0; i < 5; ++i) {
        const std::vector<uint8_t> pixels = render(picture(size, "intermediate", i));
        hash.update(std::as_bytes(std::span(pixels)));
      }
    }
    return hash.hex();
  };
  EXPECT_EQ(hash_of({32, 64, 128, 256}), "d450a14aa746c52097fd31db478e4c2122b6d26ec3f3ce1f210c29e1e803fbe7");
  EXPECT_EQ(hash_of({16}), "5e5a981eb7223b5d588db2625dc95ab635d1171d7b16587f7d0e61c96f809e2f");
}

TEST(PathfinderDrawing, ANumberOfDashesIsADifficulty) {
  EXPECT_EQ(dashes_of(32, "hard"), 14);
  EXPECT_EQ(dashes_of(16, "hard"), 5);
  EXPECT_EQ(dashes_of(20, "hard"), 7);
  EXPECT_EQ(dashes_of(28, "easy"), 5);
  EXPECT_EQ(dashes_of(128, "hard"), 14);
  for (const int64_t size : {16, 32}) {
    const Drawing drawing = picture(size, "2", 0);
    EXPECT_EQ(std::ssize(drawing.contours[1]), 2);
    EXPECT_EQ(drawing.parameters.distractor_length, 1);
    EXPECT_EQ(label_by_dashes(drawing), drawing.label);
  }
}

TEST(PathfinderDrawing, RefusesWhatThereIsNot) {
  EXPECT_EQ(test::message_of([] { parameters(33, 6); }),
            "pathfinder: there are no pictures of 33 pixels a side; there are 16, 20, 24, 28, 32, 64, 128 and 256");
  EXPECT_EQ(
      test::message_of([] { dashes_of(32, "harder"); }),
      "pathfinder: there is no difficulty 'harder'; there are easy, intermediate, hard, and a number of dashes, 2 ... "
      "14");
  for (const char* number : {"1", "15", "3 ", "-3", ""}) EXPECT_THROW(dashes_of(32, number), Error) << number;
}

}  // namespace
}  // namespace bochner::pathfinder

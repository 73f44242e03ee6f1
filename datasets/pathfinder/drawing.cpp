#include "datasets/pathfinder/drawing.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>

#include "engine/error.h"
#include "engine/io/bytes.h"

namespace bochner::pathfinder {
namespace {

constexpr int64_t kDirections = 720;  ///< half a degree each
constexpr int64_t kUnit = 1 << 14;    ///< 1 in the table of directions

/// How often a dash, or a short contour, is drawn again if there is no room for it (Linsley et al.).
constexpr int kDashTrials = 3;
constexpr int kDistractorTrials = 5;
/// The number of positions tried for the first dash of a short contour.
constexpr int kSeedTrials = 64;
/// Discs at both ends of a single dash would touch, and there is no room for more dashes than the hardest pictures
/// have.
constexpr int64_t kFewestDashes = 2, kMostDashes = 14;
/// More attempts at the two long contours than any picture needs.
constexpr int64_t kPatience = 10'000'000;

struct Directions {
  std::array<int64_t, kDirections> x, y;
  Directions() {
    for (int64_t k = 0; k < kDirections; ++k) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(k) / kDirections;
      x[static_cast<size_t>(k)] = std::llround(std::cos(angle) * kUnit);
      y[static_cast<size_t>(k)] = std::llround(std::sin(angle) * kUnit);
    }
  }
};

Point moved(Point from, int64_t direction, int64_t distance) {
  static const Directions directions;
  const auto k = static_cast<size_t>((direction % kDirections + kDirections) % kDirections);
  const auto along = [&](int64_t unit) { return (distance * unit + kUnit / 2) >> 14; };
  return {from.x + along(directions.x[k]), from.y + along(directions.y[k])};
}

int64_t squared(int64_t x) { return x * x; }
int64_t squared_distance(Point a, Point b) { return squared(a.x - b.x) + squared(a.y - b.y); }
int64_t cross(Point origin, Point a, Point b) {
  return (a.x - origin.x) * (b.y - origin.y) - (a.y - origin.y) * (b.x - origin.x);
}

/// Whether the point is nearer to the dash than `distance`.
bool near(Point p, const Dash& dash, int64_t distance) {
  const Point& a = dash.from;
  const Point& b = dash.to;
  const int64_t along = (p.x - a.x) * (b.x - a.x) + (p.y - a.y) * (b.y - a.y);
  const int64_t length = squared_distance(a, b);
  if (along <= 0) return squared_distance(p, a) < squared(distance);
  if (along >= length) return squared_distance(p, b) < squared(distance);
  return squared(cross(p, a, b)) < squared(distance) * length;
}

bool crosses(const Dash& a, const Dash& b) {
  const auto sides = [](const Dash& line, const Dash& other) {
    return (cross(line.from, line.to, other.from) > 0) != (cross(line.from, line.to, other.to) > 0);
  };
  return sides(a, b) && sides(b, a);
}

/// One attempt at the dashes of a picture.
class Painter {
 public:
  Painter(const Parameters& parameters, int64_t margin, Generator& random)
      : parameters_(parameters),
        random_(random),
        margin_(margin),
        gap_(2 * margin + parameters.thickness),
        border_(parameters.padding + margin + (parameters.thickness + 1) / 2),
        side_(parameters.size * kUnits),
        step_(std::max<int64_t>(
            1, std::llround(kDirections * kUnits / (2 * std::numbers::pi * static_cast<double>(reach()))))) {
    for (int64_t turn = 0; turn < kDirections / 2; ++turn) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(turn) / kDirections;
      const double cosine = std::cos(std::min(parameters.continuity * angle, std::numbers::pi / 2));
      weights_.push_back(std::llround(cosine * cosine * 65536));
    }
  }

  /// Adds the two long contours; false if there is no room.
  bool draw_targets() {
    contours_.assign(2, {});
    directions_.assign(2, 0);
    if (!seed_targets()) return false;
    for (int64_t i = 1; i < parameters_.contour_length; ++i) {
      for (size_t c = 0; c < 2; ++c) {
        if (!extend(c)) return false;
      }
    }
    const int64_t between = 2 * parameters_.marker_radius + kUnits;  // so that the discs do not merge
    for (const auto& a : contours_) {
      for (const auto& b : contours_) {
        if (squared_distance(a.front().from, b.back().to) < squared(between)) return false;
      }
    }
    return true;
  }

  /// Adds a short contour; nothing if there is no room.
  void draw_distractor() {
    for (int trial = 0; trial < kDistractorTrials; ++trial) {
      contours_.emplace_back();
      directions_.push_back(0);
      bool done = seed_anywhere();
      for (int64_t i = 1; done && i < parameters_.distractor_length; ++i) done = extend(contours_.size() - 1);
      if (done) return;
      contours_.pop_back();
      directions_.pop_back();
    }
  }

  std::vector<std::vector<Dash>>& contours() { return contours_; }

 private:
  int64_t reach() const { return parameters_.paddle_length + margin_; }

  bool inside(Point p, int64_t border) const {
    return p.x >= border && p.y >= border && p.x <= side_ - border && p.y <= side_ - border;
  }

  /// Finds the dashes, except `last`, that can be in the way of a dash within `reach` of a point.
  void look_around(Point point, int64_t reach, const Dash* last) {
    nearby_.clear();
    for (const auto& contour : contours_) {
      for (const Dash& other : contour) {
        if (&other != last && near(point, other, reach + gap_ + 2)) nearby_.push_back(other);  // 2: coordinates round
      }
    }
  }

  /// Whether there is room for the dash. Call it after look_around().
  bool has_room(const Dash& dash) const {
    if (!inside(dash.from, border_) || !inside(dash.to, border_)) return false;
    return std::all_of(nearby_.begin(), nearby_.end(), [&](const Dash& other) { return apart(dash, other, gap_); });
  }

  /// Whether there is room for the first dash of a contour.
  bool has_room_for_first(const Dash& dash) {
    look_around(dash.from, parameters_.paddle_length, nullptr);
    return has_room(dash);
  }

  Dash dash_at(Point from, int64_t direction) const {
    return {from, moved(from, direction, parameters_.paddle_length)};
  }

  /// The first dash lies in the middle of the picture, the second begins seed_distance away from where it begins.
  bool seed_targets() {
    const int64_t border = 2 * parameters_.seed_distance;
    const int64_t room = side_ - 2 * border + 1;
    const Point from = {border + random_.below(room), border + random_.below(room)};
    directions_[0] = random_.below(kDirections);
    const Dash first = dash_at(from, directions_[0]);
    if (!inside(first.to, border) || !has_room_for_first(first)) return false;
    contours_[0].push_back(first);
    for (int trial = 0; trial < kDashTrials; ++trial) {
      directions_[1] = random_.below(kDirections);
      const Point other = moved(from, random_.below(kDirections), parameters_.seed_distance);
      const Dash second = dash_at(other, directions_[1]);
      if (!has_room_for_first(second)) continue;
      contours_[1].push_back(second);
      return true;
    }
    return false;
  }

  bool seed_anywhere() {
    const int64_t room = side_ - 2 * border_ + 1;
    for (int trial = 0; trial < kSeedTrials; ++trial) {
      const Point from = {border_ + random_.below(room), border_ + random_.below(room)};
      const int64_t direction = random_.below(kDirections);
      const Dash dash = dash_at(from, direction);
      if (!has_room_for_first(dash)) continue;
      contours_.back().push_back(dash);
      directions_.back() = direction;
      return true;
    }
    return false;
  }

  /// Adds a dash at the end of a contour. Its end is one of the positions with room on a circle around the pivot, a
  /// pixel apart.
  bool extend(size_t c) {
    const Dash& last = contours_[c].back();
    const Point pivot = moved(last.to, directions_[c], margin_);
    look_around(pivot, reach(), &last);
    int64_t total = 0;
    ends_.clear();
    for (int64_t turn = -kDirections / 2 + 1 + random_.below(step_); turn < kDirections / 2; turn += step_) {
      const int64_t weight = weights_[static_cast<size_t>(std::abs(turn))];
      if (weight == 0) continue;
      const Point end = moved(pivot, directions_[c] + turn, reach());
      if (!has_room({end, end})) continue;
      total += weight;
      ends_.push_back({turn, total});
    }
    if (total == 0) return false;
    for (int trial = 0; trial < kDashTrials; ++trial) {
      const int64_t drawn = random_.below(total);
      const auto end = std::find_if(ends_.begin(), ends_.end(), [&](const End& e) { return drawn < e.below; });
      const int64_t direction = directions_[c] + end->turn;
      const Dash dash = {moved(pivot, direction, margin_), moved(pivot, direction, reach())};
      if (!has_room(dash)) continue;
      contours_[c].push_back(dash);
      directions_[c] = (direction + kDirections) % kDirections;
      return true;
    }
    return false;
  }

  struct End {
    int64_t turn;
    int64_t below;  ///< sum of the weights up to here
  };

  const Parameters& parameters_;
  Generator& random_;
  int64_t margin_, gap_, border_, side_;
  int64_t step_;                  ///< directions a pixel apart at the reach of a dash
  std::vector<int64_t> weights_;  ///< of a turn by so many directions
  std::vector<std::vector<Dash>> contours_;
  std::vector<int64_t> directions_;  ///< of the last dash of each
  std::vector<End> ends_;            ///< where the next dash may end
  std::vector<Dash> nearby_;         ///< what look_around() found
};

}  // namespace

int64_t dashes_of(int64_t size, std::string_view difficulty) {
  const auto between = [size](int64_t at_16, int64_t at_32) {
    return at_16 + (at_32 - at_16) * (std::clamp<int64_t>(size, 16, 32) - 16) / 16;
  };
  if (difficulty == "easy") return between(3, 6);
  if (difficulty == "intermediate") return between(4, 9);
  if (difficulty == "hard") return between(5, kMostDashes);
  int64_t dashes = 0;
  const auto [end, error] = std::from_chars(difficulty.begin(), difficulty.end(), dashes);
  if (error != std::errc() || end != difficulty.end() || dashes < kFewestDashes || dashes > kMostDashes) {
    fail("pathfinder: there is no difficulty {}; there are easy, intermediate, hard, and a number of dashes, {} ... {}",
         shown(difficulty), kFewestDashes, kMostDashes);
  }
  return dashes;
}

Parameters parameters(int64_t size, int64_t dashes) {
  const auto pixels = [](double x) { return std::llround(x * kUnits); };
  Parameters p;
  p.size = size;
  p.contour_length = dashes;
  p.distractor_length = std::max<int64_t>(1, dashes / 3);
  p.paddle_length = pixels(5);
  p.padding = pixels(1);
  p.continuity = 1.8;
  int64_t distractor_dashes = 0;
  switch (size) {
    case 16:
    case 20:
    case 24:
    case 28:
    case 32:
      p.paddle_length = pixels(2);
      p.margins = {pixels(1)};
      p.thickness = pixels(0.5);
      p.marker_radius = pixels(1.5);
      p.seed_distance = pixels(7) * size / 32;
      p.continuity = 1;
      p.distractor_contrast = 200;
      p.contour_contrast = 150;
      distractor_dashes = 20 * size / 32;
      break;
    case 64:
      p.margins = {pixels(1)};
      p.thickness = pixels(1);
      p.marker_radius = pixels(2.5);
      p.seed_distance = pixels(12);
      p.contour_contrast = p.distractor_contrast = 80;
      distractor_dashes = 22;
      break;
    case 128:
      p.margins = {pixels(2), pixels(3)};
      p.thickness = pixels(1.5);
      p.marker_radius = pixels(3);
      p.seed_distance = pixels(20);
      p.contour_contrast = p.distractor_contrast = 90;
      distractor_dashes = 35;
      break;
    case 256:
      p.margins = {pixels(3)};
      p.thickness = pixels(2);
      p.marker_radius = pixels(5);
      p.seed_distance = pixels(27);
      p.padding = pixels(22);
      distractor_dashes = 30;
      break;
    default:
      fail("pathfinder: there are no pictures of {} pixels a side; there are 16, 20, 24, 28, 32, 64, 128 and 256",
           size);
  }
  p.distractors = distractor_dashes / p.distractor_length;
  return p;
}

bool apart(const Dash& a, const Dash& b, int64_t distance) {
  const int64_t far = std::abs(a.to.x - a.from.x) + std::abs(a.to.y - a.from.y) + std::abs(b.to.x - b.from.x) +
                      std::abs(b.to.y - b.from.y) + distance;
  if (std::abs(a.from.x - b.from.x) > far || std::abs(a.from.y - b.from.y) > far) return true;
  return !near(a.from, b, distance) && !near(a.to, b, distance) && !near(b.from, a, distance) &&
         !near(b.to, a, distance) && !crosses(a, b);
}

Drawing draw(const Parameters& parameters, Generator random) {
  Drawing drawing;
  drawing.parameters = parameters;
  drawing.label = static_cast<int>(random.below(2));
  drawing.margin = parameters.margins[static_cast<size_t>(random.below(std::ssize(parameters.margins)))];
  Painter painter(parameters, drawing.margin, random);
  int64_t attempts = 0;
  while (!painter.draw_targets()) {
    if (++attempts == kPatience) fail("pathfinder: {} attempts found no room for two contours", attempts);
  }
  for (int64_t i = 0; i < parameters.distractors; ++i) painter.draw_distractor();
  drawing.contours = std::move(painter.contours());
  const auto first = static_cast<size_t>(random.below(2));
  const size_t second = drawing.label == 1 ? first : 1 - first;
  drawing.discs = {drawing.contours[first].front().from, drawing.contours[second].back().to};
  return drawing;
}

}  // namespace bochner::pathfinder

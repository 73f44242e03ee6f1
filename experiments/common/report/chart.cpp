#include "experiments/common/report/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/math.h"

namespace bochner {
namespace {

constexpr double kWidth = 640;
constexpr double kHeight = 300;
constexpr double kLeast = 44;  ///< left of the axis
constexpr double kRight = 16;
constexpr double kTop = 30;
constexpr double kBottom = 40;
constexpr double kLegendTop = 8;
constexpr double kLegendRow = 18;
constexpr size_t kMostPoints = 1000;
constexpr int kColours = 8;
constexpr int kMarks = 8;
constexpr double kMarksOnCurve = 8;
constexpr double kCharacter = 7;  ///< about the width of one
constexpr size_t kShortLabel = 40;

/// A range of one axis and its place on the page.
struct Axis {
  double low;
  double high;
  double begin;
  double end;

  double place(double value) const { return begin + (value - low) / (high - low) * (end - begin); }
};

bool is_finite(const std::pair<double, double>& point) {
  return std::isfinite(point.first) && std::isfinite(point.second);
}

/// Means of neighbouring points of a line, so that a long run stays a small file.
std::vector<std::pair<double, double>> thinned(const Curve& curve) {
  std::vector<std::pair<double, double>> finite;
  std::copy_if(curve.points.begin(), curve.points.end(), std::back_inserter(finite), is_finite);
  const size_t stride = ceil_div(finite.size(), kMostPoints);
  if (stride <= 1 || !curve.joined) return finite;
  std::vector<std::pair<double, double>> result;
  for (size_t i = 0; i < finite.size(); i += stride) {
    const size_t end = std::min(i + stride, finite.size());
    double sum = 0;
    for (size_t j = i; j < end; ++j) sum += finite[j].second;
    result.emplace_back(finite[end - 1].first, sum / static_cast<double>(end - i));
  }
  return result;
}

/// Texts of ticks, with as many digits as are needed to distinguish them.
std::vector<std::string> tick_texts(const std::vector<double>& ticks) {
  std::vector<std::string> texts;
  for (int digits = 6; digits <= 15; ++digits) {
    texts.clear();
    for (const double tick : ticks) texts.push_back(fmt::format("{:.{}g}", std::abs(tick) < 1e-300 ? 0 : tick, digits));
    if (std::adjacent_find(texts.begin(), texts.end()) == texts.end()) break;
  }
  return texts;
}

double width_of(const std::string& text) { return kCharacter * static_cast<double>(text.size()); }

/// A mark at a place, in one of eight shapes that can be told apart without colours.
std::string mark(const Curve& curve, double x, double y) {
  constexpr const char* kShapes[kMarks] = {"m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0z",
                                           "m-3.2 -3.2h6.4v6.4h-6.4z",
                                           "m0 -4.2l4.2 7.4h-8.4z",
                                           "m0 -4.6l4.6 4.6l-4.6 4.6l-4.6 -4.6z",
                                           "m0 4.2l4.2 -7.4h-8.4z",
                                           "m-4 0h8m-4 -4v8",
                                           "m-3 -3l6 6m0 -6l-6 6",
                                           "m-2 -4h4v8h-4z"};
  // After eight curves, colours are used again, each with another shape.
  const int shape = (curve.colour + 3 * (curve.colour / kColours)) % kMarks;
  return fmt::format("<path class=\"mark\" style=\"stroke:var(--c{0});fill:var({1})\" d=\"M{2:.1f} {3:.1f}{4}\"/>",
                     curve.colour % kColours, curve.dashed ? "--bg" : fmt::format("--c{}", curve.colour % kColours), x,
                     y, kShapes[shape]);
}

std::string style_of(const Curve& curve) {
  return fmt::format("style=\"stroke:var(--c{})\"{}", curve.colour % kColours,
                     curve.dashed ? " stroke-dasharray=\"5 4\"" : "");
}

/// The line between the points, and their marks: at all points if there is no line or there are few points, otherwise
/// at some, in other places for each curve.
std::string drawn(const Curve& curve, const std::vector<std::pair<double, double>>& points, const Axis& x_axis,
                  const Axis& y_axis) {
  if (points.empty()) return "";
  std::string svg;
  if (curve.joined) {
    svg += fmt::format("<polyline class=\"curve\" {} points=\"", style_of(curve));
    for (const auto& [x, y] : points) svg += fmt::format("{:.1f},{:.1f} ", x_axis.place(x), y_axis.place(y));
    svg += "\"/>";
  }
  const auto count = static_cast<double>(points.size());
  const double stride = curve.joined ? std::max(1.0, count / kMarksOnCurve) : 1;
  const double first = stride > 1 ? stride * (0.25 + 0.5 * (curve.colour % kMarks) / kMarks) : 0;
  for (double i = first; i < count; i += stride) {
    const auto& [x, y] = points[static_cast<size_t>(i)];
    svg += mark(curve, x_axis.place(x), y_axis.place(y));
  }
  return svg + "\n";
}

/// The legend below the axes, each label once, in two columns if they fit. Returns its height.
double add_legend(std::string& svg, const std::vector<Curve>& curves, double left) {
  std::vector<const Curve*> named;
  bool narrow = true;
  for (const Curve& curve : curves) {
    const auto same = [&](const Curve* other) { return other->label == curve.label; };
    if (std::any_of(named.begin(), named.end(), same)) continue;
    named.push_back(&curve);
    narrow = narrow && curve.label.size() < kShortLabel;
  }
  const size_t columns = named.size() > 3 && narrow ? 2 : 1;
  const size_t rows = ceil_div(named.size(), columns);
  for (size_t i = 0; i < named.size(); ++i) {
    const double x = left + static_cast<double>(i / rows) * (kWidth - left) / 2;
    const double y = kHeight + kLegendTop + kLegendRow * (static_cast<double>(i % rows) + 0.5);
    if (named[i]->joined) {
      svg += fmt::format("<line class=\"curve\" {} x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>",
                         style_of(*named[i]), x, y - 4, x + 28, y - 4);
    }
    svg += fmt::format("{}<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", mark(*named[i], x + 14, y - 4),
                       x + 36, y, html_escaped(named[i]->label));
  }
  return kLegendTop + kLegendRow * static_cast<double>(rows);
}

}  // namespace

/// Whether two ends of an axis differ by little more than their rounding; steps between them would vanish.
static bool is_point(double low, double high) {
  return !(high - low > 1e-12 * std::max(std::abs(low), std::abs(high)));
}

std::vector<double> round_ticks(double low, double high, int count) {
  if (is_point(low, high)) return {low};
  const double raw = (high - low) / std::max(count, 1);
  const double power = std::pow(10, std::floor(std::log10(raw)));
  double step = power;
  for (const double factor : {2.0, 5.0, 10.0}) {  // the nearest by ratio
    if (factor * power * step <= raw * raw) step = factor * power;
  }
  std::vector<double> ticks;
  const double first = std::ceil(low / step - 1e-9);
  for (double i = first; i * step <= high + 1e-9 * step; i += 1) ticks.push_back(i * step);
  return ticks;
}

std::string html_escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string line_chart(const std::string& title, const std::string& x_label, const std::vector<Curve>& curves) {
  double low_x = INFINITY;
  double high_x = -INFINITY;
  double low_y = INFINITY;
  double high_y = -INFINITY;
  std::vector<std::vector<std::pair<double, double>>> lines;
  for (const Curve& curve : curves) {
    lines.push_back(thinned(curve));
    for (const auto& [x, y] : lines.back()) {
      low_x = std::min(low_x, x);
      high_x = std::max(high_x, x);
      low_y = std::min(low_y, y);
      high_y = std::max(high_y, y);
    }
  }
  if (!(low_x <= high_x)) low_x = low_y = 0, high_x = high_y = 1;
  if (is_point(low_x, high_x)) high_x = low_x + std::max(1.0, std::abs(low_x) * 0.1);
  const double margin = is_point(low_y, high_y) ? std::max(std::abs(high_y), 1e-6) * 0.1 : 0.05 * (high_y - low_y);
  const Axis y_axis{low_y - margin, high_y + margin, kHeight - kBottom, kTop};
  const std::vector<double> y_ticks = round_ticks(y_axis.low, y_axis.high, 5);
  const std::vector<std::string> y_texts = tick_texts(y_ticks);
  double left = kLeast;
  for (const std::string& text : y_texts) left = std::max(left, width_of(text) + 14);
  const Axis x_axis{low_x, high_x, left, kWidth - kRight};

  std::string svg = fmt::format("<text class=\"title\" x=\"{:.0f}\" y=\"18\">{}</text>\n", left, html_escaped(title));
  for (size_t i = 0; i < y_ticks.size(); ++i) {
    const double y = y_axis.place(y_ticks[i]);
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>"
        "<text class=\"tick\" text-anchor=\"end\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
        left, y, kWidth - kRight, y, left - 9, y + 4, y_texts[i]);
  }
  const std::vector<double> x_ticks = round_ticks(low_x, high_x, 6);
  const std::vector<std::string> x_texts = tick_texts(x_ticks);
  for (size_t i = 0; i < x_ticks.size(); ++i) {
    const double half = width_of(x_texts[i]) / 2;  // the text stays within the picture
    const double x = std::clamp(x_axis.place(x_ticks[i]), half, kWidth - half);
    svg += fmt::format("<text class=\"tick\" text-anchor=\"middle\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", x,
                       kHeight - kBottom + 16, x_texts[i]);
  }
  svg += fmt::format("<text class=\"tick\" text-anchor=\"end\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", kWidth - kRight,
                     kHeight - 6, html_escaped(x_label));
  for (size_t i = 0; i < curves.size(); ++i) svg += drawn(curves[i], lines[i], x_axis, y_axis);
  const double legend = add_legend(svg, curves, left);
  return fmt::format("<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"{}\">\n{}</svg>\n", kWidth,
                     kHeight + legend, html_escaped(title), svg);
}

}  // namespace bochner

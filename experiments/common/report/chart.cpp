#include "experiments/common/report/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace bochner {
namespace {

constexpr double kWidth = 640;
constexpr double kHeight = 300;
constexpr double kLeft = 62;
constexpr double kRight = 12;
constexpr double kTop = 30;
constexpr double kBottom = 40;
constexpr double kLegendRow = 18;
constexpr size_t kMostPoints = 1000;
constexpr int kColours = 8;

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

/// Means of neighbouring points, so that a long run stays a small file.
std::vector<std::pair<double, double>> thinned(const std::vector<std::pair<double, double>>& points) {
  std::vector<std::pair<double, double>> finite;
  std::copy_if(points.begin(), points.end(), std::back_inserter(finite), is_finite);
  const size_t stride = (finite.size() + kMostPoints - 1) / kMostPoints;
  if (stride <= 1) return finite;
  std::vector<std::pair<double, double>> result;
  for (size_t i = 0; i < finite.size(); i += stride) {
    const size_t end = std::min(i + stride, finite.size());
    double sum = 0;
    for (size_t j = i; j < end; ++j) sum += finite[j].second;
    result.emplace_back(finite[end - 1].first, sum / static_cast<double>(end - i));
  }
  return result;
}

std::string tick_text(double value) { return fmt::format("{:.6g}", std::abs(value) < 1e-300 ? 0.0 : value); }

}  // namespace

std::vector<double> round_ticks(double low, double high, int count) {
  if (!(high > low)) return {low};
  const double raw = (high - low) / std::max(count, 1);
  const double power = std::pow(10, std::floor(std::log10(raw)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= raw) {
      step = factor * power;
      break;
    }
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
    lines.push_back(thinned(curve.points));
    for (const auto& [x, y] : lines.back()) {
      low_x = std::min(low_x, x);
      high_x = std::max(high_x, x);
      low_y = std::min(low_y, y);
      high_y = std::max(high_y, y);
    }
  }
  if (!(low_x <= high_x)) low_x = low_y = 0, high_x = high_y = 1;
  if (high_x == low_x) high_x = low_x + 1;
  const double margin = high_y > low_y ? 0.05 * (high_y - low_y) : std::max(std::abs(high_y), 1e-6) * 0.1;
  const Axis x_axis{low_x, high_x, kLeft, kWidth - kRight};
  const Axis y_axis{low_y - margin, high_y + margin, kHeight - kBottom, kTop};

  const double height = kHeight + kLegendRow * static_cast<double>(curves.size());
  std::string svg = fmt::format(
      "<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"{}\">\n<text class=\"title\" x=\"{:.0f}\" "
      "y=\"18\">{}</text>\n",
      kWidth, height, html_escaped(title), kLeft, html_escaped(title));
  for (const double tick : round_ticks(y_axis.low, y_axis.high, 5)) {
    const double y = y_axis.place(tick);
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>"
        "<text class=\"tick\" text-anchor=\"end\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
        kLeft, y, kWidth - kRight, y, kLeft - 6, y + 4, tick_text(tick));
  }
  for (const double tick : round_ticks(low_x, high_x, 6)) {
    svg += fmt::format("<text class=\"tick\" text-anchor=\"middle\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
                       x_axis.place(tick), kHeight - kBottom + 16, tick_text(tick));
  }
  svg += fmt::format("<text class=\"tick\" text-anchor=\"end\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", kWidth - kRight,
                     kHeight - 6, html_escaped(x_label));
  for (size_t i = 0; i < curves.size(); ++i) {
    const std::string style = fmt::format("style=\"stroke:var(--c{})\"{}", curves[i].colour % kColours,
                                          curves[i].dashed ? " stroke-dasharray=\"5 4\"" : "");
    if (!lines[i].empty()) {
      svg += fmt::format("<polyline class=\"curve\" {} points=\"", style);
      for (const auto& [x, y] : lines[i]) svg += fmt::format("{:.1f},{:.1f} ", x_axis.place(x), y_axis.place(y));
      svg += "\"/>\n";
    }
    const double y = kHeight + kLegendRow * (static_cast<double>(i) + 0.5);
    svg += fmt::format(
        "<line class=\"curve\" {} x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>"
        "<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
        style, kLeft, y - 4, kLeft + 28, y - 4, kLeft + 36, y, html_escaped(curves[i].label));
  }
  return svg + "</svg>\n";
}

}  // namespace bochner

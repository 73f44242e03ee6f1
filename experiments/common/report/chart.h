// Curves and clouds of points as SVG for light pages, dark pages and without colours: colours are CSS variables of the
// page, and each has a mark of its own shape.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace bochner {

struct Curve {
  std::string label;  ///< the legend shows it once if several curves have it
  int colour = 0;     ///< from 0; from 8 on colours are used again with other marks
  bool dashed = false;
  std::vector<std::pair<double, double>> points;  ///< by x; points that are not finite are omitted
  bool joined = true;                             ///< false: each point has its mark, in any order, and no line
};

/// An <svg> element with axes, round ticks and a legend.
std::string line_chart(const std::string& title, const std::string& x_label, const std::vector<Curve>& curves);

/// About `count` round numbers that cover [low, high].
std::vector<double> round_ticks(double low, double high, int count);

/// `text` with & < > " escaped.
std::string html_escaped(const std::string& text);

}  // namespace bochner

// Line and scatter plots as SVG for light and dark pages, readable without colours: colours are CSS variables of the
// page, and each has a mark of a different shape.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace bochner {

struct Curve {
  std::string label;  ///< the legend shows it only once if several curves have it
  int colour = 0;     ///< from 0; from 8 on, colours repeat with other marks
  bool dashed = false;
  std::vector<std::pair<double, double>> points;  ///< in order of x; points that are not finite are omitted
  bool joined = true;                             ///< false: each point has its mark, in any order, without a line
};

/// An <svg> element with axes, round ticks and a legend.
std::string line_chart(const std::string& title, const std::string& x_label, const std::vector<Curve>& curves);

/// About `count` round numbers that cover [low, high].
std::vector<double> round_ticks(double low, double high, int count);

/// `text` with & < > " escaped.
std::string html_escaped(const std::string& text);

}  // namespace bochner

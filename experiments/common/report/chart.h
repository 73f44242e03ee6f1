// Curves as SVG, drawn to be read in light and in dark: colours are CSS variables of the page.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace bochner {

struct Curve {
  std::string label;
  int colour = 0;  ///< var(--c0) ... var(--c7)
  bool dashed = false;
  std::vector<std::pair<double, double>> points;  ///< by x; those that are not finite are left out
};

/// An <svg> element with axes, round ticks and a legend.
std::string line_chart(const std::string& title, const std::string& x_label, const std::vector<Curve>& curves);

/// About `count` round numbers that cover [low, high].
std::vector<double> round_ticks(double low, double high, int count);

/// `text` with & < > " escaped.
std::string html_escaped(const std::string& text);

}  // namespace bochner

// Mean and deviation of repeated measurements.
#pragma once

#include <string>
#include <vector>

namespace bochner {

/// Mean and sample standard deviation, which is 0 for one value.
struct Spread {
  double mean = 0;
  double deviation = 0;
};
Spread spread_of(const std::vector<double>& values);

/// The value below which a share of the values lies, interpolated linearly; 0.5 is the median. NaN if there are no
/// values.
double quantile(std::vector<double> values, double share);

/// A spread in words: `0.812 ± 0.004 (3 runs)`.
std::string mean_text(const std::vector<double>& values);
/// The same for a table: for one value, just that; for none, kNoNumber.
std::string mean_cell(const std::vector<double>& values);

}  // namespace bochner

#include "experiments/common/report/spread.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "experiments/common/report/table.h"

namespace bochner {

Spread spread_of(const std::vector<double>& values) {
  Spread result;
  const auto n = static_cast<double>(values.size());
  if (values.empty()) return result;
  for (const double value : values) result.mean += (value - values[0]) / n;
  result.mean += values[0];  // for equal values, this is exactly their value
  for (const double value : values) result.deviation += (value - result.mean) * (value - result.mean);
  result.deviation = values.size() < 2 ? 0 : std::sqrt(result.deviation / (n - 1));
  return result;
}

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::sort(values.begin(), values.end());
  const double place = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(place);
  const double part = place - static_cast<double>(below);
  return part == 0 ? values[below] : (1 - part) * values[below] + part * values[below + 1];
}

std::string mean_text(const std::vector<double>& values) {
  const Spread spread = spread_of(values);
  return fmt::format("{:.4g} ± {:.2g} ({} run{})", spread.mean, spread.deviation, values.size(),
                     values.size() == 1 ? "" : "s");
}

std::string mean_cell(const std::vector<double>& values) {
  if (values.empty()) return kNoNumber;
  return values.size() == 1 ? fmt::format("{:.4g}", values[0]) : mean_text(values);
}

}  // namespace bochner

#include "engine/nearest.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "engine/io/bytes.h"

namespace bochner {

int edit_distance(std::string_view a, std::string_view b) {
  // Row i holds the distances from the first i characters of a to each prefix of b; three rows suffice.
  std::vector<int> before_last(b.size() + 1);
  std::vector<int> last(b.size() + 1);
  std::vector<int> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    std::swap(before_last, last);
    std::swap(last, row);
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int substituted = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, substituted});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

std::string nearest(std::string_view name, std::span<const std::string> candidates) {
  std::string best;
  int best_distance = std::numeric_limits<int>::max();
  for (const std::string& candidate : candidates) {
    int distance = 2 * edit_distance(name, candidate);
    const size_t dot = candidate.rfind('.');
    if (dot != std::string::npos) {
      const std::string_view last_part = std::string_view(candidate).substr(dot + 1);
      distance = std::min(distance, 2 * edit_distance(name, last_part) + 1);
    }
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string near_name(std::string_view name, std::span<const std::string> candidates) {
  const std::string best = nearest(name, candidates);
  const std::string_view part = std::string_view(best).substr(best.rfind('.') + 1);
  const int distance = std::min(edit_distance(name, best), edit_distance(name, part));
  constexpr size_t kBeginning = 3;  // characters that suffice to recognise a name
  const auto begins = [](std::string_view longer, std::string_view shorter) {
    return shorter.size() >= kBeginning && longer.starts_with(shorter);
  };
  if (!name.empty() && distance <= std::max(1, static_cast<int>(name.size()) / 3)) return best;
  for (const std::string& candidate : candidates) {
    const std::string_view end = std::string_view(candidate).substr(candidate.rfind('.') + 1);
    if (begins(candidate, name) || begins(end, name) || begins(name, end)) return candidate;
  }
  return {};
}

std::string listed(std::span<const std::string> names) {
  std::string text;
  for (const std::string& name : names) {
    if (&name != names.data()) text += ", ";
    text += name;
  }
  return text;
}

std::string some_of(std::span<const std::string> names) {
  constexpr size_t kShown = 8;
  if (names.size() <= kShown) return listed(names);
  return fmt::format("{} and {} more", listed(names.first(kShown)), names.size() - kShown);
}

std::string shown_names(std::span<const std::string> names) {
  std::vector<std::string> safe;
  safe.reserve(names.size());
  for (const std::string& name : names) safe.push_back(shown(name));
  return some_of(safe);
}

std::string valid_names(std::string_view name, std::span<const std::string> candidates) {
  const std::string near = near_name(name, candidates);
  return (near.empty() ? "; valid: " : "; did you mean '" + near + "'? Valid: ") + listed(candidates);
}

}  // namespace bochner

// The valid name nearest to a mistyped one.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace bochner {

/// Smallest number of insertions, deletions, substitutions and swaps of neighbours that turn a into b (Damerau and
/// Levenshtein, each place edited once).
int edit_distance(std::string_view a, std::string_view b);

/// The candidate nearest to `name`, the first of equals; empty if there is none. A dotted candidate is also compared
/// by its last part, so `layers` finds `model.layers`.
std::string nearest(std::string_view name, std::span<const std::string> candidates);

/// The same if it is near enough to be what was meant: no more than a third of the characters differ, or one name
/// begins with the other. Otherwise empty.
std::string near_name(std::string_view name, std::span<const std::string> candidates);

/// The end of `there is no 'name'`: `; did you mean 'x'? Valid: x, y`, or `; valid: x, y` where no candidate is near.
std::string valid_names(std::string_view name, std::span<const std::string> candidates);

/// `a, b, c`.
std::string listed(std::span<const std::string> names);

}  // namespace bochner

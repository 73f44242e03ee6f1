// The valid name nearest to a mistyped one.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace bochner {

/// The smallest number of insertions, deletions, substitutions and swaps of neighbours that turns a into b
/// (Damerau-Levenshtein distance in which no character is edited twice).
int edit_distance(std::string_view a, std::string_view b);

/// The candidate nearest to `name`, the first one if several are equally near; empty if there are no candidates. The
/// last part of a dotted candidate is also compared, so `layers` finds `model.layers`.
std::string nearest(std::string_view name, std::span<const std::string> candidates);

/// The same if it is near enough to be what was meant: at most a third of the characters differ, or one name is a
/// prefix of the other. Otherwise empty.
std::string near_name(std::string_view name, std::span<const std::string> candidates);

/// The end of `there is no 'name'`: `; did you mean 'x'? Valid: x, y`, or `; valid: x, y` if no candidate is near.
std::string valid_names(std::string_view name, std::span<const std::string> candidates);

/// `a, b, c`.
std::string listed(std::span<const std::string> names);
/// The same for at most 8 names, followed by the number of the others.
std::string some_of(std::span<const std::string> names);
/// The same for names from outside, each prepared for a message by shown() (io/bytes.h).
std::string shown_names(std::span<const std::string> names);

}  // namespace bochner

// The valid name nearest to a mistyped one.
#pragma once

#include <string>
#include <vector>

namespace bochner {

/// The entry of `names` with the smallest edit distance to `name`; empty if there are none.
std::string nearest(const std::string& name, const std::vector<std::string>& names);

}  // namespace bochner

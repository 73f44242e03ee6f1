// Where functions tell what they find and do while they read, make and prepare what a program needs.
#pragma once

#include <functional>
#include <string>

namespace bochner {

/// Receives single lines of news without a line end.
using Say = std::function<void(const std::string&)>;

}  // namespace bochner

// How functions report what they find and do while they read, make and prepare data for a program.
#pragma once

#include <functional>
#include <string>

namespace bochner {

/// Receives single lines of text without a line end.
using Say = std::function<void(const std::string&)>;

}  // namespace bochner

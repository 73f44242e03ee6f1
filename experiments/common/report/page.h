// The frame of a page: head, colours for light and dark mode and for print, and foot. It loads nothing from elsewhere.
#pragma once

#include <string>

namespace bochner {

/// A whole HTML page with `body` below the title as its heading.
std::string html_page(const std::string& title, const std::string& body);

}  // namespace bochner

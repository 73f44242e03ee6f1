// The frame of a page: head, colours for light, dark and paper, and foot. It loads nothing from elsewhere.
#pragma once

#include <string>

namespace bochner {

/// A whole HTML page of `body`, under the title as its heading.
std::string html_page(const std::string& title, const std::string& body);

}  // namespace bochner

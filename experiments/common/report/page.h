// The frame of a page: head, colours in light, dark and on paper, and foot. Nothing in it comes from outside.
#pragma once

#include <string>

namespace bochner {

/// A whole HTML page of `body`, under the title as its heading.
std::string html_page(const std::string& title, const std::string& body);

}  // namespace bochner

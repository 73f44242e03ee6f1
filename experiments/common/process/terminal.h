// The terminal behind a stream, if there is one.
#pragma once

#include <cstdio>

namespace bochner {

/// The width in characters of the terminal that this stream is; `otherwise` if it is not one, or does not report it.
int terminal_columns(std::FILE* stream, int otherwise);

}  // namespace bochner

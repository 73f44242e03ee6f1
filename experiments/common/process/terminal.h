// The terminal that a stream may be.
#pragma once

#include <cstdio>

namespace bochner {

/// Characters in a line of the terminal that this stream is; `otherwise` if it is none, or does not tell.
int terminal_columns(std::FILE* stream, int otherwise);

}  // namespace bochner

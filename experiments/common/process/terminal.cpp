#include "experiments/common/process/terminal.h"

#include <sys/ioctl.h>

namespace bochner {

int terminal_columns(std::FILE* stream, int otherwise) {
  winsize size{};
  const bool known = ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : otherwise;
}

}  // namespace bochner

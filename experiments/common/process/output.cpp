#include "experiments/common/process/output.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "engine/io/file.h"

namespace bochner {
namespace {

[[noreturn]] void fail_to_write() {
  if (errno == EPIPE) end_by_closed_pipe();
  throw DiskError("cannot write to standard output");
}

}  // namespace

void write_output(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) fail_to_write();
}

void flush_output() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) fail_to_write();
}

void end_by_closed_pipe() {
  std::signal(SIGPIPE, SIG_DFL);  // ignored until now, so that a run continues when nobody reads its output
  std::raise(SIGPIPE);
  std::_Exit(128 + SIGPIPE);  // if the signal is blocked
}

}  // namespace bochner

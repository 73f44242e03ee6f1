// Standard output of programs that print their answer there.
#pragma once

#include <string_view>

namespace bochner {

/// Writes text. If the reader has closed the pipe (`| head`), the program ends as others do, by SIGPIPE; any other
/// failure, such as a full disk, is a DiskError.
void write_output(std::string_view text);
/// Makes sure that all of it is written.
void flush_output();
/// Ends the program by SIGPIPE.
[[noreturn]] void end_by_closed_pipe();

}  // namespace bochner

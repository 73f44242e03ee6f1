// What a program ensures before it does anything: its standard streams are open, and BLAS has enough address space.
#pragma once

namespace bochner {

/// Opens what the caller closed of standard input, output and error as /dev/null: the first files of the program would
/// take their numbers otherwise, and messages would go into them.
///
/// Programs with this function also end with a message where `ulimit -v` leaves OpenBLAS no room: its constructor,
/// which runs before main, would ask for memory again and again without end.
void start_process();

}  // namespace bochner

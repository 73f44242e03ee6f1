// The first checks of a program: its standard streams are open, the processor has the instructions it was compiled for,
// and BLAS has enough address space.
#pragma once

namespace bochner {

/// Opens /dev/null for each of standard input, output and error that the caller has closed. Otherwise the first files
/// of the program would get their descriptors, and messages would go into those files.
///
/// Programs with this function also end with a message if they were compiled for a processor with more instructions
/// than this one has, or if `ulimit -v` leaves too little memory for OpenBLAS, whose constructor runs before main and
/// would otherwise keep asking for it without end.
void start_process();

}  // namespace bochner

// The first checks of a program: its standard streams are open, the processor has its instructions, and BLAS has enough
// address space.
#pragma once

namespace bochner {

/// Opens /dev/null for each of standard input, output and error that the caller has closed. Otherwise the first files
/// of the program would take their numbers, and messages would go into those files.
///
/// Programs with this function also end with a message if they were compiled for a processor with more instructions
/// than this one has, and if `ulimit -v` leaves too little memory for OpenBLAS, whose
/// constructor runs before main and would ask for it again and again without end.
void start_process();

}  // namespace bochner

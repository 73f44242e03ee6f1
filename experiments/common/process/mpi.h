// The processes that mpirun or srun started, as MPI knows them. These functions exist whether or not the build found
// MPI.
#pragma once

#include <memory>
#include <string>

#include "engine/comm/communicator.h"

namespace bochner {

/// `Open MPI v4.1.4`, or `no: ` and the reason.
std::string mpi_version();

/// Whether this process was started by mpirun, or by srun with a way to introduce processes to each other: then its
/// environment says which process it is. `MPI` stands here for whichever program did so.
bool started_by_mpi();

/// Initializes MPI, which is finalized when the object is destroyed. An Error if this build has no MPI. Call it once,
/// before threads are started.
std::unique_ptr<Communicator> mpi_communicator();

}  // namespace bochner

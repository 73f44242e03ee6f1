// The processes that mpirun or srun started, as MPI knows them. These functions are there whether MPI was found when
// this was built or not.
#pragma once

#include <memory>
#include <string>

#include "engine/comm/communicator.h"

namespace bochner {

/// `Open MPI v4.1.4`, or `no: ` and the reason.
std::string mpi_version();

/// Whether mpirun, or srun with a way to introduce processes to each other, started this process: it has told it its
/// place. `MPI` here is whichever program did so.
bool started_by_mpi();

/// Begins MPI, which ends with the object. An Error if this build has no MPI. Call it once, and before threads begin.
std::unique_ptr<Communicator> mpi_communicator();

}  // namespace bochner

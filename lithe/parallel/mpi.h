// Communicators over MPI, by the plug-in liblithe-mpi.so.
#pragma once

#include <string>

#include "lithe/parallel/communicator.h"
#include "lithe/parallel/mpi_plugin.h"

namespace lithe {

/// Loads the plug-in: $LITHE_MPI_PLUGIN, or liblithe-mpi.so beside the program, in ../lib/lithe from there, or where
/// the system finds it. Fails (usage) when it is missing or of another version.
const LitheMpi& load_mpi_plugin();

/// All ranks of the job that MPI started; initialises MPI.
std::unique_ptr<Communicator> mpi_world(const LitheMpi& mpi);

/// Messages of this tag on the communicator of all ranks are errors that a rank reports: whoever waits finds them.
inline constexpr int kErrorTag = 32000;

}  // namespace lithe

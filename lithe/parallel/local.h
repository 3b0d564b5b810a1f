// Ranks that are threads of this process: for tests and small jobs.
#pragma once

#include <functional>

#include "lithe/parallel/communicator.h"

namespace lithe {

/// Runs work(ranks) in `count` threads, each with the communicator of its rank, and returns when all are done. Where
/// some fail, the others' waiting ends with an error, and that of the first that failed is thrown here. Loops inside
/// must not be divided among threads (set_threads(1)).
void run_local_ranks(int count, const std::function<void(Communicator& ranks)>& work);

}  // namespace lithe

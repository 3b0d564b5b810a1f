// How a run ended and what memory it took: result.json and memory.json.
#pragma once

#include "lithe/train/trainer.h"

namespace lithe {

void write_result(const Path& run, RunStatus status, const TrainResult& r, const std::string& message);

/// The same of a run that ends by an error, of which a full disk may be the reason: then the file is written in place,
/// and what goes wrong is passed over.
void write_last_result(const Path& run, RunStatus status, const TrainResult& r, const std::string& message);

/// The result of a run whose last checkpoint is at `now`, when it ended there with all that is asked of it; else none.
std::optional<TrainResult> finished_result(const Path& run, const TrainResult& now);

/// `measured`: null before the run. A process that resumes sees only a part of it: the larger of what is kept and of
/// `measured` is written and returned.
MemoryUse write_memory(const Path& run, const MemoryUse& planned, const MemoryUse* measured);

}  // namespace lithe

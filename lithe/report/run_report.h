// The page of one training run.
#pragma once

#include <string>

#include "lithe/base/files.h"

namespace lithe {

/// A self-contained HTML page about the run in `run_directory`: headline numbers, curves, speed, memory, cost, samples,
/// recipe and environment. Files that are missing or damaged are named on the page; see report/run_record.h for what is
/// read. Fails only when the directory holds no file of a run. The same files give the same bytes.
std::string run_report(const Path& run_directory);

/// Writes run_report() to `run_directory`/report.html, atomically.
void write_run_report(const Path& run_directory);

}  // namespace lithe

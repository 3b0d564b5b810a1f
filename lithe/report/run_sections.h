// The sections of a run's page, and what they share.
#pragma once

#include <string>
#include <vector>

#include "lithe/report/page.h"
#include "lithe/report/run_record.h"

namespace lithe::report {

/// A dash for what is not known.
std::string number_or_dash(double value, int digits = 4);
/// Whole numbers in full, also when a damaged file holds one that no integer can.
std::string integer_text(double value);
Cell integer_cell(double value);
/// With 4 digits, or a dash for what is not known.
Cell number_cell(double value);
/// "step 500".
std::string at_step(double step);
bool any_finite(const std::vector<double>& values);

/// Curves of losses and scores, spikes and evaluations.
void learning(Page& page, const RunRecord& run);
/// The loss by the number of tokens before.
void by_position(Page& page, const RunRecord& run);
/// Scores on the task's own examples beside trivial methods, classes, confusion, errors.
void task(Page& page, const RunRecord& run);
/// The same without a section of its own.
void task_tables(Page& page, const TaskRecord& task);
void memory(Page& page, const RunRecord& run);
/// Parameters and work of each part.
void cost(Page& page, const RunRecord& run);

}  // namespace lithe::report

// What the parts of a model showed of themselves while it trained, as a section of the run's page.
#pragma once

#include "lithe/report/page.h"
#include "lithe/report/run_record.h"

namespace lithe::report {

/// Nothing without any. A statistic of one number is a line for each layer; one of several is a map of each layer
/// (numbers by steps), the highest and the lowest of them over the steps, and a table of the last ones.
void part_statistics(Page& page, const std::vector<PartStatistic>& all);

/// Only the tables of the last ones.
void part_values(Page& page, const std::vector<PartStatistic>& all);

}  // namespace lithe::report

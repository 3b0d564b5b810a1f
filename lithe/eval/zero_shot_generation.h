// Zero-shot tasks whose answers the model writes.
#pragma once

#include "lithe/base/json.h"
#include "lithe/eval/zero_shot.h"

namespace lithe {

/// The keys generation_kwargs, filter_list and metric_list of a generate_until task, which are taken out of `node`.
/// Fails (usage) on what is not supported: draws, filters and metrics of other names.
void read_generation(Node& node, ZeroShotTask& task);

/// Continues the text of each document greedily, and compares what the filters make of it with the right answers.
std::vector<ZeroShotMetric> answer(const Model& model, const Tokenizer& tokenizer, const ZeroShotTask& task,
                                   const std::vector<Json>& documents, const ZeroShotOptions& options);

}  // namespace lithe

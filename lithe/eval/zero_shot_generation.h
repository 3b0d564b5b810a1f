// Zero-shot tasks whose answers the model writes.
#pragma once

#include "lithe/base/json.h"
#include "lithe/eval/zero_shot.h"

namespace lithe {

/// Continues the text of each document greedily, and compares what the filters make of it with the right answers.
std::vector<ZeroShotMetric> answer(const Model& model, const Tokenizer& tokenizer, const ZeroShotTask& task,
                                   const std::vector<Json>& documents, const ZeroShotOptions& options);

}  // namespace lithe

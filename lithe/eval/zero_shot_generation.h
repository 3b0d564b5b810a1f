// Zero-shot tasks whose answers the model writes.
#pragma once

#include "lithe/base/json.h"
#include "lithe/eval/zero_shot.h"

namespace lithe {

/// The metrics of the answers to each document: what the filters make of them against the right ones.
std::vector<ZeroShotMetric> score_answers(const ZeroShotTask& task, const std::vector<Json>& documents,
                                          const std::vector<std::vector<std::string>>& written);
/// Continues the text of each document, and scores what is written.
std::vector<ZeroShotMetric> answer(const Model& model, const Tokenizer& tokenizer, const ZeroShotTask& task,
                                   const std::vector<Json>& documents, const ZeroShotOptions& options);

}  // namespace lithe

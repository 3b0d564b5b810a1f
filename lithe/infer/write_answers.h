// The likeliest next tokens behind inputs of any kind, until an end.
#pragma once

#include "lithe/model/model.h"

namespace lithe {

/// What the model writes behind each sequence of `prompts`, token by token the likeliest, without `end`, at most
/// `most` tokens and none beyond its positions. Prompts may have sources, features and columns (columns of what is
/// written are 0). All sequences are read in one pass, what is written continues their state. Does not depend on the
/// other sequences. Fails (usage) unless the model predicts next tokens. Polls stop_signal(): answers end early then.
std::vector<std::vector<int32_t>> write_answers(const Model& model, const ModelInput& prompts, int32_t end,
                                                int64_t most);

}  // namespace lithe

// How well a model and its neighbours predict a text (kNN-LM).
#pragma once

#include "lithe/eval/perplexity.h"
#include "lithe/infer/neighbours.h"

namespace lithe {

/// perplexity() of the mixture; null: of the model alone.
Perplexity perplexity(const Model& model, const TokenStore& text, const EvalConfig& config, int64_t default_context,
                      const NeighbourModel* neighbours, const std::function<void(int64_t, int64_t)>& progress = {},
                      std::vector<TextPiece>* pieces = nullptr, TokenScores* each = nullptr);

}  // namespace lithe

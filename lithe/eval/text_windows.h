// A text as windows that a model scores: a window of `context` rows moves by `stride` rows within a document, and only
// rows that no earlier window held are scored.
#pragma once

#include <functional>

#include "lithe/data/token_store.h"
#include "lithe/model/model.h"
#include "lithe/recipe/eval_config.h"

namespace lithe {

struct WindowSizes {
  int64_t context = 0, stride = 0;
};
/// What `config` says of a text for a model, with 0 resolved as in perplexity(). Fails (usage), in the name of
/// `operation`, on a model that does not predict the next token, and on what the model cannot read.
WindowSizes window_sizes(const char* operation, const Model& model, const TokenStore& text, const EvalConfig& config,
                         int64_t default_context);

/// Calls f on each document: its string of tokens with the specials at its ends, and its number from 0.
void for_each_document(const TokenStore& text,
                       const std::function<void(const std::vector<int32_t>& string, int64_t document)>& f);

/// Calls f on each window, in the order of the text: its tokens, what comes after each of them, how many there are, how
/// many of the last are scored, and the document from 0.
using WindowFn =
    std::function<void(const int32_t* inputs, const int32_t* labels, int64_t rows, int64_t scored, int64_t document)>;
void for_each_window(const TokenStore& text, const WindowSizes& sizes, const WindowFn& f);

}  // namespace lithe

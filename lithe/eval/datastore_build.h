// Making a store for kNN-LM from a text.
#pragma once

#include "lithe/eval/text_windows.h"
#include "lithe/infer/datastore.h"
#include "lithe/parallel/communicator.h"

namespace lithe {

/// Writes DIR/datastore.bin: for each token that perplexity() would score, the model's row before it and the token.
/// `info` has the fingerprints and the type of keys. Memory does not grow with the text, but for four bytes a token;
/// with `lists` an index follows, see index_datastore(). Polls stop_signal(), failing when asked to stop; a store that
/// was there then stays. `among`: ranks that all call it and share out the windows; the first writes the same bytes,
/// and gets what is returned. null: this process alone.
DatastoreInfo build_datastore(const Model& model, const TokenStore& text, const EvalConfig& config,
                              int64_t default_context, DatastoreInfo info, int64_t lists, const Path& directory,
                              const std::function<void(int64_t, int64_t)>& progress = {},
                              Communicator* among = nullptr);

}  // namespace lithe

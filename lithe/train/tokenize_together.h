// The ranks of a job tokenize one corpus.
#pragma once

#include "lithe/data/config.h"

namespace lithe {

/// The texts of a section data become tokens in the cache, where load_dataset() finds them: every rank tokenizes its
/// share of the documents, and the first joins the shares to the bytes that one process writes. All ranks of the job
/// call it. On one rank it does nothing: load_dataset() tokenizes. `existing`: as load_dataset() has it.
void tokenize_together(const DataConfig& data, std::shared_ptr<const Tokenizer> existing);

}  // namespace lithe

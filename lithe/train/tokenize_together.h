// The ranks of a job tokenize one corpus.
#pragma once

#include "lithe/data/config.h"

namespace lithe {

/// The texts of a section data become tokens in the cache: every rank tokenizes its share of the documents. The first
/// that calls load_dataset() joins the shares to the bytes that one process writes: rank 0 calls it next, before any
/// other does (in_turns()). All ranks of the job call this. On one rank it does nothing: load_dataset() tokenizes.
/// `existing`: as load_dataset() has it.
void tokenize_together(const DataConfig& data, std::shared_ptr<const Tokenizer> existing);

}  // namespace lithe

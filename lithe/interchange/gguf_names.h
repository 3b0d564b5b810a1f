// GGUF's names for what Hugging Face's directories hold.
#pragma once

#include "lithe/base/json.h"
#include "lithe/interchange/family.h"
#include "lithe/interchange/gguf_file.h"
#include "lithe/text/tokenizer.h"

namespace lithe {

/// The architectures that are read and written: llama, qwen2, qwen3, olmo2, gpt2.
bool is_gguf_architecture(const std::string& name);
/// Changes a mapping of Hugging Face names to GGUF's, whose matrices are [out, in] throughout and whose llama has the
/// channels of a head in another order. Keeps what has no name there as it is.
void rename_for_gguf(Mapping& mapping, const std::string& family);

/// The config.json that the metadata amount to. Every key of the architecture is read, or refused.
Json config_of_gguf(const GgufFile& file, const std::string& family);
/// The metadata of a config.json.
std::vector<GgufPair> gguf_of_config(const Json& config, const std::string& family);

/// Types of a tokenizer's entries.
enum : int64_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };
/// How texts are cut before merges, by the names that llama.cpp has for them.
const std::vector<std::pair<std::string, std::string>>& gguf_cuts();
/// The tokenizer in the metadata; fails (usage), naming what is unknown: another can be given.
std::unique_ptr<Tokenizer> tokenizer_of_gguf(const GgufFile& file, bool& add_bos);
/// The metadata of a tokenizer, for a model of `entries` entries.
std::vector<GgufPair> gguf_of_tokenizer(const Tokenizer& tokenizer, int64_t entries, bool add_bos);

}  // namespace lithe

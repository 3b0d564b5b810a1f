// Tokenizers of SentencePiece's .model files, unigram and BPE.
#pragma once

#include <memory>
#include <string>

#include "lithe/text/tokenizer.h"

namespace lithe {

class JsonSection;
struct Roles;

/// From the bytes of a .model. Roles not stated are those of the model.
std::unique_ptr<Tokenizer> parse_sentencepiece(std::string_view model, const std::string& origin, const Roles& roles);

/// True when a file of this name is a .model.
bool is_sentencepiece_name(const Path& path);

/// Type of a tokenizer.json that holds a .model in base64, with a checksum: {"lithe_tokenizer": {"type":
/// "sentencepiece", "version": 1}, "model": ..., "checksum": ...}.
inline constexpr const char* sentencepiece_type = "sentencepiece";
/// Reads one. Fails when it was changed or damaged, and as parse_sentencepiece does.
std::unique_ptr<Tokenizer> parse_sentencepiece_json(const JsonSection& root, std::string json,
                                                    const std::string& origin, const Roles& roles);

/// The bytes of the .model that such a tokenizer.json holds; empty when it holds none.
std::string sentencepiece_model_of(const std::string& json);

}  // namespace lithe

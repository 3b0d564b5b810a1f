// What BERT, RoBERTa and DistilBERT share: post-norm layers, and heads for words, texts, tokens and answers.
#pragma once

#include "lithe/interchange/family.h"

namespace lithe {

/// Names of the tensors of one post-norm layer, below the layer's own prefix.
struct EncoderNames {
  const char *query, *key, *value, *output, *mixer_norm, *up, *down, *ffn_norm;
};
void add_encoder_layers(std::vector<Weight>& to, const std::string& prefix, int64_t layers, const EncoderNames& names);

/// What follows the encoder, by the architecture that config.json names.
enum class EncoderHead { none, words, texts, tokens, spans };
EncoderHead encoder_head(const HfConfig& config);
/// By the head of a model; none of these: nothing.
std::optional<EncoderHead> encoder_head(const ModelConfig& model);
/// "BertForMaskedLM" of "Bert".
std::string class_of(const std::string& name, EncoderHead head);
/// weight and bias of a norm; old files call them gamma and beta.
void add_norm(std::vector<Weight>& to, const std::string& ours, const std::string& theirs, TensorNames names);
/// Spans, and tokens: what the architectures call alike.
void add_answer_heads(Mapping& to, EncoderHead head);

}  // namespace lithe

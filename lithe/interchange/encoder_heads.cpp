#include "lithe/interchange/encoder_heads.h"

#include "lithe/base/error.h"

namespace lithe {

void add_encoder_layers(std::vector<Weight>& w, const std::string& prefix, int64_t layers, const EncoderNames& n) {
  for (int64_t i = 0; i < layers; ++i) {
    const std::string ours = cat("layers.", i, "."), theirs = cat(prefix, i, ".");
    const std::pair<const char*, const char*> maps[] = {{"mixer.heads.q", n.query}, {"mixer.heads.k", n.key},
                                                        {"mixer.heads.v", n.value}, {"mixer.output", n.output},
                                                        {"ffn.up", n.up},           {"ffn.down", n.down}};
    for (const auto& [mine, other] : maps) add_linear(w, ours + mine, theirs + other, true);
  }
}

EncoderHead encoder_head(const HfConfig& config) {
  const Node* architectures = config.find("architectures");
  if (!architectures || architectures->items().empty()) return EncoderHead::none;
  const std::string name = architectures->items()[0].text();
  if (name.ends_with("ForMaskedLM") || name.ends_with("ForPreTraining")) return EncoderHead::words;
  if (name.ends_with("ForSequenceClassification")) return EncoderHead::texts;
  if (name.ends_with("ForTokenClassification")) return EncoderHead::tokens;
  if (name.ends_with("ForQuestionAnswering")) return EncoderHead::spans;
  check(name.ends_with("Model"), "import", "'", config.origin(), "': architecture ", name,
        " has a head that lithe has not; those for masked words, sequences, tokens and questions can be imported");
  return EncoderHead::none;
}

std::optional<EncoderHead> encoder_head(const ModelConfig& model) {
  const std::string& type = model.head.type;
  if (type == "mlm") return EncoderHead::words;
  if (type == "classify") return EncoderHead::texts;
  if (type == "tag") return EncoderHead::tokens;
  if (type == "span") return EncoderHead::spans;
  if (type == "lm" && model.tie_word_embeddings) return EncoderHead::none;
  return {};
}

std::string class_of(const std::string& name, EncoderHead head) {
  switch (head) {
    case EncoderHead::none: return name + "Model";
    case EncoderHead::words: return name + "ForMaskedLM";
    case EncoderHead::texts: return name + "ForSequenceClassification";
    case EncoderHead::tokens: return name + "ForTokenClassification";
    case EncoderHead::spans: return name + "ForQuestionAnswering";
  }
  return name;
}

void add_norm(std::vector<Weight>& to, const std::string& ours, const std::string& theirs, TensorNames names) {
  const bool old = has_tensor(names, theirs + ".gamma", false);
  to.push_back({ours + ".weight", theirs + (old ? ".gamma" : ".weight")});
  to.push_back({ours + ".bias", theirs + (old ? ".beta" : ".bias")});
}

void add_answer_heads(Mapping& to, EncoderHead head) {
  if (head == EncoderHead::tokens) add_linear(to.weights, "head.out", "classifier", true);
  if (head != EncoderHead::spans) return;
  add_linear(to.weights, "head.start", "qa_outputs", true, true, {0});
  add_linear(to.weights, "head.end", "qa_outputs", true, true, {1});
  to.zeros.push_back({"qa_outputs.bias", 2});
}

}  // namespace lithe

// BERT: a post-norm encoder whose tokens are embedded by word, position and segment. RoBERTa and its kin have the same
// layers, count positions from 2 on, and name their heads in another way.
#include "lithe/base/error.h"
#include "lithe/interchange/encoder_heads.h"

namespace lithe {
namespace {

constexpr EncoderNames kBertNames{
    "attention.self.query",       "attention.self.key", "attention.self.value", "attention.output.dense",
    "attention.output.LayerNorm", "intermediate.dense", "output.dense",         "output.LayerNorm"};

std::string head_options(const HfConfig& config, EncoderHead head, double eps) {
  switch (head) {
    case EncoderHead::words: return cat("head: {type: mlm, eps: ", number_text(eps), "}");
    case EncoderHead::texts: {
      const bool number = config.text("problem_type", "") == "regression" || config.integer("num_labels", 0) == 1;
      return cat("head: {type: classify, pooling: cls, dense: true", number ? ", problem_type: regression" : "", "}, ",
                 label_options(config));
    }
    case EncoderHead::tokens: return cat("head: tag, ", label_options(config));
    case EncoderHead::spans: return "head: {type: span, dense: false, bias: true}";
    case EncoderHead::none: return "head: lm";
  }
  return "";
}

// What BERT and RoBERTa have in common; `first` is the first position's row.
Mapping read_layers(const HfConfig& config, TensorNames names, const std::string& prefix, int64_t first) {
  const int64_t d = config.integer("hidden_size"), layers = config.integer("num_hidden_layers");
  const double eps = config.number("layer_norm_eps", 1e-12);
  const EncoderHead head = encoder_head(config);
  config.only("position_embedding_type", {"absolute"});
  config.ignore({"gradient_checkpointing", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers",
                 "pooler_size_per_head", "pooler_type", "directionality"});
  check(head != EncoderHead::words || config.text("hidden_act", "gelu") == "gelu", "import", "'", config.origin(),
        "': hidden_act ", config.text("hidden_act", "gelu"), " has no head for masked words; gelu has one");
  const bool tied = config.flag("tie_word_embeddings", true);
  Mapping out;
  out.model = model_of(cat(
      "{architecture: encoder, vocab_size: ", config.integer("vocab_size"), ", token_width: 1, hidden_size: ", d,
      ", num_hidden_layers: ", layers,
      ", max_position_embeddings: ", config.integer("max_position_embeddings", 512) - first,
      ", embedding: {type: lookup, type_vocab_size: ", config.integer("type_vocab_size", 2),
      "}, position: {type: learned, offset: ", first,
      "}, embedding_norm: true, mixer: {type: attention, num_attention_heads: ", config.integer("num_attention_heads"),
      ", attention_bias: true, output_bias: true}, ffn: {", activation_options(config, "hidden_act", "gelu", false),
      ", intermediate_size: ", config.integer("intermediate_size"), "}, norm: {type: layer, eps_mode: variance, eps: ",
      number_text(eps), "}, residual: post, ", head_options(config, head, eps),
      ", tie_word_embeddings: ", tied || head != EncoderHead::words ? "true" : "false", "}"));
  std::vector<Weight>& w = out.weights;
  w.push_back({"embedding.weight", prefix + "embeddings.word_embeddings.weight"});
  w.push_back({"position.weight", prefix + "embeddings.position_embeddings.weight"});
  w.push_back({"embedding.token_type.weight", prefix + "embeddings.token_type_embeddings.weight"});
  add_norm(w, "embedding_norm", prefix + "embeddings.LayerNorm", names);
  add_encoder_layers(w, prefix + "encoder.layer.", layers, kBertNames);
  for (int64_t i = 0; i < layers; ++i) {
    add_norm(w, cat("layers.", i, ".mixer_norm"), cat(prefix, "encoder.layer.", i, ".", kBertNames.mixer_norm), names);
    add_norm(w, cat("layers.", i, ".ffn_norm"), cat(prefix, "encoder.layer.", i, ".", kBertNames.ffn_norm), names);
  }
  add_answer_heads(out, head);
  out.dropped.push_back("*embeddings.position_ids");
  return out;
}

// One bias under two names; where the head is not tied to the embedding, the decoder's is the one that counts.
void add_word_bias(Mapping& to, const std::string& prefix, TensorNames names) {
  const bool tied = to.model.tie_word_embeddings, of_decoder = has_tensor(names, prefix + "decoder.bias", !tied);
  const bool alone = has_tensor(names, prefix + "bias", tied);
  to.weights.push_back({"head.bias", prefix + (alone && (tied || !of_decoder) ? "bias" : "decoder.bias")});
  to.dropped.push_back(prefix + "bias");
  to.dropped.push_back(prefix + "decoder.bias");
}

Mapping read_bert(const HfConfig& config, TensorNames names) {
  const EncoderHead head = encoder_head(config);
  const std::string prefix =
      prefix_of(names, "embeddings.word_embeddings.weight", head == EncoderHead::none ? "" : "bert.");
  Mapping out = read_layers(config, names, prefix, 0);
  std::vector<Weight>& w = out.weights;
  if (head == EncoderHead::texts) {
    add_linear(w, "head.dense", prefix + "pooler.dense", true);
    add_linear(w, "head.out", "classifier", true);
  } else {
    out.dropped.push_back(prefix + "pooler.dense.*");
  }
  out.dropped.push_back("cls.seq_relationship.*");
  if (head != EncoderHead::words) return out;
  add_linear(w, "head.transform", "cls.predictions.transform.dense", true);
  add_norm(w, "head.norm", "cls.predictions.transform.LayerNorm", names);
  add_word_bias(out, "cls.predictions.", names);
  if (out.model.tie_word_embeddings)
    out.dropped.push_back("cls.predictions.decoder.weight");
  else
    w.push_back({"head.weight", "cls.predictions.decoder.weight", true});
  return out;
}

Mapping read_roberta(const HfConfig& config, TensorNames names) {
  const EncoderHead head = encoder_head(config);
  const std::string prefix =
      prefix_of(names, "embeddings.word_embeddings.weight", head == EncoderHead::none ? "" : "roberta.");
  Mapping out = read_layers(config, names, prefix, config.integer("pad_token_id", 1) + 1);
  std::vector<Weight>& w = out.weights;
  out.dropped.push_back(prefix + "pooler.dense.*");
  if (head == EncoderHead::texts) {
    add_linear(w, "head.dense", "classifier.dense", true);
    add_linear(w, "head.out", "classifier.out_proj", true);
  }
  if (head != EncoderHead::words) return out;
  add_linear(w, "head.transform", "lm_head.dense", true);
  add_norm(w, "head.norm", "lm_head.layer_norm", names);
  add_word_bias(out, "lm_head.", names);
  if (out.model.tie_word_embeddings)
    out.dropped.push_back("lm_head.decoder.weight");
  else
    w.push_back({"head.weight", "lm_head.decoder.weight", true});
  return out;
}

std::optional<Json> write(const ModelConfig& model, const std::string& type, const std::string& name) {
  const std::optional<EncoderHead> head = encoder_head(model);
  if (model.architecture != Architecture::encoder || !head || model.position.type != "learned" ||
      !option_integer(model.embedding, "type_vocab_size"))
    return {};
  const int64_t first = option_integer(model.position, "offset"),
                inner = option_integer(model.ffn, "intermediate_size");
  Json out = common_config(model, type, class_of(name, *head));
  out["hidden_size"] = model.hidden_size;
  out["num_hidden_layers"] = model.num_hidden_layers;
  out["num_attention_heads"] = option_integer(model.mixer, "num_attention_heads");
  out["intermediate_size"] = inner ? inner : 4 * model.hidden_size;
  out["hidden_act"] = model.ffn.type == "relu"                     ? "relu"
                      : option(model.ffn, "approximate") == "tanh" ? "gelu_new"
                                                                   : "gelu";
  out["max_position_embeddings"] = model.max_position_embeddings + first;
  out["type_vocab_size"] = option_integer(model.embedding, "type_vocab_size");
  out["layer_norm_eps"] = option_number(model.norm, "eps");
  if (first) out["pad_token_id"] = first - 1;
  if (*head == EncoderHead::texts || *head == EncoderHead::tokens) write_labels(out, model);
  if (option(model.head, "problem_type") == "regression") {
    out["problem_type"] = "regression";
    out["num_labels"] = 1;
  }
  return out;
}

std::optional<Json> write_bert(const ModelConfig& model) {
  if (option_integer(model.position, "offset")) return {};
  return write(model, "bert", "Bert");
}
std::optional<Json> write_roberta(const ModelConfig& model) {
  if (!option_integer(model.position, "offset")) return {};
  return write(model, "roberta", "Roberta");
}

}  // namespace

Family bert_family() { return {{"bert"}, read_bert, write_bert}; }
Family roberta_family() { return {{"roberta", "xlm-roberta", "camembert"}, read_roberta, write_roberta}; }

}  // namespace lithe

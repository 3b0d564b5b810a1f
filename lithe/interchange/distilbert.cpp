// DistilBERT: BERT without segments, under names of its own.
#include "lithe/interchange/encoder_heads.h"

namespace lithe {
namespace {

constexpr EncoderNames kDistilbertNames{"attention.q_lin", "attention.k_lin", "attention.v_lin", "attention.out_lin",
                                        "sa_layer_norm",   "ffn.lin1",        "ffn.lin2",        "output_layer_norm"};

Mapping read_distilbert(const HfConfig& config, TensorNames names) {
  const EncoderHead head = encoder_head(config);
  const int64_t layers = config.integer("n_layers");
  config.ignore({"dropout", "qa_dropout", "seq_classif_dropout", "sinusoidal_pos_embds"});
  std::string heads = "head: lm";
  if (head == EncoderHead::words) heads = "head: {type: mlm, eps: 1.0e-12}";
  if (head == EncoderHead::texts)
    heads = cat("head: {type: classify, pooling: cls, dense: true, hidden_act: relu}, ", label_options(config));
  if (head == EncoderHead::tokens) heads = cat("head: tag, ", label_options(config));
  if (head == EncoderHead::spans) heads = "head: {type: span, dense: false, bias: true}";
  Mapping out;
  out.model = model_of(cat("{architecture: encoder, vocab_size: ", config.integer("vocab_size"),
                           ", token_width: 1, hidden_size: ", config.integer("dim"), ", num_hidden_layers: ", layers,
                           ", max_position_embeddings: ", config.integer("max_position_embeddings", 512),
                           ", position: learned, embedding_norm: true, mixer: {type: attention, num_attention_heads: ",
                           config.integer("n_heads"), ", attention_bias: true, output_bias: true}, ffn: {",
                           activation_options(config, "activation", "gelu", false),
                           ", intermediate_size: ", config.integer("hidden_dim"),
                           "}, norm: {type: layer, eps_mode: variance, eps: 1.0e-12}, residual: post, ", heads, "}"));
  config.only("tie_word_embeddings", {"true"});
  config.ignore({"tie_weights_"});
  const std::string prefix =
      prefix_of(names, "embeddings.word_embeddings.weight", head == EncoderHead::none ? "" : "distilbert.");
  std::vector<Weight>& w = out.weights;
  w.push_back({"embedding.weight", prefix + "embeddings.word_embeddings.weight"});
  w.push_back({"position.weight", prefix + "embeddings.position_embeddings.weight"});
  add_norm(w, "embedding_norm", prefix + "embeddings.LayerNorm", names);
  add_encoder_layers(w, prefix + "transformer.layer.", layers, kDistilbertNames);
  for (int64_t i = 0; i < layers; ++i) {
    add_norm(w, cat("layers.", i, ".mixer_norm"),
             cat(prefix, "transformer.layer.", i, ".", kDistilbertNames.mixer_norm), names);
    add_norm(w, cat("layers.", i, ".ffn_norm"), cat(prefix, "transformer.layer.", i, ".", kDistilbertNames.ffn_norm),
             names);
  }
  add_answer_heads(out, head);
  if (head == EncoderHead::texts) {
    add_linear(w, "head.dense", "pre_classifier", true);
    add_linear(w, "head.out", "classifier", true);
  }
  if (head == EncoderHead::words) {
    add_linear(w, "head.transform", "vocab_transform", true);
    add_norm(w, "head.norm", "vocab_layer_norm", names);
    w.push_back({"head.bias", "vocab_projector.bias"});
  }
  out.dropped.push_back("vocab_projector.weight");
  return out;
}

std::optional<Json> write_distilbert(const ModelConfig& model) {
  const std::optional<EncoderHead> head = encoder_head(model);
  if (model.architecture != Architecture::encoder || !head || model.position.type != "learned" ||
      option_integer(model.embedding, "type_vocab_size"))
    return {};
  Json out = common_config(model, "distilbert", class_of("DistilBert", *head));
  const int64_t inner = option_integer(model.ffn, "intermediate_size");
  out["dim"] = model.hidden_size;
  out["n_layers"] = model.num_hidden_layers;
  out["n_heads"] = option_integer(model.mixer, "num_attention_heads");
  out["hidden_dim"] = inner ? inner : 4 * model.hidden_size;
  out["activation"] = model.ffn.type == "relu" ? "relu" : "gelu";
  out["max_position_embeddings"] = model.max_position_embeddings;
  if (*head == EncoderHead::texts || *head == EncoderHead::tokens) write_labels(out, model);
  return out;
}

}  // namespace

Family distilbert_family() { return {{"distilbert"}, read_distilbert, write_distilbert}; }

}  // namespace lithe

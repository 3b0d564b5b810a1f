// T5: a pre-norm encoder-decoder with RMS norms, biases by distance on logits that are not scaled, and no biases in its
// maps. Version 1.0 ties its head to the embedding and divides the rows before it; 1.1 (and mT5) has gated layers and a
// head of its own.
#include <cstdlib>

#include "lithe/base/error.h"
#include "lithe/interchange/family.h"

namespace lithe {
namespace {

struct T5Head {
  bool own, scaled;  // a matrix of its own; rows divided by sqrt(d_model) before it
};

// Until version 5 of transformers tie_word_embeddings said both. Since then it is always true, the head is tied where
// the files have no other, and scale_decoder_outputs says the second, false for all of mT5.
T5Head t5_head(const HfConfig& config, TensorNames names) {
  const bool tied = config.flag("tie_word_embeddings", true);
  const int version = std::atoi(config.text("transformers_version", "4").c_str());
  const bool scaled = config.text("model_type") == "mt5" ? tied && version < 5 : tied;
  return {has_tensor(names, "lm_head.weight", !tied), config.flag("scale_decoder_outputs", scaled)};
}

Mapping read_t5(const HfConfig& config, TensorNames names) {
  const int64_t d = config.integer("d_model"), heads = config.integer("num_heads"), width = config.integer("d_kv"),
                inner = config.integer("d_ff"), layers = config.integer("num_layers"),
                of_decoder = config.integer("num_decoder_layers", layers);
  check(heads > 0 && width > 0 && layers >= 0 && of_decoder >= 0, "import", "'", config.origin(), "': ", layers,
        " and ", of_decoder, " layers of ", heads, " heads of ", width, " channels are no model");
  config.only("is_encoder_decoder", {"true"});
  config.ignore({"dropout_rate", "classifier_dropout", "feed_forward_proj", "dense_act_fn", "is_gated_act",
                 "n_positions", "output_past", "architectures"});
  if (const Node* architectures = config.find("architectures"); architectures && !architectures->items().empty())
    check(architectures->items()[0].text().ends_with("ForConditionalGeneration"), "import", "'", config.origin(),
          "': architecture ", architectures->items()[0].text(),
          " can not be imported; encoder-decoders for generation can (T5ForConditionalGeneration)");
  const T5Head head = t5_head(config, names);
  const std::string kind = config.text("feed_forward_proj", "relu");
  config.only("feed_forward_proj", {"relu", "gated-gelu", "gated-silu"});
  const bool gated = kind != "relu";
  const std::string attention =
      cat("{type: attention, num_attention_heads: ", heads, ", head_dim: ", width, ", query_pre_attn_scalar: 1}");
  Mapping out;
  out.model = model_of(cat(
      "{architecture: encoder_decoder, vocab_size: ", config.integer("vocab_size"),
      ", token_width: 1, hidden_size: ", d, ", num_hidden_layers: ", of_decoder,
      ", encoder: {num_hidden_layers: ", layers, "}, max_position_embeddings: ", config.integer("n_positions", 512),
      ", position: {type: t5_bias, buckets: ", config.integer("relative_attention_num_buckets", 32), ", max_distance: ",
      config.integer("relative_attention_max_distance", 128), "}, mixer: ", attention, ", ffn: {type: ",
      kind == "relu"         ? "relu"
      : kind == "gated-silu" ? "swiglu"
                             : "geglu, approximate: tanh",
      ", intermediate_size: ", inner,
      ", bias: false}, norm: {type: rms, eps: ", number_text(config.number("layer_norm_epsilon", 1e-6)),
      "}, residual: pre, head: {type: lm, row_scale: ", head.scaled ? "rsqrt_hidden" : "one",
      "}, tie_word_embeddings: ", head.own ? "false" : "true", "}"));

  std::vector<Weight>& w = out.weights;
  w.push_back(
      {"embedding.weight", has_tensor(names, "shared.weight", true) ? "shared.weight" : "encoder.embed_tokens.weight"});
  const std::pair<const char*, const char*> maps[] = {
      {"heads.q", "q"}, {"heads.k", "k"}, {"heads.v", "v"}, {"output", "o"}};
  for (const bool decoder : {false, true}) {
    const std::string side = decoder ? "decoder." : "encoder.";
    w.push_back({side + "position.weight", side + "block.0.layer.0.SelfAttention.relative_attention_bias.weight"});
    for (int64_t i = 0; i < (decoder ? of_decoder : layers); ++i) {
      const std::string ours = cat(side, "layers.", i, "."), theirs = cat(side, "block.", i, ".layer.");
      for (const bool cross : {false, true}) {
        if (cross && !decoder) continue;
        const std::string mine = ours + (cross ? "cross" : "mixer"), their = cat(theirs, cross ? 1 : 0, ".");
        for (const auto& [name, map] : maps)
          add_linear(w, cat(mine, ".", name), cat(their, cross ? "EncDecAttention." : "SelfAttention.", map), false);
        w.push_back({mine + "_norm.weight", their + "layer_norm.weight"});
      }
      const std::string ffn = cat(theirs, decoder ? 2 : 1, ".");
      w.push_back({ours + "ffn_norm.weight", ffn + "layer_norm.weight"});
      if (gated) add_linear(w, ours + "ffn.gate", ffn + "DenseReluDense.wi_0", false);
      add_linear(w, ours + "ffn.up", ffn + (gated ? "DenseReluDense.wi_1" : "DenseReluDense.wi"), false);
      add_linear(w, ours + "ffn.down", ffn + "DenseReluDense.wo", false);
    }
    w.push_back({side + "final_norm.weight", side + "final_layer_norm.weight"});
    out.dropped.push_back(side + "embed_tokens.weight");
  }
  out.dropped.push_back("*.EncDecAttention.relative_attention_bias.weight");  // of old files: no model reads it
  if (head.own) w.push_back({"head.weight", "lm_head.weight", true});
  return out;
}

std::optional<Json> write_t5(const ModelConfig& model) {
  if (!reads_source(model.architecture) || model.position.type != "t5_bias" || model.mixer.type != "attention")
    return {};
  Json out = common_config(model, "t5", "T5ForConditionalGeneration");
  out["is_encoder_decoder"] = true;
  out["d_model"] = model.hidden_size;
  out["num_heads"] = option_integer(model.mixer, "num_attention_heads");
  const int64_t width = option_integer(model.mixer, "head_dim"), inner = option_integer(model.ffn, "intermediate_size");
  out["d_kv"] = width ? width : model.hidden_size / option_integer(model.mixer, "num_attention_heads");
  const bool gated = model.ffn.type != "relu";
  out["d_ff"] = inner ? inner : gated ? 8 * model.hidden_size / 3 : 4 * model.hidden_size;
  out["feed_forward_proj"] = !gated ? "relu" : model.ffn.type == "swiglu" ? "gated-silu" : "gated-gelu";
  out["num_layers"] = model.encoder_config().num_hidden_layers;
  out["num_decoder_layers"] = model.num_hidden_layers;
  out["n_positions"] = model.max_position_embeddings;
  out["relative_attention_num_buckets"] = option_integer(model.position, "buckets");
  out["relative_attention_max_distance"] = option_integer(model.position, "max_distance");
  out["scale_decoder_outputs"] = option(model.head, "row_scale") == "rsqrt_hidden";
  out["layer_norm_epsilon"] = option_number(model.norm, "eps");
  return out;
}

}  // namespace

Family t5_family() { return {{"t5", "mt5"}, read_t5, write_t5}; }

}  // namespace lithe

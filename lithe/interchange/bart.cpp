// BART, mBART and Marian: encoder-decoders with biases everywhere, one embedding for both sides and the head. BART has
// learned positions and a norm behind the embeddings; mBART the norms before the sub-layers and one more behind the
// last; Marian sinusoidal positions and no norm behind the embeddings.
#include "lithe/base/error.h"
#include "lithe/interchange/family.h"

namespace lithe {
namespace {

struct Kind {
  bool pre, static_positions;
};

// Keys of old files that say what the class says now.
void check_habits(const HfConfig& config, const Kind& kind) {
  const auto is = [](bool yes) { return std::vector<std::string>{yes ? "true" : "false"}; };
  config.only("is_encoder_decoder", {"true"});
  config.only("add_bias_logits", {"false"});
  config.only("add_final_layer_norm", is(kind.pre));
  config.only("normalize_before", is(kind.pre));
  config.only("normalize_embedding", is(!kind.static_positions));
  config.only("static_position_embeddings", is(kind.static_positions));
  config.only("share_encoder_decoder_embeddings", {"true"});
  config.ignore({"encoder_layerdrop", "decoder_layerdrop", "dropout", "activation_dropout", "classif_dropout",
                 "classifier_dropout", "init_std", "num_hidden_layers", "output_past", "extra_pos_embeddings",
                 "force_bos_token_to_be_generated", "decoder_vocab_size", "architectures"});
  if (const Node* architectures = config.find("architectures"); architectures && !architectures->items().empty()) {
    const std::string name = architectures->items()[0].text();
    check(name.ends_with("ForConditionalGeneration") || name.ends_with("MTModel"), "import", "'", config.origin(),
          "': architecture ", name, " can not be imported; encoder-decoders for generation can");
  }
}

Mapping read_bart(const HfConfig& config, TensorNames names) {
  const std::string type = config.text("model_type");
  const Kind kind{type == "mbart", type == "marian"};
  check_habits(config, kind);
  const int64_t d = config.integer("d_model"), positions = config.integer("max_position_embeddings", 1024);
  check(config.integer("decoder_vocab_size", config.integer("vocab_size")) == config.integer("vocab_size"), "import",
        "'", config.origin(), "': decoder_vocab_size differs from vocab_size, and one embedding serves both here");
  const bool tied = config.flag("tie_word_embeddings", true);
  const std::string act = activation_options(config, "activation_function", "gelu", false);
  const auto side = [&](const char* name) {
    const int64_t heads = config.integer(cat(name, "_attention_heads"));
    check(heads > 0 && d % heads == 0, "import", "'", config.origin(), "': ", name, "_attention_heads ", heads,
          " do not divide d_model ", d);
    return cat("mixer: {type: attention, num_attention_heads: ", heads, ", attention_bias: true, output_bias: true}, ",
               "ffn: {", act, ", intermediate_size: ", config.integer(cat(name, "_ffn_dim")), "}");
  };
  const int64_t layers[] = {config.integer("encoder_layers"), config.integer("decoder_layers")};
  Mapping out;
  out.model = model_of(cat(
      "{architecture: encoder_decoder, vocab_size: ", config.integer("vocab_size"), ", token_width: 1, hidden_size: ",
      d, ", max_position_embeddings: ", positions, ", num_hidden_layers: ", layers[1], ", ", side("decoder"),
      ", encoder: {num_hidden_layers: ", layers[0], ", ", side("encoder"), "}, embedding: {type: lookup, scale: ",
      config.flag("scale_embedding", false) ? "sqrt_hidden" : "one", "}, position: ",
      kind.static_positions ? "{type: sinusoidal, offset: 0, layout: concatenated}" : "{type: learned, offset: 2}",
      ", embedding_norm: ", kind.static_positions ? "false" : "true",
      ", norm: {type: layer, eps_mode: variance, eps: 1e-5}, residual: ", kind.pre ? "pre" : "post",
      ", head: {type: lm, bias: true}, tie_word_embeddings: ", tied ? "true" : "false", "}"));

  std::vector<Weight>& w = out.weights;
  const std::string base = prefix_of(names, "shared.weight", "model.");
  w.push_back({"embedding.weight", base + "shared.weight"});
  const std::pair<const char*, const char*> maps[] = {
      {"heads.q", "q_proj"}, {"heads.k", "k_proj"}, {"heads.v", "v_proj"}, {"output", "out_proj"}};
  for (const bool decoder : {false, true}) {
    const std::string ours = decoder ? "decoder." : "encoder.", theirs = base + ours;
    if (kind.static_positions)
      out.dropped.push_back(theirs + "embed_positions.weight");
    else
      w.push_back({ours + "position.weight", theirs + "embed_positions.weight"});
    out.dropped.push_back(theirs + "embed_tokens.weight");
    if (!kind.static_positions) add_linear(w, ours + "embedding_norm", theirs + "layernorm_embedding", true, false);
    if (kind.pre) add_linear(w, ours + "final_norm", theirs + "layer_norm", true, false);
    for (int64_t i = 0; i < layers[decoder]; ++i) {
      const std::string mine = cat(ours, "layers.", i, "."), their = cat(theirs, "layers.", i, ".");
      for (const bool cross : {false, true}) {
        if (cross && !decoder) continue;
        const std::string part = cross ? "cross" : "mixer", other = cross ? "encoder_attn" : "self_attn";
        for (const auto& [name, map] : maps)
          add_linear(w, cat(mine, part, ".", name), cat(their, other, ".", map), true);
        add_linear(w, mine + part + "_norm", their + other + "_layer_norm", true, false);
      }
      add_linear(w, mine + "ffn.up", their + "fc1", true);
      add_linear(w, mine + "ffn.down", their + "fc2", true);
      add_linear(w, mine + "ffn_norm", their + "final_layer_norm", true, false);
    }
  }
  Weight bias{"head.bias", "final_logits_bias"};
  bias.row = true;
  w.push_back(bias);
  if (tied)
    out.dropped.push_back("lm_head.weight");
  else
    w.push_back({"head.weight", "lm_head.weight", true});
  return out;
}

std::optional<Json> write_bart(const ModelConfig& model) {
  const bool marian = model.position.type == "sinusoidal", pre = model.residual.type == "pre";
  if (!reads_source(model.architecture) || (!marian && model.position.type != "learned")) return {};
  const ModelConfig encoder = model.encoder_config();
  const std::string type = marian ? "marian" : pre ? "mbart" : "bart";
  Json out = common_config(model, type,
                           marian ? "MarianMTModel"
                           : pre  ? "MBartForConditionalGeneration"
                                  : "BartForConditionalGeneration");
  out["is_encoder_decoder"] = true;
  out["d_model"] = model.hidden_size;
  for (const ModelConfig* side : {&encoder, &model}) {
    const std::string name = side == &model ? "decoder" : "encoder";
    const int64_t inner = option_integer(side->ffn, "intermediate_size");
    out[name + "_layers"] = side->num_hidden_layers;
    out[name + "_attention_heads"] = option_integer(side->mixer, "num_attention_heads");
    out[name + "_ffn_dim"] = inner ? inner : 4 * model.hidden_size;
  }
  out["activation_function"] = model.ffn.type == "relu"                     ? "relu"
                               : model.ffn.type == "silu"                   ? "swish"
                               : option(model.ffn, "approximate") == "tanh" ? "gelu_new"
                                                                            : "gelu";
  out["max_position_embeddings"] = model.max_position_embeddings;
  out["scale_embedding"] = option(model.embedding, "scale") == "sqrt_hidden";
  return out;
}

}  // namespace

Family bart_family() { return {{"bart", "mbart", "marian"}, read_bart, write_bart}; }

}  // namespace lithe

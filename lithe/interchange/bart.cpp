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
  const auto side = [&](const char* name) { return side_options(config, name, d, act, true); };
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
  for (const bool decoder : {false, true}) {
    const std::string ours = decoder ? "decoder." : "encoder.", theirs = base + ours;
    if (kind.static_positions)
      out.dropped.push_back(theirs + "embed_positions.weight");
    else
      w.push_back({ours + "position.weight", theirs + "embed_positions.weight"});
    out.dropped.push_back(theirs + "embed_tokens.weight");
    if (!kind.static_positions) add_linear(w, ours + "embedding_norm", theirs + "layernorm_embedding", true, false);
    if (kind.pre) add_linear(w, ours + "final_norm", theirs + "layer_norm", true, false);
    add_side_layers(w, ours, base, layers[decoder], true);
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
  const std::string type = marian ? "marian" : pre ? "mbart" : "bart";
  Json out = common_config(model, type,
                           marian ? "MarianMTModel"
                           : pre  ? "MBartForConditionalGeneration"
                                  : "BartForConditionalGeneration");
  write_sides(out, model);
  out["max_position_embeddings"] = model.max_position_embeddings;
  out["scale_embedding"] = option(model.embedding, "scale") == "sqrt_hidden";
  return out;
}

}  // namespace

Family bart_family() { return {{"bart", "mbart", "marian"}, read_bart, write_bart}; }

}  // namespace lithe

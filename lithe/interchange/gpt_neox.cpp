// GPT-NeoX and Pythia: mixer and feed-forward layer read the same rows, a quarter of each head turns, and queries, keys
// and values come from one map, head by head.
#include "lithe/interchange/family.h"

namespace lithe {
namespace {

Mapping read_gpt_neox(const HfConfig& config, TensorNames names) {
  const int64_t d = config.integer("hidden_size"), layers = config.integer("num_hidden_layers"),
                heads = config.integer("num_attention_heads"), c = heads ? d / heads : 0;
  const bool bias = config.flag("attention_bias", true), tied = config.flag("tie_word_embeddings", false);
  const double share = config.number("rotary_pct", 0.25),
               theta = config.number("rope_theta", config.number("rotary_emb_base", 10000));
  config.ignore({"rotary_pct", "rotary_emb_base", "rope_theta"});
  Mapping out;
  out.model = model_of(cat(
      "{architecture: decoder, vocab_size: ", config.integer("vocab_size"), ", token_width: 1, hidden_size: ", d,
      ", num_hidden_layers: ", layers, ", max_position_embeddings: ", config.integer("max_position_embeddings", 2048),
      ", position: {", rotary_options(config, c, {.theta = theta, .share = share}),
      "}, mixer: {type: attention, num_attention_heads: ", heads, ", attention_bias: ", bias ? "true" : "false",
      ", output_bias: ", bias ? "true" : "false", "}, ffn: {", activation_options(config, "hidden_act", "gelu", false),
      ", intermediate_size: ", config.integer("intermediate_size"),
      "}, norm: {type: layer, eps_mode: variance, eps: ", number_text(config.number("layer_norm_eps", 1e-5)),
      "}, residual: pre, stack: ", config.flag("use_parallel_residual", true) ? "parallel" : "plain",
      ", head: lm, tie_word_embeddings: ", tied ? "true" : "false", "}"));

  const std::string base = prefix_of(names, "embed_in.weight", "gpt_neox.");
  std::vector<Weight>& w = out.weights;
  w.push_back({"embedding.weight", base + "embed_in.weight"});
  for (int64_t i = 0; i < layers; ++i) {
    const std::string ours = cat("layers.", i, "."), theirs = cat(base, "layers.", i, ".");
    add_linear(w, ours + "mixer_norm", theirs + "input_layernorm", true, false);
    add_linear(w, ours + "ffn_norm", theirs + "post_attention_layernorm", true, false);
    int64_t part = 0;
    for (const char* name : {"q", "k", "v"}) {
      std::vector<int64_t> columns;
      for (int64_t head = 0; head < heads; ++head)
        for (int64_t j = 0; j < c; ++j) columns.push_back((head * 3 + part) * c + j);
      add_linear(w, cat(ours, "mixer.heads.", name), theirs + "attention.query_key_value", bias, true, columns);
      ++part;
    }
    add_linear(w, ours + "mixer.output", theirs + "attention.dense", bias);
    add_linear(w, ours + "ffn.up", theirs + "mlp.dense_h_to_4h", true);
    add_linear(w, ours + "ffn.down", theirs + "mlp.dense_4h_to_h", true);
  }
  add_linear(w, "final_norm", base + "final_layer_norm", true, false);
  if (tied)
    out.dropped.push_back("embed_out.weight");
  else
    w.push_back({"head.weight", "embed_out.weight", true});
  for (const char* buffer : {"*.attention.bias", "*.attention.masked_bias", "*.rotary_emb.inv_freq"})
    out.dropped.push_back(buffer);
  return out;
}

std::optional<Json> write_gpt_neox(const ModelConfig& model) {
  if (model.architecture != Architecture::decoder || model.position.type != "rotary" || model.norm.type != "layer")
    return {};
  Json out = common_config(model, "gpt_neox", "GPTNeoXForCausalLM");
  const int64_t heads = option_integer(model.mixer, "num_attention_heads"), c = model.hidden_size / heads,
                turned = option_integer(model.position, "rotary_dim"),
                inner = option_integer(model.ffn, "intermediate_size");
  out["hidden_size"] = model.hidden_size;
  out["num_hidden_layers"] = model.num_hidden_layers;
  out["num_attention_heads"] = heads;
  out["intermediate_size"] = inner ? inner : 4 * model.hidden_size;
  out["hidden_act"] = model.ffn.type == "relu"                     ? "relu"
                      : option(model.ffn, "approximate") == "tanh" ? "gelu_new"
                                                                   : "gelu";
  out["max_position_embeddings"] = model.max_position_embeddings;
  out["layer_norm_eps"] = option_number(model.norm, "eps");
  out["attention_bias"] = option(model.mixer, "attention_bias") == "true";
  out["use_parallel_residual"] = model.stack.type == "parallel";
  out["rotary_pct"] = turned ? double(turned) / double(c) : 1.0;
  write_rotary(out, model.position);
  out["rotary_emb_base"] = out["rope_theta"];
  return out;
}

}  // namespace

Family gpt_neox_family() { return {{"gpt_neox"}, read_gpt_neox, write_gpt_neox}; }

}  // namespace lithe

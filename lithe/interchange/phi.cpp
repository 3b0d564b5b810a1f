// Phi 1, 1.5 and 2: mixer and feed-forward layer read the same normed rows, half of each head turns, biases everywhere,
// also on the logits.
#include "lithe/interchange/family.h"
#include "lithe/parts/common/key_value_heads.h"

namespace lithe {
namespace {

Mapping read_phi(const HfConfig& config, TensorNames names) {
  const int64_t d = config.integer("hidden_size"), layers = config.integer("num_hidden_layers"),
                heads = config.integer("num_attention_heads"), kv = config.integer("num_key_value_heads", heads),
                c = heads ? d / heads : 0;
  config.only("qk_layernorm", {"false"});
  const bool tied = config.flag("tie_word_embeddings", false);
  Mapping out;
  out.model = model_of(cat(
      "{architecture: decoder, vocab_size: ", config.integer("vocab_size"), ", token_width: 1, hidden_size: ", d,
      ", num_hidden_layers: ", layers, ", max_position_embeddings: ", config.integer("max_position_embeddings", 2048),
      ", position: {", rotary_options(config, c, {.share = 0.5}),
      "}, mixer: {type: attention, num_attention_heads: ", heads, ", attention_bias: true, output_bias: true, heads: ",
      kv == heads ? "mha" : cat("{type: gqa, num_key_value_heads: ", kv, "}"), "}, ffn: {",
      activation_options(config, "hidden_act", "gelu_new", false),
      ", intermediate_size: ", config.integer("intermediate_size"),
      "}, norm: {type: layer, eps_mode: variance, eps: ", number_text(config.number("layer_norm_eps", 1e-5)),
      "}, residual: pre, stack: parallel, head: {type: lm, bias: true}, tie_word_embeddings: ", tied ? "true" : "false",
      "}"));

  const std::string base = prefix_of(names, "embed_tokens.weight", "model.");
  std::vector<Weight>& w = out.weights;
  w.push_back({"embedding.weight", base + "embed_tokens.weight"});
  for (int64_t i = 0; i < layers; ++i) {
    const std::string ours = cat("layers.", i, "."), theirs = cat(base, "layers.", i, ".");
    for (const char* norm : {"mixer_norm", "ffn_norm"})
      add_linear(w, ours + norm, theirs + "input_layernorm", true, false);
    for (const char* name : {"q", "k", "v"})
      add_linear(w, cat(ours, "mixer.heads.", name), cat(theirs, "self_attn.", name, "_proj"), true);
    add_linear(w, ours + "mixer.output", theirs + "self_attn.dense", true);
    add_linear(w, ours + "ffn.up", theirs + "mlp.fc1", true);
    add_linear(w, ours + "ffn.down", theirs + "mlp.fc2", true);
  }
  add_linear(w, "final_norm", base + "final_layernorm", true, false);
  if (!tied) w.push_back({"head.weight", "lm_head.weight", true});
  if (tied) out.dropped.push_back("lm_head.weight");
  w.push_back({"head.bias", "lm_head.bias"});
  return out;
}

std::optional<Json> write_phi(const ModelConfig& model) {
  if (model.architecture != Architecture::decoder || model.position.type != "rotary" ||
      option(model.head, "bias") != "true")
    return {};
  Json out = common_config(model, "phi", "PhiForCausalLM");
  const int64_t heads = option_integer(model.mixer, "num_attention_heads"), c = model.hidden_size / heads,
                turned = option_integer(model.position, "rotary_dim"),
                inner = option_integer(model.ffn, "intermediate_size");
  out["hidden_size"] = model.hidden_size;
  out["num_hidden_layers"] = model.num_hidden_layers;
  out["num_attention_heads"] = heads;
  out["num_key_value_heads"] = key_value_heads(model.mixer) ? key_value_heads(model.mixer) : heads;
  out["intermediate_size"] = inner ? inner : 4 * model.hidden_size;
  out["hidden_act"] = model.ffn.type == "relu"                     ? "relu"
                      : option(model.ffn, "approximate") == "tanh" ? "gelu_new"
                                                                   : "gelu";
  out["max_position_embeddings"] = model.max_position_embeddings;
  out["layer_norm_eps"] = option_number(model.norm, "eps");
  out["partial_rotary_factor"] = turned ? double(turned) / double(c) : 1.0;
  out["qk_layernorm"] = false;
  write_rotary(out, model.position);
  return out;
}

}  // namespace

Family phi_family() { return {{"phi"}, read_phi, write_phi}; }

}  // namespace lithe

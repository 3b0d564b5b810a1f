// GPT-2: a pre-norm decoder with learned positions, biases everywhere, and queries, keys and values from one map, whose
// weights are [in, out].
#include "lithe/interchange/family.h"

namespace lithe {
namespace {

Mapping read_gpt2(const HfConfig& config, TensorNames names) {
  const int64_t d = config.integer("n_embd"), layers = config.integer("n_layer"), heads = config.integer("n_head"),
                positions = config.integer("n_positions", 1024), inner = config.integer("n_inner", 4 * d);
  config.ignore({"n_ctx", "reorder_and_upcast_attn"});
  config.only("scale_attn_weights", {"true"});
  config.only("scale_attn_by_inverse_layer_idx", {"false"});
  const bool tied = config.flag("tie_word_embeddings", true);
  Mapping out;
  out.model = model_of(
      cat("{architecture: decoder, vocab_size: ", config.integer("vocab_size"), ", token_width: 1, hidden_size: ", d,
          ", num_hidden_layers: ", layers, ", max_position_embeddings: ", positions,
          ", position: learned, mixer: {type: attention, num_attention_heads: ", heads,
          ", attention_bias: true, output_bias: true}, ffn: {",
          activation_options(config, "activation_function", "gelu_new", false), ", intermediate_size: ", inner,
          "}, norm: {type: layer, eps_mode: variance, eps: ", number_text(config.number("layer_norm_epsilon", 1e-5)),
          "}, residual: pre, head: lm, tie_word_embeddings: ", tied ? "true" : "false", "}"));

  const std::string base = prefix_of(names, "wte.weight", "transformer.");
  std::vector<Weight>& w = out.weights;
  w.push_back({"embedding.weight", base + "wte.weight"});
  w.push_back({"position.weight", base + "wpe.weight"});
  for (int64_t i = 0; i < layers; ++i) {
    const std::string ours = cat("layers.", i, "."), theirs = cat(base, "h.", i, ".");
    add_linear(w, ours + "mixer_norm", theirs + "ln_1", true, false);
    int64_t part = 0;
    for (const char* name : {"q", "k", "v"}) {
      add_linear(w, cat(ours, "mixer.heads.", name), theirs + "attn.c_attn", true, false,
                 range(part * d, (part + 1) * d));
      ++part;
    }
    add_linear(w, ours + "mixer.output", theirs + "attn.c_proj", true, false);
    add_linear(w, ours + "ffn_norm", theirs + "ln_2", true, false);
    add_linear(w, ours + "ffn.up", theirs + "mlp.c_fc", true, false);
    add_linear(w, ours + "ffn.down", theirs + "mlp.c_proj", true, false);
  }
  add_linear(w, "final_norm", base + "ln_f", true, false);
  if (tied)
    out.dropped.push_back("lm_head.weight");
  else
    w.push_back({"head.weight", "lm_head.weight", true});
  for (const char* buffer : {"*.attn.bias", "*.attn.masked_bias"}) out.dropped.push_back(buffer);
  return out;
}

std::optional<Json> write_gpt2(const ModelConfig& model) {
  if (model.architecture != Architecture::decoder || model.position.type != "learned") return {};
  Json out = common_config(model, "gpt2", "GPT2LMHeadModel");
  out["n_embd"] = model.hidden_size;
  out["n_layer"] = model.num_hidden_layers;
  out["n_head"] = option_integer(model.mixer, "num_attention_heads");
  out["n_positions"] = model.max_position_embeddings;
  const int64_t inner = option_integer(model.ffn, "intermediate_size");
  out["n_inner"] = inner ? inner : 4 * model.hidden_size;
  out["activation_function"] = model.ffn.type == "relu"                     ? "relu"
                               : option(model.ffn, "approximate") == "tanh" ? "gelu_new"
                                                                            : "gelu";
  out["layer_norm_epsilon"] = option_number(model.norm, "eps");
  return out;
}

}  // namespace

Family gpt2_family() { return {{"gpt2"}, read_gpt2, write_gpt2}; }

}  // namespace lithe

// Gemma: RMS norms whose factor is 1 + weight, embedded rows times sqrt(D), GELU-gated layers. Gemma 2 adds norms after
// each sub-layer, windows in every other layer, and caps on the logits of attention and of the model; Gemma 3 a norm of
// queries and keys in place of the caps, and windows with their own rotary base in most layers.
#include <algorithm>
#include <cmath>

#include "lithe/base/error.h"
#include "lithe/interchange/family.h"
#include "lithe/parts/common/key_value_heads.h"

namespace lithe {
namespace {

// Files of the first Gemma say gelu in hidden_act and mean its approximation by tanh; the later ones do not read it.
std::string activation_of(const HfConfig& config, bool later) {
  const bool legacy = later || config.text("hidden_act", "gelu") == "gelu";
  const char* key = config.has("hidden_activation") || legacy ? "hidden_activation" : "hidden_act";
  config.ignore({"hidden_act"});
  return activation_options(config, key, "gelu_pytorch_tanh", true);
}

std::string local_rotary(const HfConfig& config, int64_t head_dim) {
  const double theta = config.number("rope_local_base_freq", 10000);
  if (!has_rotary_by_layers(config)) return cat("type: rotary, base: ", number_text(theta));
  return rotary_options(config, head_dim, {.theta = theta, .whole = true, .layers = "sliding_attention"});
}

Mapping read_gemma(const HfConfig& config, TensorNames names) {
  const std::string type = config.text("model_type");
  const bool third = type == "gemma3_text", later = third || type == "gemma2";
  const int64_t d = config.integer("hidden_size"), layers = config.integer("num_hidden_layers"),
                heads = config.integer("num_attention_heads"), kv = config.integer("num_key_value_heads", heads),
                head_dim = config.integer("head_dim", 256);
  check(layers >= 0 && heads > 0 && kv > 0, "import", "'", config.origin(), "': ", layers, " layers of ", heads,
        " heads are no model");
  const double eps = config.number("rms_norm_eps", 1e-6);
  const bool bias = config.flag("attention_bias", false), tied = config.flag("tie_word_embeddings", true);
  const std::string act = activation_of(config, later);
  const std::string norm = cat("{type: rms, unit_offset: true, eps: ", number_text(eps), "}");
  std::vector<bool> sliding(size_t(layers), false);
  int64_t window = 0;
  config.only("use_bidirectional_attention", {"false"});
  if (third) config.only("attn_logit_softcapping", {});
  if (later) {
    window = config.integer("sliding_window", 4096);
    const int64_t pattern = third ? std::max<int64_t>(1, config.integer("sliding_window_pattern",
                                                                        config.integer("_sliding_window_pattern", 6)))
                                  : 2;
    for (int64_t i = 0; i < layers; ++i) sliding[size_t(i)] = (i + 1) % pattern != 0;
    sliding = sliding_layers(config, sliding);
  }
  // An absent key has its usual number, null is no cap.
  const auto cap_of = [&](const char* key, double usual) {
    return config.has(key) ? config.number(key) : config.present(key) || third ? 0 : usual;
  };
  const double cap = later ? cap_of("final_logit_softcapping", 30) : 0,
               attention_cap = later && !third ? cap_of("attn_logit_softcapping", 50) : 0,
               scalar = later ? config.number("query_pre_attn_scalar", 256) : 0;
  const auto mixer = [&](bool local) {
    return cat("{type: attention, num_attention_heads: ", heads, ", head_dim: ", head_dim,
               ", query_pre_attn_scalar: ", number_text(scalar),
               ", attn_logit_softcapping: ", number_text(attention_cap), ", attention_bias: ", bias ? "true" : "false",
               ", output_bias: ", bias ? "true" : "false",
               ", heads: {type: ", kv == heads ? "mha" : cat("gqa, num_key_value_heads: ", kv),
               third ? cat(", qk_norm: head, qk_norm_unit_offset: true, qk_norm_eps: ", number_text(eps)) : "", "}",
               local ? cat(", field: {type: local, window: ", window, "}") : "", "}");
  };
  std::string hybrid;
  if (later) {
    const std::string position = third ? cat(", position: {", local_rotary(config, head_dim), "}") : "";
    bool any[2] = {false, false};
    std::string types;
    for (size_t i = 0; i < sliding.size(); ++i) {
      any[sliding[i]] = true;
      types += cat(i ? ", " : "", sliding[i] ? "sliding_attention" : "full_attention");
    }
    hybrid = ", layers: {";
    if (any[0]) hybrid += cat("full_attention: {mixer: ", mixer(false), "}");
    if (any[1]) hybrid += cat(any[0] ? ", " : "", "sliding_attention: {mixer: ", mixer(true), position, "}");
    hybrid += cat("}, layer_types: [", types, "]");
  }
  Mapping out;
  out.model = model_of(cat(
      "{architecture: decoder, vocab_size: ", config.integer("vocab_size"), ", token_width: 1, hidden_size: ", d,
      ", num_hidden_layers: ", layers, ", max_position_embeddings: ", config.integer("max_position_embeddings", 8192),
      ", embedding: {type: lookup, scale: sqrt_hidden}, position: {",
      rotary_options(config, head_dim, {.theta = third ? 1e6 : 1e4, .whole = true, .layers = "full_attention"}),
      "}, mixer: ", mixer(false), hybrid, ", ffn: {", act, ", intermediate_size: ", config.integer("intermediate_size"),
      "}, norm: ", norm, ", residual: ", later ? cat("{type: sandwich, norm: ", norm, "}") : "pre",
      ", head: {type: lm, logit_softcapping: ", number_text(cap), "}, tie_word_embeddings: ", tied ? "true" : "false",
      "}"));

  const std::string base = prefix_of(names, "embed_tokens.weight", "model.");
  std::vector<Weight>& w = out.weights;
  w.push_back({"embedding.weight", base + "embed_tokens.weight"});
  for (int64_t i = 0; i < layers; ++i) {
    const std::string ours = cat("layers.", i, "."), theirs = cat(base, "layers.", i, ".");
    w.push_back({ours + "mixer_norm.weight", theirs + "input_layernorm.weight"});
    w.push_back({ours + "ffn_norm.weight",
                 theirs + (later ? "pre_feedforward_layernorm.weight" : "post_attention_layernorm.weight")});
    for (const char* name : {"q", "k", "v"})
      add_linear(w, cat(ours, "mixer.heads.", name), cat(theirs, "self_attn.", name, "_proj"), bias);
    if (later) {
      w.push_back({ours + "mixer_residual.norm.weight", theirs + "post_attention_layernorm.weight"});
      w.push_back({ours + "ffn_residual.norm.weight", theirs + "post_feedforward_layernorm.weight"});
    }
    if (third)
      for (const char* name : {"q", "k"})
        w.push_back({cat(ours, "mixer.heads.", name, "_norm.weight"), cat(theirs, "self_attn.", name, "_norm.weight")});
    add_linear(w, ours + "mixer.output", theirs + "self_attn.o_proj", bias);
    for (const char* name : {"gate", "up", "down"})
      add_linear(w, cat(ours, "ffn.", name), cat(theirs, "mlp.", name, "_proj"), false);
  }
  w.push_back({"final_norm.weight", base + "norm.weight"});
  if (tied)
    out.dropped.push_back("lm_head.weight");
  else
    w.push_back({"head.weight", "lm_head.weight", true});
  return out;
}

std::optional<Json> write_gemma(const ModelConfig& model) {
  if (model.architecture != Architecture::decoder || option(model.norm, "unit_offset") != "true" ||
      !model.num_hidden_layers)
    return {};
  const LayerConfig first = model.layer(0);
  if (!first.mixer() || first.mixer()->type != "attention") return {};
  const PartChoice &mixer = *first.mixer(), &ffn = first.sub_layers.back().part;
  const bool later = model.residual.type == "sandwich", third = later && option(mixer, "heads.qk_norm") == "head";
  const std::pair<const char*, const char*> kinds[] = {
      {"gemma", "GemmaForCausalLM"}, {"gemma2", "Gemma2ForCausalLM"}, {"gemma3_text", "Gemma3ForCausalLM"}};
  const auto& [type, class_name] = kinds[later + third];
  Json out = common_config(model, type, class_name);
  const int64_t heads = option_integer(mixer, "num_attention_heads");
  out["hidden_size"] = model.hidden_size;
  out["num_hidden_layers"] = model.num_hidden_layers;
  out["num_attention_heads"] = heads;
  out["num_key_value_heads"] = key_value_heads(mixer) ? key_value_heads(mixer) : heads;
  out["head_dim"] = option_integer(mixer, "head_dim") ? option_integer(mixer, "head_dim") : model.hidden_size / heads;
  out["intermediate_size"] = option_integer(ffn, "intermediate_size");
  const char* act = option(ffn, "approximate") == "tanh" ? "gelu_pytorch_tanh" : ffn.type == "swiglu" ? "silu" : "gelu";
  out[later ? "hidden_activation" : "hidden_act"] = act;
  out["max_position_embeddings"] = model.max_position_embeddings;
  out["rms_norm_eps"] = option_number(model.norm, "eps");
  out["attention_bias"] = option(mixer, "attention_bias") == "true";
  write_rotary(out, model.position);
  if (!later) return out;
  const double scalar = option_number(mixer, "query_pre_attn_scalar");
  if (scalar != std::floor(scalar)) return {};
  out["query_pre_attn_scalar"] = scalar ? int64_t(scalar) : out["head_dim"].get<int64_t>();
  const auto write_cap = [&](const char* key, double cap) { out[key] = cap ? Json(cap) : Json(); };
  write_cap("final_logit_softcapping", option_number(model.head, "logit_softcapping"));
  if (!third) write_cap("attn_logit_softcapping", option_number(mixer, "attn_logit_softcapping"));
  Json types = Json::array();
  for (int64_t i = 0; i < model.num_hidden_layers; ++i) {
    const LayerConfig layer = model.layer(i);
    if (!layer.mixer()) return {};
    const bool local = option(*layer.mixer(), "field") == "local";
    types.push_back(local ? "sliding_attention" : "full_attention");
    if (!local) continue;
    const PartChoice field = inner_part(*layer.mixer(), "field");
    const Node* window = field.options.find("window");
    if (!window || window->items().size() != 1) return {};
    out["sliding_window"] = std::stoll(window->items()[0].text());
    if (third) out["rope_local_base_freq"] = option_number(layer.position.value_or(model.position), "base");
  }
  out["layer_types"] = types;
  return out;
}

}  // namespace

Family gemma_family() { return {{"gemma", "gemma2", "gemma3_text"}, read_gemma, write_gemma}; }

}  // namespace lithe

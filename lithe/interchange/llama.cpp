// Llama and its kin: pre-norm decoders with RMS norms, rotary positions and gated feed-forward layers. Mistral adds
// sliding windows, Qwen2 biases, Qwen3 a norm of queries and keys, OLMo norms without weights and bounds on queries,
// keys and values, OLMo2 moves the norms behind the sub-layers, Phi-3 fuses projections.
#include <algorithm>

#include "lithe/base/error.h"
#include "lithe/interchange/family.h"
#include "lithe/parts/common/key_value_heads.h"

namespace lithe {
namespace {

struct Kind {
  bool bias = false, output_bias = false, mlp_bias = false;
  std::string qk_norm = "none";
  bool post = false, fused = false;  // norms behind the sub-layers (OLMo2); joined projections (Phi-3)
  bool plain_norm = false;           // layer norms without weights (OLMo)
  double clip = 0;
};

// Of these families the first layers see everything, where layer_types does not say it.
std::vector<bool> windowed_layers(const HfConfig& config, const std::string& type, int64_t layers, int64_t window) {
  std::vector<bool> out(size_t(layers), window > 0);
  const int64_t first = type.starts_with("qwen") ? config.integer("max_window_layers", 28) : 0;
  std::fill_n(out.begin(), std::clamp<int64_t>(first, 0, layers), false);
  out = sliding_layers(config, out);
  if (!window) out.assign(out.size(), false);
  return out;
}

Kind kind_of(const HfConfig& config, const std::string& type) {
  Kind kind;
  if (type == "llama") {
    kind.bias = kind.output_bias = config.flag("attention_bias", false);
    kind.mlp_bias = config.flag("mlp_bias", false);
  } else if (type == "qwen2") {
    kind.bias = true;
  } else if (type == "qwen3") {
    kind.bias = kind.output_bias = config.flag("attention_bias", false);
    kind.qk_norm = "head";
  } else if (type == "olmo2") {
    kind.bias = kind.output_bias = config.flag("attention_bias", false);
    kind.qk_norm = "row";
    kind.post = true;
  } else if (type == "olmo") {
    kind.bias = kind.output_bias = config.flag("attention_bias", false);
    kind.plain_norm = true;
    kind.clip = config.number("clip_qkv", 0);
  } else if (type == "phi3") {
    kind.fused = true;
    config.ignore({"original_max_position_embeddings"});
  }
  if (type != "llama") config.only("mlp_bias", {"false"});
  return kind;
}

Mapping read_llama(const HfConfig& config, TensorNames names) {
  const std::string type = config.text("model_type");
  const int64_t d = config.integer("hidden_size"), layers = config.integer("num_hidden_layers"),
                heads = config.integer("num_attention_heads"), kv = config.integer("num_key_value_heads", heads),
                head_dim = config.integer("head_dim", heads ? d / heads : 0),
                inner = config.integer("intermediate_size"), positions = positions_of(config, 2048);
  const Kind kind = kind_of(config, type);
  check(layers >= 0 && heads > 0 && kv > 0 && head_dim > 0 && head_dim * std::max(heads, kv) <= (1 << 24) &&
            inner > 0 && inner <= (1 << 24),
        "import", "'", config.origin(), "': ", layers, " layers of ", heads, " heads of ", head_dim, " channels (", kv,
        " for keys) and ", inner, " hidden channels are no model");
  const bool tied = config.flag("tie_word_embeddings", false);
  const std::string act = activation_options(config, "hidden_act", "silu", true);
  const double eps =
      config.number("rms_norm_eps", type == "mistral" || type == "llama" || type.starts_with("qwen") ? 1e-6 : 1e-5);
  // Mistral's window is 4096 where its config does not say otherwise. What the others have none of, they do not read.
  int64_t window = config.integer("sliding_window", type == "mistral" && !config.present("sliding_window") ? 4096 : 0);
  if (type == "llama" || type.starts_with("olmo")) window = 0;
  if (type.starts_with("qwen") && !config.flag("use_sliding_window", false)) window = 0;
  if (window >= positions) window = 0;
  const std::vector<bool> sliding = windowed_layers(config, type, layers, window);

  const std::string qk =
      cat(kind.qk_norm == "none" ? "" : cat(", qk_norm: ", kind.qk_norm, ", qk_norm_eps: ", number_text(eps)),
          kind.clip > 0 ? cat(", clip_qkv: ", number_text(kind.clip)) : "");
  const auto mixer = [&](bool local) {
    return cat(
        "{type: attention, num_attention_heads: ", heads, head_dim * heads == d ? "" : cat(", head_dim: ", head_dim),
        ", attention_bias: ", kind.bias ? "true" : "false", ", output_bias: ", kind.output_bias ? "true" : "false",
        ", heads: {type: ", kv == heads ? "mha" : cat("gqa, num_key_value_heads: ", kv), qk, "}",
        local ? cat(", field: {type: local, window: ", window, "}") : "", "}");
  };
  size_t local = 0;
  for (const bool s : sliding) local += s;
  std::string hybrid;
  if (local && local < sliding.size()) {
    hybrid =
        cat(", mixers: {full_attention: ", mixer(false), ", sliding_attention: ", mixer(true), "}, layer_types: [");
    for (size_t i = 0; i < sliding.size(); ++i)
      hybrid += cat(i ? ", " : "", sliding[i] ? "sliding_attention" : "full_attention");
    hybrid += "]";
  }
  Mapping out;
  out.model = model_of(
      cat("{architecture: decoder, vocab_size: ", config.integer("vocab_size"), ", token_width: 1, hidden_size: ", d,
          ", num_hidden_layers: ", layers, ", max_position_embeddings: ", positions, ", position: {",
          rotary_options(config, head_dim, {.whole = type != "phi3"}),
          "}, mixer: ", mixer(local == sliding.size() && local), hybrid, ", ffn: {", act,
          ", intermediate_size: ", inner, ", bias: ", kind.mlp_bias ? "true" : "false",
          "}, norm: {type: ", kind.plain_norm ? "layer, weight: false, bias: false, eps_mode: variance" : "rms",
          ", eps: ", number_text(kind.plain_norm ? 1e-5 : eps), "}, residual: {type: ", kind.post ? "res_post" : "pre",
          "}, head: lm, tie_word_embeddings: ", tied ? "true" : "false", "}"));

  const std::string base = prefix_of(names, "embed_tokens.weight", "model.");
  std::vector<Weight>& w = out.weights;
  w.push_back({"embedding.weight", base + "embed_tokens.weight"});
  for (int64_t i = 0; i < layers; ++i) {
    const std::string ours = cat("layers.", i, "."), theirs = cat(base, "layers.", i, ".");
    if (!kind.plain_norm)
      w.push_back({ours + "mixer_norm.weight",
                   theirs + (kind.post ? "post_attention_layernorm.weight" : "input_layernorm.weight")});
    const std::string q = ours + "mixer.heads.";
    if (kind.fused) {
      const std::string joined = theirs + "self_attn.qkv_proj";
      add_linear(w, q + "q", joined, false, true, range(0, heads * head_dim));
      add_linear(w, q + "k", joined, false, true, range(heads * head_dim, (heads + kv) * head_dim));
      add_linear(w, q + "v", joined, false, true, range((heads + kv) * head_dim, (heads + 2 * kv) * head_dim));
      add_linear(w, ours + "ffn.gate", theirs + "mlp.gate_up_proj", false, true, range(0, inner));
      add_linear(w, ours + "ffn.up", theirs + "mlp.gate_up_proj", false, true, range(inner, 2 * inner));
    } else {
      for (const char* name : {"q", "k", "v"})
        add_linear(w, q + name, cat(theirs, "self_attn.", name, "_proj"), kind.bias);
      for (const char* name : {"gate", "up"})
        add_linear(w, cat(ours, "ffn.", name), cat(theirs, "mlp.", name, "_proj"), kind.mlp_bias);
    }
    if (kind.qk_norm != "none")
      for (const char* name : {"q", "k"})
        w.push_back({cat(q, name, "_norm.weight"), cat(theirs, "self_attn.", name, "_norm.weight")});
    add_linear(w, ours + "mixer.output", theirs + "self_attn.o_proj", kind.output_bias);
    if (!kind.plain_norm)
      w.push_back({ours + "ffn_norm.weight",
                   theirs + (kind.post ? "post_feedforward_layernorm.weight" : "post_attention_layernorm.weight")});
    add_linear(w, ours + "ffn.down", theirs + "mlp.down_proj", kind.mlp_bias);
  }
  if (!kind.plain_norm) w.push_back({"final_norm.weight", base + "norm.weight"});
  if (!tied) w.push_back({"head.weight", "lm_head.weight", true});
  if (tied) out.dropped.push_back("lm_head.weight");
  out.dropped.push_back("*.rotary_emb.inv_freq");
  return out;
}

std::optional<Json> write_llama(const ModelConfig& model) {
  const LayerConfig first = model.layer(0);
  if (model.architecture != Architecture::decoder || !first.mixer() || first.mixer()->type != "attention") return {};
  const PartChoice& used = *first.mixer();
  const std::string norm = option(used, "heads.qk_norm");
  const bool biased = option(used, "attention_bias") == "true", output = option(used, "output_bias") == "true";
  bool sliding = false;
  Json types = Json::array();
  for (int64_t i = 0; i < model.num_hidden_layers; ++i) {
    const LayerConfig layer = model.layer(i);
    if (!layer.mixer()) return {};
    const bool local = option(*layer.mixer(), "field") == "local";
    sliding = sliding || local;
    types.push_back(local ? "sliding_attention" : "full_attention");
  }
  const bool part = option_integer(model.position, "rotary_dim") > 0;
  const std::string type = part                                      ? "phi3"
                           : option(first.norm, "weight") == "false" ? "olmo"
                           : norm == "row"                           ? "olmo2"
                           : norm == "head"                          ? "qwen3"
                           : sliding && !types.empty()               ? (biased && !output ? "qwen2" : "mistral")
                           : biased && !output                       ? "qwen2"
                                                                     : "llama";
  const std::map<std::string, std::string> classes{{"llama", "Llama"}, {"mistral", "Mistral"}, {"qwen2", "Qwen2"},
                                                   {"qwen3", "Qwen3"}, {"olmo", "Olmo"},       {"olmo2", "Olmo2"},
                                                   {"phi3", "Phi3"}};
  Json out = common_config(model, type, classes.at(type) + "ForCausalLM");
  const int64_t heads = option_integer(used, "num_attention_heads"), head_dim = option_integer(used, "head_dim");
  out["hidden_size"] = model.hidden_size;
  out["num_hidden_layers"] = model.num_hidden_layers;
  out["num_attention_heads"] = heads;
  out["num_key_value_heads"] = key_value_heads(used) ? key_value_heads(used) : heads;
  if (head_dim || type == "qwen3") out["head_dim"] = head_dim ? head_dim : model.hidden_size / heads;
  const int64_t inner = option_integer(first.sub_layers.back().part, "intermediate_size");
  out["intermediate_size"] = inner ? inner : 8 * model.hidden_size / 3;
  out["hidden_act"] = first.sub_layers.back().part.type == "swiglu"                   ? "silu"
                      : option(first.sub_layers.back().part, "approximate") == "tanh" ? "gelu_pytorch_tanh"
                                                                                      : "gelu";
  out["max_position_embeddings"] = model.max_position_embeddings;
  if (type != "olmo") out["rms_norm_eps"] = option_number(first.norm, "eps");
  const double clip = option_number(used, "heads.clip_qkv");
  if (type == "olmo" && clip > 0) out["clip_qkv"] = clip;
  if (type != "mistral" && type != "qwen2" && type != "phi3") out["attention_bias"] = biased;
  if (part)
    out["partial_rotary_factor"] =
        double(option_integer(model.position, "rotary_dim")) / double(head_dim ? head_dim : model.hidden_size / heads);
  if (type == "llama") out["mlp_bias"] = option(first.sub_layers.back().part, "bias") == "true";
  if (sliding) {
    for (int64_t i = 0; i < model.num_hidden_layers; ++i) {
      const LayerConfig layer = model.layer(i);
      if (option(*layer.mixer(), "field") != "local") continue;
      const PartChoice field = inner_part(*layer.mixer(), "field");
      const Node* window = field.options.find("window");
      if (!window || window->items().size() != 1) return {};
      out["sliding_window"] = std::stoll(window->items()[0].text());
    }
    if (type != "mistral" && type != "phi3") {
      out["use_sliding_window"] = true;
      out["layer_types"] = types;
    }
  } else if (type == "mistral") {
    out["sliding_window"] = nullptr;
  }
  write_rotary(out, model.position);
  return out;
}

}  // namespace

Family llama_family() {
  return {{"llama", "mistral", "qwen2", "qwen3", "olmo", "olmo2", "phi3"}, read_llama, write_llama};
}

}  // namespace lithe

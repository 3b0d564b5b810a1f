// ModernBERT: a pre-norm encoder with rotary positions, GELU-gated layers, a norm behind the embeddings and none before
// the first attention; most layers see a window and turn by another base.
#include <algorithm>

#include "lithe/base/error.h"
#include "lithe/interchange/encoder_heads.h"

namespace lithe {
namespace {

// The first layer of theirs is two of ours, since one of ours has one norm: attention without, then ffn with one.
constexpr const char* kLayers[] = {"first_attention", "first_ffn", "full_attention", "sliding_attention"};

std::string head_options(const HfConfig& config, EncoderHead head, double eps, bool bias) {
  const bool dense_bias = config.flag("classifier_bias", false);
  const std::string pooling = config.text("classifier_pooling", "cls");
  config.only("classifier_activation", {"gelu"});
  check(head != EncoderHead::tokens && head != EncoderHead::spans, "import", "'", config.origin(), "': the head for ",
        head == EncoderHead::tokens ? "tokens" : "questions",
        " has a dense layer, which lithe's has not; heads for masked words and texts can be imported");
  if (head == EncoderHead::words) {
    config.only("decoder_bias", {"true"});
    return cat("head: {type: mlm, eps: ", number_text(eps), ", transform_bias: ", dense_bias ? "true" : "false",
               ", norm_bias: ", bias ? "true" : "false", "}");
  }
  config.ignore({"decoder_bias"});
  if (head == EncoderHead::none) return "head: lm";
  check(!bias, "import", "'", config.origin(), "': norm_bias true has no head for texts here; only without it");
  return cat("head: {type: classify, pooling: ", pooling,
             ", hidden_act: gelu, dense_bias: ", dense_bias ? "true" : "false",
             ", dense_norm: true, eps: ", number_text(eps),
             config.text("problem_type", "") == "regression" ? ", problem_type: regression" : "", "}, ",
             label_options(config));
}

// Of the layers with windows; empty: that of the others.
std::string local_position(const HfConfig& config, int64_t head_dim) {
  constexpr double kUsual = 10000;
  if (has_rotary_by_layers(config))
    return cat("{", rotary_options(config, head_dim, {.theta = kUsual, .whole = true, .layers = "sliding_attention"}),
               "}");
  if (config.present("local_rope_theta") && !config.has("local_rope_theta")) return "";
  return cat("{type: rotary, base: ", number_text(config.number("local_rope_theta", kUsual)), "}");
}

Mapping read_modernbert(const HfConfig& config, TensorNames names) {
  const int64_t d = config.integer("hidden_size"), layers = config.integer("num_hidden_layers", 22),
                heads = config.integer("num_attention_heads"), inner = config.integer("intermediate_size"),
                c = heads ? d / heads : 0, every = config.integer("global_attn_every_n_layers", 3),
                window = config.integer("local_attention", 128);
  check(layers > 0 && heads > 0 && every > 0 && window > 0, "import", "'", config.origin(), "': ", layers,
        " layers of ", heads, " heads, every ", every, " of them global, with windows of ", window, " are no model");
  const double eps = config.number("norm_eps", 1e-5);
  const bool bias = config.flag("norm_bias", false), attention = config.flag("attention_bias", false),
             ffn = config.flag("mlp_bias", false), tied = config.flag("tie_word_embeddings", true);
  const EncoderHead head = encoder_head(config);
  config.only("position_embedding_type", {"absolute"});
  config.ignore({"embedding_dropout", "mlp_dropout", "classifier_dropout", "deterministic_flash_attn",
                 "initializer_cutoff_factor", "layer_norm_eps", "reference_compile", "repad_logits_with_grad",
                 "sparse_pred_ignore_index", "sparse_prediction", "gradient_checkpointing"});
  const std::string rotary = cat("{",
                                 rotary_options(config, c,
                                                {.theta = config.number("global_rope_theta", 160000),
                                                 .whole = true,
                                                 .layers = "full_attention"}),
                                 "}"),
                    local_rotary = local_position(config, c);
  std::vector<bool> sliding;
  for (int64_t i = 0; i < layers; ++i) sliding.push_back(i % every != 0);
  sliding = sliding_layers(config, sliding);
  const auto mixer = [&](bool near) {
    return cat("{type: attention, num_attention_heads: ", heads, ", attention_bias: ", attention ? "true" : "false",
               ", output_bias: ", attention ? "true" : "false",
               near ? cat(", field: {type: local, window: ", window / 2 + 1, "}}") : "}");
  };
  std::string types = cat(kLayers[0], ", ", kLayers[1]);
  bool used[4] = {true, true, false, false};
  for (int64_t i = 1; i < layers; ++i) {
    const int kind = sliding[size_t(i)] ? 3 : 2;
    used[kind] = true;
    types += cat(", ", kLayers[kind]);
  }
  const std::string local = cat("mixer: ", mixer(true), local_rotary.empty() ? "" : ", position: " + local_rotary);
  std::string kinds = cat(kLayers[0], ": {sub_layers: [mixer], norm: none", sliding[0] ? ", " + local : "", "}, ",
                          kLayers[1], ": {sub_layers: [ffn]}");
  if (used[2]) kinds += cat(", ", kLayers[2], ": {mixer: ", mixer(false), "}");
  if (used[3]) kinds += cat(", ", kLayers[3], ": {", local, "}");
  const std::string act = activation_options(config, "hidden_activation", "gelu", true);
  Mapping out;
  out.model = model_of(
      cat("{architecture: encoder, vocab_size: ", config.integer("vocab_size"), ", token_width: 1, hidden_size: ", d,
          ", num_hidden_layers: ", layers + 1,
          ", max_position_embeddings: ", config.integer("max_position_embeddings", 8192), ", position: ", rotary,
          ", embedding_norm: true, mixer: ", mixer(false), ", layers: {", kinds, "}, layer_types: [", types,
          "], ffn: {", act, ", intermediate_size: ", inner, ", bias: ", ffn ? "true" : "false",
          "}, norm: {type: layer, eps_mode: variance, eps: ", number_text(eps), ", bias: ", bias ? "true" : "false",
          "}, residual: pre, ", head_options(config, head, eps, bias),
          ", tie_word_embeddings: ", tied || head != EncoderHead::words ? "true" : "false", "}"));

  const std::string base =
      prefix_of(names, "embeddings.tok_embeddings.weight", head == EncoderHead::none ? "" : "model.");
  std::vector<Weight>& w = out.weights;
  const auto norm = [&](const std::string& ours, const std::string& theirs) {
    w.push_back({ours + ".weight", theirs + ".weight"});
    if (bias) w.push_back({ours + ".bias", theirs + ".bias"});
  };
  w.push_back({"embedding.weight", base + "embeddings.tok_embeddings.weight"});
  norm("embedding_norm", base + "embeddings.norm");
  for (int64_t i = 0; i < layers; ++i) {
    const std::string mine = cat("layers.", i ? i + 1 : 0, "."), behind = cat("layers.", i + 1, "."),
                      theirs = cat(base, "layers.", i, ".");
    if (i) norm(mine + "mixer_norm", theirs + "attn_norm");
    int64_t part = 0;
    for (const char* name : {"q", "k", "v"}) {
      add_linear(w, cat(mine, "mixer.heads.", name), theirs + "attn.Wqkv", attention, true,
                 range(part * d, (part + 1) * d));
      ++part;
    }
    add_linear(w, mine + "mixer.output", theirs + "attn.Wo", attention);
    norm(behind + "ffn_norm", theirs + "mlp_norm");
    add_linear(w, behind + "ffn.gate", theirs + "mlp.Wi", ffn, true, range(0, inner));
    add_linear(w, behind + "ffn.up", theirs + "mlp.Wi", ffn, true, range(inner, 2 * inner));
    add_linear(w, behind + "ffn.down", theirs + "mlp.Wo", ffn);
  }
  norm("final_norm", base + "final_norm");
  if (head == EncoderHead::none) return out;
  const bool dense_bias = config.flag("classifier_bias", false), words = head == EncoderHead::words;
  add_linear(w, words ? "head.transform" : "head.dense", "head.dense", dense_bias);
  norm("head.norm", "head.norm");
  if (!words) {
    add_linear(w, "head.out", "classifier", true);
    return out;
  }
  w.push_back({"head.bias", "decoder.bias"});
  if (tied)
    out.dropped.push_back("decoder.weight");
  else
    w.push_back({"head.weight", "decoder.weight", true});
  return out;
}

std::optional<Json> write_modernbert(const ModelConfig& model) {
  const std::optional<EncoderHead> head = encoder_head(model);
  if (model.architecture != Architecture::encoder || !head || !model.embedding_norm ||
      model.position.type != "rotary" || model.num_hidden_layers < 2)
    return {};
  const LayerConfig first = model.layer(0), second = model.layer(1);
  if (first.sub_layers.size() != 1 || second.sub_layers.size() != 1 || !first.mixer() || second.mixer()) return {};
  const PartChoice &mixer = *first.mixer(), &ffn = second.sub_layers[0].part;
  const int64_t layers = model.num_hidden_layers - 1;
  Json out = common_config(model, "modernbert", class_of("ModernBert", *head));
  out["hidden_size"] = model.hidden_size;
  out["num_hidden_layers"] = layers;
  out["num_attention_heads"] = option_integer(mixer, "num_attention_heads");
  out["intermediate_size"] =
      option_integer(ffn, "intermediate_size") ? option_integer(ffn, "intermediate_size") : 8 * model.hidden_size / 3;
  out["hidden_activation"] = option(ffn, "approximate") == "tanh" ? "gelu_pytorch_tanh" : "gelu";
  out["max_position_embeddings"] = model.max_position_embeddings;
  out["norm_eps"] = option_number(model.norm, "eps");
  out["norm_bias"] = option(model.norm, "bias") == "true";
  out["attention_bias"] = option(mixer, "attention_bias") == "true";
  out["mlp_bias"] = option(ffn, "bias") == "true";
  out["global_rope_theta"] = option_number(model.position, "base");
  out["local_rope_theta"] = out["global_rope_theta"];
  // Version 5 of transformers reads layer_types, those before one number.
  int64_t every = layers;
  Json types = Json::array();
  for (int64_t i = 0; i < layers; ++i) {
    const LayerConfig layer = model.layer(i ? i + 1 : 0);
    if (!layer.mixer()) return {};
    const bool near = option(*layer.mixer(), "field") == "local";
    types.push_back(near ? "sliding_attention" : "full_attention");
    if (!near) {
      if (i) every = std::min(every, i);
      continue;
    }
    const PartChoice field = inner_part(*layer.mixer(), "field");
    const Node* window = field.options.find("window");
    if (!window || window->items().size() != 1) return {};
    out["local_attention"] = 2 * (std::stoll(window->items()[0].text()) - 1);
    if (layer.position) out["local_rope_theta"] = option_number(*layer.position, "base");
  }
  out["global_attn_every_n_layers"] = every;
  out["layer_types"] = types;
  out["decoder_bias"] = true;
  out["classifier_bias"] = option(model.head, *head == EncoderHead::words ? "transform_bias" : "dense_bias") == "true";
  if (*head == EncoderHead::texts) {
    const std::string pooling = option(model.head, "pooling");
    out["classifier_pooling"] = pooling == "auto" ? "cls" : pooling;
    write_labels(out, model);
  }
  return out;
}

}  // namespace

Family modernbert_family() { return {{"modernbert"}, read_modernbert, write_modernbert}; }

}  // namespace lithe

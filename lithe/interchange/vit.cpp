// ViT: a pre-norm encoder of the patches of a picture, a class token first. Its patches are mapped by a convolution
// [hidden, channels, P, P], ours by rows of P^2 channels numbers; the first of its places is the class token's.
#include "lithe/base/error.h"
#include "lithe/interchange/encoder_heads.h"

namespace lithe {
namespace {

constexpr EncoderNames kVitNames{"attention.attention.query",
                                 "attention.attention.key",
                                 "attention.attention.value",
                                 "attention.output.dense",
                                 "layernorm_before",
                                 "intermediate.dense",
                                 "output.dense",
                                 "layernorm_after"};

Mapping read_vit(const HfConfig& config, TensorNames names) {
  const int64_t d = config.integer("hidden_size"), layers = config.integer("num_hidden_layers"),
                side = config.integer("image_size", 224), patch = config.integer("patch_size", 16),
                channels = config.integer("num_channels", 3);
  const double eps = config.number("layer_norm_eps", 1e-12);
  const bool bias = config.flag("qkv_bias", true);
  config.ignore({"encoder_stride", "pooler_output_size", "pooler_act", "attention_probs_dropout_prob",
                 "hidden_dropout_prob", "interpolate_pos_encoding"});
  const Node* architectures = config.find("architectures");
  const bool classes = !architectures || architectures->items().empty() ||
                       architectures->items()[0].text() == "ViTForImageClassification";
  check(classes || architectures->items()[0].text() == "ViTModel", "import", "'", config.origin(), "': architecture ",
        architectures ? architectures->items()[0].text() : "",
        " has a head that lithe has not; ViTForImageClassification and ViTModel can be imported");
  check(bias, "import", "'", config.origin(), "': qkv_bias false with a bias of the output has no form here");
  check(side > 0 && patch > 0 && side % patch == 0, "import", "'", config.origin(), "': image_size ", side,
        " is no multiple of patch_size ", patch);
  Mapping out;
  out.model = model_of(cat(
      "{architecture: encoder, vocab_size: 1, token_width: 1, hidden_size: ", d, ", num_hidden_layers: ", layers,
      ", max_position_embeddings: 1, embedding: lookup, position: learned, modalities: {image: {type: patches, "
      "height: ",
      side, ", patch_size: ", patch, ", num_channels: ", channels,
      ", position: learned}}, mixer: {type: attention, num_attention_heads: ", config.integer("num_attention_heads"),
      ", attention_bias: true, output_bias: true}, ffn: {", activation_options(config, "hidden_act", "gelu", false),
      ", intermediate_size: ", config.integer("intermediate_size"),
      "}, norm: {type: layer, eps_mode: variance, eps: ", number_text(eps), "}, residual: pre, ",
      classes ? cat("head: {type: classify, pooling: cls, dense: false}, ", label_options(config)) : "head: lm",
      ", tie_word_embeddings: ", classes ? "false" : "true", "}"));
  const std::string prefix = prefix_of(names, "embeddings.cls_token", classes ? "vit." : "");
  const int64_t cells = (side / patch) * (side / patch);
  std::vector<Weight>& w = out.weights;
  w.push_back({.ours = "embedding.weight",
               .theirs = prefix + "embeddings.cls_token",
               .places = [d] { return range(0, d); },
               .shape = {1, 1, d}});
  const Shape places{1, 1 + cells, d};
  w.push_back({.ours = "position.weight",
               .theirs = prefix + "embeddings.position_embeddings",
               .places = [d] { return range(0, d); },
               .shape = places});
  w.push_back({.ours = "modalities.image.position.weight",
               .theirs = prefix + "embeddings.position_embeddings",
               .places = [d, cells] { return range(d, (1 + cells) * d); },
               .shape = places});
  w.push_back({.ours = "modalities.image.projection.weight",
               .theirs = prefix + "embeddings.patch_embeddings.projection.weight",
               .places = [patch, channels, d] { return of_convolution(patch * patch, channels, d); },
               .shape = {d, channels, patch, patch}});
  w.push_back({"modalities.image.projection.bias", prefix + "embeddings.patch_embeddings.projection.bias"});
  add_encoder_layers(w, prefix + "encoder.layer.", layers, kVitNames);
  for (int64_t i = 0; i < layers; ++i) {
    add_norm(w, cat("layers.", i, ".mixer_norm"), cat(prefix, "encoder.layer.", i, ".", kVitNames.mixer_norm), names);
    add_norm(w, cat("layers.", i, ".ffn_norm"), cat(prefix, "encoder.layer.", i, ".", kVitNames.ffn_norm), names);
  }
  add_norm(w, "final_norm", prefix + "layernorm", names);
  if (classes) add_linear(w, "head.out", "classifier", true);
  out.dropped.push_back(prefix + "pooler.dense.*");
  out.dropped.push_back("pooler.dense.*");
  return out;
}

std::optional<Json> write_vit(const ModelConfig& model) {
  const Node* image = model.modalities.find("image");
  if (model.architecture != Architecture::encoder || !image || !image->is_map()) return {};
  const PartChoice patches = read_part(*image, "image", "embedding", "model.modalities", model.embedding);
  if (patches.type != "patches" || (model.head.type != "classify" && model.head.type != "lm")) return {};
  const bool classes = model.head.type == "classify";
  const int64_t height = option_integer(patches, "height"), width = option_integer(patches, "width"),
                learnt = option_integer(patches, "position_height");
  const bool square = (!width || width == height) && (!learnt || learnt == height);
  if (!square || option(patches, "position") != "learned" || option(patches, "modality_row") == "true") return {};
  Json out = {{"architectures", {classes ? "ViTForImageClassification" : "ViTModel"}}, {"model_type", "vit"}};
  const int64_t inner = option_integer(model.ffn, "intermediate_size");
  out["hidden_size"] = model.hidden_size;
  out["num_hidden_layers"] = model.num_hidden_layers;
  out["num_attention_heads"] = option_integer(model.mixer, "num_attention_heads");
  out["intermediate_size"] = inner ? inner : 4 * model.hidden_size;
  out["hidden_act"] = option(model.ffn, "approximate") == "tanh" ? "gelu_new" : "gelu";
  out["image_size"] = height;
  out["patch_size"] = option_integer(patches, "patch_size");
  out["num_channels"] = option_integer(patches, "num_channels");
  out["qkv_bias"] = true;
  out["layer_norm_eps"] = option_number(model.norm, "eps");
  if (classes) write_labels(out, model);
  return out;
}

}  // namespace

Family vit_family() { return {{"vit"}, read_vit, write_vit}; }

}  // namespace lithe

// Whisper: an encoder-decoder of sounds, norms before the sub-layers and one more behind the last. Its encoder begins
// with two convolutions, [out, in, 3] there and rows of 3 frames here; keys have no bias; the encoder's positions stand
// in the file.
#include "lithe/base/error.h"
#include "lithe/interchange/family.h"
#include "lithe/interchange/import_parts.h"

namespace lithe {
namespace {

constexpr int64_t kKernel = 3, kStride = 2;

void check_architecture(const HfConfig& config) {
  const Node* architectures = config.find("architectures");
  if (!architectures || !architectures->is_list() || architectures->items().empty()) return;
  const std::string name = architectures->items()[0].text();
  check(name == "WhisperForConditionalGeneration", "import", "'", config.origin(), "': architecture ", name,
        " can not be imported; WhisperForConditionalGeneration can");
}

int64_t bounded(const HfConfig& config, const char* key, int64_t most, std::optional<int64_t> usual = {}) {
  const int64_t value = usual ? config.integer(key, *usual) : config.integer(key);
  check(value >= 1 && value <= most, "import", "'", config.origin(), "': ", key, " must be from 1 to ", most, ", got ",
        value);
  return value;
}

Mapping read_whisper(const HfConfig& config, TensorNames names) {
  check_architecture(config);
  config.only("is_encoder_decoder", {"true"});
  // What fine-tuning masks, what classifies, and what aligns words; the library reads scale_embedding nowhere.
  config.ignore({"dropout",
                 "activation_dropout",
                 "encoder_layerdrop",
                 "decoder_layerdrop",
                 "init_std",
                 "num_hidden_layers",
                 "classifier_proj_size",
                 "use_weighted_layer_sum",
                 "apply_spec_augment",
                 "mask_time_prob",
                 "mask_time_length",
                 "mask_time_min_masks",
                 "mask_feature_prob",
                 "mask_feature_length",
                 "mask_feature_min_masks",
                 "median_filter_width",
                 "scale_embedding",
                 "forced_decoder_ids",  // sounds.cpp reads it, with suppress_tokens
                 "lang_detection_threshold",
                 "max_length"});
  constexpr int64_t kMostLayers = 10000;
  const int64_t d = bounded(config, "d_model", 1 << 20), bins = bounded(config, "num_mel_bins", 1 << 10, 80),
                rows = config.integer("max_source_positions", 1500), vocabulary = config.integer("vocab_size");
  const bool tied = config.flag("tie_word_embeddings", true);
  const std::string act = activation_options(config, "activation_function", "gelu", false);
  const auto side = [&](const char* name) { return side_options(config, name, d, act, false); };
  const int64_t encoder = bounded(config, "encoder_layers", kMostLayers),
                decoder = bounded(config, "decoder_layers", kMostLayers);
  Mapping out;
  out.model = model_of(
      cat("{architecture: encoder_decoder, vocab_size: ", vocabulary, ", token_width: 1, hidden_size: ", d,
          ", max_position_embeddings: ", config.integer("max_target_positions", 448), ", num_hidden_layers: ", decoder,
          ", ", side("decoder"), ", encoder: {num_hidden_layers: ", encoder, ", ", side("encoder"),
          ", position: none, modalities: {audio: {type: conv_frames, num_features: ", bins, ", rows: ", rows,
          ", frames_per_row: ", kStride, ", kernel: ", kKernel, ", position: learned}}}, embedding: lookup, ",
          "position: learned, norm: {type: layer, eps_mode: variance, eps: 1e-5}, residual: pre, head: lm, ",
          "tie_word_embeddings: ", tied ? "true" : "false", "}"));

  std::vector<Weight>& w = out.weights;
  const std::string base = prefix_of(names, "encoder.conv1.weight", "model."), front = "encoder.modalities.audio.";
  for (int i = 0; i < 2; ++i) {
    const int64_t in = i == 0 ? bins : d;
    const std::string ours = cat(front, "convolutions.", i), theirs = cat(base, "encoder.conv", i + 1);
    w.push_back({.ours = ours + ".weight",
                 .theirs = theirs + ".weight",
                 .places = [in, d] { return of_convolution(kKernel, in, d); },
                 .shape = {d, in, kKernel}});
    w.push_back({ours + ".bias", theirs + ".bias"});
  }
  w.push_back({front + "position.weight", base + "encoder.embed_positions.weight"});
  w.push_back({"embedding.weight", base + "decoder.embed_tokens.weight"});
  w.push_back({"decoder.position.weight", base + "decoder.embed_positions.weight"});
  add_side_layers(w, "encoder.", base, encoder, false);
  add_side_layers(w, "decoder.", base, decoder, false);
  for (const char* stack : {"encoder", "decoder"})
    add_linear(w, cat(stack, ".final_norm"), cat(base, stack, ".layer_norm"), true, false);
  if (tied)
    out.dropped.push_back("proj_out.weight");
  else
    w.push_back({"head.weight", "proj_out.weight", true});
  return out;
}

std::optional<Json> write_whisper(const ModelConfig& model) {
  const auto front = sound_front(model);
  if (!front) return {};
  Json out = common_config(model, "whisper", "WhisperForConditionalGeneration");
  write_sides(out, model);
  out["num_mel_bins"] = option_integer(*front, "num_features");
  out["max_source_positions"] = option_integer(*front, "rows");
  out["max_target_positions"] = model.max_position_embeddings;
  return out;
}

}  // namespace

Family whisper_family() { return {{"whisper"}, read_whisper, write_whisper}; }

}  // namespace lithe

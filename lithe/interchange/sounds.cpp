// How a model of sounds reads them: preprocessor_config.json, and the section data.audio.
#include <cmath>

#include "lithe/base/error.h"
#include "lithe/infer/speech_tokens.h"
#include "lithe/interchange/import_parts.h"

namespace lithe {
namespace {

namespace fs = std::filesystem;

constexpr const char *kPreprocessor = "preprocessor_config.json", *kGeneration = "generation_config.json";

void check_features(const AudioConfig& audio, const std::string& origin) {
  try {
    audio.validate();
  } catch (const Error& error) {
    fail("import", "'", origin, "': ", error.what());
  }
}

// Version 5 of transformers has it as a section of processor_config.json.
std::optional<HfConfig> extractor_of(const Path& model) {
  if (fs::exists(model / kPreprocessor)) return HfConfig::from_file(model / kPreprocessor);
  if (!fs::exists(model / "processor_config.json")) return {};
  const HfConfig both = HfConfig::from_file(model / "processor_config.json");
  return both.has("feature_extractor") ? std::optional(both.section("feature_extractor")) : std::nullopt;
}

}  // namespace

std::optional<PartChoice> sound_front(const ModelConfig& model) {
  if (!reads_source(model.architecture)) return {};
  const ModelConfig encoder = model.encoder_config();
  const Node* audio = encoder.modalities.find("audio");
  if (!audio) return {};
  PartChoice front = read_part(*audio, "audio", "embedding", "model.encoder.modalities", encoder.embedding);
  return front.type == "conv_frames" ? std::optional(front) : std::nullopt;
}

Json speech_settings(const Path& model, const Tokenizer& tokenizer) {
  const Path file = model / "config.json";
  const Json config = parse_json(read_file(file), file.string());
  Json out = {{"begin_suppress_tokens", {220, 50256}}};  // the library's default
  for (const char* key : {"suppress_tokens", "begin_suppress_tokens", "forced_decoder_ids"}) {
    if (config.contains(key)) out[key] = config[key];
    if (!out.contains(key) || !out[key].is_array()) continue;
    Json kept = Json::array();  // to forbid what there is not changes nothing
    for (const Json& id : out[key])
      if (!id.is_number_integer() || id < tokenizer.vocab_size()) kept.push_back(id);
    out[key] = kept;
  }
  return out;
}

void read_sounds(const Path& model, const Tokenizer& tokenizer, Recipe& recipe, std::vector<std::string>& notes) {
  const PartChoice front = *sound_front(recipe.model);
  const int64_t bins = option_integer(front, "num_features"), rows = option_integer(front, "rows"),
                stride = option_integer(front, "frames_per_row");
  AudioConfig& audio = recipe.data.audio;
  audio.sample_rate = 16000;
  audio.features = "whisper";
  audio.num_mel_bins = bins;
  audio.frames_per_row = stride;
  if (const auto config = extractor_of(model)) {
    const std::string& file = config->origin();
    const std::string type = config->text("feature_extractor_type", "WhisperFeatureExtractor");
    check(type == "WhisperFeatureExtractor", "import", "'", file, "': feature_extractor_type is ", type,
          ", whose features the encoder does not read; WhisperFeatureExtractor makes them");
    audio.sample_rate = config->integer("sampling_rate", 16000);
    check(audio.sample_rate > 0 && audio.sample_rate <= 1 << 20, "import", "'", file,
          "': sampling_rate must be from 1 to ", 1 << 20, ", got ", audio.sample_rate);
    check_features(audio, file);
    const auto must = [&](const char* key, int64_t usual, int64_t value, const char* why) {
      const int64_t is = config->integer(key, usual);
      check(is == value, "import", "'", file, "': ", key, " is ", is, ", ", why, " ", value);
    };
    const int64_t frames = rows * stride, hop = audio.mel().hop(), samples = frames * hop;
    must("feature_size", 80, bins, "num_mel_bins of config.json");
    must("hop_length", 160, hop, "10 ms are");
    must("n_fft", 400, audio.mel().window(), "25 ms are");
    must("nb_max_frames", frames, frames, "the frames that config.json's max_source_positions call for are");
    must("n_samples", samples, samples, "the samples that max_source_positions call for are");
    const double length = config->number("chunk_length", 30);
    check(std::abs(length * double(audio.sample_rate) - double(samples)) < 0.5, "import", "'", file,
          "': chunk_length is ", length, ", the seconds that config.json's max_source_positions call for are ",
          double(samples) / double(audio.sample_rate));
    for (const char* key : {"dither", "padding_value"})
      check(config->number(key, 0) == 0, "import", "'", file, "': ", key, " is ", config->number(key, 0),
            ", which Whisper's features have not; set it to 0");
    check(!config->flag("do_normalize", false), "import", "'", file,
          "': do_normalize changes the samples, which has no form here; set it to false");
  } else {
    check_features(audio, (model / "config.json").string());
    notes.push_back(cat("there is no ", kPreprocessor, ": sounds are read at 16000 samples a second, as Whisper does"));
  }
  audio.pad_seconds = double(rows) * audio.row_seconds();
  recipe.data.sequence_length = rows + recipe.model.max_position_embeddings;
  recipe.task.type = "text";
  recipe.task.prompt = "none";
  const auto tokens = fs::exists(model / kGeneration)
                          ? speech_tokens(tokenizer, model)
                          : speech_tokens(tokenizer, speech_settings(model, tokenizer), model / "config.json");
  check(tokens.has_value(), "import", "'", model.string(), "': the tokenizer has no <|startoftranscript|>, with which ",
        "transcripts begin; give --tokenizer the model's own tokenizer.json");
}

void write_sounds(const Path& run, const Path& out, const AudioConfig& audio) {
  check_usage(audio.features == "whisper" && audio.normalise == "none", "export", "'", run.string(),
              "' reads data.audio.features ", audio.features, ", normalise ", audio.normalise,
              ", which WhisperFeatureExtractor does not make; only features whisper, normalise none can be exported");
  const int64_t samples = audio.pad_samples(), hop = audio.mel().hop();
  const Json config = {
      {"feature_extractor_type", "WhisperFeatureExtractor"},
      {"processor_class", "WhisperProcessor"},
      {"sampling_rate", audio.sample_rate},
      {"feature_size", audio.num_mel_bins},
      {"hop_length", hop},
      {"n_fft", audio.mel().window()},
      {"chunk_length", samples % audio.sample_rate ? Json(audio.pad_seconds) : Json(samples / audio.sample_rate)},
      {"n_samples", samples},
      {"nb_max_frames", samples / hop},
      {"padding_side", "right"},
      {"padding_value", 0.0},
      {"return_attention_mask", false}};
  write_file(out / kPreprocessor, dump(config, 2) + "\n");
  if (fs::exists(run / kGeneration)) write_file(out / kGeneration, read_file(run / kGeneration));
}

}  // namespace lithe

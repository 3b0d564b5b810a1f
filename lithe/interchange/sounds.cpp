// How a model of sounds reads them: preprocessor_config.json, and the section data.audio.
#include <cmath>

#include "lithe/base/error.h"
#include "lithe/infer/speech_tokens.h"
#include "lithe/interchange/import_parts.h"

namespace lithe {
namespace {

namespace fs = std::filesystem;

constexpr const char *kPreprocessor = "preprocessor_config.json", *kGeneration = "generation_config.json";

// Of the encoder; none: it reads no sounds.
std::optional<PartChoice> front_of(const ModelConfig& model) {
  if (!reads_source(model.architecture)) return {};
  const ModelConfig encoder = model.encoder_config();
  const Node* audio = encoder.modalities.find("audio");
  if (!audio) return {};
  PartChoice front = read_part(*audio, "audio", "embedding", "model.encoder.modalities", encoder.embedding);
  return front.type == "conv_frames" ? std::optional(front) : std::nullopt;
}

// Version 5 of transformers has it as a section of processor_config.json.
std::optional<HfConfig> extractor_of(const Path& model) {
  if (fs::exists(model / kPreprocessor)) return HfConfig::from_file(model / kPreprocessor);
  if (!fs::exists(model / "processor_config.json")) return {};
  const HfConfig both = HfConfig::from_file(model / "processor_config.json");
  return both.has("feature_extractor") ? std::optional(both.section("feature_extractor")) : std::nullopt;
}

}  // namespace

bool reads_sounds(const ModelConfig& model) { return front_of(model).has_value(); }

void read_sounds(const Path& model, const Tokenizer& tokenizer, Recipe& recipe, std::vector<std::string>& notes) {
  const PartChoice front = *front_of(recipe.model);
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
    const auto must = [&](const char* key, int64_t value, const char* why) {
      const int64_t is = config->integer(key, value);
      check(is == value, "import", "'", file, "': ", key, " is ", is, ", ", why, " ", value);
    };
    must("feature_size", bins, "num_mel_bins of config.json");
    must("hop_length", audio.sample_rate / 100, "10 ms are");
    must("n_fft", audio.sample_rate / 40, "25 ms are");
    must("nb_max_frames", rows * stride, "the frames that config.json's max_source_positions call for are");
    must("n_samples", rows * stride * (audio.sample_rate / 100), "the samples that max_source_positions call for are");
    for (const char* key : {"dither", "padding_value"})
      check(config->number(key, 0) == 0, "import", "'", file, "': ", key, " is ", config->number(key, 0),
            ", which Whisper's features have not; set it to 0");
    check(!config->flag("do_normalize", false), "import", "'", file,
          "': do_normalize changes the samples, which has no form here; set it to false");
  } else {
    notes.push_back(cat("there is no ", kPreprocessor, ": sounds are read at 16000 samples a second, as Whisper does"));
  }
  audio.pad_seconds = double(rows) * audio.row_seconds();
  recipe.data.sequence_length = rows + recipe.model.max_position_embeddings;
  recipe.task.type = "text";
  recipe.task.prompt = "none";
  const auto tokens = speech_tokens(tokenizer, model);
  check(tokens.has_value(), "import", "'", model.string(), "': the tokenizer has no <|startoftranscript|>, with which ",
        "transcripts begin; give --tokenizer the model's own tokenizer.json");
}

void write_sounds(const Path& run, const Path& out, const AudioConfig& audio) {
  const int64_t samples = std::llround(audio.pad_seconds * double(audio.sample_rate)), hop = audio.mel().hop();
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

// Steps of importing that formats share.
#pragma once

#include "lithe/base/json.h"
#include "lithe/base/new_directory.h"
#include "lithe/interchange/import.h"
#include "lithe/interchange/weights.h"
#include "lithe/kernels/gemm/packed_matrix.h"
#include "lithe/recipe/recipe.h"

namespace lithe {

/// A matrix whose integers are kept as they are stored.
struct PendingIntegers {
  kernels::PackedMatrix matrix;  // without contents
  std::function<kernels::QuantizedTensors()> read;
};
/// What makes a run directory beside the weights; `record` becomes import.json. Parameters in `integers` stay so, and
/// the model's quantization_config says it.
void write_run(const NewDirectory& out, Recipe recipe, const std::map<std::string, PendingTensor>& parameters,
               const Tokenizer& tokenizer, const Json& record,
               const std::map<std::string, PendingIntegers>& integers = {});
std::string dtypes_of(const std::map<std::string, PendingTensor>& parameters);

/// Whether texts of these tokenizer files begin with bos: by the template of tokenizer.json, or by the class's habit.
bool begins_with_bos(const Path& files, const Tokenizer& tokenizer);

/// generation_config.json, and whether prompts begin with bos, by the tokenizer's files. Keys that choose other tokens
/// than `generate` would are refused; those that are not known are noted.
void read_generation(const Path& model, const Path& tokenizer_files, const Tokenizer& tokenizer, GenerateConfig& to,
                     std::vector<std::string>& notes);

/// Chat templates of tokenizer_config.json, chat_template.jinja or additional_chat_templates/, as the latter files in
/// `out`; a note says that they are not applied.
void keep_chat_templates(const Path& tokenizer_files, const Path& out, std::vector<std::string>& notes);
/// Those that a run keeps.
void copy_chat_templates(const Path& run, const Path& out);
/// What goes along with a run's weights when another run is made of them: generation_config.json and chat templates.
void copy_companions(const Path& run, const Path& out);

/// generation_config.json of an encoder-decoder; what `translate` does not do is noted.
void read_translation(const Path& model, TranslateConfig& to, std::vector<std::string>& notes);

/// modules.json of sentence-transformers: pooling, normalisation and the longest text.
void write_sentence_modules(const Path& out, const Recipe& recipe, const Tokenizer& tokenizer);
void read_sentence_modules(const Path& model, Recipe& recipe, std::vector<std::string>& notes);

ImportReport import_gguf(const ImportOptions& options);

/// What a model of pictures reads, and how (preprocessor_config.json), into the recipe's data. And back.
void read_pictures(const Path& model, Recipe& recipe);
void write_pictures(const Path& directory, const ImageConfig& image);

/// The convolutions over frames of sounds with which the encoder of an encoder_decoder begins: Whisper; none: the model
/// reads no sounds.
std::optional<PartChoice> sound_front(const ModelConfig& model);
inline bool reads_sounds(const ModelConfig& model) { return sound_front(model).has_value(); }
/// What such a model without a generation_config.json lets be written: as the library, by its config.json's
/// suppress_tokens, begin_suppress_tokens and forced_decoder_ids.
Json speech_settings(const Path& model, const Tokenizer& tokenizer);
/// Of such a model how it reads them (preprocessor_config.json), into the recipe's data and task. Fails where the file
/// speaks of other features than the model reads, and on a tokenizer without Whisper's tokens. And back, with the run's
/// generation_config.json; fails (usage) on features that Whisper's extractor does not make.
void read_sounds(const Path& model, const Tokenizer& tokenizer, Recipe& recipe, std::vector<std::string>& notes);
void write_sounds(const Path& run, const Path& out, const AudioConfig& audio);

}  // namespace lithe

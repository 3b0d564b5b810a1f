#include "lithe/interchange/import.h"

#include <algorithm>

#include "lithe/base/new_directory.h"
#include "lithe/base/stop.h"
#include "lithe/interchange/import_parts.h"
#include "lithe/interchange/weights.h"
#include "lithe/model/quantized_weights.h"
#include "lithe/model/safetensors.h"

namespace lithe {
namespace {

namespace fs = std::filesystem;

// The objective that a recipe for the model has, with the task of its head.
void set_objective(Recipe& recipe) {
  const std::string& head = recipe.model.head.type;
  recipe.train.objective = {recipe.model.architecture == Architecture::decoder ? "clm"
                            : reads_sounds(recipe.model)                       ? "task"
                            : reads_source(recipe.model.architecture)          ? "seq2seq"
                            : head == "mlm" || head == "lm"                    ? "mlm"
                                                                               : "task",
                            {}};
  if (head == "tag") recipe.task.type = "tagging";
  if (head == "span") recipe.task.type = "span";
  if (head == "classify" && option(recipe.model.head, "problem_type") == "regression") recipe.task.type = "regression";
}

void set_context_length(ModelConfig& model, int64_t tokens, const std::string& origin) {
  check_usage(tokens > 0, "import", "the context length must be positive, got ", tokens);
  const std::string& type = model.position.type;
  check_usage((type != "learned" && type != "sinusoidal") || tokens <= model.max_position_embeddings, "import", "'",
              origin, "': the model has ", model.max_position_embeddings, " positions (", type,
              "), so that its context length can not be ", tokens);
  if (type != "learned") model.max_position_embeddings = tokens;
}

// The token that a target begins with is the tokenizer's bos here.
void set_target_begin(const HfConfig& config, const Path& model, const Tokenizer& tokenizer, const Path& run) {
  const Path generation = model / "generation_config.json";
  const bool own = fs::exists(generation) && HfConfig::from_file(generation).has("decoder_start_token_id");
  const int64_t begin = own ? HfConfig::from_file(generation).integer("decoder_start_token_id")
                            : config.integer("decoder_start_token_id", -1);
  if (begin < 0) return;
  check(begin < tokenizer.vocab_size(), "import", "'", config.origin(), "': decoder_start_token_id ", begin,
        " is not among the tokenizer's ", tokenizer.vocab_size(), " entries");
  const Path file = run / "tokenizer_config.json";
  Json roles = parse_json(read_file(file), file.string());
  roles["bos_token"] = tokenizer.token(int32_t(begin));
  write_file(file, dump(roles, 2) + "\n");
}

}  // namespace

namespace {

void write_integers(const Path& file, const std::map<std::string, PendingTensor>& parameters,
                    const std::map<std::string, PendingIntegers>& integers) {
  std::map<std::string, SafetensorsWriter::Entry> numbers;
  std::vector<kernels::PackedMatrix> matrices;
  for (const auto& [name, tensor] : parameters)
    if (!integers.count(name)) numbers[name] = {tensor.shape, tensor.dtype};
  for (const auto& [name, pending] : integers) matrices.push_back(pending.matrix);
  QuantizedWriter out(file, numbers, matrices);
  for (const auto& [name, tensor] : parameters) {
    check_not_stopped("import", "nothing was written");
    const auto found = integers.find(name);
    if (found == integers.end())
      out.put(name, tensor.read());
    else
      out.put(found->second.matrix, found->second.read());
  }
  out.commit();
}

// As Hugging Face's files name it.
Node quantization_of(const std::map<std::string, PendingIntegers>& integers) {
  Node out = Node::map();
  out.set("quant_method", Node::scalar("gguf", {}, true));
  out.set("bits", Node::scalar("mixed", {}, true));
  out.set("activation_bits", Node::scalar("8"));
  std::set<std::string> formats;
  for (const auto& [name, pending] : integers) formats.insert(name_of(pending.matrix.format));
  Node list = Node::list();
  for (const std::string& format : formats) list.push(Node::scalar(format, {}, true));
  out.set("formats", list);
  return out;
}

}  // namespace

void write_run(const NewDirectory& out, Recipe recipe, const std::map<std::string, PendingTensor>& parameters,
               const Tokenizer& tokenizer, const Json& record, const std::map<std::string, PendingIntegers>& integers) {
  set_objective(recipe);
  ModelConfig& model = recipe.model;
  check(tokenizer.vocab_size() <= model.vocab_size, "import", "the tokenizer has ", tokenizer.vocab_size(),
        " entries, the model ", model.vocab_size, "; they must be of one model");
  check_usage(tokenizer.width() == 1, "import", "the model reads ids, and the tokenizer has none");
  if (integers.empty()) {
    stream_safetensors(out / "model.safetensors", parameters, {{"format", "lithe"}});
  } else {
    write_integers(out / "model.safetensors", parameters, integers);
    model.quantization_config = quantization_of(integers);
  }
  save_config(model, out / "config.json");
  save_tokenizer(tokenizer, out.path());
  write_file(out / "import.json", dump(record, 2) + "\n");
  write_file(out / "resolved_recipe.yaml", to_yaml(resolved(recipe)));
}

std::string dtypes_of(const std::map<std::string, PendingTensor>& parameters) {
  std::set<std::string> types;
  for (const auto& [name, tensor] : parameters) types.insert(name_of(tensor.dtype));
  return join({types.begin(), types.end()});
}

ImportReport import_model(const ImportOptions& o) {
  check_usage(fs::exists(o.from), "import", "'", o.from.string(), "' does not exist");
  check_usage(!o.context_length || fs::is_directory(o.from), "import",
              "--context-length is for directories of the Hugging Face format; GGUF files say their own");
  check_usage(!o.dequantize || !fs::is_directory(o.from), "import",
              "--dequantize is for GGUF files; directories of the Hugging Face format hold numbers");
  if (!fs::is_directory(o.from)) return import_gguf(o);
  NewDirectory out(o.out, "import", o.overwrite);
  const HfConfig config = HfConfig::from_file(o.from / "config.json");
  const std::string type = config.text("model_type");
  const Family& family = family_of(type, config.origin());
  const auto source = open_safetensors(o.from);
  const std::set<std::string> names = source->names();
  Mapping mapping = family.read(config, &names);
  config.finish();
  if (o.context_length) set_context_length(mapping.model, o.context_length, config.origin());
  const auto parameters = parameters_of(*source, mapping);

  Recipe recipe;
  recipe.model = mapping.model;
  constexpr int64_t kWindow = 2048;  // tokens of a window that eval measures, where the model allows more
  recipe.data.sequence_length = std::min(mapping.model.max_position_embeddings, kWindow);
  ImportReport report{.model_type = type,
                      .parameters = 0,
                      .tensors = int64_t(source->entries().size()),
                      .dtype = dtypes_of(parameters),
                      .dropped = {},
                      .notes = {}};
  const Path tokenizer_files = o.tokenizer.empty() ? o.from : o.tokenizer;
  const bool pictures = !is_empty(recipe.model.modalities);
  const auto tokenizer = pictures ? make_tokenizer({.type = "none"}, {}) : load_tokenizer(tokenizer_files);
  if (pictures)
    read_pictures(o.from, recipe);
  else if (reads_sounds(recipe.model))
    read_sounds(o.from, *tokenizer, recipe, report.notes);
  else if (reads_source(recipe.model.architecture))
    read_translation(o.from, recipe.translate, report.notes);
  else
    read_generation(o.from, tokenizer_files, *tokenizer, recipe.generate, report.notes);
  if (!pictures) read_sentence_modules(o.from, recipe, report.notes);

  std::set<std::string> used;
  for (const Weight& w : mapping.weights) used.insert(w.theirs);
  for (const std::string& name : names)
    if (!used.count(name)) report.dropped.push_back(name);
  for (const auto& [name, tensor] : parameters) report.parameters += tensor.shape.numel();
  write_run(out, recipe, parameters, *tokenizer,
            {{"format", "huggingface"},
             {"model_type", type},
             {"config", parse_json(read_file(o.from / "config.json"), config.origin())},
             {"dropped", report.dropped}});
  keep_chat_templates(tokenizer_files, out.path(), report.notes);
  if (reads_source(recipe.model.architecture)) set_target_begin(config, o.from, *tokenizer, out.path());
  const std::string scaling = option(recipe.model.position, "scaling");
  if (scaling == "longrope" || scaling == "dynamic")
    report.notes.push_back(cat("positions of texts of up to ", recipe.model.max_position_embeddings,
                               " tokens (scaling ", scaling, "); --context-length chooses those of longer texts"));
  if (fs::exists(o.from / "generation_config.json"))
    write_file(out / "generation_config.json", read_file(o.from / "generation_config.json"));
  else if (reads_sounds(recipe.model))
    write_file(out / "generation_config.json", dump(speech_settings(o.from, *tokenizer), 2) + "\n");
  out.commit();
  return report;
}

}  // namespace lithe

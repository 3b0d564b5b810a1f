#include "lithe/recipe/recipe.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "lithe/base/did_you_mean.h"
#include "lithe/base/error.h"
#include "lithe/base/log.h"
#include "lithe/base/node_path.h"
#include "lithe/base/part_options.h"
#include "lithe/data/task_batches.h"
#include "lithe/data/tree_columns.h"
#include "lithe/model/tags.h"
#include "lithe/nn/placed_embedding.h"
#include "lithe/nn/registry.h"
#include "lithe/objective/device_batch.h"
#include "lithe/objective/objective.h"
#include "lithe/recipe/file_kind.h"

namespace lithe {

void Recipe::fields(Fields& f) {
  f("from_pretrained", from_pretrained,
    "directory of a trained run; the new run takes its tokenizer, its weights without the head, and its section model, "
    "whose keys this recipe may change");
  f("fresh_weights", fresh_weights,
    "take the tokenizer and the section model of from_pretrained, but initialise all weights anew");
  f.free("pretrained_parts", pretrained_parts,
         "{part: run}: parts of the model that start with the weights of a trained run, as {encoder: runs/first}. The "
         "part is the beginning of parameter names in model.safetensors; if the run has no such names, its names "
         "without that beginning are taken");
  f("from_layers", from_layers.layers,
    "layers of from_pretrained, from 1, whose weights the model's layers start with, in this order; their count is "
    "num_hidden_layers. All other parameters (the head, too) start with the run's weights of the same name and shape",
    at_least(1));
  f("from_encoder_layers", from_layers.encoder,
    "encoder_decoder: the same list for the layers of the encoder; empty: all of them", at_least(1));
  f.section("model", model, "the parts and sizes of the model");
  f.section("data", data, "training texts, their tokenizer, and how they are cut");
  f.section("task", task, "labelled examples, for objective task");
  f.section("translation", translation, "parallel texts (sources and translations), for objective seq2seq");
  f.section("train", train, "optimisation, checkpoints and the run's limits");
  f.section("eval", eval, "how `lithe eval` measures");
  f.section("generate", generate, "how `lithe generate` and samples during training choose tokens");
  f.section("translate", translate, "how `lithe translate` searches");
  f.section("encode", encode, "how `lithe encode` makes a vector (embedding) of a text");
}

namespace {

constexpr uint64_t kLargest = uint64_t(1) << 24;  // bytes of a recipe

// Options of parts, and the first part that has each.
const std::map<std::string, const Registry::Entry*>& part_with_option() {
  static const std::map<std::string, const Registry::Entry*> found = [] {
    std::map<std::string, const Registry::Entry*> out;
    for (const auto* part : Registry::instance().all())
      for (const FieldDoc& option : part->describe()) out.try_emplace(option.path, part);
    return out;
  }();
  return found;
}

// A key at the wrong place is common (learning_rate at the top level, num_attention_heads in `model`): say where it
// belongs.
void refuse_misplaced(const std::string& key, const Mark& mark, const std::string& section,
                      const std::vector<FieldDoc>& docs) {
  const std::string here = section.empty() ? "at the top level" : "in section '" + section + "'";
  for (const FieldDoc& doc : docs)
    if (doc.path.ends_with("." + key))
      fail_usage("recipe", to_string(mark), ": '", key, "' belongs in section '",
                 doc.path.substr(0, doc.path.size() - key.size() - 1), "', not ", here);
  const auto found = part_with_option().find(key);
  if (found == part_with_option().end()) return;
  const Registry::Entry& part = *found->second;
  check_usage(section != "train" || part.slot != Objective::slot, "recipe", to_string(mark), ": '", key,
              "' is an option of objective '", part.name, "' now: train.objective: {type: ", part.name, ", ", key,
              ": ...}");
  fail_usage("recipe", to_string(mark), ": '", key, "' is an option of ", part.slot, " '", part.name, "', not a key ",
             here);
}

std::vector<int64_t> layers_of(const Node& root, const char* key) {
  std::vector<int64_t> out;
  Node only = Node::map();
  if (const Node* given = root.find(key)) only.set(key, *given);
  read_fields(only, "", [&](Fields& f) { f(key, out, "", at_least(1)); });
  return out;
}

std::string text_at(const Node& root, const std::string& path) {
  const Node* found = node_at(root, path);
  return found && found->is_scalar() ? found->text() : "";
}

// Integers stay as they are; low-rank adapters learn beside them.
void check_trains_over_integers(const Node& root, const FromLayers& from_layers) {
  const Node& from = *root.find("from_pretrained");
  const std::string where =
      cat(to_string(from.mark()), ": from_pretrained: '", from.text(), "' holds integer weights, ");
  const std::string type = text_at(root, "train.adapters.type");
  // A misspelt type is refused, with the word it is near to, when it is read.
  check_usage(type != "" && type != "none" && type != "dora", "recipe", where,
              type == "dora"
                  ? "and adapters of type dora need the numbers of a matrix; choose lora or rslora"
                  : "which cannot be trained; train adapters over them (train.adapters.type: lora or rslora)",
              ", or give the run that it was made from");
  check_usage(!from_layers.any(), "recipe", where, "and from_layers takes numbers; give the run that it was made from");
  check_usage(text_at(root, "train.precision") != "f64", "recipe", where,
              "which have no products in f64; choose train.precision f32 or bf16");
}

// The section model of a pre-trained run, under what the recipe says of its own; a task's head where it names none.
void complete_model(Node& root) {
  Node model = root.find("model") ? *root.find("model") : Node::map();
  const Node* from = root.find("from_pretrained");
  const Node* task = root.find("task");
  const FromLayers from_layers{layers_of(root, "from_layers"), layers_of(root, "from_encoder_layers")};
  check_usage(!from_layers.any() || (from && !from->text().empty()), "recipe",
              "from_layers chooses layers of from_pretrained, and there is none; give a trained run");
  if (from && !from->text().empty()) {
    const Path file = Path(from->text()) / "config.json";
    check_usage(std::filesystem::exists(file), "recipe", to_string(from->mark()), ": from_pretrained: '", from->text(),
                "' has no config.json; give the --out directory of a training run");
    Node base = parse_json_node(read_file(file), file.string());
    if (base.find("quantization_config")) check_trains_over_integers(root, from_layers);
    if (from_layers.any()) keep_layers(base, from_layers);
    for (const auto& [key, value] : base.entries())
      if (!model.find(key) && key != "model_type" && key != "quantization_config" && key != "num_labels" &&
          key != "label_names" && !(key == "head" && task))
        model.set(key, value);
  }
  if (task && task->is_map()) {
    const std::string type = task->find("type") ? task->find("type")->text() : TaskConfig().type;
    Node head = model.find("head") ? *model.find("head") : Node::map();
    if (head.is_map() && !head.find("type"))
      head.set("type", Node::scalar(task_head(task_type_named(type).value_or(TaskType::classification))));
    if (head.is_map() && type == "regression" && !head.find("problem_type"))
      head.set("problem_type", Node::scalar("regression"));
    model.set("head", head);
  }
  if (!model.entries().empty()) root.set("model", model);
}

void check_places(const Node& root) {
  Recipe recipe;
  const auto docs = describe_fields([&](Fields& f) { recipe.fields(f); });
  const auto known = [&](const std::string& path) {
    return std::any_of(docs.begin(), docs.end(), [&](const FieldDoc& doc) { return doc.path == path; });
  };
  for (const auto& [section, value] : root.entries()) {
    if (!known(section)) {
      refuse_misplaced(section, value.mark(), "", docs);
      continue;
    }
    std::vector<std::string> own;
    for (const FieldDoc& doc : docs)
      if (doc.path.starts_with(section + ".")) own.push_back(doc.path.substr(section.size() + 1));
    if (own.empty()) continue;  // pretrained_parts: its keys are names of parameters
    for (const auto& [key, inner] : value.entries())
      if (!known(section + "." + key) && nearest(key, own).empty())  // a misspelt key is refused when it is read
        refuse_misplaced(key, inner.mark(), section, docs);
  }
}

// Where each layer has a mixer of model.mixers or model.layers, model.mixer has no effect: to give it there is a
// mistake. What came before may have it: an experiment's base, a pre-trained run; and a resolved recipe, which has
// every key.
void refuse_unused_mixer(const Node& file, const std::vector<std::string>& overrides, const Node& root,
                         const std::string& section) {
  if (const Node* layers = node_at(root, section + ".layers"))
    for (const auto& [name, layer] : layers->entries())
      if (!layer.find("mixer")) return;  // it has the one of model.mixer
  const std::string mixer = section + ".mixer", ways[] = {section + ".layer_types", section + ".layer_pattern"};
  bool given = node_at(file, mixer) && !(node_at(file, ways[0]) && node_at(file, ways[1]));
  for (const std::string& override : overrides) {
    const std::string key = override.substr(0, override.find('='));
    given = key == mixer || key.starts_with(mixer + ".") || (given && key != ways[0] && key != ways[1]);
  }
  std::vector<std::string> kinds;  // of mixers
  if (const Node* mixers = node_at(root, section + ".mixers"); mixers && !mixers->entries().empty())
    kinds.push_back(section + ".mixers");
  if (const Node* layers = node_at(root, section + ".layers"); layers && !layers->entries().empty())
    kinds.push_back(section + ".layers, which all have a mixer of their own");
  if (kinds.empty()) kinds.push_back(section + ".mixers");
  for (const std::string& way : ways)
    if (const Node* said = given ? node_at(root, way) : nullptr)
      check_usage(said->items().empty() && said->text().empty(), "recipe", to_string(node_at(root, mixer)->mark()),
                  ": no layer has ", mixer, ", because ", way, " gives each layer one of ", join(kinds),
                  "; leave out the one or the other");
}

// A format chosen by an override replaces the recipe's, with what that said of its columns.
void settle_format(Node& root, const std::vector<std::string>& overrides) {
  const auto overridden = [&](const std::string& key) {
    return std::ranges::any_of(overrides, [&](const std::string& o) { return o.starts_with("task." + key + "="); });
  };
  if (!overridden("format")) return;
  Node task = *root.find("task");
  TaskConfig config;
  try {
    read_fields(task, "task", [&](Fields& f) { config.fields(f); });
  } catch (const Error&) {
    return;  // told when all of the recipe is read
  }
  if (config.format.empty()) return;
  std::string left;
  for (const std::string& key : idle_options(config.format, example_layout(config)))
    if (!overridden(key)) {
      left += (left.empty() ? "task." : ", task.") + key;
      task.erase(key);
    }
  if (left.empty()) return;
  log_info("format ", config.format, " has no columns: ", left, " of the recipe do not count");
  root.set("task", task);
}

// The options of objectives once stood beside their name.
void gather_objective(Node& root) {
  const Node* given = root.find("train");
  const Node* type = given ? given->find("objective") : nullptr;
  if (!type || !type->is_scalar()) return;
  Node train = *given, objective = Node::map(type->mark());
  objective.set("type", *type);
  for (const Registry::Entry* part : Registry::instance().slot(Objective::slot))
    for (const FieldDoc& option : part->describe()) {
      const Node* value = train.find(option.path);
      if (value && part->name == type->text()) objective.set(option.path, *value);
      train.erase(option.path);
    }
  train.set("objective", objective);
  root.set("train", train);
}

// Conversations are written by the template of the model that goes on learning, where no other is named.
void settle_conversations(Recipe& recipe) {
  DataConfig& data = recipe.data;
  if (data.messages.empty()) {
    check_usage(data.chat_template.empty(), "data",
                "chat_template writes conversations, and data.messages names none; "
                "give the key of their messages, or leave it out");
    return;
  }
  check_usage(!recipe.has_task() && !recipe.has_translation(), "data",
              "messages are conversations to learn from, and the recipe has a task or a translation; keep one");
  if (!data.chat_template.empty() || recipe.from_pretrained.empty()) return;
  if (const Path file = Path(recipe.from_pretrained) / "chat_template.jinja"; std::filesystem::exists(file))
    data.chat_template = file.string();
}

Path file_of_run(const Path& run) {
  const Path file = run / "resolved_recipe.yaml";
  check_usage(std::filesystem::exists(run), "load", "'", run.string(),
              "' does not exist; give the --out directory of a training run");
  check_usage(std::filesystem::is_directory(run), "load", "'", run.string(),
              "' is a file, not a directory; give the --out directory of a training run");
  check_usage(std::filesystem::exists(file), "load", "'", run.string(),
              "' has no resolved_recipe.yaml; give the --out directory of a training run");
  return file;
}

}  // namespace

Recipe load_recipe(const Path& file, const std::vector<std::string>& overrides) {
  check_usage(std::filesystem::exists(file), "recipe", "'", file.string(), "' does not exist");
  check_usage(std::filesystem::is_regular_file(file), "recipe", "'", file.string(),
              "' is not a file; give a recipe such as recipes/quickstart.yaml");
  return read_recipe(read_file(file, kLargest), file.string(), overrides);
}

Recipe read_recipe(std::string_view text, const std::string& origin, const std::vector<std::string>& overrides,
                   bool complete) {
  Node root = parse_yaml(text, origin);
  check_usage(!root.is_null(), "recipe", origin, ": is empty; it must hold sections model, data, train");
  check_usage(root.is_map(), "recipe", origin, ": must hold sections model, data, train, not ",
              root.is_list() ? "a list" : "plain text");
  check_kind(root, origin, FileKind::recipe);
  const Node file = root;
  for (const std::string& assignment : overrides) apply_override(root, assignment);
  settle_format(root, overrides);
  if (complete) gather_objective(root);
  check_places(root);
  if (!complete) {
    complete_model(root);
    for (const char* section : {"model", "model.encoder"}) refuse_unused_mixer(file, overrides, root, section);
  }
  Recipe recipe;
  read_fields(root, "", [&](Fields& f) { recipe.fields(f); });
  settle_conversations(recipe);
  const Node* const adapters = node_at(root, "train.adapters");
  check_usage(!adapters || !adapters->is_map() || adapters->entries().empty() || adapters->find("type"), "recipe",
              adapters ? to_string(adapters->mark()) : "",
              ": train.adapters has no type, so that no adapter is trained; add "
              "type: lora (or rslora, dora), or leave the section out");
  check_usage(
      complete || !recipe.train.adapters.on() || !recipe.pretrained_parts.entries().empty() ||
          (!recipe.from_pretrained.empty() && !recipe.fresh_weights),
      "recipe",
      "train.adapters freezes all weights but its own, and these would be random: give from_pretrained a trained "
      "run",
      recipe.fresh_weights ? " and leave fresh_weights out" : "", ", or leave train.adapters out");
  if (recipe.translation.cut_sources) {
    recipe.translate.source_length =
        recipe.translation.max_length ? recipe.translation.max_length : recipe.data.sequence_length;
    recipe.translate.truncation = recipe.data.truncation;
  }
  return recipe;
}

namespace {

bool task_files_are_here(const TaskConfig& task) {
  for (const auto* files : {&task.train, &task.validation, &task.test})
    for (const std::string& file : *files) {
      try {
        glob(file);
      } catch (const Error&) {
        return false;
      }
    }
  return true;
}

// Those of the training files, where these are here and are a treebank.
std::vector<std::shared_ptr<const TreeSentence>> training_trees(const Recipe& recipe) {
  std::vector<std::shared_ptr<const TreeSentence>> out;
  if (recipe.has_task() && task_files_are_here(recipe.task)) {
    for (const Example& example : load_task(recipe.task).train)
      if (example.tree) out.push_back(example.tree);
  } else if (!recipe.translation.train.source_trees.empty()) {
    ParallelFiles train = recipe.translation.train;
    try {
      for (const TextPair& pair : read_pairs(train)) out.push_back(pair.tree);
    } catch (const Error&) {
      out.clear();
    }
  }
  return out;
}

// Of the training files and a tokenizer that learns from its own, where they are here.
std::vector<int64_t> composites_without_data(const Recipe& recipe, const std::string& owner, const char* operation) {
  try {
    if (recipe.has_task() && task_files_are_here(recipe.task))
      return composites_of(TaskBatches(load_task(recipe.task).train, task_type(recipe.task), *tokenizer_of(recipe.data),
                                       recipe.data.sequence_length, recipe.train.batch_tokens, 0, false),
                           recipe.model, owner);
  } catch (const Error&) {
  }
  fail_usage(operation, "the composites of tokens and tags are in the training treebank; give ", "model.",
             embedding_place(owner), ".composites to ", operation, " without it");
}

}  // namespace

void complete_without_data(Recipe& recipe, const char* operation, int64_t length) {
  ModelConfig& model = recipe.model;
  const TokenizerConfig& tokenizer = recipe.data.tokenizer;
  const bool here = tokenizer.type == "file" && !model.vocab_size && std::filesystem::exists(tokenizer.file);
  if (here) model.vocab_size = make_tokenizer(tokenizer, {})->vocab_size();
  check_usage(model.vocab_size || tokenizer.type != "file", operation, "the vocabulary is in '", tokenizer.file,
              "', which is not here; give model.vocab_size to ", operation, " without it");
  const int64_t width = tokenizer.token_code().width();
  const int64_t vocabulary = width > 1                   ? code_values
                             : tokenizer.type == "bytes" ? 257
                             : tokenizer.type == "none"  ? std::max<int64_t>(1, int64_t(tokenizer.specials.size()))
                                                         : tokenizer.vocab_size;
  model.complete(vocabulary, width,
                 std::max<int64_t>(1, std::max(length, recipe.data.sequence_length) - own_places(recipe, model)));
  const auto objective = make_objective(recipe.train.objective);
  check_usage(model.num_labels || recipe.has_task() || objective->learns_from() != Lessons::task, "train", "objective ",
              recipe.train.objective.type,
              " needs a section task that names examples: task.train, or task.validation or task.test");
  if (!model.num_labels) model.num_labels = objective->classes(recipe.task);
  if (!model.num_labels && recipe.has_task() && task_files_are_here(recipe.task)) {
    recipe.task.labels = load_task(recipe.task).labels;
    model.num_labels = int64_t(recipe.task.labels.size());
  }
  std::vector<std::shared_ptr<const TreeSentence>> trees;
  for (const TagColumn& tags : tag_columns(model)) {
    if (!tags.values.empty()) continue;
    if (trees.empty()) trees = training_trees(recipe);
    check_usage(!trees.empty(), operation, "the values of the tags '", tags.column,
                "' are in the training treebank; give them in model.", embedding_place(tags.owner), ".tags to ",
                operation, " without it");
    set_tag_values(model, tags, tags_of(trees, tags.column));
  }
  for (const std::string& owner : lacking_composites(model))
    set_composites(model, owner, composites_without_data(recipe, owner, operation));
  check_usage(
      model.num_labels || recipe.task.type == "regression" || recipe.task.type == "span" || recipe.task.type == "text",
      operation, "the number of classes is in the examples; give model.num_labels or task.labels to ", operation,
      " without them");
}

namespace {

// The embedding of a modality, as far as its shape goes.
std::unique_ptr<Embedding> shape_of_modality(const ModelConfig& model, const std::string& name, const Node& part) {
  Parameters unused;
  BuildContext aside{.parameters = &unused, .device = Device::meta};
  return Registry::instance().make<Embedding>(
      read_part(part, name, Embedding::slot, "model.modalities", model.embedding), Scope(aside, name),
      {.vocab_size = std::max<int64_t>(1, model.vocab_size), .hidden_size = model.hidden_size, .token_width = 0});
}

// Every modality of the model has its data, and the other way round, in rows of one width.
void check_modalities(const Recipe& recipe, const ModelConfig& model) {
  const Node modalities = modalities_of(model);
  const FeatureReaders readers = feature_readers(recipe.data);
  for (const auto& [name, part] : modalities.entries()) {
    const auto reader = readers.find(name);
    check_usage(reader != readers.end(), "train", "model.modalities.", name,
                " reads what no section of the recipe gives data for; give data.", name,
                ", or train with the library (ModelInput, docs/library.md)");
    const auto embedding = shape_of_modality(model, name, part);
    check_usage(embedding->width() == 1 + reader->second->width(), "train", "model.modalities.", name,
                " reads rows of ", embedding->width() - 1, " numbers, data.", name, " gives rows of ",
                reader->second->width(), "; the two sections must say the same sizes");
    const auto* placed = dynamic_cast<const PlacedEmbedding*>(embedding.get());
    if (!placed || !placed->rows()) continue;
    check_usage(reader->second->rows(), "train", "model.modalities.", name, " reads ", placed->rows(),
                " rows of each, data.", name, " gives as many as each has; set data.", name,
                ".pad_seconds to what makes so many rows");
    check_usage(placed->rows() == reader->second->rows(), "train", "model.modalities.", name, " reads ", placed->rows(),
                " rows, data.", name, " gives ", reader->second->rows(), "; the two sections must say the same sizes");
  }
  for (const auto& [name, reader] : readers)
    check_usage(modalities.find(name), "train", "data.", name,
                " gives what the model does not read; give model.modalities.", name,
                " (of an encoder_decoder, model.encoder.modalities.", name, "), or leave it out");
}

// Of sounds, a head that learns nothing would decide which rows are left.
void check_ctc_adapters(const Recipe& recipe, const ModelConfig& model, const std::string& section) {
  if (!recipe.data.audio.given() || !recipe.task.transcript.empty()) return;
  if (!recipe.from_pretrained.empty() || !is_empty(recipe.pretrained_parts)) return;
  for (int64_t i = 0; i < model.num_hidden_layers; ++i)
    if (const auto& compressor = model.layer(i).compressor; compressor && compressor->type == "ctc_adapter")
      check_usage(option_number(*compressor, "loss_coef") == 0, "model", section,
                  " has a compressor ctc_adapter, whose ",
                  "CTC head learns transcripts, and the recipe names none; set task.transcript to their column, "
                  "loss_coef: 0, or take its weights from from_pretrained or pretrained_parts");
}

}  // namespace

int64_t placed_rows(const Recipe& recipe, const ModelConfig& model, const Node& modalities) {
  int64_t rows = 0;
  if (is_empty(modalities)) return rows;
  for (const auto& [name, reader] : feature_readers(recipe.data)) {
    const Node* part = modalities.find(name);
    if (!part) continue;
    const auto embedding = shape_of_modality(model, name, *part);
    const auto* placed = dynamic_cast<const PlacedEmbedding*>(embedding.get());
    if (placed && placed->places()) rows += reader->rows();
  }
  return rows;
}

int64_t own_places(const Recipe& recipe, const ModelConfig& model) {
  return sees_ahead(model.architecture) ? placed_rows(recipe, model, model.modalities) : 0;
}

TaskReading task_reading(const Recipe& recipe) {
  TaskReading out{.features = feature_readers(recipe.data)};
  out.truncation = recipe.data.truncation;
  check_usage(recipe.task.streams.empty() || task_type(recipe.task) == TaskType::text, "task",
              "streams are of type text, not of ", recipe.task.type, "; leave them out");
  for (const std::string& name : recipe.task.streams) out.streams.push_back(streams_named(name));
  out.eval_stream = streams_named(recipe.task.eval_stream);
  if (task_type(recipe.task) == TaskType::text)
    out.answers = answer_layout(recipe.task, reads_source(recipe.model.architecture));
  return out;
}

std::map<std::string, FeatureShape> feature_shapes(const Recipe& recipe) {
  std::map<std::string, FeatureShape> out;
  for (const auto& [name, reader] : feature_readers(recipe.data)) out[name] = {reader->rows(), reader->width()};
  return out;
}

Node modalities_of(const ModelConfig& model) {
  return reads_source(model.architecture) ? model.encoder_config().modalities : model.modalities;
}

void prepare_for_lessons(const Recipe& recipe, const Objective& objective, const Tokenizer& tokenizer,
                         const std::vector<std::string>& labels, ModelConfig& model, bool learnt, bool named) {
  const int64_t placed =
      reads_source(model.architecture) ? placed_rows(recipe, model, modalities_of(model)) : own_places(recipe, model);
  check_usage(model.max_position_embeddings >= recipe.data.sequence_length - placed, "model",
              "max_position_embeddings ", model.max_position_embeddings, " is below data.sequence_length ",
              recipe.data.sequence_length, placed ? cat(" less ", placed, " rows with places of their own") : "");
  const TaskConfig* task = recipe.has_task() ? &recipe.task : nullptr;
  const Lessons lessons = objective.learns_from();
  const std::string& name = recipe.train.objective.type;
  check_usage(!task || !recipe.has_translation(), "recipe", "give a section task or translation, not both");
  check_usage(!task || lessons == Lessons::task, "train", "a recipe with a section task needs objective task, not ",
              name);
  check_usage(task || lessons != Lessons::task, "train", "objective ", name,
              " needs a section task that names examples: task.train, or task.validation or task.test");
  check_usage(recipe.has_translation() == (lessons == Lessons::translation), "train",
              "objective seq2seq and a section translation belong together; the objective is ", name,
              recipe.has_translation() ? ", and there is such a section" : ", and there is none");
  check_modalities(recipe, model);
  check_ctc_adapters(recipe, model, "model");
  for (const std::string& source : model.source_names())
    check_ctc_adapters(recipe, model.encoder_config(source),
                       source == kSource ? "model.encoder" : "model.encoders." + source);
  const auto further = recipe.translation.further_sources();
  for (const auto& [name, keys] : model.encoders.entries())
    check_usage(!reads_source(model.architecture) || further.count(name), "train", "model.encoders.", name,
                " reads what translation.sources does not give; add it there, as {", name, ": {from: previous}}");
  for (const auto& [source, column] : recipe.task.further_sources())
    check_usage(model.encoders.find(source), "task", "sources.", source,
                " is read by no encoder; add it to model.encoders and say by model.combine how they become one, or "
                "leave it out");
  check_usage(!objective.beside(), "train", "objective ", name,
              " learns beside another; give train.objective that one, and this to train.auxiliary_objectives");
  const LessonFacts facts{.tokenizer = tokenizer,
                          .label_smoothing = recipe.train.label_smoothing,
                          .task = task,
                          .labels = labels,
                          .learnt = learnt,
                          .named = named};
  objective.prepare(facts, model);
  for (const auto& [beside, choice] : recipe.train.auxiliaries()) {
    const auto auxiliary = make_objective(choice);
    check_usage(auxiliary->beside(), "train", "auxiliary_objectives.", beside, ": objective ", choice.type,
                " learns from batches of its own; give it to train.objective");
    auxiliary->prepare(facts, model);
  }
}

namespace {

// A tokenizer of these settings as far as its roles and its width go.
std::unique_ptr<Tokenizer> unlearnt(TokenizerConfig config) {
  const int64_t specials = std::max<int64_t>(8, int64_t(config.specials.size()));
  if (config.type == "unigram") config.type = "bpe";  // whose roles are found by the same names
  if (config.type == "bpe" || config.type == "wordpiece") config.vocab_size = 256 + specials;
  return make_tokenizer(config, [](const auto& take) { take("a"); });
}

}  // namespace

void prepare_without_data(Recipe& recipe) {
  const TokenizerConfig& settings = recipe.data.tokenizer;
  if (settings.type == "file" && !std::filesystem::exists(settings.file)) return;
  const auto tokenizer = unlearnt(settings);
  ModelConfig& model = recipe.model;
  const int64_t vocabulary = learns_from_texts(settings) && tokenizer->width() == 1 ? 0 : tokenizer->vocab_size();
  check_usage(model.vocab_size >= vocabulary, "model", "vocab_size ", model.vocab_size, " is below the tokenizer's ",
              vocabulary, "; leave it out to use the tokenizer's");
  check_usage(model.token_width == tokenizer->width(), "model", "token_width ", model.token_width,
              " differs from the tokenizer's ", tokenizer->width(), "; leave it out to use the tokenizer's");
  std::vector<std::string> labels = recipe.task.labels;
  for (int64_t i = int64_t(labels.size()); recipe.has_task() && i < model.num_labels; ++i) labels.push_back(cat(i));
  prepare_for_lessons(recipe, *make_objective(recipe.train.objective), *tokenizer, labels, model,
                      !learns_from_texts(settings), labels == recipe.task.labels);
}

EvalConfig evaluation_of(const Recipe& recipe) {
  EvalConfig out = recipe.eval;
  out.carry_state = out.carry_state || (recipe.train.carry_state && !out.context_length && !out.stride);
  return out;
}

Node resolved(Recipe recipe) {
  return write_fields([&](Fields& f) { recipe.fields(f); });
}

Node stored_recipe(const Path& run) {
  const Path file = file_of_run(run);
  Node root = parse_yaml(read_file(file, kLargest), file.string());
  check_usage(!root.is_null(), "recipe", file.string(), ": is empty; the run was damaged from outside");
  gather_objective(root);
  return root;
}

Recipe recipe_of_run(const Path& run) {
  const Path file = file_of_run(run);
  return read_recipe(read_file(file, kLargest), file.string(), {}, true);
}

}  // namespace lithe

#include <algorithm>
#include <iostream>
#include <set>

#include "lithe/base/json.h"
#include "lithe/base/log.h"
#include "lithe/base/stop.h"
#include "lithe/cli/command.h"
#include "lithe/cli/further_sources.h"
#include "lithe/cli/text_lines.h"
#include "lithe/data/text_file.h"
#include "lithe/eval/prediction.h"
#include "lithe/infer/load.h"
#include "lithe/model/exits.h"
#include "lithe/recipe/recipe.h"

namespace lithe {
namespace {

struct PredictOptions {
  std::string model, weights, precision = "f32", exit, image;
  std::vector<std::string> files, sources;
  bool json = false, conllu = false, probabilities = false;
};

bool is_conllu(const std::string& file) { return is_treebank(file) && tree_format(file) == TreeFormat::conllu; }

// The sentences of CoNLL-U files, and lines of others.
std::vector<TreeSentence> sentences_of(const std::vector<std::string>& files) {
  std::vector<TreeSentence> out;
  if (files.empty() || std::none_of(files.begin(), files.end(), is_conllu)) {
    for (const std::string& line : text_lines(files)) {
      out.push_back(plain_sentence(line));
      check_usage(!out.back().words.empty(), "predict", "line ", out.size(),
                  " has no words, of which there is no tree");
    }
    return out;
  }
  for (const std::string& file : files) {
    check_usage(is_conllu(file), "predict", "'", file, "' is no CoNLL-U (.conllu), and others are; give them apart");
    const std::string text = read_text(file, "predict");
    refuse_invalid_utf8(text, file, "predict");
    // Heads that make no tree are what the parser is asked for.
    for (TreeSentence& s : parse_conllu_trees(
             text, file, [](const std::string&) {}, true))
      out.push_back(std::move(s));
  }
  return out;
}

// CoNLL-U with the model's answers.
int predict_conllu(const PredictOptions& o, const Recipe& recipe, const LoadedModel& loaded) {
  const TaskType type = task_type(recipe.task);
  check_usage(type == TaskType::parsing || type == TaskType::tagging, "predict",
              "--conllu is for models that parse or tag, this one learnt ", recipe.task.type);
  check_usage(!o.probabilities || type == TaskType::parsing, "predict", "--probabilities are of a parser's heads");
  std::vector<TreeSentence> sentences = sentences_of(o.files);
  if (sentences.empty()) return 0;
  std::vector<Example> examples;
  for (const TreeSentence& s : sentences) {
    Example e;
    e.words = s.words;
    e.tags.assign(e.words.size(), -1);
    e.tree = std::make_shared<const TreeSentence>(s);
    examples.push_back(std::move(e));
  }
  const TaskBatches batches(std::move(examples), type, *loaded.tokenizer, recipe.data.sequence_length,
                            recipe.train.batch_tokens, 0, false);
  const TaskAnswers answers = answer(*loaded.model, batches);
  const std::vector<std::string>& names = loaded.model->config().label_names;
  const std::string column = type == TaskType::parsing   ? "deprel"
                             : recipe.task.label.empty() ? "upos"
                                                         : recipe.task.label;
  for (size_t i = 0; i < sentences.size() && !stop_signal(); ++i) {
    TreeSentence& s = sentences[i];
    const Prediction& p = answers.predictions[i];
    std::vector<std::string>& tags = s.tags[column];
    tags.clear();
    for (const int32_t tag : p.tags) tags.push_back(names.empty() ? std::to_string(tag) : names[size_t(tag)]);
    if (type == TaskType::parsing) s.heads.heads = p.heads;
    s.parser = o.probabilities ? p.parser : std::vector<HeadProbabilities>();
    std::cout << to_conllu(s);
  }
  return stop_signal() ? 128 + stop_signal() : 0;
}

// The files of all texts that further encoders read beside the lines.
std::map<std::string, std::string> given_sources(const std::vector<std::string>& given, const Recipe& recipe) {
  std::vector<std::string> names;
  for (const auto& [name, column] : recipe.task.further_sources()) names.push_back(name);
  const std::map<std::string, std::string> out = source_files(given, names, "predict");
  for (const std::string& name : names)
    check_usage(out.count(name), "predict", "the model reads a text of ", name, " beside each line; give --source ",
                name, "=FILE");
  return out;
}

int run_predict(const PredictOptions& o) {
  catch_stop_signals();
  const Recipe recipe = recipe_of_run(o.model);
  check_usage(recipe.has_task() || recipe.train.objective.type == "task", "predict", "'", o.model,
              "' was not trained on a task; `lithe train` with a section task makes such a model");
  const LoadedModel loaded = load_model(o.model, o.weights, o.precision);
  check_usage(o.conllu || !o.probabilities, "predict", "--probabilities stand in CoNLL-U; give --conllu, too");
  if (o.conllu) {
    check_usage(!o.json && o.exit.empty(), "predict", "--conllu is a form of its own; leave --json and --exit out");
    return predict_conllu(o, recipe, loaded);
  }
  const TaskType type = task_type(recipe.task);
  if (type == TaskType::tagging || type == TaskType::parsing)
    for (const std::string& file : o.files)
      check_usage(!is_conllu(file), "predict", "'", file, "' is CoNLL-U, and without --conllu each line is a text; ",
                  "give --conllu, too");
  // Of a model that reads pictures or sounds alone the files are these, not lines of text.
  const std::string modality = recipe.data.audio.given() ? "audio" : "image";
  const bool pictures = (recipe.data.image.given() || recipe.data.audio.given()) && recipe.task.text.empty();
  check_usage(o.image.empty() || (recipe.data.image.given() && !pictures), "predict",
              "--image is for models that read a "
              "picture beside each line; this one reads ",
              pictures ? "pictures alone: name them" : "text alone");
  const std::vector<std::string> lines = pictures ? o.files : text_lines(o.files);
  check_usage(!pictures || !lines.empty(), "predict", "name the pictures to predict");
  std::vector<Example> examples;
  for (const std::string& line : lines) {
    examples.push_back(pictures ? Example() : example_without_label(line, type));
    examples.back().answers.resize(type == TaskType::text ? 1 : 0);
    if (pictures || !o.image.empty())
      examples.back().features[pictures ? modality : "image"] = pictures ? line : o.image;
  }
  for (const auto& [name, file] : given_sources(o.sources, recipe)) {
    const std::vector<std::string> texts = text_lines({file});
    check_usage(texts.size() == lines.size(), "predict", "there are ", lines.size(), " lines, and '", file, "' has ",
                texts.size(), "; line n of one must belong to line n of the other");
    for (size_t i = 0; i < texts.size(); ++i) examples[i].sources[name] = texts[i];
  }
  if (examples.empty()) return 0;
  const TaskBatches batches(std::move(examples), type, *loaded.tokenizer, recipe.data.sequence_length,
                            recipe.train.batch_tokens, 0, false, task_reading(recipe));
  std::optional<ExitRun> exits = exit_run_of(*loaded.model, o.exit);
  const TaskAnswers answers = answer(*loaded.model, batches, {}, exits ? &*exits : nullptr);
  if (exits)
    log_info("exits ", o.exit, ": ", exits->mean_layers(), " of ", loaded.model->config().num_hidden_layers, " layers");
  const std::vector<std::string>& names = loaded.model->config().label_names;
  for (size_t i = 0; i < lines.size() && !stop_signal(); ++i) {
    if (o.json) {
      Json json = {{pictures ? modality : "text", lines[i]}};
      json.update(prediction_json(type, answers, i, names));
      std::cout << dump(json, -1, Invalid::replaced) << "\n";
    } else {
      std::cout << prediction_text(type, answers, i, names, batches.examples()[i].words)
                << (type == TaskType::tagging || type == TaskType::parsing ? "" : "\t" + lines[i]) << "\n";
    }
  }
  return stop_signal() ? 128 + stop_signal() : 0;
}

}  // namespace

Command add_predict(CommandLine& app) {
  auto o = std::make_shared<PredictOptions>();
  app.add_option("model", o->model, "directory of a run that was trained on a task").required();
  app.add_option("files", o->files,
                 "texts, one per line (a tab separates the two of a pair); default or -: standard input. Of a run that "
                 "learnt from pictures alone: PNG, JPEG or PPM files, a.tar#member, or array#number");
  app.add_option("--image", o->image, "the picture beside every line, where the model reads both");
  add_weights_options(app, o->weights, o->precision);
  app.add_option("--exit", o->exit,
                 "rule by which a text leaves a model with early exits; the rules: lithe generate --help");
  add_source_option(app, o->sources);
  app.add_flag("--json", o->json, "print JSON lines");
  app.add_flag(
      "--conllu", o->conllu,
      "read CoNLL-U (files .conllu) or lines, whose words are cut at spaces and punctuation; print CoNLL-U with "
      "the model's heads and labels, or tags");
  app.add_flag("--probabilities", o->probabilities,
               "with --conllu: the likeliest heads of each word in MISC, as HeadProbability=2:0.9,0:0.1");
  add_threads_option(app);
  app.footer("Examples: echo 'a fine film' | lithe predict runs/sst2\n          lithe predict runs/fashion shoe.png");
  return [o] { return run_predict(*o); };
}

}  // namespace lithe

#include <algorithm>
#include <iostream>
#include <set>

#include "lithe/base/json.h"
#include "lithe/base/log.h"
#include "lithe/base/stop.h"
#include "lithe/cli/command.h"
#include "lithe/cli/further_sources.h"
#include "lithe/cli/text_lines.h"
#include "lithe/data/translation.h"
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

// What is predicted: a line, a picture or a sentence each, and the sentences of treebanks or of --conllu.
struct Asked {
  std::vector<std::string> lines;
  std::vector<TreeSentence> sentences;
};

Asked asked_of(const PredictOptions& o, TaskType type) {
  Asked out;
  if (std::ranges::none_of(o.files, is_treebank)) {
    out.lines = text_lines(o.files);
    for (size_t i = 0; o.conllu && i < out.lines.size(); ++i) {
      out.sentences.push_back(plain_sentence(out.lines[i]));
      out.sentences.back().place = cat("line ", i + 1);
      check_usage(!out.sentences.back().words.empty(), "predict", "line ", i + 1,
                  " has no words, of which there is no tree");
    }
    return out;
  }
  check_usage(type == TaskType::classification || type == TaskType::regression || type == TaskType::tagging ||
                  type == TaskType::parsing,
              "predict", "'", *std::ranges::find_if(o.files, is_treebank),
              "' is a treebank, and what a model of this task reads is in no tree; give lines of text");
  for (const std::string& file : o.files) {
    check_usage(is_treebank(file), "predict", "'", file, "' is no treebank, and others are; give them apart");
    // Heads that make no tree are what a parser is asked for.
    for (TreeSentence& s : read_treebank(file, "predict", true)) {
      out.lines.push_back(s.text());
      out.sentences.push_back(std::move(s));
    }
  }
  return out;
}

Example example_of(const TreeSentence& s, TaskType type) {
  Example e;
  e.text = s.text();
  e.words = s.words;
  if (type == TaskType::tagging || type == TaskType::parsing) e.tags.assign(e.words.size(), -1);
  e.tree = std::make_shared<const TreeSentence>(s);
  return e;
}

// CoNLL-U with the model's answers.
void print_conllu(const PredictOptions& o, const Recipe& recipe, std::vector<TreeSentence> sentences,
                  const TaskAnswers& answers, const std::vector<std::string>& names) {
  const TaskType type = task_type(recipe.task);
  const std::string column = type == TaskType::parsing   ? "deprel"
                             : recipe.task.label.empty() ? "upos"
                                                         : recipe.task.label;
  for (size_t i = 0; i < sentences.size() && !stop_signal(); ++i) {
    TreeSentence& s = sentences[i];
    const Prediction& p = answers.predictions[i];
    std::vector<std::string>& tags = s.tags[column];
    tags.clear();
    for (const int32_t tag : p.tags) tags.push_back(label_name(tag, names));
    if (type == TaskType::parsing) s.heads.heads = p.heads;
    s.parser = o.probabilities ? p.parser : std::vector<HeadProbabilities>();
    std::cout << to_conllu(s);
  }
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
  const TaskType type = task_type(recipe.task);
  if (o.conllu) {
    check_usage(!o.json && o.exit.empty(), "predict", "--conllu is a form of its own; leave --json and --exit out");
    check_usage(type == TaskType::parsing || type == TaskType::tagging, "predict",
                "--conllu is for models that parse or tag, this one learnt ", recipe.task.type);
    check_usage(!o.probabilities || type == TaskType::parsing, "predict", "--probabilities are of a parser's heads");
  }
  // Of a model that reads pictures or sounds alone the files are these, not lines of text.
  const std::string modality = recipe.data.audio.given() ? "audio" : "image";
  const bool pictures = (recipe.data.image.given() || recipe.data.audio.given()) && recipe.task.text.empty();
  check_usage(o.image.empty() || (recipe.data.image.given() && !pictures), "predict",
              "--image is for models that read a "
              "picture beside each line; this one reads ",
              pictures ? "pictures alone: name them" : "text alone");
  Asked asked = pictures ? Asked{o.files, {}} : asked_of(o, type);
  check_usage(!pictures || !asked.lines.empty(), "predict", "name the pictures to predict");
  std::vector<Example> examples;
  for (size_t i = 0; i < asked.lines.size(); ++i) {
    const std::string& line = asked.lines[i];
    examples.push_back(pictures                  ? Example()
                       : asked.sentences.empty() ? example_without_label(line, type)
                                                 : example_of(asked.sentences[i], type));
    examples.back().answers.resize(type == TaskType::text ? 1 : 0);
    if (pictures || !o.image.empty())
      examples.back().features[pictures ? modality : "image"] = pictures ? line : o.image;
  }
  for (const auto& [name, file] : given_sources(o.sources, recipe)) {
    const std::vector<std::string> texts = text_lines({file});
    check_usage(texts.size() == asked.lines.size(), "predict", "there are ", asked.lines.size(), " lines, and '", file,
                "' has ", texts.size(), "; line n of one must belong to line n of the other");
    for (size_t i = 0; i < texts.size(); ++i) examples[i].sources[name] = texts[i];
  }
  if (examples.empty()) return 0;
  const TaskReading reading = task_reading(recipe);
  const auto batches_of = [&](const std::vector<Example>& of) {
    return TaskBatches(of, type, *loaded.tokenizer, recipe.data.sequence_length, recipe.train.batch_tokens, 0, false,
                       reading);
  };
  std::optional<TaskBatches> batches;
  std::optional<ExitRun> exits;
  const auto answers_of = [&] {
    batches.emplace(batches_of(examples));
    exits = exit_run_of(*loaded.model, o.exit);
    return answer(*loaded.model, *batches, {}, exits ? &*exits : nullptr);
  };
  TaskAnswers answers;
  bool failed = false;
  try {
    answers = answers_of();
  } catch (const Error&) {
    if (!pictures || examples.size() == 1) throw;
    // A file that cannot be read takes no other with it.
    std::vector<std::string> lines;
    std::vector<Example> whole;
    for (size_t i = 0; i < examples.size(); ++i) {
      try {
        batches_of({examples[i]}).batch(0, 0);
        lines.push_back(asked.lines[i]);
        whole.push_back(examples[i]);
      } catch (const Error& error) {
        if (whole.empty() && i + 1 == examples.size()) throw;
        log_line(LogLevel::error, error.what());
        failed = true;
      }
    }
    if (!failed) throw;
    asked.lines = std::move(lines);
    examples = std::move(whole);
    answers = answers_of();
  }
  batches->warn_of_cut();
  if (exits)
    log_info("exits ", o.exit, ": ", exits->mean_layers(), " of ", loaded.model->config().num_hidden_layers, " layers");
  const std::vector<std::string>& names = loaded.model->config().label_names;
  if (o.conllu) {
    print_conllu(o, recipe, std::move(asked.sentences), answers, names);
    return stop_signal() ? 128 + stop_signal() : 0;
  }
  for (size_t i = 0; i < asked.lines.size() && !stop_signal(); ++i) {
    const std::string& line = asked.lines[i];
    if (o.json) {
      Json json = {{pictures ? modality : "text", line}};
      json.update(prediction_json(type, answers, i, names));
      std::cout << dump(json, -1, Invalid::replaced) << "\n";
    } else {
      std::cout << prediction_text(type, answers, i, names, batches->examples()[i].words)
                << (type == TaskType::tagging || type == TaskType::parsing ? "" : "\t" + line) << "\n";
    }
  }
  return stop_signal() ? 128 + stop_signal() : failed ? int(ExitCode::failed) : 0;
}

}  // namespace

Command add_predict(CommandLine& app) {
  auto o = std::make_shared<PredictOptions>();
  app.add_option("model", o->model, "directory of a run that was trained on a task").required();
  app.add_option(
      "files", o->files,
      "texts, one per line (a tab separates the two of a pair); default or -: standard input. Treebanks: .conllu, "
      "or brackets (.ptb, .mrg, .brackets). Of a run that learnt from pictures alone: PNG, JPEG or PPM files, "
      "a.tar#member, or array#number");
  app.add_option("--image", o->image, "the picture beside every line, where the model reads both");
  add_weights_options(app, o->weights, o->precision);
  app.add_option("--exit", o->exit,
                 "rule by which a text leaves a model with early exits; the rules: lithe generate --help");
  add_source_option(app, o->sources);
  app.add_flag("--json", o->json, "print JSON lines");
  app.add_flag("--conllu", o->conllu,
               "print CoNLL-U with the model's heads and labels, or tags; words of lines are cut at spaces and "
               "punctuation; _: of "
               "a word that the model did not read");
  app.add_flag("--probabilities", o->probabilities,
               "with --conllu: the likeliest heads of each word in MISC, as HeadProbability=2:0.9,0:0.1");
  add_threads_option(app);
  app.footer("Examples: echo 'a fine film' | lithe predict runs/sst2\n          lithe predict runs/fashion shoe.png");
  return [o] { return run_predict(*o); };
}

}  // namespace lithe

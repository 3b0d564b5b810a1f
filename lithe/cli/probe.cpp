#include "lithe/probe/probing.h"

#include <algorithm>
#include <iostream>

#include "lithe/base/files.h"
#include "lithe/base/log.h"
#include "lithe/base/stop.h"
#include "lithe/cli/command.h"
#include "lithe/infer/weights_file.h"

namespace lithe {
namespace {

struct ProbeOptions {
  std::string model, weights, precision = "f32", out, cache, numbers = "log";
  std::optional<int64_t> epochs, batch;
  std::optional<double> learning_rate;
  bool no_mixture = false, no_random = false, no_control = false, no_cache = false, overwrite = false, json = false;
  probe::ProbingOptions probing;
};

// An option that only some tasks or predictors read.
struct ReadBy {
  Option option;
  std::function<bool(const probe::ProbingOptions&)> read;
  const char* who;
};

bool is_task_with_labels(const std::string& task) {
  return task != "distance" && task != "depth" && task != "heads" && task != "cloze";
}
bool any_with_labels(const probe::ProbingOptions& o) {
  return std::any_of(o.tasks.begin(), o.tasks.end(), is_task_with_labels);
}
bool asks_for(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}
bool any_structural(const probe::ProbingOptions& o) {
  return asks_for(o.tasks, "distance") || asks_for(o.tasks, "depth");
}
std::function<bool(const probe::ProbingOptions&)> if_asked_for(const std::string& task) {
  return [task](const probe::ProbingOptions& o) { return asks_for(o.tasks, task); };
}

// The page and the JSON beside it, which are written at the end: nothing that exists is replaced unasked.
std::pair<Path, Path> places_of(const ProbeOptions& o) {
  const Path page = o.out.empty() ? Path(o.model) / "probe.html" : Path(o.out);
  const Path json = Path(page).replace_extension(".json");
  check_usage(json != page, "probe", "--out '", page.string(),
              "' is the name of the JSON beside the page; name the page .html");
  for (const Path& file : {page, json})
    check_usage(o.overwrite || !std::filesystem::exists(file), "probe", "'", file.string(),
                "' exists; name another page with --out, or give --overwrite to replace it");
  return {page, json};
}

int run_probe(ProbeOptions& o, const std::vector<ReadBy>& reads) {
  catch_stop_signals();
  probe::ProbingOptions& p = o.probing;
  for (const ReadBy& r : reads)
    check_usage(!r.option.given() || r.read(p), "probe", r.option.name(), " is read by ", r.who,
                " alone, and none is asked for; leave it out");
  check_usage(!(o.no_cache && !o.cache.empty()), "probe", "--cache and --no-cache contradict each other; keep one");
  take_given(p.predictor.epochs, o.epochs), take_given(p.structural.epochs, o.epochs);
  if (o.epochs) p.predictor.least_steps = p.structural.least_steps = 0;
  take_given(p.predictor.batch, o.batch), take_given(p.structural.batch, o.batch);
  take_given(p.predictor.learning_rate, o.learning_rate), take_given(p.structural.learning_rate, o.learning_rate);
  p.mixture = !o.no_mixture, p.random_weights = !o.no_random, p.control = !o.no_control;
  p.task.log_numbers = o.numbers == "log";
  const auto [page, json] = places_of(o);
  const LoadedModel loaded = load_model(o.model, o.weights, o.precision);
  const uint64_t facts[] = {weights_fingerprint(o.model, o.weights), checksum(o.precision.data(), o.precision.size())};
  p.rows.fingerprint = checksum(facts, sizeof facts);
  if (!o.no_cache) p.rows.cache = o.cache.empty() ? Path(o.model) / "probe-rows" : Path(o.cache);
  const Path name = (Path(o.model) / "").lexically_normal().parent_path().filename();
  const probe::ProbingResult result = probe::run_probing(loaded, name.string(), p);
  const Json numbers = probe::probing_json(result);
  write_file(page, probe::probing_page(result));
  write_file(json, dump(numbers, 2, Invalid::replaced) + "\n");
  log_info("wrote ", page.string(), " and ", json.string());
  std::cout << (o.json ? dump(numbers, 2, Invalid::replaced) + "\n" : probe::probing_table(result));
  return 0;
}

}  // namespace

Command add_probe(CommandLine& app) {
  auto o = std::make_shared<ProbeOptions>();
  auto reads = std::make_shared<std::vector<ReadBy>>();
  probe::ProbingOptions& p = o->probing;
  const auto read_by = [&](const Option& option, std::function<bool(const probe::ProbingOptions&)> read,
                           const char* who) {
    reads->push_back({option, std::move(read), who});
  };
  const auto has_words = [](const probe::ProbingOptions& of) {
    return std::any_of(of.tasks.begin(), of.tasks.end(), [](const std::string& t) { return t != "cloze"; });
  };
  const auto trains = [](const probe::ProbingOptions& of) { return any_with_labels(of) || any_structural(of); };
  const auto hides = [](const probe::ProbingOptions& of) {
    return any_with_labels(of) && (asks_for(of.predictors, "mlp") || asks_for(of.predictors, "edge"));
  };
  const auto projects = [](const probe::ProbingOptions& of) {
    return any_with_labels(of) && asks_for(of.predictors, "edge");
  };
  app.add_option("model", o->model, "directory of a training run, or of an imported model").required();
  app.add_option(
         "--task", p.tasks,
         "tasks (several: distance,pos): distance, depth (structural probes), heads (trees from "
         "attention), cloze (facts), pos, xpos, label:COLUMN (feats.Number), deprel, constituents, spans, sense, "
         "word, function, numeracy, length, order, swap")
      .required()
      .delimiter(',');
  read_by(app.add_option("--train", p.train,
                         "sentences to learn from: CoNLL-U (.conllu), bracketed trees (.ptb), or spans (.jsonl)"),
          has_words, "tasks over sentences");
  read_by(app.add_option("--test", p.test, "sentences to test on"), has_words, "tasks over sentences");
  read_by(app.add_option("--facts", p.facts,
                         "facts of task cloze, JSON lines: {\"text\": \"... [MASK] ...\", \"answer\": \"...\"}"),
          if_asked_for("cloze"), "task cloze");
  read_by(app.add_option("--candidates", p.cloze.candidates,
                         "cloze: candidates to rank: vocabulary (masked models; default) or answers (of all facts; "
                         "default of causal models)")
              .one_of({"vocabulary", "answers"}),
          if_asked_for("cloze"), "task cloze");
  read_by(app.add_option("--predictor", p.predictors,
                         "linear (default), mlp (one hidden layer), edge (spans); several: linear,mlp")
              .delimiter(','),
          any_with_labels, "tasks with labels or numbers");
  read_by(app.add_option("--layers", p.layers, "layers, 0 are the embeddings; default: all").delimiter(','), trains,
          "tasks that train a predictor");
  read_by(app.add_option("--pieces", p.rows.pieces,
                         "the row of a word from those of its pieces: mean (default), first, last")
              .one_of(probe::kPiecePoolings),
          trains, "tasks that train a predictor");
  read_by(app.add_option("--pooling", p.predictor.pooling,
                         "one row for a span: linear and mlp by mean (default), sum, max, endpoint; edge by attention "
                         "(default), mean, endpoint"),
          any_with_labels, "tasks with labels or numbers");
  read_by(app.add_option("--hidden", p.predictor.hidden, "units of the hidden layer; default 256").positive(), hides,
          "the predictors mlp and edge");
  read_by(app.add_option("--projection", p.predictor.projection, "width of projected rows; default 256").positive(),
          projects, "the predictor edge");
  read_by(app.add_flag("--sigmoid", p.predictor.sigmoid, "predict yes or no for each label, not one label"),
          any_with_labels, "tasks with labels");
  read_by(
      app.add_option("--rank", p.structural.rank, "columns of the structural probes' map; default: as wide as the rows")
          .positive(),
      any_structural, "the tasks distance and depth");
  read_by(app.add_option("--epochs", o->epochs,
                         "passes over the training data; default 5, structural probes 10, and more if these are less "
                         "than 500 steps")
              .positive(),
          trains, "tasks that train a predictor");
  read_by(app.add_option("--batch", o->batch,
                         "instances in a step, default 64; structural probes: sentences in a step, default 20")
              .positive(),
          trains, "tasks that train a predictor");
  read_by(app.add_option("--learning-rate", o->learning_rate, "Adam's, which falls to 0; default 0.001"), trains,
          "tasks that train a predictor");
  app.add_option("--seeds", p.seeds, "predictors of each kind, for error bars; default 3").between(1, 100);
  app.add_option("--train-sentences", p.train_sentences, "number of sentences of --train, from the first; default: all")
      .positive();
  app.add_option("--test-sentences", p.test_sentences, "number of sentences of --test, from the first; default: all")
      .positive();
  read_by(app.add_option("--select-sentences", p.select_sentences,
                         "heads: training sentences that choose the best ones; default 500")
              .positive(),
          if_asked_for("heads"), "task heads");
  read_by(app.add_option("--symmetry", p.symmetry,
                         "heads: how maps become symmetric, mean (default), max (default of causal models) or min")
              .one_of({"mean", "max", "min"}),
          if_asked_for("heads"), "task heads");
  read_by(app.add_option("--bins", p.task.bins,
                         "length: the longest of each bin but the last (5,10,20); default: six alike in number")
              .delimiter(','),
          if_asked_for("length"), "task length");
  read_by(app.add_option("--vocabulary", p.task.vocabulary, "word: number of words to choose from; default 1000")
              .between(2, 1000000),
          if_asked_for("word"), "task word");
  read_by(
      app.add_option("--numbers", o->numbers, "numeracy: log (log10(1 + x); default) or raw").one_of({"log", "raw"}),
      if_asked_for("numeracy"), "task numeracy");
  read_by(app.add_flag("--description-length", p.description_length,
                       "also bits by online coding, and how far they compress the labels"),
          any_with_labels, "tasks with labels");
  read_by(app.add_flag("--no-mixture", o->no_mixture, "leave out the learned mixture of all layers"), trains,
          "tasks that train a predictor");
  app.add_flag("--no-random", o->no_random, "leave out the same model with random weights");
  app.add_option("--random-models", p.random_models,
                 "how many models with random weights are drawn, for error bars; default 3")
      .between(1, 100);
  app.add_option("--random-seed", p.random_seed, "seed of the first of them; the others have the next seeds; default 1")
      .non_negative();
  read_by(app.add_flag("--no-control", o->no_control, "leave out control labels"), any_with_labels,
          "tasks with labels");
  app.add_option("--length", p.rows.max_tokens, "longest sentence in tokens; default 512").positive();
  app.add_option("--trees", p.drawn, "sentences whose trees are drawn; default 4").non_negative();
  app.add_option("--cache", o->cache, "directory for the stored rows; default: probe-rows in the model's directory")
      .output({.kind = OutputRule::Kind::of_command});
  app.add_flag("--no-cache", o->no_cache, "hold the rows in memory only");
  app.add_option("--out", o->out,
                 "the page to write, the JSON goes beside it; default: probe.html in the model's directory")
      .output_file();
  app.add_flag("--overwrite", o->overwrite, "replace the page and the JSON that exist; without it they are refused");
  add_weights_options(app, o->weights, o->precision);
  app.add_flag("--json", o->json, "print the numbers as JSON");
  add_threads_option(app);
  app.footer(
      "Example: lithe probe runs/bert --task distance,depth,pos,heads --train train.conllu --test dev.conllu\nTrains "
      "predictors on the frozen rows of every layer. Shows each score beside those of a baseline without a\nmodel, of "
      "the embeddings alone (layer 0), and of the same model with random weights.");
  return [o, reads] { return run_probe(*o, *reads); };
}

}  // namespace lithe

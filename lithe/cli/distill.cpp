#include "lithe/compress/distill.h"
#include "lithe/base/log.h"
#include "lithe/base/quiet_log.h"
#include "lithe/base/stop.h"
#include "lithe/base/threads.h"
#include "lithe/cli/command.h"
#include "lithe/cli/train_report.h"
#include "lithe/compress/receipt.h"
#include "lithe/train/resume.h"

namespace lithe {
namespace {

struct DistillOptions {
  DistillRequest request;
  std::string recipe, out, resume, layers, encoder_layers;
  std::vector<std::string> set;
  bool overwrite = false, json = false, threads = false, sequence = false, from_scratch = false;
  std::vector<std::pair<std::string, std::string>> given;  // options and their values, for the command that resumes
};

std::vector<int64_t> layer_numbers(const std::string& text, const char* option) {
  std::vector<int64_t> out;
  for (size_t at = 0; !text.empty() && at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string word = text.substr(at, comma - at);
    check_usage(!word.empty() && word.size() < 7 && word.find_first_not_of("0123456789") == std::string::npos &&
                    std::stoll(word) >= 1,
                "distill", option, " must be layers of the teacher from 1, as 1,3,6, not '", text, "'");
    out.push_back(std::stoll(word));
    at = comma + 1;
  }
  return out;
}

std::string resume_command(const DistillOptions& o) {
  std::string out = "lithe distill " + shell_word(o.recipe) + " --teacher " + shell_word(o.request.teacher) +
                    " --out " + shell_word(o.out);
  if (o.sequence) out += " --sequence";
  if (o.from_scratch) out += " --from-scratch";
  for (const auto& [option, value] : o.given) out += " " + option + " " + shell_word(value);
  for (const std::string& set : o.set) out += " --set " + shell_word(set);
  if (o.threads) out += cat(" --threads ", threads());
  return out + " --resume";
}

Path scratch_of(const DistillOptions& o) { return beside(o.out, ".scratch"); }

// What the student is beside its teacher, once it has learnt.
void write_receipt_of(const DistillOptions& o) {
  Json settings = {{"teacher", o.request.teacher}, {"sequence", o.sequence}};
  for (const auto& [option, value] : o.given) settings[option.substr(2)] = value;
  if (!o.set.empty()) settings["set"] = o.set;
  write_receipt({.operation = "distill",
                 .parent = o.request.teacher,
                 .parent_weights = o.request.weights,
                 .child = o.out,
                 .recipe = recipe_of_run(o.out),
                 .settings = settings,
                 .from_scratch = o.from_scratch ? scratch_of(o) : Path()});
}

// The student without a teacher, in OUT.scratch, where a stopped one goes on.
TrainResult train_untaught(const DistillOptions& o) {
  TrainRun run{.out = scratch_of(o), .recipe = untaught_recipe(o.request), .overwrite = o.overwrite, .samples = false};
  run.resume = !run.overwrite && has_begun(run.out);
  log_info("training the student without a teacher in ", run.out.string());
  const QuietLog quiet;
  return train(run);
}

int run_distill(DistillOptions o) {
  catch_stop_signals();
  o.request.recipe = o.recipe;
  o.request.out = o.out;
  o.request.set = o.set;
  o.request.from.layers = layer_numbers(o.layers, "--layers");
  o.request.from.encoder = layer_numbers(o.encoder_layers, "--encoder-layers");
  TrainRun run{.out = o.out, .recipe = {}};
  run.resume = run.extend = resumes(o.resume, run.out);
  run.overwrite = o.overwrite;
  check_place_of_distillation(o.request, run);
  if (o.sequence) {
    if (!write_teacher_texts(o.request, run)) {
      log_info("stopped by signal ", stop_signal(), " and kept; continue with: ", resume_command(o));
      return 128 + stop_signal();
    }
    run.recipe = sequence_recipe(o.request);
  } else {
    run.recipe = distillation_recipe(o.request);
  }
  const TrainResult result = train(run);
  if (result.status == RunStatus::finished) {
    if (o.from_scratch)
      if (const TrainResult beside = train_untaught(o); beside.status != RunStatus::finished)
        return report_training(beside, o.out, o.json, resume_command(o));
    write_receipt_of(o);
  }
  return report_training(result, o.out, o.json, resume_command(o));
}

}  // namespace

Command add_distill(CommandLine& app) {
  auto o = std::make_shared<DistillOptions>();
  DistillRequest& r = o->request;
  app.add_option("recipe", o->recipe, "recipe of the student (YAML): its model, data and training").required();
  app.add_option("--teacher", r.teacher, "directory of the trained model to learn from: a run, or an import")
      .required();
  app.add_option("--out", o->out, "directory of the student's run, as of lithe train")
      .output({.kind = OutputRule::Kind::of_command})
      .required();
  std::vector<Option> all;
  all.push_back(app.add_option("--layers", o->layers,
                               "begin with these layers of the teacher, and with its section model: 1,3,6"));
  all.push_back(app.add_option("--encoder-layers", o->encoder_layers, "the same for a translator's encoder"));
  const Option sequence = app.add_flag(
      "--sequence", o->sequence,
      "learn from texts of the teacher: it translates the training sources, or continues the training texts");
  const Option mixing =
      app.add_option(
             "--mixing", r.mixing,
             "weight of the teacher's predictions; the weight of the recipe's own objective is 1 minus this; default 1")
          .share();
  const Option temperature =
      app.add_option("--temperature", r.temperature, "temperature of both predictions; default 1").positive();
  const Option hidden =
      app.add_option("--hidden", r.hidden, "weight of learning the rows of layers; default 0").non_negative();
  const Option relation =
      app.add_option("--relation", r.relation, "weight of learning relations of rows; default 0").non_negative();
  const Option relations =
      app.add_option("--relations", r.relations,
                     "which: distance, angle, gram, queries_keys, queries, keys, values; default distance")
          .delimiter(',');
  const Option top_k =
      app.add_option("--top-k", r.top_k, "number of the teacher's largest predictions that count").positive();
  const Option cache =
      app.add_option("--cache", r.cache, "file that stores them, so that the teacher reads each text once");
  for (const Option& option : {mixing, temperature, hidden, relation, relations, top_k, cache}) {
    option.excludes(sequence);
    all.push_back(option);
  }
  all.push_back(app.add_option("--teacher-weights", r.weights, "best or averaged; default: the last checkpoint")
                    .one_of({"best", "averaged"}));
  all.push_back(app.add_option("--teacher-precision", r.precision, "f32 or bf16; default f32").one_of({"f32", "bf16"}));
  all.push_back(app.add_option("--beams", r.beams, "with --sequence: beams of a translator's search; default 5")
                    .positive()
                    .needs(sequence));
  all.push_back(
      app.add_option("--prompt-tokens", r.prompt_tokens, "with --sequence: tokens of a text that are given; default 16")
          .positive()
          .needs(sequence));
  all.push_back(
      app.add_option("--new-tokens", r.new_tokens, "with --sequence: tokens that the teacher adds to each; default 112")
          .positive()
          .needs(sequence));
  all.push_back(app.add_option("--texts", r.texts, "with --sequence: largest number of texts; default: all")
                    .positive()
                    .needs(sequence));
  app.add_flag(
      "--from-scratch", o->from_scratch,
      "also train the student without a teacher, from random weights, in OUT.scratch, and show it in the receipt");
  app.add_flag("--resume", o->resume,
               "continue the run in --out, bit for bit; --resume auto begins one if there is none");
  app.add_flag("--overwrite", o->overwrite, "start over if --out already holds a run or other files");
  app.add_option("--set", o->set, "override a key of the recipe: train.learning_rate=3e-4 (repeatable)").repeatable();
  app.add_flag("--json", o->json, "print the result as JSON");
  const Option threads = add_threads_option(app);
  app.footer(
      "Example: lithe distill recipes/student.yaml --teacher runs/first --out runs/student --layers 2,4\nThe objective "
      "has more options: --set train.auxiliary_objectives.distillation.hidden_layers='[\"1:2\"]'");
  return [o, threads, all] {
    o->threads = threads.given();
    o->given.clear();
    const auto note = [&](const char* option, const std::string& value, bool is) {
      if (is) o->given.emplace_back(option, value);
    };
    const DistillRequest &of = o->request, plain;
    note("--layers", o->layers, !o->layers.empty());
    note("--encoder-layers", o->encoder_layers, !o->encoder_layers.empty());
    note("--mixing", cat(of.mixing), of.mixing != plain.mixing);
    note("--temperature", cat(of.temperature), of.temperature != plain.temperature);
    note("--hidden", cat(of.hidden), of.hidden != plain.hidden);
    note("--relation", cat(of.relation), of.relation != plain.relation);
    std::string names;
    for (const std::string& name : of.relations) names += (names.empty() ? "" : ",") + name;
    note("--relations", names, !names.empty());
    note("--top-k", cat(of.top_k), of.top_k != plain.top_k);
    note("--cache", of.cache, !of.cache.empty());
    note("--teacher-weights", of.weights, !of.weights.empty());
    note("--teacher-precision", of.precision, of.precision != plain.precision);
    note("--beams", cat(of.beams), of.beams != plain.beams);
    note("--prompt-tokens", cat(of.prompt_tokens), of.prompt_tokens != plain.prompt_tokens);
    note("--new-tokens", cat(of.new_tokens), of.new_tokens != plain.new_tokens);
    note("--texts", cat(of.texts), of.texts != plain.texts);
    return run_distill(*o);
  };
}

}  // namespace lithe

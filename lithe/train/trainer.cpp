#include "lithe/train/trainer.h"

#include "lithe/base/counted.h"
#include "lithe/base/log.h"
#include "lithe/base/machine.h"
#include "lithe/base/output_directory.h"
#include "lithe/base/stop.h"
#include "lithe/base/threads.h"
#include "lithe/parallel/gather.h"
#include "lithe/parallel/job.h"
#include "lithe/report/run_report.h"
#include "lithe/train/adapters.h"
#include "lithe/train/growth.h"
#include "lithe/train/resume.h"
#include "lithe/train/run_result.h"
#include "lithe/train/tokenize_together.h"
#include "lithe/train/training_loop.h"

namespace lithe {

namespace {

// Widths that do not fit are refused before hours of tokenizing, as far as the recipe alone says what the model is.
void refuse_impossible_model(Recipe recipe) {
  try {
    complete_without_data(recipe, "train", recipe.data.sequence_length);
  } catch (const Error&) {
    return;  // the texts say more
  }
  const Model model(last_config(recipe.model, recipe.train.growth), {.device = Device::meta});
}

// Before the kernel does, in the middle of a step.
void refuse_what_the_machine_lacks(const Plan& plan) {
  const int64_t left = memory_left(), ranks = ranks_here();
  if (!left || plan.memory.peak <= left / ranks) return;
  const std::string each = ranks > 1 ? cat(" on each of ", ranks, " ranks here") : "";
  throw Error(
      "memory",
      cat("the plan needs ", format_bytes(double(plan.memory.peak)), each, ", and this machine (or its cgroup) has ",
          format_bytes(double(left)), " left; make the model or the batch smaller, give --memory-budget ",
          (left / ranks) >> 20, "MiB --fit to choose accumulation and recomputation, or a --memory-budget above the ",
          "plan to begin all the same"),
      ExitCode::memory);
}

void check_ranks(const TrainConfig& train, int all) {
  if (train.parallel.model() > 1 || train.parallel.data) Layout::check(train.parallel, all);
  const auto ranks = int(all / train.parallel.model());  // that divide the micro-batches
  if (ranks == 1) return;
  const int64_t parts = train.gradient_accumulation_steps;
  check_usage(parts >= ranks, "train", "gradient_accumulation_steps ", parts, " is below the ", ranks,
              " ranks, which divide the parts of a step among themselves; set it to ", ranks,
              " or a multiple (it decides the bits, the number of ranks does not)");
  check_usage(!train.carry_state, "train", "carry_state goes from one part of a step to the next, so that ", ranks,
              " ranks cannot divide them; run it on one rank, or set it to false");
  if (parts % ranks)
    log_warning("gradient_accumulation_steps ", parts, " is no multiple of the ", ranks,
                " ranks: some wait for others");
}

// Fails where the recipe reads the run in `out`, which --overwrite would replace.
void refuse_own_source(const Node& recipe, const std::string& key, const Path& out) {
  for (const auto& [name, value] : recipe.entries())
    refuse_own_source(value, key.empty() ? name : key + "." + name, out);
  const bool reads = key == "from_pretrained" || key.starts_with("pretrained_parts.") || key.ends_with(".teacher");
  std::error_code none;
  if (!reads || !recipe.is_scalar() || recipe.text().empty()) return;
  check_usage(!std::filesystem::equivalent(recipe.text(), out, none), "train", key, " reads '", recipe.text(),
              "', which --overwrite would replace; give --out another directory");
}

void refuse_misused(const TrainRun& run) {
  const std::string out = run.out.string();
  run.recipe.train.validate(run.recipe.data.sequence_length);
  check_ranks(run.recipe.train, job().size());
  check_usage(!std::filesystem::exists(run.out) || std::filesystem::is_directory(run.out), "train", "'", out,
              "' is a file; give --out a directory");
  check_usage(!std::filesystem::exists(run.out / "experiment.yaml"), "train", "'", out,
              "' holds a comparison; give --out another directory");
  check_usage(!std::filesystem::exists(run.out / "quantization.json"), "train", "'", out,
              "' holds a quantised model, which cannot be trained; give --out another directory");
  check_usage(!run.resume || has_begun(run.out), "resume", "'", out,
              "' holds no run to resume; leave --resume out to begin one, or give --resume auto for either");
  check_usage(!run.resume || !run.overwrite, "train", "--resume and --overwrite exclude each other; keep one");
  check_usage(!run.initialise || run.overwrite || !std::filesystem::exists(run.out / "resolved_recipe.yaml"), "init",
              "'", out, "' already holds a run; give --overwrite to begin it anew, or another --out");
  if (!run.overwrite) return check_place_of_run(run.out);
  Recipe asked = run.recipe;
  refuse_own_source(resolved(asked), "", run.out);
}

Tokenizers existing_tokenizers(const TrainRun& run, bool continues) {
  if (continues) return load_tokenizers(run.out);
  const std::string& before = run.recipe.from_pretrained;
  return before.empty() ? Tokenizers() : load_tokenizers(before);
}

PlanShape shape_of(const TrainingData& data, const Recipe& recipe) {
  const auto largest = [](const BatchSource& of) { return BatchRows{of.largest_batch(), of.largest_sources()}; };
  PlanShape shape;
  shape.sequence_length = recipe.data.sequence_length;
  const Layout* const layout = Layout::current();
  shape.rank = layout ? layout->data().rank : job().rank();
  shape.ranks = layout ? layout->data().size : job().size();
  shape.features = feature_shapes(recipe);
  shape.integers = integers_under_adapters(recipe);
  if (data.held_out) shape.evaluation = largest(data.held_out->batches());
  if (recipe.has_translation() || recipe.task.type == "text") shape.training = largest(*data.train);
  // As many sequences as a batch of a task has, whatever their text leaves of the length: each has its features.
  const int64_t batch = recipe.train.micro_batch_tokens();
  if (recipe.has_task() && !shape.features.empty())
    for (BatchRows* rows : {&shape.training, &shape.evaluation}) {
      if (!rows->rows) continue;
      if (rows->sources.empty()) rows->rows = batch;
      const int64_t whole = std::max<int64_t>(1, batch / shape.sequence_length) * shape.sequence_length;
      for (auto& [name, count] : rows->sources) count = whole;
    }
  if (data.lanes) shape.evaluation_length = shape.evaluation.rows;
  return shape;
}

struct MemoryChoice {
  TrainConfig train;  // the recipe's, with the accumulation and recomputation that fit
  Plan plan;
};
MemoryChoice choose_memory(const TrainRun& run, const ModelConfig& model, const PlanShape& shape) {
  MemoryChoice out{run.recipe.train, {}};
  out.plan = run.fits() ? fit_memory(model, out.train, shape, run.memory_budget)
                        : plan_training(model, out.train, shape, false);
  if (run.memory_budget && out.plan.memory.peak > run.memory_budget)
    throw Error("memory",
                cat("the plan needs ", format_bytes(double(out.plan.memory.peak)), ", the budget is ",
                    format_bytes(double(run.memory_budget)),
                    "; `lithe plan` shows where it goes, --fit chooses accumulation and recomputation"),
                ExitCode::memory);
  if (!run.memory_budget && !run.initialise) refuse_what_the_machine_lacks(out.plan);
  return out;
}

// What train() has prepared: the run with its model fitted to the data, the data cut into batches, the plan, and the
// recipe as the run keeps it.
struct Prepared {
  TrainRun run;
  TrainingData data;
  Plan plan;
  OpenedRun opened;
  Node written;
};

// By the rank that speaks for the job, for all.
OpenedRun open_together(const TrainRun& run) {
  OpenedRun opened;
  together([&] {
    if (speaks_for_job()) {
      Recipe asked = run.recipe;
      const Opening how = run.resume ? Opening::resume : run.overwrite ? Opening::overwrite : Opening::fresh;
      opened = open_run(run.out, how, resolved(asked), run.fits(), run.extend);
    }
  });
  opened.checkpoint = gather_bytes(job(), opened.checkpoint.string())[0];
  opened.extended = gather_bytes(job(), opened.extended)[0];
  return opened;
}

void tokenize_texts(const TrainRun& run, const OpenedRun& opened) {
  const Recipe& recipe = run.recipe;
  if (job().size() == 1 || recipe.has_task() || recipe.has_translation() || !recipe.data.messages.empty()) return;
  std::shared_ptr<const Tokenizer> existing;
  together([&] { existing = existing_tokenizers(run, !opened.checkpoint.empty()).tokenizer; });
  tokenize_together(recipe.data, existing);
}

Prepared prepare(TrainRun run, OpenedRun opened) {
  Recipe& recipe = run.recipe;
  Recipe asked = recipe;
  Node written = resolved(asked);
  const bool goes_on = !opened.checkpoint.empty();
  check(!goes_on || std::filesystem::exists(run.out / "resolved_recipe.yaml"), "resume", "'", run.out.string(),
        "' has a checkpoint but no resolved_recipe.yaml");
  Tokenizers tokenizers = existing_tokenizers(run, goes_on);
  refuse_impossible_model(recipe);
  TrainingTexts texts = read_training_texts(recipe, tokenizers);
  TrainingData data = run.fits() ? cut_into_batches(texts, recipe) : cut_into_batches(std::move(texts), recipe);
  fit_model(recipe.model, data, recipe);
  const bool continues = data.objective->predicts_next();
  check_usage(recipe.train.sample_steps == 0 || continues, "train", "sample_steps ", recipe.train.sample_steps,
              ": only objective clm makes models that continue a text");
  run.samples = run.samples && continues;

  const ModelConfig largest = last_config(recipe.model, recipe.train.growth);
  if (data.lanes)
    check_carries_states(Model(largest, {.device = Device::meta, .compute = recipe.train.compute()}), recipe.train,
                         data.lanes->longest);
  MemoryChoice memory = choose_memory(run, largest, shape_of(data, recipe));
  if (run.fits()) {
    // What was chosen is the run's from now on: a resume must choose the same.
    asked.train = recipe.train = memory.train;
    written = resolved(asked);
    if (run.resume) check_same_recipe(run.out, written, false, run.extend);
    data = cut_into_batches(std::move(texts), recipe);  // in batches of the chosen size
  }
  return {std::move(run), std::move(data), std::move(memory.plan), std::move(opened), std::move(written)};
}

TrainResult go(Prepared& of, TrainingLoop& loop, const Tokenizers& tokenizers) {
  const Path &out = of.run.out, &checkpoint = of.opened.checkpoint;
  const bool speaks = speaks_for_job();
  together([&] {
    loop.begin(checkpoint);
    if (!checkpoint.empty() && !of.opened.extended.empty()) loop.extend(of.opened.extended);
  });
  if (speaks && !checkpoint.empty() && !of.opened.extended.empty())
    write_file(out / "resolved_recipe.yaml", to_yaml(of.written));
  if (const auto before = loop.finished()) {
    log_info("'", out.string(), "' is finished, after step ", before->steps, ": nothing is left to do");
    return *before;
  }
  if (speaks && checkpoint.empty()) {  // from here on nothing is refused
    if (of.run.overwrite) remove_run(out);
    write_run_files(out, of.written, of.run.recipe.model, of.run.recipe.train, tokenizers, of.plan);
    write_memory(out, of.plan.memory, nullptr);
  }
  TrainResult result = loop.go();
  if (!speaks) return result;
  result.measured = write_memory(out, of.plan.memory, &result.measured);
  write_result(out, result.status, result, result.signal ? cat("stopped by signal ", result.signal) : "");
  write_run_report(out);
  return result;
}

}  // namespace

TrainResult train(TrainRun run) {
  const Path out = run.out;
  std::optional<OutputDirectory> directory;
  together([&] {
    if (!speaks_for_job()) return;
    refuse_misused(run);
    directory.emplace(out);
  });
  // A model that several ranks hold together is made by each as its share.
  std::optional<Layout> layout;
  if (run.recipe.train.parallel.model() > 1) layout.emplace(run.recipe.train.parallel, job());
  const Layout::Use divided(layout ? &*layout : nullptr);
  const OpenedRun opened = open_together(run);
  tokenize_texts(run, opened);
  std::optional<Prepared> prepared;
  in_turns([&] { prepared.emplace(prepare(run, opened)); });
  Prepared& of = *prepared;
  log_info(of.plan.parameters, " parameters; planned peak memory ", run.initialise ? "of training them " : "",
           format_bytes(double(of.plan.memory.peak)), "; ", job().size() > 1 ? cat(job().size(), " ranks of ") : "",
           counted(threads(), "thread"), ", ", of.run.recipe.train.precision);
  const Tokenizers tokenizers{of.data.tokenizer, of.data.source_tokenizer};
  ledger(Device::cpu).reset_peak();
  std::optional<TrainingLoop> loop;
  const auto failed = [&](bool diverged, const std::string& why) {
    if (!loop || !loop->running() || !speaks_for_job()) return;
    write_last_result(out,
                      diverged        ? RunStatus::diverged
                      : stop_signal() ? RunStatus::stopped
                                      : RunStatus::failed,
                      loop->so_far(), why);
    if (diverged) write_run_report(out);
  };
  try {
    together([&] { loop.emplace(of.run, std::move(of.data), of.plan); });
    return go(of, *loop, tokenizers);
  } catch (const Error& error) {
    failed(error.code() == ExitCode::diverged, error.what());
    throw;
  } catch (const std::exception& error) {
    failed(false, error.what());
    throw;
  }
}

}  // namespace lithe

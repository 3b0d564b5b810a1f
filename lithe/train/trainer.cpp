#include "lithe/train/trainer.h"

#include "lithe/base/counted.h"
#include "lithe/base/log.h"
#include "lithe/base/machine.h"
#include "lithe/base/output_directory.h"
#include "lithe/base/stop.h"
#include "lithe/base/threads.h"
#include "lithe/report/run_report.h"
#include "lithe/train/growth.h"
#include "lithe/train/resume.h"
#include "lithe/train/run_result.h"
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
  const int64_t left = memory_left();
  if (!left || plan.memory.peak <= left) return;
  throw Error("memory",
              cat("the plan needs ", format_bytes(double(plan.memory.peak)), ", and this machine (or its cgroup) has ",
                  format_bytes(double(left)), " left; make the model or the batch smaller, give --memory-budget ",
                  left >> 20, "MiB --fit to choose accumulation and recomputation, or a --memory-budget above the ",
                  "plan to begin all the same"),
              ExitCode::memory);
}

}  // namespace

TrainResult train(TrainRun run) {
  Recipe& recipe = run.recipe;
  TrainConfig& config = recipe.train;
  Node written = resolved(recipe);
  config.validate(recipe.data.sequence_length);
  check_usage(!std::filesystem::exists(run.out) || std::filesystem::is_directory(run.out), "train", "'",
              run.out.string(), "' is a file; give --out a directory");
  check_usage(!std::filesystem::exists(run.out / "experiment.yaml"), "train", "'", run.out.string(),
              "' holds a comparison; give --out another directory");
  check_usage(!std::filesystem::exists(run.out / "quantization.json"), "train", "'", run.out.string(),
              "' holds a quantised model, which cannot be trained; give --out another directory");
  check_usage(!run.resume || has_begun(run.out), "resume", "'", run.out.string(),
              "' holds no run to resume; leave --resume out to begin one, or give --resume auto for either");
  check_usage(!run.resume || !run.overwrite, "train", "--resume and --overwrite exclude each other; keep one");
  check_usage(!run.initialise || run.overwrite || !std::filesystem::exists(run.out / "resolved_recipe.yaml"), "init",
              "'", run.out.string(), "' already holds a run; give --overwrite to begin it anew, or another --out");
  if (!run.overwrite) check_place_of_run(run.out);
  const OutputDirectory directory(run.out);
  if (run.overwrite) remove_run(run.out);
  const bool fits = run.fit_memory && run.memory_budget;
  const OpenedRun opened = open_run(run.out, run.resume, written, fits, run.extend);
  const Path& checkpoint = opened.checkpoint;
  const bool continuing = std::filesystem::exists(run.out / "resolved_recipe.yaml");

  Tokenizers tokenizers;
  if (!checkpoint.empty())
    tokenizers = load_tokenizers(run.out);
  else if (!recipe.from_pretrained.empty())
    tokenizers = load_tokenizers(recipe.from_pretrained);
  refuse_impossible_model(recipe);
  TrainingData data = load_training_data(recipe, tokenizers);
  ModelConfig& model = recipe.model;
  fit_model(model, data, recipe);
  const bool continues = data.objective->predicts_next();
  check_usage(config.sample_steps == 0 || continues, "train", "sample_steps ", config.sample_steps,
              ": only objective clm makes models that continue a text");
  run.samples = run.samples && continues;

  const auto largest = [](const BatchSource& of) { return BatchRows{of.largest_batch(), of.largest_source()}; };
  PlanShape shape{.sequence_length = recipe.data.sequence_length};
  if (data.held_out) shape.evaluation = largest(data.held_out->batches());
  if (recipe.has_translation()) shape.training = largest(*data.train);
  const ModelConfig largest_model = last_config(model, config.growth);
  if (data.lanes) {
    check_carries_states(Model(largest_model, {.device = Device::meta, .compute = config.compute()}), config,
                         data.lanes->longest);
    shape.evaluation_length = shape.evaluation.rows;
  }
  Plan plan = fits ? fit_memory(largest_model, config, shape, run.memory_budget)
                   : plan_training(largest_model, config, shape, false);
  if (run.memory_budget && plan.memory.peak > run.memory_budget)
    throw Error("memory",
                cat("the plan needs ", format_bytes(double(plan.memory.peak)), ", the budget is ",
                    format_bytes(double(run.memory_budget)),
                    "; `lithe plan` shows where it goes, --fit chooses accumulation and recomputation"),
                ExitCode::memory);
  if (!run.memory_budget && !run.initialise) refuse_what_the_machine_lacks(plan);
  if (fits) {
    // What was chosen is the run's from now on: a resume must choose the same.
    Node& section = *const_cast<Node*>(written.find("train"));
    section.set("gradient_accumulation_steps", Node::scalar(cat(config.gradient_accumulation_steps)));
    section.set("gradient_checkpointing", Node::scalar(config.gradient_checkpointing ? "true" : "false"));
    open_run(run.out, run.resume, written, false, run.extend);
    // In batches of the chosen size.
    data = load_training_data(recipe, {data.tokenizer, data.source_tokenizer});
  }
  log_info(plan.parameters, " parameters; planned peak memory ", format_bytes(double(plan.memory.peak)), "; ",
           counted(threads(), "thread"), ", ", config.precision);

  check(checkpoint.empty() || continuing, "resume", "'", run.out.string(),
        "' has a checkpoint but no resolved_recipe.yaml");
  tokenizers = {data.tokenizer, data.source_tokenizer};
  ledger(Device::cpu).reset_peak();
  std::optional<TrainingLoop> loop;
  try {
    loop.emplace(run, std::move(data), plan);
    loop->begin(checkpoint);
    if (!checkpoint.empty() && !opened.extended.empty()) {
      loop->extend(opened.extended);
      write_file(run.out / "resolved_recipe.yaml", to_yaml(written));
    }
    if (const auto before = loop->finished()) {
      log_info("'", run.out.string(), "' is finished, after step ", before->steps, ": nothing is left to do");
      return *before;
    }
    if (checkpoint.empty()) {  // from here on nothing is refused
      write_run_files(run.out, written, model, config, tokenizers, plan);
      write_memory(run.out, plan.memory, nullptr);
    }
    TrainResult result = loop->go();
    result.measured = write_memory(run.out, plan.memory, &result.measured);
    write_result(run.out, result.status, result, result.signal ? cat("stopped by signal ", result.signal) : "");
    write_run_report(run.out);
    return result;
  } catch (const std::exception& error) {
    if (!loop || !loop->running()) throw;
    const auto* known = dynamic_cast<const Error*>(&error);
    const bool diverged = known && known->code() == ExitCode::diverged;
    write_last_result(run.out,
                      diverged        ? "diverged"
                      : stop_signal() ? "stopped"
                                      : "failed",
                      loop->so_far(), error.what());
    if (diverged) write_run_report(run.out);
    throw;
  }
}

}  // namespace lithe

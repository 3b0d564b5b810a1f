#include "lithe/train/resume.h"

#include <algorithm>
#include <cstdlib>

#include "lithe/base/json.h"
#include "lithe/base/log.h"
#include "lithe/base/machine.h"
#include "lithe/base/threads.h"
#include "lithe/recipe/recipe.h"
#include "lithe/train/checkpoint.h"

namespace lithe {
namespace {

// Keys that may change between a checkpoint and its resume: they shape no weight.
const char* const kFree[] = {"train.max_time",
                             "train.save_steps",
                             "train.save_total_limit",
                             "train.average_checkpoints",
                             "data.cache_directory",
                             "eval",
                             "generate",
                             "translate"};

void flatten(const Node& node, const std::string& path, std::map<std::string, std::string>& out) {
  if (node.is_map()) {
    for (const auto& [key, value] : node.entries()) flatten(value, path.empty() ? key : path + "." + key, out);
  } else if (node.is_list()) {
    std::string text;
    for (const Node& item : node.items()) text += item.text() + " ";
    out[path] = text;
  } else {
    out[path] = node.text();
  }
}

bool is_free(const std::string& key) {
  return std::any_of(std::begin(kFree), std::end(kFree),
                     [&](const std::string& f) { return key == f || key.starts_with(f + "."); });
}

const char* const kFitted[] = {"train.gradient_accumulation_steps", "train.gradient_checkpointing"};

// Temporary names of AtomicFile: the run is locked, so nobody writes them any more.
void remove_leftovers(const Path& directory) {
  std::error_code ignored;
  std::vector<Path> found;
  for (const auto& entry : std::filesystem::directory_iterator(directory, ignored)) {
    const std::string name = entry.path().filename().string();
    const size_t at = name.rfind(".tmp");
    if (at != std::string::npos && at + 4 < name.size() &&
        name.find_first_not_of("0123456789", at + 4) == std::string::npos)
      found.push_back(entry.path());
  }
  for (const Path& path : found) std::filesystem::remove(path, ignored);
  std::filesystem::remove(directory / "model.safetensors.linking", ignored);
}

void check_same(const Path& run, const Node& now, bool fits) {
  std::map<std::string, std::string> before, after;
  flatten(stored_recipe(run), "", before);
  flatten(now, "", after);
  std::string differences;
  for (const auto& [key, value] : before) after.try_emplace(key);
  for (const auto& [key, value] : after)
    if (!is_free(key) && !(fits && std::find(std::begin(kFitted), std::end(kFitted), key) != std::end(kFitted)) &&
        before[key] != value)
      differences += cat(differences.empty() ? "" : ", ", key, " was ", before[key].empty() ? "unset" : before[key],
                         " and is now ", value.empty() ? "unset" : value);
  check_usage(differences.empty(), "resume", "the recipe differs from the run's: ", differences,
              "; resume with the run's own recipe (", (run / "resolved_recipe.yaml").string(),
              ") or choose another --out");
}

}  // namespace

// A run that was killed while it read its data has left its lock alone.
bool has_begun(const Path& run) {
  return std::filesystem::exists(run / "resolved_recipe.yaml") || std::filesystem::exists(run / ".lock");
}

Path open_run(const Path& run, bool resume, const Node& recipe, bool fits) {
  for (const Path& directory : {run, run / "best", run / "tensorboard"}) remove_leftovers(directory);
  const Path checkpoint = latest_checkpoint(run), recipe_file = run / "resolved_recipe.yaml";
  const bool used = std::filesystem::exists(recipe_file);
  check_usage(resume || !used, "train", "'", run.string(),
              "' already holds a run; give --resume to continue it, or another --out");
  if (resume && used) check_same(run, recipe, fits);
  if (resume && checkpoint.empty()) log_info("no checkpoint in '", run.string(), "' yet: starting from the beginning");
  return checkpoint;
}

void write_run_files(const Path& run, const Node& recipe, const ModelConfig& model, const TrainConfig& train,
                     const Tokenizers& tokenizers, const Plan& plan) {
  save_config(model, run / "config.json");
  save_tokenizers(tokenizers, run);
  const Tokenizer& tokenizer = *tokenizers.tokenizer;
  Json generation = {{"do_sample", true}, {"temperature", 1.0},        {"top_k", 0},
                     {"top_p", 1.0},      {"repetition_penalty", 1.0}, {"max_new_tokens", 128}};
  if (tokenizer.specials().eos) generation["eos_token_id"] = *tokenizer.specials().eos;
  if (tokenizer.specials().bos) generation["bos_token_id"] = *tokenizer.specials().bos;
  write_file(run / "generation_config.json", generation.dump(2) + "\n");

  Json json = {{"parameters", plan.parameters}, {"parts", Json::array()}};
  for (const PartCost& part : plan.parts)
    json["parts"].push_back({{"part", part.part},
                             {"parameters", part.parameters},
                             {"forward_flops", part.forward_flops},
                             {"step_flops", part.step_flops},
                             {"step_bytes", part.step_bytes}});
  write_file(run / "plan.json", json.dump(2) + "\n");

  const Machine m = machine();
  const BuildInfo& b = build_info();
  const Json environment = {{"version", b.version},
                            {"commit", b.commit},
                            {"compiler", b.compiler},
                            {"build", b.build_type},
                            {"cpu", m.cpu},
                            {"instruction set", kernels::name_of(kernels::usable_isa())},
                            {"threads", cat(threads())},
                            {"memory", format_bytes(double(m.memory))},
                            {"precision", train.precision}};
  write_file(run / "environment.json", environment.dump(2) + "\n");
  // Last: its presence says that the run has started.
  write_file(run / "resolved_recipe.yaml", to_yaml(recipe));
}

}  // namespace lithe

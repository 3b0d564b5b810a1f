#include "lithe/train/resume.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "lithe/base/json.h"
#include "lithe/base/log.h"
#include "lithe/base/machine.h"
#include "lithe/base/new_directory.h"
#include "lithe/base/threads.h"
#include "lithe/data/examples_readers.h"
#include "lithe/recipe/recipe.h"
#include "lithe/train/checkpoint.h"

namespace lithe {
namespace {

// Keys that may change between a checkpoint and its resume: they shape no weight.
const char* const kFree[] = {
    "train.max_time",         "train.save_steps",
    "train.parallel",  // checkpoints hold whole models: the bits of weights may differ, no more
    "train.save_total_limit", "train.average_checkpoints", "data.cache_directory", "eval", "generate", "translate"};

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
const char* const kEnds[] = {"train.max_steps", "train.max_tokens", "train.num_train_epochs"};

template <class Keys>
bool among(const Keys& keys, const std::string& key) {
  return std::find(std::begin(keys), std::end(keys), key) != std::end(keys);
}

// 1e-08 is 1.0e-08.
bool is_same(const std::string& a, const std::string& b) {
  const auto x = finite_number(a), y = finite_number(b);
  return a == b || (x && y && *x == *y);
}

}  // namespace

std::string check_same_recipe(const Path& run, const Node& now, bool fits, bool extend) {
  if (!std::filesystem::exists(run / "resolved_recipe.yaml")) return "";
  std::map<std::string, std::string> before, after;
  flatten(stored_recipe(run), "", before);
  flatten(now, "", after);
  std::string differences, extended;
  for (const auto& [key, value] : before) after.try_emplace(key);
  for (const auto& [key, value] : after) {
    if (is_free(key) || (fits && among(kFitted, key)) || is_same(before[key], value)) continue;
    std::string& to = extend && among(kEnds, key) ? extended : differences;
    to += cat(to.empty() ? "" : ", ", key, " was ", before[key].empty() ? "unset" : before[key], " and is now ",
              value.empty() ? "unset" : value);
  }
  check_usage(differences.empty(), "resume", "the recipe differs from the run's: ", differences,
              "; resume with the run's own recipe (", (run / "resolved_recipe.yaml").string(),
              ") or choose another --out");
  return extended;
}

// A run that was killed while it read its data has left its lock alone.
bool has_begun(const Path& run) {
  return std::filesystem::exists(run / "resolved_recipe.yaml") || std::filesystem::exists(run / ".lock");
}

void check_place_of_run(const Path& run) {
  if (has_begun(run)) return;
  std::error_code error;
  std::filesystem::directory_iterator entries(run, error);
  if (!error && entries != end(entries) && entries->path().filename() == "teacher_texts")
    ++entries;                                   // of lithe distill
  if (error || entries == end(entries)) return;  // new, or empty
  fail_usage("train", "'", run.string(), "' must be a new or empty directory, or a run to resume, and it holds '",
             entries->path().filename().string(),
             "'; give --out another directory, or --overwrite to write into this one");
}

bool stands_in_run(const std::string& name) {
  static const std::set<std::string> names = {".lock",
                                              NewDirectory::kNotes,
                                              "averaged",
                                              "best",
                                              "config.json",
                                              "convert.json",
                                              "environment.json",
                                              "exits.html",
                                              "generation_config.json",
                                              "import.json",
                                              "inspect.html",
                                              "loss_by_position.json",
                                              "memory.json",
                                              "metrics.jsonl",
                                              "model.safetensors",
                                              "plan.json",
                                              "report.html",
                                              "resolved_recipe.yaml",
                                              "result.json",
                                              "samples.jsonl",
                                              "source",
                                              "speed.jsonl",
                                              "teacher_texts",
                                              "tensorboard",
                                              "tokenizer.json",
                                              "tokenizer_config.json",
                                              "training_state"};
  return names.contains(name);
}

void check_only_run(const Path& run, const char* operation) {
  for (const auto& entry : std::filesystem::directory_iterator(run)) {
    const std::string name = entry.path().filename().string();
    check_usage(stands_in_run(name) || name.ends_with(".damaged") || name.find(".tmp-") != name.npos, operation, "'",
                run.string(), "' holds '", name, "', which no run has; give --out another directory");
  }
}

void remove_run(const Path& run) {
  std::error_code ignored;
  const auto remove = [&](const char* name) { std::filesystem::remove_all(run / name, ignored); };
  remove("training_state");
  if (!std::filesystem::exists(run / "resolved_recipe.yaml")) return;  // other files stay until they are written
  for (const char* name :
       {"resolved_recipe.yaml", "result.json", "best", "averaged", "tensorboard", "model.safetensors", "source",
        "loss_by_position.json", "task_report.json", "predictions.tsv"})
    remove(name);
}

OpenedRun open_run(const Path& run, Opening how, const Node& recipe, bool fits, bool extend) {
  for (const Path& directory : {run, run / "best", run / "averaged", run / "tensorboard"})
    remove_temporaries(directory);
  if (how == Opening::overwrite) return {};
  OpenedRun opened{latest_checkpoint(run), ""};
  const bool resume = how == Opening::resume, used = std::filesystem::exists(run / "resolved_recipe.yaml");
  check_usage(resume || !used, "train", "'", run.string(),
              "' already holds a run; give --resume to continue it, --overwrite to begin it anew, or another --out");
  if (resume) opened.extended = check_same_recipe(run, recipe, fits, extend);
  if (resume && opened.checkpoint.empty()) {
    check_usage(!std::filesystem::exists(run / "model.safetensors"), "resume", "'", run.string(),
                "' holds a model without the training state that a resume goes on from; to train it further, give the "
                "recipe from_pretrained: ",
                run.string(), " and another --out, or begin anew with --overwrite");
    log_info("no checkpoint in '", run.string(), "' yet: starting from the beginning");
  }
  return opened;
}

namespace {

// How the run that this one goes on from is generated with: the tokens that an imported model was told never to write,
// and where its instructions are. Without one: each token is drawn.
Json generation_before(const Node& recipe) {
  const Node* before = recipe.find("from_pretrained");
  const Path file = before && !before->text().empty() ? Path(before->text()) / "generation_config.json" : Path();
  if (file.empty() || !std::filesystem::exists(file))
    return {{"do_sample", true}, {"temperature", 1.0},        {"top_k", 0},
            {"top_p", 1.0},      {"repetition_penalty", 1.0}, {"max_new_tokens", 128}};
  Json out = parse_json(read_file(file, uint64_t(1) << 24), file.string());
  check(out.is_object(), "train", "'", file.string(), "' must hold an object");
  return out;
}

}  // namespace

void write_run_files(const Path& run, const Node& recipe, const ModelConfig& model, const TrainConfig& train,
                     const Tokenizers& tokenizers, const Plan& plan) {
  save_config(model, run / "config.json");
  save_tokenizers(tokenizers, run);
  // What wrote the conversations that are learnt also writes those that `lithe chat` has.
  const Node* data = recipe.find("data");
  const Node* chat = data ? data->find("chat_template") : nullptr;
  if (chat && !chat->text().empty()) write_file(run / "chat_template.jinja", read_file(chat->text()));
  const Tokenizer& tokenizer = *tokenizers.tokenizer;
  Json generation = generation_before(recipe);
  if (tokenizer.specials().eos) generation.emplace("eos_token_id", *tokenizer.specials().eos);
  if (tokenizer.specials().bos) generation.emplace("bos_token_id", *tokenizer.specials().bos);
  write_file(run / "generation_config.json", dump(generation, 2) + "\n");

  Json json = {{"parameters", plan.parameters}, {"parts", Json::array()}};
  for (const PartCost& part : plan.parts)
    json["parts"].push_back({{"part", part.part},
                             {"parameters", part.parameters},
                             {"forward_flops", part.forward_flops},
                             {"step_flops", part.step_flops},
                             {"step_bytes", part.step_bytes}});
  write_file(run / "plan.json", dump(json, 2) + "\n");

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
  write_file(run / "environment.json", dump(environment, 2) + "\n");
  // Last: its presence says that the run has started.
  write_file(run / "resolved_recipe.yaml", to_yaml(recipe));
}

}  // namespace lithe

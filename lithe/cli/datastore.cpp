#include <cstdio>
#include <filesystem>
#include <iostream>

#include "lithe/base/json.h"
#include "lithe/base/log.h"
#include "lithe/base/new_directory.h"
#include "lithe/base/progress.h"
#include "lithe/base/stop.h"
#include "lithe/cli/command.h"
#include "lithe/cli/text_lines.h"
#include "lithe/data/corpus.h"
#include "lithe/eval/datastore_build.h"
#include "lithe/infer/hnsw_index.h"
#include "lithe/infer/load.h"
#include "lithe/infer/weights_file.h"
#include "lithe/parallel/job.h"
#include "lithe/recipe/recipe.h"
#include "lithe/train/plan.h"
#include "lithe/train/tokenize_together.h"

namespace lithe {
namespace {

struct DatastoreArguments {
  std::string action, model, out, weights, precision = "f32", type = "f32", index = "none";
  std::vector<std::string> data;
  int64_t lists = 0, context = 0, stride = 0, batch_tokens = 0;
  bool check = false, overwrite = false, json = false;
};

constexpr int64_t kSampleNeighbours = 32, kSampleEffort = 64;  // of what is said of a graph

std::string recall_text(double recall) {
  return cat("finds ", int64_t(recall * 1000 + 0.5) / 10.0, " % of the ", kSampleNeighbours,
             " nearest keys of a sample with --knn-effort ", kSampleEffort);
}

int show(const DatastoreArguments& o) {
  check_usage(o.data.empty() && o.out.empty() && !o.lists && o.index == "none", "datastore",
              "show reads a store that is there; --data, --out, --lists and --index are for build");
  const Datastore store = Datastore::open(o.model);
  if (o.check) store.verify();
  const DatastoreInfo& info = store.info();
  const auto bytes = int64_t(std::filesystem::file_size(Path(o.model) / "datastore.bin"));
  Json graph;
  if (HnswIndex::exists(o.model)) {
    const HnswIndex index = HnswIndex::open(o.model, store);
    graph = {{"links", index.links()}, {"bytes", int64_t(std::filesystem::file_size(Path(o.model) / "hnsw.bin"))}};
    if (o.check) graph["recall"] = index.recall(kSampleNeighbours, kSampleEffort);
  }
  if (o.json) {
    Json out{{"entries", info.entries}, {"width", info.width},           {"key_type", cat(info.type)},
             {"lists", info.lists},     {"vocab_size", info.vocab_size}, {"bytes", bytes}};
    if (!graph.is_null()) out["hnsw"] = graph;
    std::cout << dump(out, 2) << "\n";
    return 0;
  }
  std::printf("%lld entries, keys of %lld numbers (%s), %s, %s\n", static_cast<long long>(info.entries),
              static_cast<long long>(info.width), cat(info.type).c_str(),
              info.lists ? cat(info.lists, " lists").c_str() : "no index", format_bytes(double(bytes)).c_str());
  if (graph.is_null()) return 0;
  std::printf("hnsw: %lld links, %s", static_cast<long long>(graph["links"].get<int64_t>()),
              format_bytes(graph["bytes"].get<double>()).c_str());
  std::printf(o.check ? ", %s\n" : "%s\n", o.check ? recall_text(graph["recall"]).c_str() : "");
  return 0;
}

int build(const DatastoreArguments& o) {
  check_usage(!o.out.empty(), "datastore", "build needs --out, a directory for the store");
  check_usage(!o.check, "datastore", "--check is for show");
  const bool several = job().size() > 1;
  check_usage(!several || std::find(o.data.begin(), o.data.end(), "-") == o.data.end(), "datastore",
              "only one process can read standard input; name files in --data, or leave the launcher out");
  std::optional<NewDirectory> out;
  together([&] {
    if (speaks_for_job()) out.emplace(o.out, "datastore", o.overwrite);
  });
  Recipe recipe = recipe_of_run(o.model);
  if (o.context) recipe.eval.context_length = o.context;
  if (o.stride) recipe.eval.stride = o.stride;
  if (o.batch_tokens) recipe.eval.batch_tokens = o.batch_tokens;
  const LoadedModel loaded = load_model(o.model, o.weights, o.precision);
  loaded.model->check_predicts_next("datastore");
  TokenStore text;
  if (o.data.empty()) {
    tokenize_together(recipe.data, loaded.tokenizer);
    in_turns([&] { text = load_dataset(recipe.data, loaded.tokenizer).train; });
  } else {
    together(
        [&] { text = tokenize_in_memory(Corpus(readable(o.data), corpus_options(recipe.data)), *loaded.tokenizer); });
  }
  const Path directory = out ? out->path() : Path();
  ProgressLine reading("reading", "tokens");
  const DatastoreInfo info = build_datastore(*loaded.model, text, recipe.eval, recipe.data.sequence_length,
                                             {.model_fingerprint = weights_fingerprint(o.model, o.weights),
                                              .tokenizer_fingerprint = loaded.tokenizer->fingerprint(),
                                              .type = dtype_named(o.type)},
                                             o.lists, directory, std::ref(reading), several ? &job() : nullptr);
  reading.end();
  if (!out) return 0;
  std::optional<double> recall;
  if (o.index == "hnsw") {
    ProgressLine linking("linking", "keys");
    const HnswIndex index = HnswIndex::build(Datastore::open(directory), {}, std::ref(linking));
    linking.end();
    index.save(directory);
    recall = index.recall(kSampleNeighbours, kSampleEffort);
  }
  out->commit();
  if (o.json) {
    Json json{{"entries", info.entries}, {"width", info.width}, {"lists", info.lists}, {"out", o.out}};
    if (recall) json["recall"] = *recall;
    std::cout << dump(json, 2) << "\n";
    return 0;
  }
  log_info(info.entries, " entries of ", info.width, " numbers in '", o.out, "'",
           info.lists ? cat(", in ", info.lists, " lists") : "");
  if (recall) log_info("hnsw: ", recall_text(*recall));
  return 0;
}

int run_datastore(const DatastoreArguments& o) {
  catch_stop_signals();
  if (o.action == "build") join_job();
  return o.action == "build" ? build(o) : show(o);
}

}  // namespace

Command add_datastore(CommandLine& app) {
  auto o = std::make_shared<DatastoreArguments>();
  app.add_option("action", o->action, "build: make a store; show: say what one holds")
      .one_of({"build", "show"})
      .required();
  app.add_option("directory", o->model, "build: a training run; show: a store").required();
  app.add_option("--out", o->out, "build: new directory for the store")
      .output({.kind = OutputRule::Kind::new_directory});
  app.add_flag("--overwrite", o->overwrite,
               "replace the output of an earlier lithe datastore in --out, and nothing else");
  app.add_option("--data", o->data,
                 "build: text files (repeatable; -: standard input); default: the run's training text")
      .repeatable();
  app.add_option(
         "--lists", o->lists,
         "build: lists of an index for the approximate search, about the square root of the tokens; default: none")
      .positive();
  app.add_option("--index", o->index,
                 "build: hnsw: also a graph for the approximate search (--knn-effort), beside the store")
      .one_of({"none", "hnsw"});
  app.add_option("--key-type", o->type, "build: how keys are stored; bf16 takes half the space")
      .one_of({"f32", "bf16"});
  app.add_option("--context-length", o->context, "build: tokens in a window; default: the recipe's").positive();
  app.add_option("--stride", o->stride, "build: tokens by which the window moves; default: the context length")
      .positive();
  app.add_option("--batch-tokens", o->batch_tokens, "build: tokens computed at once").positive();
  add_weights_options(app, o->weights, o->precision);
  app.add_flag("--check", o->check, "show: read every key, and fail when one is damaged");
  app.add_flag("--json", o->json, "print JSON");
  add_threads_option(app);
  app.footer(
      "Example: lithe datastore build runs/first --out runs/store\nThen: lithe eval runs/first --datastore runs/store\n"
      "On several ranks (mpirun -n 4 lithe datastore build ...) they share out the text; the store is the same.");
  return [o] { return run_datastore(*o); };
}

}  // namespace lithe

#include <algorithm>
#include <cstdio>
#include <functional>
#include <iostream>
#include <utility>

#include "lithe/base/json.h"
#include "lithe/base/new_directory.h"
#include "lithe/cli/command.h"
#include "lithe/compress/densify.h"
#include "lithe/compress/exchange.h"
#include "lithe/compress/receipt.h"
#include "lithe/interchange/export_parts.h"
#include "lithe/interchange/import_parts.h"
#include "lithe/model/safetensors.h"
#include "lithe/recipe/recipe.h"

namespace lithe {
namespace {

struct ConvertOptions {
  std::string run, out, weights, text;
  std::vector<std::string> set;
  int64_t seed = 1, tokens = 4096;
  bool densify = false, overwrite = false, no_receipt = false, json = false;
};

void write_run(const ConvertOptions& o, const ModelConfig& config,
               const std::function<void(const Path& file)>& write_weights, const Tokenizer& tokenizer,
               const Json& record) {
  NewDirectory out(o.out, "convert", o.overwrite);
  Recipe recipe = recipe_of_run(o.run);
  recipe.model = config;
  write_weights(out / "model.safetensors");
  save_config(config, out / "config.json");
  save_tokenizer(tokenizer, out.path());
  copy_companions(o.run, out.path());
  write_file(out / "convert.json", dump(record, 2) + "\n");
  write_file(out / "resolved_recipe.yaml", to_yaml(resolved(recipe)));
  if (!o.no_receipt)
    write_receipt({.operation = "convert",
                   .parent = o.run,
                   .parent_weights = o.weights,
                   .child = out.path(),
                   .recipe = recipe,
                   .settings = o.densify ? Json({{"densify", true}}) : Json({{"set", o.set}}),
                   .baseline = false});
  out.commit();
}

// The first tokens of the text that fits are made to; none without a text.
Tensor text_tokens(const ConvertOptions& o, const Tokenizer& tokenizer, const ModelConfig& model) {
  if (o.text.empty()) return {};
  check_usage(tokenizer.width() == 1, "convert", "--text needs a tokenizer with a vocabulary, and this run has none");
  std::vector<int32_t> ids = tokenizer.encode(read_file(o.text));
  constexpr size_t kFewest = 64;
  check_usage(ids.size() >= kFewest, "convert", "'", o.text, "' has ", ids.size(), " tokens; fits need ", kFewest,
              " and better some thousand");
  check(tokenizer.vocab_size() <= model.vocab_size, "convert", "the tokenizer has ", tokenizer.vocab_size(),
        " entries, the model ", model.vocab_size);
  ids.resize(std::min(ids.size(), size_t(o.tokens)));
  const Tensor out = empty({int64_t(ids.size())}, DType::i32);
  std::copy(ids.begin(), ids.end(), out.data<int32_t>());
  return out;
}

int run_convert(const ConvertOptions& o) {
  check_usage(o.densify != !o.set.empty(), "convert",
              "give --densify, or one or more --set model.KEY=VALUE: one at a time");
  check_usage(o.text.empty() || !o.densify, "convert", "--text is for --set; --densify is exact without one");
  const RunToExport from = read_run({o.run, o.out, o.weights});
  if (o.densify) {
    std::map<std::string, Tensor> parameters;
    for (const auto& [name, parameter] : from.parameters) parameters[name] = parameter.read();
    Densified d = densify(from.config, std::exchange(parameters, {}));
    const Json json = {{"folded", d.folded},
                       {"largest_difference", d.largest_difference},
                       {"parameters_before", d.parameters_before},
                       {"parameters_after", d.parameters_after}};
    const auto write = [&](const Path& file) {
      write_safetensors(file, std::exchange(d.parameters, {}), {{"format", "lithe"}});
    };
    write_run(o, d.config, write, *from.tokenizer, json);
    if (o.json) {
      std::cout << dump(json, 2) << "\n";
      return 0;
    }
    for (const std::string& line : d.folded) std::printf("folded            %s\n", line.c_str());
    if (d.folded.empty()) std::printf("folded            nothing: every part has its standard form\n");
    std::printf("parameters        %lld -> %lld\nlogits            differ by %.2g of the largest, in f64\n",
                static_cast<long long>(d.parameters_before), static_cast<long long>(d.parameters_after),
                d.largest_difference);
    return 0;
  }
  const Exchanged e = exchange_parts(from.config, from.parameters, o.set, uint64_t(o.seed),
                                     text_tokens(o, *from.tokenizer, from.config));
  check_usage(e.keeps_enough(), "convert", "with ", join(o.set),
              " less than 1 % of the numbers keep their place, so that nothing of the model is left; ",
              "exchange a part of it, or train anew with a recipe");
  const Json json = {{"kept", e.kept},
                     {"fitted", e.fitted},
                     {"initialised", e.initialised},
                     {"left", e.left},
                     {"parameters_kept", e.parameters_kept},
                     {"parameters_fitted", e.parameters_fitted},
                     {"parameters_initialised", e.parameters_initialised}};
  write_run(
      o, e.config, [&](const Path& file) { write_exchanged(e, file); }, *from.tokenizer, json);
  if (o.json) {
    std::cout << dump(json, 2) << "\n";
    return 0;
  }
  std::printf("kept              %zu parameters (%lld numbers)\n", e.kept.size(),
              static_cast<long long>(e.parameters_kept));
  const auto list = [](const char* what, const std::vector<std::string>& lines) {
    for (const std::string& line : lines) std::printf("%-17s %s\n", what, line.c_str());
  };
  list("fitted", e.fitted);
  list("initialised", e.initialised);
  list("left out", e.left);
  return 0;
}

}  // namespace

Command add_convert(CommandLine& app) {
  auto o = std::make_shared<ConvertOptions>();
  app.add_option("run", o->run, "directory of a training run, or of an imported model").required();
  app.add_option("--out", o->out, "new directory, which all commands take as that of a run")
      .output({.kind = OutputRule::Kind::new_directory})
      .required();
  app.add_flag("--overwrite", o->overwrite,
               "replace the output of an earlier lithe convert in --out, and nothing else");
  app.add_flag(
      "--densify", o->densify,
      "fold Hadamard outputs and shared or embedded heads into plain matrices, give layers that share parameters their "
      "own, and verify the logits");
  app.add_option("--set", o->set, "exchange a part: model.mixer.output.type=hadamard (repeatable)").repeatable();
  const Option text = app.add_option(
      "--text", o->text,
      "with --set: a text file on which the new parts of attention are fitted to the old ones by least squares");
  app.add_option("--tokens", o->tokens, "with --text: how many of its tokens are used").positive().needs(text);
  app.add_option("--weights", o->weights, "best, averaged, or a safetensors file; default: the last checkpoint's");
  app.add_option("--seed", o->seed, "random seed of new parameters").non_negative();
  app.add_flag("--no-receipt", o->no_receipt,
               "write the model alone: nothing is measured, and without --text one tensor stands in memory at a time");
  app.add_flag("--json", o->json, "print what was done as JSON");
  add_threads_option(app);
  app.footer(
      "Example: lithe convert runs/first --set model.mixer.output.type=hadamard --out runs/exchanged\nTo train on: a "
      "recipe with from_pretrained: runs/exchanged. See docs/interchange.md.");
  return [o] { return run_convert(*o); };
}

}  // namespace lithe

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <optional>

#include "lithe/base/json.h"
#include "lithe/base/stop.h"
#include "lithe/cli/command.h"
#include "lithe/cli/recipe.h"
#include "lithe/data/corpus.h"
#include "lithe/infer/load.h"

namespace lithe {
namespace {

struct Options {
  std::string model, weights, precision = "f32", skip_part = "layer";
  std::optional<std::string> skip;
  std::vector<std::string> files;
  int64_t context = 0, stride = 0, batch_tokens = 0;
  bool json = false, el_rewrite = false;
};

int run(const Options& o) {
  catch_stop_signals();
  Recipe recipe = recipe_of_run(o.model);
  if (o.context) recipe.eval.context_length = o.context;
  if (o.stride) recipe.eval.stride = o.stride;
  if (o.batch_tokens) recipe.eval.batch_tokens = o.batch_tokens;
  const LoadedModel loaded = load_model(o.model, o.weights, o.precision, o.el_rewrite);

  if (o.skip) loaded.model->skip(loaded.model->config().layers_named(*o.skip), o.skip_part == "mixer");

  TokenStore text;
  if (o.files.empty()) {
    auto data = load_dataset(recipe.data, loaded.tokenizer);
    check_usage(data.validation.has_value(), "eval", "the run has no held-out text; name the files to measure");
    text = *data.validation;
  } else {
    text = tokenize_in_memory(Corpus(o.files, corpus_options(recipe.data)), *loaded.tokenizer);
  }
  const bool terminal = ::isatty(STDERR_FILENO);
  const auto progress = [&](int64_t done, int64_t all) {
    if (terminal)
      std::fprintf(stderr, "\rscoring %lld/%lld tokens", static_cast<long long>(done), static_cast<long long>(all));
  };
  const Perplexity p = perplexity(*loaded.model, text, recipe.eval, recipe.data.sequence_length, progress);
  if (terminal) std::fputs("\r\033[K", stderr);
  const int64_t context = recipe.eval.context_length ? recipe.eval.context_length : recipe.data.sequence_length,
                stride = recipe.eval.stride ? recipe.eval.stride : context;
  if (o.json) {
    std::cout << Json({{"loss", p.loss()},
                       {"token_perplexity", p.token_perplexity()},
                       {"word_perplexity", p.word_perplexity()},
                       {"word_perplexity_with_line_ends", p.word_and_line_perplexity()},
                       {"bits_per_byte", p.bits_per_byte()},
                       {"tokens", p.tokens},
                       {"words", p.words},
                       {"lines", p.lines},
                       {"bytes", p.bytes},
                       {"context_length", context},
                       {"stride", stride}})
                     .dump(2)
              << "\n";
    return 0;
  }
  std::printf("loss              %.4f per token (%lld tokens, context %lld, stride %lld)\n", p.loss(),
              static_cast<long long>(p.tokens), static_cast<long long>(context), static_cast<long long>(stride));
  std::printf("token perplexity  %.2f\nword perplexity   %.2f (%.2f with line ends as words)\nbits per byte     %.4f\n",
              p.token_perplexity(), p.word_perplexity(), p.word_and_line_perplexity(), p.bits_per_byte());
  return 0;
}

}  // namespace

Command add_eval(CLI::App& app) {
  auto o = std::make_shared<Options>();
  app.add_option("model", o->model, "directory of a training run")->required();
  app.add_option("files", o->files, "texts to measure; default: the run's held-out text");
  app.add_option("--weights", o->weights, "best, or a safetensors file; default: the last checkpoint's");
  app.add_flag("--el-rewrite", o->el_rewrite,
               "run heads mha as el_rewrite: the same function, half the cache (not with rotary positions)");
  app.add_option("--precision", o->precision, "f32, bf16 or f64")->check(CLI::IsMember({"f32", "bf16", "f64"}));
  app.add_option("--context-length", o->context, "tokens of a window; default: the recipe's")
      ->check(CLI::PositiveNumber);
  app.add_option("--stride", o->stride, "tokens a window moves on; default: the context length")
      ->check(CLI::PositiveNumber);
  app.add_option("--batch-tokens", o->batch_tokens, "tokens run at once; does not change the result")
      ->check(CLI::PositiveNumber);
  CLI::Option* layers = app.add_option(
      "--skip-layers", o->skip, "layers to leave out: numbers from 1 (1,3,5) or a name of model.mixers (replaced)");
  app.add_option("--skip-part", o->skip_part, "what to leave out of them: the whole layer, or its mixer alone")
      ->check(CLI::IsMember({"layer", "mixer"}))
      ->needs(layers);
  app.add_flag("--json", o->json, "print the result as JSON");
  add_threads_option(app);
  app.footer(
      "Example: lithe eval runs/first --stride 64\nA window slides over each document; every token is scored once, "
      "with at least context-length - stride\ntokens before it where the document has them.");
  return [o] { return run(*o); };
}

}  // namespace lithe

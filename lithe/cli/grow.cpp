#include "lithe/model/grow_check.h"

#include "lithe/base/log.h"
#include "lithe/base/new_directory.h"
#include "lithe/cli/command.h"
#include "lithe/compress/receipt.h"
#include "lithe/infer/load.h"
#include "lithe/interchange/import_parts.h"
#include "lithe/model/quantized_weights.h"
#include "lithe/recipe/recipe.h"

namespace lithe {
namespace {

struct GrowOptions {
  std::string model, out, weights;
  std::optional<int64_t> layers, width;
  int64_t seed = 1;
  double noise = 0;
  bool zero_new_residual = false, overwrite = false;
};

int run_grow(const GrowOptions& o) {
  check_usage(o.layers.has_value() != o.width.has_value(), "grow", "give --layers or --width, and one of them");
  check_usage(o.width || o.noise == 0, "grow", "--noise tells the copies of --width apart; --layers has no use for it");
  check_usage(o.layers || !o.zero_new_residual, "grow", "--zero-new-residual is for --layers; --width adds no layers");
  Recipe recipe = recipe_of_run(o.model);
  LoadedModel loaded = load_model(o.model, o.weights, "f32", false, false);
  const Model& model = *loaded.model;
  check_holds_numbers(model.config(), "grow", cat("'", o.model, "'"));
  recipe.model = o.layers ? deepened(model.config(), *o.layers) : widened(model.config(), *o.width);
  auto larger = std::make_unique<Model>(recipe.model, ModelOptions{.initialised = false});
  Model& grown = *larger;
  bool same = true;
  if (o.layers) {
    grow_depth(model, grown, o.zero_new_residual);
    same = o.zero_new_residual;
  } else {
    grow_width(model, grown, 0, 0);
  }
  if (same) {
    const double apart = difference_of_predictions(model, grown);
    check_grown_alike(model.config(), {.width = o.width.value_or(0), .layers = o.layers.value_or(0)}, apart, "grow");
    log_info("predictions are the same up to ", apart, " of the largest logit");
  }
  if (o.noise != 0) grow_width(model, grown, o.noise, uint64_t(o.seed));

  NewDirectory out(o.out, "grow", o.overwrite);
  save_config(grown.config(), out / "config.json");
  save_tokenizers({loaded.tokenizer, loaded.source_tokenizer}, out.path());
  recipe.from_pretrained.clear();
  write_file(out / "resolved_recipe.yaml", to_yaml(resolved(recipe)));
  copy_companions(o.model, out.path());
  save_weights(grown, out / "model.safetensors");
  const int64_t before = model.parameters().count(), after = grown.parameters().count();
  loaded.model.reset(), larger.reset();  // the receipt loads each by itself
  write_receipt({.operation = "grow",
                 .parent = o.model,
                 .parent_weights = o.weights,
                 .child = out.path(),
                 .recipe = recipe,
                 .settings = o.layers ? Json({{"layers", *o.layers}}) : Json({{"width", *o.width}}),
                 .baseline = false});
  out.commit();
  log_info(before, " parameters became ", after, " in '", o.out, "'; train it on with --set from_pretrained=", o.out);
  return 0;
}

}  // namespace

Command add_grow(CommandLine& app) {
  auto o = std::make_shared<GrowOptions>();
  app.add_option("model", o->model, "directory of a training run").required();
  app.add_option("--out", o->out, "new directory for the larger model")
      .output({.kind = OutputRule::Kind::new_directory})
      .required();
  app.add_flag("--overwrite", o->overwrite, "replace the output of an earlier lithe grow in --out, and nothing else");
  app.add_option("--layers", o->layers, "layers to grow to, a multiple of the model's: layer l + L starts as layer l")
      .positive();
  app.add_option("--width", o->width, "multiply channels, heads and hidden units by this; predictions stay the same")
      .positive();
  app.add_flag("--zero-new-residual", o->zero_new_residual,
               "with --layers: new layers start by adding zero, so that predictions stay the same (residual pre)");
  app.add_option("--noise", o->noise, "with --width: relative noise on the copies, which are equal without it");
  app.add_option("--seed", o->seed, "random seed of the noise").non_negative();
  app.add_option("--weights", o->weights, "best, averaged, or a safetensors file; default: the last checkpoint's");
  add_threads_option(app);
  app.footer(
      "Example: lithe grow runs/first --layers 12 --out runs/first-12\nThen: lithe train RECIPE --set "
      "from_pretrained=runs/first-12 --out runs/second");
  return [o] { return run_grow(*o); };
}

}  // namespace lithe

#include "lithe/train/check_recipe.h"

#include "lithe/infer/decode_slots.h"
#include "lithe/model/exits.h"
#include "lithe/model/grow_check.h"
#include "lithe/parallel/layout.h"
#include "lithe/train/adapters.h"
#include "lithe/train/growth.h"

namespace lithe {
namespace {

// The examples stand in a treebank, or their format may be known by their names alone.
bool may_have_trees(const TaskConfig& task) {
  return task.format.empty() || task.format == "conllu" || task.format == "brackets";
}

bool has_trees(const Recipe& recipe, const std::string& source) {
  if (!recipe.has_translation()) return recipe.has_task() && may_have_trees(recipe.task);
  const auto further = recipe.translation.further_sources();
  const auto found = further.find(source);
  const bool of_source = found == further.end() || found->second.from == FurtherSource::From::source;
  return of_source && !recipe.translation.train.source_trees.empty();
}

void check_columns(const Recipe& recipe, const Model& model) {
  const ModelConfig& config = model.config();
  const std::vector<std::string> sources =
      reads_source(config.architecture) ? config.source_names() : std::vector<std::string>{""};
  for (const std::string& source : sources) {
    if (has_trees(recipe, source)) continue;
    const std::vector<std::string> columns = model.reads_columns(source);
    const bool main = source.empty() || source == kSource;
    check_usage(columns.empty(), "data", main ? "the model" : "the encoder " + source, " reads the columns ",
                join(columns), " of a treebank, and ", main ? "this text" : "the text of translation.sources." + source,
                " stands in none; give CoNLL-U or bracketed trees to section task, or source_trees to section "
                "translation");
  }
}

void check_sources(const Recipe& recipe, const Model& model) {
  const ModelConfig& config = model.config();
  const bool translates = reads_source(config.architecture);
  const int64_t longest = recipe.has_translation() && recipe.translation.max_length ? recipe.translation.max_length
                                                                                    : recipe.data.sequence_length;
  for (const std::string& name : config.source_names()) {
    const int64_t rows = longest - (name == kSource ? placed_rows(recipe, config, modalities_of(config)) : 0),
                  limit = model.read_source_limit(name);
    check_usage(!limit || limit >= rows, "model", "the ", name == kSource ? "source" : "encoder " + name,
                " is read up to ", limit, " tokens (",
                limit < model.source_limit(name) || !model.source_limit(name)
                    ? "max_source_positions of model.cross_attention"
                    : "max_position_embeddings of the encoder",
                "), and ", recipe.translation.max_length ? "translation.max_length" : "data.sequence_length", " is ",
                longest, "; make them as long");
  }
  if (!translates || !model.aligns_sources()) return;
  for (const auto& [name, source] : recipe.translation.further_sources())
    check_usage(!config.encoders.find(name) || source.from != FurtherSource::From::previous, "model", "combine ",
                config.combiner()->type, " needs as many rows of each encoder, and translation.sources.", name,
                " is another text (from: previous); combine by concat_len or pool");
}

// Sections eval and generate, which later commands read.
void check_decoding(const Recipe& recipe, const Model& model) {
  for (const auto& [key, rule] : {std::pair("eval.exit", recipe.eval.exit), {"generate.exit", recipe.generate.exit}})
    try {
      exit_run_of(model, rule);
    } catch (const Error& error) {
      fail_usage(key, error.what());
    }
  check_usage(!recipe.generate.early_stop || predicts_stops(model), "generate",
              "early_stop asks the head where texts end, which it does not learn; give model.head: {type: lm, "
              "early_stop: true}, or leave it out");
  if (sees_ahead(model.config().architecture)) return;
  for (const auto& [key, name] :
       {std::pair("eval.cache_dtype", recipe.eval.cache_dtype), {"generate.cache_dtype", recipe.generate.cache_dtype}})
    try {
      if (const auto type = cache_type_named(name)) model.make_state(1, 1, type);
    } catch (const Error& error) {
      fail_usage(key, error.what());
    }
}

void check_grows(const Recipe& recipe, const ModelConfig& config) {
  const GrowthConfig& growth = recipe.train.growth;
  if (growth.steps.empty()) return;
  const Model largest(last_config(config, growth), {.device = Device::meta});
  if (!growth.width.empty()) check_growth(config, {.width = growth.width.back()}, "train.growth");
  if (!growth.layers.empty())
    check_growth(config, {.layers = growth.layers.back(), .compared = growth.zero_new_residual}, "train.growth");
}

void check_reference_text(const Recipe& recipe, const ModelConfig& model) {
  check_usage(
      !model.lacks_reference_ids() || (make_objective(recipe.train.objective)->predicts_next() && !recipe.has_task() &&
                                       !recipe.has_translation() && recipe.data.messages.empty()),
      "model", "a mixer that reads a fixed sequence needs reference_ids, which only objective clm takes from ",
      "the text; give them, or choose another mixer");
}

}  // namespace

void check_recipe(const Recipe& recipe, const ModelConfig& config) {
  check_reference_text(recipe, config);
  check_distinct_files(recipe.translation);
  const Layout::Use whole(nullptr);
  const Model model(config, {.device = Device::meta, .compute = recipe.train.compute()});
  check_columns(recipe, model);
  check_sources(recipe, model);
  check_decoding(recipe, model);
  check_grows(recipe, config);
  check_adapted_head(recipe, model);
}

}  // namespace lithe

#include "lithe/train/training_data.h"

#include <algorithm>

#include "lithe/base/counted.h"
#include "lithe/base/error.h"
#include "lithe/base/log.h"
#include "lithe/data/document_rows.h"
#include "lithe/data/lanes.h"
#include "lithe/data/tree_columns.h"
#include "lithe/eval/held_out_text.h"
#include "lithe/eval/task_evaluation.h"
#include "lithe/eval/translation_evaluation.h"
#include "lithe/model/tags.h"
#include "lithe/train/check_recipe.h"
#include "lithe/train/conversations.h"
#include "lithe/train/folded_ids.h"

namespace lithe {
namespace {

TrainingData batches_of_task(TaskData examples, const Recipe& recipe, const Tokenizers& tokenizers) {
  const int64_t length = recipe.data.sequence_length;
  TrainingData out{.tokenizer = tokenizers.tokenizer,
                   .objective = make_objective(recipe.train.objective),
                   .labels = examples.labels};
  const TaskReading reading = task_reading(recipe);
  const auto batches = [&](std::vector<Example>& of, uint64_t seed, bool shuffle) {
    TaskBatches made(std::move(of), task_type(recipe.task), *out.tokenizer, length, recipe.train.micro_batch_tokens(),
                     seed, shuffle, reading);
    made.warn_of_cut();
    out.fingerprint = checksum(&out.fingerprint, sizeof out.fingerprint, made.fingerprint());
    return made;
  };
  for (const Example& example : examples.train)
    if (example.tree) out.trees.push_back(example.tree);
  log_info(examples.train.size(), " training examples, ", examples.validation.size(), " for validation");
  out.train = std::make_unique<TaskBatches>(batches(examples.train, uint64_t(recipe.train.seed), true));
  if (!examples.validation.empty())
    out.held_out =
        std::make_unique<HeldOutTask>(batches(examples.validation, 0, false), recipe.task, std::move(examples.labels));
  return out;
}

// One vocabulary learns from both sides' lines, two from one side each. Further sources that are texts of their own
// count among the sources.
Tokenizers tokenizers_of(const std::vector<TextPair>& pairs, const TranslationConfig& translation,
                         const DataConfig& data) {
  std::vector<std::string> further;
  for (const auto& [name, source] : translation.further_sources())
    if (source.from == FurtherSource::From::file || source.from == FurtherSource::From::column) further.push_back(name);
  const Path cache = resolve_cache_directory(data.cache_directory);
  const auto of = [&](const TokenizerConfig& config, bool sources, bool targets) {
    uint64_t fingerprint = 0;
    const ForEachText texts = [&](const std::function<void(std::string_view)>& f) {
      for (const TextPair& pair : pairs) {
        if (sources) f(pair.source);
        for (const std::string& name : further)
          if (sources) f(pair.sources.at(name));
        if (targets) f(pair.target);
      }
    };
    if (learns_from_texts(config))
      texts([&](std::string_view text) { fingerprint = checksum(text.data(), text.size(), fingerprint); });
    return tokenizer_of(config, texts, fingerprint, cache);
  };
  Tokenizers out;
  if (const auto own = data.own_source_tokenizer()) {
    out.source = of(*own, true, false);
    out.tokenizer = of(data.tokenizer, false, true);
  } else {
    out.source = out.tokenizer = of(data.tokenizer, true, true);
  }
  return out;
}

TrainingData batches_of_translation(TranslationData pairs, const Recipe& recipe, const Tokenizers& tokenizers) {
  const TranslationConfig& translation = recipe.translation;
  const DataConfig& data = recipe.data;
  const TrainConfig& train = recipe.train;
  const int64_t longest = translation.max_length ? translation.max_length : data.sequence_length;
  TrainingData out{.tokenizer = tokenizers.tokenizer,
                   .source_tokenizer = tokenizers.source,
                   .objective = make_objective(train.objective)};
  const size_t count = pairs.train.size();
  for (const TextPair& pair : pairs.train)
    if (pair.tree) out.trees.push_back(pair.tree);
  auto batches = std::make_unique<TranslationBatches>(
      std::move(pairs.train), out.source_tokenizer, out.tokenizer,
      TranslationLimits{.max_length = longest,
                        .max_length_ratio = translation.max_length_ratio,
                        .leave_out = true,
                        .cut_sources = translation.cut_sources ? std::optional(data.truncation) : std::nullopt},
      train.micro_batch_tokens(), uint64_t(train.seed), true,
      TranslationSampling{translation.source_segmentation, translation.target_segmentation});
  batches->give_only(recipe.model.source_names());
  for (const auto& [name, source] : translation.further_sources())
    if (!recipe.model.encoders.find(name))
      log_warning("translation.sources.", name, " is read by no encoder; add it to model.encoders, or leave it out");
  if (batches->dropped())
    log_info(batches->dropped(), " of ", count, " pairs are left out: blank, longer than ", longest,
             " tokens, or of unlike lengths");
  out.epoch.sequences = int64_t(batches->pairs().size());
  for (int64_t i = 0; i < out.epoch.sequences; ++i) {
    out.epoch.rows += int64_t(batches->target_tokens(i).size()) + 1;
  }
  out.epoch.source_rows = batches->source_rows();
  log_info(out.epoch.sequences, " pairs to learn from, ", pairs.validation.size(), " for validation");
  out.fingerprint = batches->fingerprint();
  out.train = std::move(batches);
  if (!pairs.validation.empty()) {
    auto held_out = held_out_translations(std::move(pairs.validation), tokenizers, data, train.micro_batch_tokens(),
                                          translation.cut_sources);
    held_out.give_only(recipe.model.source_names());
    out.fingerprint = checksum(&out.fingerprint, sizeof out.fingerprint, held_out.fingerprint());
    out.held_out = std::make_unique<HeldOutTranslations>(std::move(held_out), tokenizers, out.objective,
                                                         translation.metric_for_best_model, recipe.translate);
  }
  return out;
}

TrainingData batches_of_text(const Dataset& dataset, const Recipe& recipe) {
  const TrainConfig& train = recipe.train;
  TrainingData out{.tokenizer = dataset.tokenizer,
                   .objective = make_objective(train.objective),
                   .fingerprint = dataset.fingerprint()};
  const bool next = out.objective->predicts_next();
  const Specials& s = out.tokenizer->specials();
  const std::optional<SequenceFrame> frame =
      next ? std::nullopt : std::optional(SequenceFrame{s.cls ? s.cls : s.bos, s.sep ? s.sep : s.eos});
  const auto batches = [&](const TokenStore& store, uint64_t seed, bool shuffle) {
    auto rows = std::make_unique<BatchOrder>(store, recipe.data.sequence_length, train.micro_batch_tokens(), seed,
                                             shuffle, frame);
    if (const int64_t have = rows->rows_per_epoch(), take = train.micro_batch_tokens(); shuffle && have < take)
      log_warning("the training text has ", have, " tokens and a batch takes ", take, ": each batch passes over it ",
                  (take + have - 1) / have,
                  " times, and counts as one epoch; lower train.batch_tokens or give more text");
    if (dataset.answers)
      return out.objective->batches(std::make_unique<AnswersOnly>(std::move(rows), out.tokenizer->vocab_size()),
                                    out.tokenizer, seed);
    return out.objective->batches(std::move(rows), out.tokenizer, seed);
  };
  check_usage(
      !dataset.answers || (next && !train.carry_state), "train",
      "conversations (data.messages) are learnt token by token and each by itself; set train.objective: clm and "
      "carry_state: false");
  if (train.carry_state) {
    check_usage(next, "train", "carry_state goes on from token to token, and objective ", train.objective.type,
                " predicts no next tokens; set train.objective: clm, or carry_state to false");
    auto lanes = std::make_unique<LaneOrder>(dataset.train, recipe.data.sequence_length,
                                             train.micro_batch_tokens() / recipe.data.sequence_length);
    out.lanes = Lanes{lanes->lanes(), lanes->longest()};
    if (dataset.validation) {  // whose documents run whole
      const DocumentRows rows(*dataset.validation, recipe.data.sequence_length);
      for (int64_t d = 0; d < rows.documents(); ++d)
        out.lanes->longest = std::max(out.lanes->longest, rows.row_begin(d + 1) - rows.row_begin(d));
    }
    out.train = std::move(lanes);
  } else {
    out.train = batches(dataset.train, uint64_t(train.seed), true);
  }
  if (dataset.validation && train.carry_state)
    out.held_out = std::make_unique<HeldOutText>(*dataset.validation, train.micro_batch_tokens());
  else if (dataset.validation)
    out.held_out = std::make_unique<HeldOutBatches>(batches(*dataset.validation, 0, false), out.objective,
                                                    next && !dataset.answers ? dataset.validation->info().bytes : 0);
  if (next && !dataset.answers) out.text = dataset.train;
  return out;
}

// What the embedding reads of a treebank is learnt from the training part.
void fit_tags(ModelConfig& model, const TrainingData& training) {
  for (const TagColumn& tags : tag_columns(model)) {
    check_usage(!is_tree_column(tags.column), "model", embedding_place(tags.owner), ".tags names '", tags.column,
                "', which is no column of tags; name upos, xpos, feats, deprel or lemma (bracketed trees: pos)");
    if (!tags.values.empty()) continue;
    check_usage(
        !training.trees.empty(), "model", embedding_place(tags.owner), ".tags names '", tags.column,
        "', a column of a treebank, and the training files are none; give task.train CoNLL-U or bracketed trees, ",
        "or translation.train.source_trees");
    set_tag_values(model, tags, tags_of(training.trees, tags.column));
  }
  for (const std::string& owner : lacking_composites(model))
    set_composites(model, owner, composites_of(*training.train, model, owner));
}

TrainingTexts read_task(const Recipe& recipe, const Tokenizers& existing) {
  check_metrics(recipe.task);
  TaskData examples = load_task(recipe.task);
  choose_metrics(recipe.task, examples.labels);
  check_usage(!examples.train.empty(), "task", "task.train names no examples to learn from");
  const auto tokenizer = existing.tokenizer ? existing.tokenizer : tokenizer_of(recipe.data);
  return {.tokenizers = {tokenizer, {}}, .of = std::move(examples)};
}

TrainingTexts read_translation(const Recipe& recipe, const Tokenizers& existing) {
  const int64_t longest = recipe.translation.max_length, length = recipe.data.sequence_length;
  TranslationData pairs = load_translation(recipe.translation);
  check_usage(!pairs.train.empty(), "translation", "translation.train names no texts to learn from");
  check_usage(longest <= length, "translation", "max_length ", longest, " is above data.sequence_length ", length,
              ", the most that the model has positions for");
  Tokenizers tokenizers = existing.tokenizer ? existing : tokenizers_of(pairs.train, recipe.translation, recipe.data);
  if (!tokenizers.source) tokenizers.source = tokenizers.tokenizer;
  return {.tokenizers = std::move(tokenizers), .of = std::move(pairs)};
}

void log_size(const char* what, const TokenStore& store) {
  log_info(what, ": ", counted(store.documents(), "document"), ", ", counted(store.tokens(), "token"), ", ",
           counted(store.info().words, "word"), ", ", counted(store.info().bytes, "byte"));
}

TrainingTexts read_text(const Recipe& recipe, const Tokenizers& existing) {
  Dataset dataset = recipe.data.messages.empty() ? load_dataset(recipe.data, existing.tokenizer)
                                                 : load_conversations(recipe.data, existing.tokenizer);
  if (recipe.data.messages.empty()) {
    log_size("training text", dataset.train);
    if (dataset.validation) log_size("validation text", *dataset.validation);
  }
  return {.tokenizers = {dataset.tokenizer, {}}, .of = std::move(dataset)};
}

}  // namespace

TrainingTexts read_training_texts(const Recipe& recipe, const Tokenizers& existing) {
  check_usage(!recipe.has_task() || !recipe.has_translation(), "recipe",
              "give a section task or translation, not both");
  check_usage(!recipe.train.carry_state || (!recipe.has_task() && !recipe.has_translation()), "train",
              "carry_state goes through a text in its order, which a task's examples and translations have not; set it "
              "to false");
  if (recipe.has_translation()) return read_translation(recipe, existing);
  return recipe.has_task() ? read_task(recipe, existing) : read_text(recipe, existing);
}

TrainingData cut_into_batches(TrainingTexts texts, const Recipe& recipe) {
  TrainingData out;
  if (auto* pairs = std::get_if<TranslationData>(&texts.of))
    out = batches_of_translation(std::move(*pairs), recipe, texts.tokenizers);
  else if (auto* examples = std::get_if<TaskData>(&texts.of))
    out = batches_of_task(std::move(*examples), recipe, texts.tokenizers);
  else
    out = batches_of_text(std::get<Dataset>(texts.of), recipe);
  for (const auto& tokenizer : {out.tokenizer, out.source_tokenizer}) {
    const uint64_t own = tokenizer ? tokenizer->fingerprint() : 0;
    out.fingerprint = checksum(&own, sizeof own, out.fingerprint);
  }
  return out;
}

TrainingData load_training_data(const Recipe& recipe, const Tokenizers& existing) {
  return cut_into_batches(read_training_texts(recipe, existing), recipe);
}

void fit_model(ModelConfig& model, const TrainingData& training, const Recipe& recipe) {
  const Tokenizer& tokenizer = *training.tokenizer;
  const DataConfig& data = recipe.data;
  const int64_t vocabulary = tokenizer.vocab_size();
  check_usage(!model.vocab_size || model.vocab_size >= vocabulary, "model", "vocab_size ", model.vocab_size,
              " is below the tokenizer's ", vocabulary, "; leave it out to use the tokenizer's");
  check_usage(!model.token_width || model.token_width == tokenizer.width(), "model", "token_width ", model.token_width,
              " differs from the tokenizer's ", tokenizer.width(), "; leave it out to use the tokenizer's");
  model.complete(vocabulary, tokenizer.width(), std::max<int64_t>(1, data.sequence_length - own_places(recipe, model)));
  fit_tags(model, training);
  prepare_for_lessons(recipe, *training.objective, tokenizer, training.labels, model);
  if (training.source_tokenizer && training.source_tokenizer != training.tokenizer) {
    check_usage(!model.share_encoder_decoder_embeddings, "model",
                "data.source_tokenizer gives the source a vocabulary of its own; set "
                "share_encoder_decoder_embeddings to false");
    const int64_t entries = training.source_tokenizer->vocab_size();
    if (model.encoder.is_null()) model.encoder = Node::map();
    if (!model.encoder.find("vocab_size")) model.encoder.set("vocab_size", Node::scalar(cat(entries)));
    check_usage(model.encoder_config().vocab_size >= entries, "model", "encoder.vocab_size ",
                model.encoder_config().vocab_size, " is below the source tokenizer's ", entries,
                "; leave it out to use the tokenizer's");
    for (const auto& [name, keys] : std::vector(model.encoders.entries())) {
      Node own = keys.is_map() ? keys : Node::map();
      if (!own.find("vocab_size")) own.set("vocab_size", Node::scalar(cat(entries)));
      model.encoders.set(name, own);
    }
  }
  for (const auto& [name, keys] : model.encoders.entries())
    if (training.source_tokenizer)
      check_usage(model.encoder_config(name).vocab_size >= training.source_tokenizer->vocab_size(), "model",
                  "encoders.", name, ".vocab_size ", model.encoder_config(name).vocab_size,
                  " is below the source tokenizer's ", training.source_tokenizer->vocab_size(),
                  "; leave it out to use the tokenizer's");
  model.validate();
  check_recipe(recipe, model);
  if (model.lacks_reference_ids()) {
    std::vector<int32_t> first(size_t(std::min(training.text->tokens(), model.max_position_embeddings)));
    training.text->copy(0, int64_t(first.size()), first.data());
    model.set_reference_ids({first.begin(), first.end()});
  }
  set_folded_ids(model, tokenizer);
}

}  // namespace lithe

#include "lithe/compare/material.h"

#include "lithe/base/stop.h"
#include "lithe/compare/translation.h"
#include "lithe/report/format.h"

namespace lithe::compare {
namespace {

class TranslationMaterial final : public Material {
 public:
  explicit TranslationMaterial(const Recipe& recipe) : of_(load_translations(recipe)) {}
  const BatchSource& batches() const override { return *of_.data.train; }
  std::string held_out() const override { return of_.held_out_text(); }
  uint64_t fingerprint() const override { return of_.fingerprint; }
  ModelConfig complete(const Recipe& recipe) const override {
    ModelConfig model = recipe.model;
    fit_model(model, of_.data, recipe);
    return model;
  }
  Work work(const ModelConfig& model, const Recipe& recipe) const override {
    return {plan_translation(model, recipe, of_), of_.batch_rows() * double(recipe.train.gradient_accumulation_steps)};
  }
  void score(const LoadedModel& model, const Recipe& recipe, Outcome& outcome) const override {
    score_translator(of_, model, recipe, outcome);
  }
  size_t sentences() const override { return of_.held_out.size(); }
  void count(Outcome& outcome) const override { count_matches(of_, outcome); }
  SpeedMaterial timed(const Recipe& recipe, const MeasureConfig& measure) const override {
    SpeedMaterial out{.batches = &batches()};
    // Held-out sources from all over the part.
    const size_t all = of_.held_out.size(), n = std::min(all, size_t(measure.sentences));
    for (size_t i = 0; i < n; ++i) {
      const TextPair& pair = of_.held_out[i * all / n];
      out.sentences.push_back(pair.source);
      out.trees.push_back(pair.tree);
      for (const auto& [name, text] : pair.sources) out.further[name].push_back(text);
    }
    out.tokenizers = {of_.data.tokenizer, of_.data.source_tokenizer};
    out.translate = recipe.translate;
    return out;
  }
  std::string timed_key(const Recipe& recipe) const override {
    std::string key = Material::timed_key(recipe);
    for (const auto& [name, value] : leaves(recipe))
      if (name.starts_with("translate.")) key += name + "=" + value + "\n";
    return key;
  }

 private:
  Translations of_;
};

// The examples of a task; scored on its test part, else its validation part.
class TaskMaterial final : public Material {
 public:
  TaskMaterial(const Recipe& s, const std::string& score) : data_(load_training_data(s, {})) {
    TaskData parts = load_task(s.task);
    TaskConfig config = s.task;
    config.train.clear();
    part_ = parts.test.empty() ? "validation" : "test";
    check_usage(!parts.test.empty() || !parts.validation.empty(), "compare",
                "the recipe holds no examples out to score variants on; give task.test or task.validation");
    const TaskMetric metric = choose_metrics(s.task, data_.labels).metrics[0];
    check_usage(metric.better == Better::higher || score != "task_metric", "compare", "less of ", metric.name,
                ", the first of task.metrics, is better; name one first of which more is");
    held_out_ = std::make_unique<HeldOutTask>(
        TaskBatches(std::move(parts.test.empty() ? parts.validation : parts.test), task_type(s.task), *data_.tokenizer,
                    s.data.sequence_length, s.train.micro_batch_tokens(), 0, false, task_reading(s)),
        config, data_.labels);
  }
  const BatchSource& batches() const override { return *data_.train; }
  std::string held_out() const override {
    return cat(report::format_integer(int64_t(held_out_->batches().examples().size())), " examples of the ", part_,
               " part");
  }
  uint64_t fingerprint() const override {
    const uint64_t parts[] = {data_.fingerprint, held_out_->batches().fingerprint()};
    return checksum(parts, sizeof parts);
  }
  ModelConfig complete(const Recipe& recipe) const override {
    ModelConfig model = recipe.model;
    fit_model(model, data_, recipe);
    return model;
  }
  Work work(const ModelConfig& model, const Recipe& recipe) const override {
    PlanShape shape;
    shape.sequence_length = recipe.data.sequence_length;
    shape.evaluation.rows = data_.held_out ? data_.held_out->batches().largest_batch() : 0;
    shape.training = {batches().largest_batch(), batches().largest_sources()};
    shape.features = feature_shapes(recipe);
    return {plan_training(model, recipe.train, shape, false),
            double(batches().largest_batch() * recipe.train.gradient_accumulation_steps)};
  }
  // The loss over all labels, in pieces of a batch, and the task's first metric.
  void score(const LoadedModel& model, const Recipe&, Outcome& o) const override {
    const TaskAnswers answers = answer(*model.model, held_out_->batches());
    check(!stop_signal(), "compare", "stopped by signal ", stop_signal());
    for (const LossSums& batch : answers.batches) {
      o.pieces.push_back({batch.loss, batch.labels});
      o.quality.nll += batch.loss;
      o.quality.tokens += batch.labels;
    }
    o.task_metric = held_out_->first_score(answers);
  }
  // Words of the examples one after another, for prompts of models that go on from a state.
  SpeedMaterial timed(const Recipe& recipe, const MeasureConfig&) const override {
    SpeedMaterial out{.batches = &batches()};
    if (recipe.model.architecture != Architecture::decoder) return out;
    std::vector<std::vector<int32_t>> documents;
    for (const TaskSequence& s : held_out_->batches().sequences()) documents.push_back(s.tokens);
    out.text = TokenStore::from_documents(documents, {.vocab_size = data_.tokenizer->vocab_size()});
    return out;
  }

 private:
  TrainingData data_;
  std::string part_;
  std::unique_ptr<HeldOutTask> held_out_;
};

}  // namespace

TextMaterial::TextMaterial(const std::string& operation, const Recipe& recipe, uint64_t seed)
    : data_(load_dataset(recipe.data)) {
  check_usage(data_.validation.has_value(), operation, "the recipe holds no text out to score ",
              operation == "search" ? "candidates" : "variants",
              " on; give data.validation_files or data.validation_fraction");
  const int64_t length = recipe.data.sequence_length, micro = recipe.train.micro_batch_tokens();
  batches_ = std::make_unique<BatchOrder>(data_.train, length, micro, seed);
  evaluation_rows_ = std::min(micro, BatchOrder(*data_.validation, length, micro, 0, false).rows_per_epoch());
}

std::string TextMaterial::held_out() const {
  const StoreInfo& info = data_.validation->info();
  return cat(report::format_integer(info.tokens), " tokens, ", report::format_integer(info.bytes), " bytes, ",
             report::format_integer(info.documents), info.documents == 1 ? " document" : " documents");
}

ModelConfig TextMaterial::complete(const Recipe& recipe) const {
  ModelConfig model = recipe.model;
  model.complete(data_.tokenizer->vocab_size(), 1, recipe.data.sequence_length);
  return model;
}

Material::Work TextMaterial::work(const ModelConfig& model, const Recipe& recipe) const {
  PlanShape shape;
  shape.sequence_length = recipe.data.sequence_length;
  shape.evaluation.rows = evaluation_rows_;
  return {plan_training(model, recipe.train, shape, false), double(recipe.train.batch_tokens)};
}

void TextMaterial::score(const LoadedModel& model, const Recipe& recipe, Outcome& outcome) const {
  outcome.quality =
      perplexity(*model.model, validation(), evaluation_of(recipe), recipe.data.sequence_length, {}, &outcome.pieces);
}

SpeedMaterial TextMaterial::timed(const Recipe&, const MeasureConfig&) const {
  SpeedMaterial out{.batches = &batches()};
  out.text = data_.train;
  return out;
}

std::unique_ptr<Material> make_material(const Recipe& recipe, const std::string& score) {
  const Lessons lessons = make_objective(recipe.train.objective)->learns_from();
  if (lessons == Lessons::translation) return std::make_unique<TranslationMaterial>(recipe);
  if (lessons == Lessons::task) return std::make_unique<TaskMaterial>(recipe, score);
  auto text = std::make_unique<TextMaterial>("compare", recipe, 1);
  check_usage(score != "word_perplexity" || text->validation().info().words > 0, "compare",
              "the held-out text has no words; choose another score");
  return text;
}

}  // namespace lithe::compare

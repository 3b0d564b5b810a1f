#include "lithe/train/training_data.h"

#include <algorithm>

#include "lithe/base/error.h"
#include "lithe/base/log.h"

namespace lithe {
namespace {

TrainingData batches_of_task(const TaskConfig& task, const DataConfig& data, const TrainConfig& train,
                             std::shared_ptr<const Tokenizer> tokenizer) {
  TaskData examples = load_task(task);
  check_usage(!examples.train.empty(), "task", "task.train names no examples to learn from");
  const TaskType type = task_type(task);
  TrainingData out{.tokenizer = std::move(tokenizer), .labels = examples.labels};
  const auto batches = [&](std::vector<Example>& of, uint64_t seed, bool shuffle) {
    auto made = std::make_unique<TaskBatches>(std::move(of), type, *out.tokenizer, data.sequence_length,
                                              train.micro_batch_tokens(), seed, shuffle);
    if (made->cut())
      log_warning(made->cut(), " of ", made->examples().size(), " examples are longer than data.sequence_length ",
                  data.sequence_length, " and were cut");
    out.fingerprint = checksum(&out.fingerprint, sizeof out.fingerprint, made->fingerprint());
    return made;
  };
  log_info(examples.train.size(), " training examples, ", examples.validation.size(), " for validation");
  out.train = batches(examples.train, uint64_t(train.seed), true);
  if (!examples.validation.empty()) out.validation = batches(examples.validation, 0, false);
  return out;
}

}  // namespace

TrainingData batches_of(Dataset dataset, const DataConfig& data, const TrainConfig& train) {
  TrainingData out{.tokenizer = dataset.tokenizer, .fingerprint = dataset.fingerprint()};
  const bool clm = train.objective == "clm";
  const Specials& s = out.tokenizer->specials();
  const std::optional<SequenceFrame> frame =
      clm ? std::nullopt : std::optional(SequenceFrame{s.cls ? s.cls : s.bos, s.sep ? s.sep : s.eos});
  const auto batches = [&](const TokenStore& store, uint64_t seed, bool shuffle) -> std::unique_ptr<BatchSource> {
    auto rows =
        std::make_unique<BatchOrder>(store, data.sequence_length, train.micro_batch_tokens(), seed, shuffle, frame);
    if (clm) return rows;
    return with_objective(std::move(rows), train, out.tokenizer, seed);
  };
  out.train = batches(dataset.train, uint64_t(train.seed), true);
  if (dataset.validation) {
    out.validation = batches(*dataset.validation, 0, false);
    if (clm) out.validation_bytes = dataset.validation->info().bytes;
  }
  if (clm) out.text = dataset.train;
  return out;
}

TrainingData load_training_data(const DataConfig& data, const TrainConfig& train, const std::optional<TaskConfig>& task,
                                std::shared_ptr<const Tokenizer> existing) {
  if (!task) return batches_of(load_dataset(data, std::move(existing)), data, train);
  if (!existing) existing = tokenizer_of(data);
  return batches_of_task(*task, data, train, std::move(existing));
}

void fit_model(ModelConfig& model, const TrainingData& training, const DataConfig& data, const TrainConfig& train,
               const std::optional<TaskConfig>& task) {
  const Tokenizer& tokenizer = *training.tokenizer;
  const int64_t vocabulary = tokenizer.vocab_size();
  check_usage(!model.vocab_size || model.vocab_size >= vocabulary, "model", "vocab_size ", model.vocab_size,
              " is below the tokenizer's ", vocabulary, "; leave it out to use the tokenizer's");
  check_usage(!model.token_width || model.token_width == tokenizer.width(), "model", "token_width ", model.token_width,
              " differs from the tokenizer's ", tokenizer.width(), "; leave it out to use the tokenizer's");
  model.complete(vocabulary, tokenizer.width(), data.sequence_length);
  check_usage(model.max_position_embeddings >= data.sequence_length, "model", "max_position_embeddings ",
              model.max_position_embeddings, " is below data.sequence_length ", data.sequence_length);
  check_usage(!task || train.objective == "task", "train", "a recipe with a section task needs objective task, not ",
              train.objective);
  check_usage(task || train.objective != "task", "train", "objective task needs a section task");
  prepare_for_objective(train, tokenizer, model);
  if (task) {
    const TaskType type = task_type(*task);
    const std::string head = type == TaskType::tagging ? "tag" : type == TaskType::span ? "span" : "classify";
    check_usage(model.head.type == head, "task", "type ", task->type, " needs model.head ", head, ", not ",
                model.head.type);
    if (head == "classify") {
      const Node* problem = model.head.options.find("problem_type");
      const bool regression = problem && problem->text() == "regression";
      check_usage(regression == (type == TaskType::regression), "task", "type ", task->type,
                  " needs model.head.problem_type ",
                  type == TaskType::regression ? "regression" : "single_label_classification");
      check_usage(!regression || train.label_smoothing == 0, "train", "label_smoothing ", train.label_smoothing,
                  " spreads over classes, which a regression has none of; leave it out");
    }
    check_usage(!model.num_labels || model.num_labels == training.classes(), "task", "model.num_labels is ",
                model.num_labels, ", the task has ", training.classes(), "; leave it out");
    model.num_labels = training.classes();
    model.label_names = training.labels;
  }
  model.validate();
  if (model.lacks_reference_ids()) {
    check_usage(
        training.text.has_value(), "model",
        "a mixer that reads a fixed sequence needs reference_ids, which only objective clm takes from the text");
    std::vector<int32_t> first(size_t(std::min(training.text->tokens(), model.max_position_embeddings)));
    training.text->copy(0, int64_t(first.size()), first.data());
    model.set_reference_ids({first.begin(), first.end()});
  }
}

}  // namespace lithe

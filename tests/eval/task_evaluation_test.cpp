// A model's answers: toys that a small encoder learns to the last example, and answers planted in its weights.
#include "lithe/eval/task_evaluation.h"

#include <cmath>

#include "lithe/base/threads.h"
#include "lithe/eval/prediction.h"
#include "lithe/eval/sentence_rows.h"
#include "lithe/kernels/optimizer/optimizer.h"
#include "lithe/train/step.h"
#include "tests/data/files_for_tests.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

constexpr int32_t kEnd = 256;  // of the byte tokenizer

const Tokenizer& bytes() {
  static const auto tokenizer = make_byte_tokenizer();
  return *tokenizer;
}

Model encoder(const std::string& head, int64_t labels, const std::string& more = "") {
  return Model(kit::model_config(cat("{architecture: encoder, vocab_size: 257, hidden_size: 16, num_hidden_layers: 1, "
                                     "max_position_embeddings: 32, mixer: {type: attention, num_attention_heads: 2}, "
                                     "tie_word_embeddings: false, num_labels: ",
                                     labels, ", head: ", head, "}"),
                                 more),
               {.trainable = true});
}

// Whole batches with AdamW until the loss is small; one thread, so that a run is always the same.
void learn(Model& model, const TaskBatches& batches, int steps) {
  set_threads(1);
  std::vector<Tensor> m, v;
  for (const Parameter& p : model.parameters().all()) {
    m.push_back(zeros(p.master.shape(), DType::f32));
    v.push_back(zeros(p.master.shape(), DType::f32));
  }
  TrainConfig config;
  config.objective = {"task", {}};
  const TrainedObjective objective(config, model);
  for (int step = 1; step <= steps; ++step) {
    accumulate_gradients(model, objective, {to_device(batches.batch(step, 0), Device::cpu)}, config, step);
    size_t i = 0;
    for (Parameter& p : model.parameters().all()) {
      kernels::adamw({.param = p.master.value(),
                      .gradient = p.master.grad(),
                      .m = m[i],
                      .v = v[i],
                      .lr = 0.01,
                      .step = step,
                      .clear = true});
      ++i;
    }
    model.parameters().refresh_views();
  }
  set_threads(usable_threads());
}

TaskBatches in_order(const std::vector<Example>& examples, TaskType type, int64_t batch_tokens = 64,
                     int64_t sequence_length = 32) {
  return TaskBatches(examples, type, bytes(), sequence_length, batch_tokens, 0, false);
}

// oracle: app.classify
TEST(TaskEvaluation, ASeparableToyReachesAllRight) {
  std::vector<Example> examples;
  for (int i = 0; i < 24; ++i)  // the class is the first letter, whatever follows
    examples.push_back({.text = cat(std::string(1, "abc"[i % 3]), i, std::string(size_t(i % 5), 'x')), .label = i % 3});
  for (const char* pooling : {"cls", "mean", "max", "last"}) {
    Model model = encoder(cat("{type: classify, pooling: ", pooling, "}"), 3);
    const TaskBatches training(examples, TaskType::classification, bytes(), 32, 1024, 1, true),
        batches = in_order(examples, TaskType::classification);
    const TaskAnswers before = answer(model, batches);
    EXPECT_NEAR(before.loss, std::log(3.0), 1);
    learn(model, training, 60);
    const TaskAnswers after = answer(model, batches);
    ASSERT_EQ(after.predictions.size(), 24u);
    double nll = 0;
    for (size_t i = 0; i < 24; ++i) {
      EXPECT_EQ(after.predictions[i].label, examples[i].label) << pooling << i;
      double total = 0;
      for (const double p : after.probabilities[i]) total += p;
      EXPECT_NEAR(total, 1, 4 * 0x1p-53);
      nll -= std::log(after.probabilities[i][size_t(examples[i].label)]);
    }
    EXPECT_NEAR(after.loss, nll / 24, 16 * 0x1p-23);
    EXPECT_LT(after.loss, 0.1);
    // The size of a batch changes nothing.
    const TaskAnswers one = answer(model, in_order(examples, TaskType::classification, 1));
    EXPECT_EQ(one.probabilities, after.probabilities);
    EXPECT_NEAR(one.loss, after.loss, 1e-12);
  }
}

TEST(TaskEvaluation, WordsAreTagged) {
  std::vector<Example> examples;
  for (int i = 0; i < 12; ++i) {  // a word's tag is its first letter's place
    Example e;
    for (int w = 0; w <= i % 4; ++w) {
      const int tag = (i * 7 + w * 5) % 3;
      e.words.push_back(cat(std::string(1, "abc"[tag]), i));
      e.tags.push_back(tag);
    }
    examples.push_back(e);
  }
  Model model = encoder("tag", 3);
  learn(model, TaskBatches(examples, TaskType::tagging, bytes(), 32, 1024, 1, true), 120);
  const TaskAnswers answers = answer(model, in_order(examples, TaskType::tagging));
  for (size_t i = 0; i < examples.size(); ++i) EXPECT_EQ(answers.predictions[i].tags, examples[i].tags) << i;
  EXPECT_LT(answers.loss, 0.2);
  // Words that a shorter sequence has no room for have no tag (-1), and there is one place a word all the same.
  const TaskAnswers cut = answer(model, in_order(examples, TaskType::tagging, 64, 5));
  for (size_t i = 0; i < examples.size(); ++i) {
    ASSERT_EQ(cut.predictions[i].tags.size(), examples[i].words.size());
    for (size_t w = 2; w < examples[i].words.size(); ++w) EXPECT_EQ(cut.predictions[i].tags[w], -1);
  }
}

// Words behind the limit, and those without a token, have no answer, and count as wrong.
TEST(TaskEvaluation, WordsThatAreNotReadHaveNoAnswer) {
  Example e;
  e.words = {"", "a", "b", "c", "d"};
  e.tags = {0, 0, 0, 0, 0};
  TreeSentence tree{.words = e.words};
  tree.heads.heads = {2, 0, 2, 2, 2};
  e.tree = std::make_shared<const TreeSentence>(tree);
  const std::vector<std::string> names{"x"};
  for (const TaskType type : {TaskType::tagging, TaskType::parsing}) {
    const bool parses = type == TaskType::parsing;
    const Model model = encoder(parses ? "{type: biaffine}" : "{type: tag}", 1);
    const TaskBatches batches({e}, type, bytes(), 5, 5, 0, false);  // end, 3 bytes, end
    EXPECT_EQ(batches.cut(), 1);
    const TaskAnswers answers = answer(model, batches);
    const Prediction& p = answers.predictions[0];
    EXPECT_EQ(p.tags, (std::vector<int32_t>{-1, 0, 0, -1, -1}));
    if (parses) {
      EXPECT_EQ(p.heads[0], -1);
      EXPECT_EQ(p.heads[4], -1);
      EXPECT_EQ(std::count(p.heads.begin(), p.heads.end(), 0), 1);
    }
    const TaskConfig config{.type = parses ? "parsing" : "tagging"};
    const Score score = score_predictions(choose_metrics(config, names).metrics, answers.predictions, {e}, names)[0];
    EXPECT_LE(score.value, 0.4) << score.metric.name;
    const std::string text = prediction_text(type, answers, 0, names, e.words);
    EXPECT_TRUE(text.ends_with(parses ? "d/_/_" : "d/_")) << text;
  }
}

TEST(TaskEvaluation, LabelsWithoutPlacesAreLearnt) {
  std::vector<Example> examples;
  for (int i = 0; i < 12; ++i) {  // every letter is written once or more, and dots are silence
    Example e;
    for (int k = 0; k < 1 + i % 3; ++k) {
      const int label = (i + 2 * k) % 3;
      e.tags.push_back(label);
      e.text += std::string(size_t(1 + (i + k) % 2), "abc"[label]) + "..";
    }
    examples.push_back(e);
  }
  Model model = encoder("ctc", 3);
  learn(model, TaskBatches(examples, TaskType::transcription, bytes(), 32, 1024, 1, true), 200);
  const TaskAnswers answers = answer(model, in_order(examples, TaskType::transcription));
  for (size_t i = 0; i < examples.size(); ++i) EXPECT_EQ(answers.predictions[i].tags, examples[i].tags) << i;
  EXPECT_LT(answers.loss, 0.2);
  const auto scores = score_predictions(choose_metrics({.type = "transcription"}, {"a", "b", "c"}).metrics,
                                        answers.predictions, examples, {"a", "b", "c"});
  EXPECT_EQ(scores[0].metric.name, "label_error_rate");
  EXPECT_EQ(scores[0].value, 0);
  EXPECT_EQ(scores[1].value, 1);
}

TEST(TaskEvaluation, LabelsWithoutPlacesAreLearntBehindACompressor) {
  std::vector<Example> examples;
  for (int i = 0; i < 12; ++i) {
    Example e;
    for (int k = 0; k < 1 + i % 3; ++k) {
      e.tags.push_back((i + 2 * k) % 3);
      e.text += std::string(3, "abc"[(i + 2 * k) % 3]) + ".....";
    }
    examples.push_back(e);
  }
  Model model = encoder("ctc", 3,
                        "num_hidden_layers: 2, layers: {whole: {}, half: {compressor: pool}}, "
                        "layer_types: [whole, half]");
  learn(model, TaskBatches(examples, TaskType::transcription, bytes(), 32, 1024, 1, true), 200);
  const TaskAnswers answers = answer(model, in_order(examples, TaskType::transcription));
  for (size_t i = 0; i < examples.size(); ++i) EXPECT_EQ(answers.predictions[i].tags, examples[i].tags) << i;
  EXPECT_LT(answers.loss, 0.3);
}

TEST(TaskEvaluation, SentencesOfACompressedEncoderHaveRows) {
  const Model model = encoder("classify", 3,
                              "num_hidden_layers: 2, layers: {whole: {}, half: {compressor: pool}}, "
                              "layer_types: [whole, half]");
  const std::vector<std::string> texts{"a dog", "two dogs and a cat", "x"};
  for (const std::string pooling : {"mean", "cls", "last", "max"}) {
    const Tensor together = sentence_rows(model, bytes(), texts, pooling, 32);
    ASSERT_EQ(together.shape(), (Shape{3, 16}));
    for (int64_t i = 0; i < 3; ++i)
      EXPECT_EQ(kit::bit_difference(clone(together.slice(i, i + 1)),
                                    sentence_rows(model, bytes(), {texts[size_t(i)]}, pooling, 32)),
                "")
          << pooling << i;
  }
}

TEST(TaskEvaluation, ARegressionIsLearnt) {
  std::vector<Example> examples;
  for (int i = 0; i < 9; ++i)
    examples.push_back(
        {.text = std::string(1, "abc"[i % 3]) + std::string(size_t(i), 'x'), .value = double(i % 3) - 1});
  Model model = encoder("{type: classify, problem_type: regression}", 1);
  learn(model, TaskBatches(examples, TaskType::regression, bytes(), 32, 1024, 1, true), 150);
  const TaskAnswers answers = answer(model, in_order(examples, TaskType::regression));
  double squares = 0;
  for (size_t i = 0; i < examples.size(); ++i) {
    EXPECT_NEAR(answers.predictions[i].value, examples[i].value, 0.3) << i;
    squares += std::pow(answers.predictions[i].value - examples[i].value, 2);
  }
  EXPECT_NEAR(answers.loss, squares / 9, 1e-6);
  EXPECT_TRUE(answers.probabilities.empty());
}

// ---- questions: a model whose rows are its embedding, so that logits are planted a token each

struct Planted {
  Model model{kit::model_config("{architecture: encoder, vocab_size: 257, hidden_size: 2, num_hidden_layers: 0, "
                                "max_position_embeddings: 64, position: none, residual: post, num_labels: 1, "
                                "tie_word_embeddings: false, head: {type: span, dense: false}}"),
              {}};
  Planted() {
    const auto set = [&](const char* name, const std::vector<double>& values) {
      kit::assign(model.parameters().find(name)->master.value(), values);
    };
    set("head.start.weight", {1, 0});  // a row's two numbers are its logits
    set("head.end.weight", {0, 1});
    set("embedding.weight", std::vector<double>(257 * 2, 0));
  }
  void plant(int32_t token, double start, double end) {
    const Tensor table = model.parameters().find("embedding.weight")->master.value();
    set_value(table, 2 * token, start);
    set_value(table, 2 * token + 1, end);
  }
  std::string ask(const std::string& context, int64_t length = 64) {
    const std::vector<Example> examples{{.text = "q", .pair = context, .has_pair = true}};
    return answer(model, in_order(examples, TaskType::span, 64, length)).predictions[0].text;
  }
};

TEST(TaskEvaluation, AnAnswerRunsFromItsLikeliestBeginToItsLikeliestEnd) {
  Planted planted;
  planted.plant('B', 3, 0);
  planted.plant('E', 0, 3);
  EXPECT_EQ(planted.ask("one Bword two Eword three"), "Bword two Eword");  // whole words, as they stand
  EXPECT_EQ(planted.ask("xxB\n  yEy  z"), "xxB\n  yEy");
  // An end before its begin is none; the better one of the two remains.
  planted.plant('B', 4, 0);
  EXPECT_EQ(planted.ask("Eword two Bword"), "Bword");
  planted.plant('q', 99, 99);  // the question is not an answer
  EXPECT_EQ(planted.ask("one Bword Eword"), "Bword Eword");
}

TEST(TaskEvaluation, NoAnswerWhereTheFirstRowIsLikelier) {
  Planted planted;
  planted.plant('B', 3, 0);
  planted.plant('E', 0, 3);
  planted.plant(kEnd, 3.5, 3);
  EXPECT_EQ(planted.ask("one Bword two Eword"), "");
  planted.plant(kEnd, 2.5, 3);
  EXPECT_EQ(planted.ask("one Bword two Eword"), "Bword two Eword");
  planted.plant(kEnd, -1, -1);
  EXPECT_EQ(planted.ask(""), "");  // nothing to choose from
}

// At most thirty tokens, here bytes.
TEST(TaskEvaluation, AnswersAreShort) {
  Planted planted;
  planted.plant('B', 3, 0);
  planted.plant('E', 0, 3);
  planted.plant(kEnd, -1, -1);
  EXPECT_EQ(planted.ask("B" + std::string(28, '.') + "E"), "B" + std::string(28, '.') + "E");
  const std::string far = "B " + std::string(28, '.') + " E";
  EXPECT_EQ(planted.ask(far).find('E') == std::string::npos || planted.ask(far).find('B') == std::string::npos, true);
}

// The parts of a long context compete.
TEST(TaskEvaluation, TheLikeliestPartOfALongContextCounts) {
  Planted planted;
  planted.plant('C', 1, 1);
  planted.plant('D', 2, 2);
  const std::string gap = " x x x x x x x x x x x x x x x x x x x x ";
  EXPECT_EQ(planted.ask("C" + gap + "D" + gap + "C", 20), "D");
  EXPECT_EQ(planted.ask("D" + gap + "C" + gap + "C", 20), "D");
  EXPECT_EQ(planted.ask("C" + gap + "C" + gap + "D", 20), "D");
}

TEST(TaskEvaluation, ASpanIsLearnt) {
  std::vector<Example> examples;
  for (int i = 0; i < 12; ++i) {  // the answer is the word with a capital
    std::string context;
    int64_t begin = 0;
    for (int w = 0; w < 3; ++w) {
      if (w) context += ' ';
      if (w == i % 3) begin = int64_t(context.size());
      context += w == i % 3 ? cat("A", i) : std::string(1, char('k' + (i + w) % 9));
    }
    examples.push_back({.text = "who", .pair = context, .has_pair = true, .answers = {{cat("A", i), begin}}});
  }
  examples.push_back({.text = "who", .pair = "k l m", .has_pair = true});
  Model model = encoder("span", 1);
  learn(model, TaskBatches(examples, TaskType::span, bytes(), 32, 1024, 1, true), 150);
  const TaskAnswers answers = answer(model, in_order(examples, TaskType::span));
  for (size_t i = 0; i < examples.size(); ++i)
    EXPECT_EQ(answers.predictions[i].text, examples[i].answers.empty() ? "" : examples[i].answers[0].text) << i;
}

TEST(TaskEvaluation, ShuffledBatchesAreRefused) {
  const Model model = encoder("classify", 3);
  const std::vector<Example> examples{{.text = "a", .label = 0}, {.text = "b", .label = 1}};
  expect_error([&] { answer(model, TaskBatches(examples, TaskType::classification, bytes(), 32, 64, 1, true)); },
               {"without shuffling"});
}

TEST(TaskEvaluation, ScoresGoToTheTrainer) {
  const std::vector<Example> examples{{.text = "a", .label = 0}, {.text = "b", .label = 0}};
  TaskConfig config;
  config.metrics = {"accuracy", "macro_f1"};
  Model model = encoder("{type: classify, dense: false}", 2);
  kit::assign(model.parameters().find("head.out.weight")->master.value(), std::vector<double>(32, 0));
  kit::assign(model.parameters().find("head.out.bias")->master.value(), std::vector<double>{1, 0});
  HeldOutScores scores = *HeldOutTask(in_order(examples, TaskType::classification), config, {"yes", "no"}).score(model);
  ASSERT_EQ(scores.metrics.size(), 2u);
  EXPECT_EQ(scores.metrics[0], (std::pair<std::string, double>{"accuracy", 1}));
  EXPECT_EQ(scores.best, 1);
  EXPECT_NEAR(scores.loss, std::log(1 + std::exp(-1.0)), 8 * 0x1p-23);
  // A constant prediction has no correlation: worse than any other.
  std::vector<Example> numbers{{.text = "a", .value = 0}, {.text = "b", .value = 1}};
  TaskConfig correlation;
  correlation.type = "regression";
  correlation.metrics = {"pearson"};
  Model constant = encoder("{type: classify, problem_type: regression, dense: false}", 1);
  kit::assign(constant.parameters().find("head.out.weight")->master.value(), std::vector<double>(16, 0));
  scores = *HeldOutTask(in_order(numbers, TaskType::regression), correlation, {}).score(constant);
  EXPECT_TRUE(std::isnan(scores.metrics[0].second));
  EXPECT_EQ(scores.best, -INFINITY);
}

}  // namespace
}  // namespace lithe

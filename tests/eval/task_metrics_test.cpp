#include "lithe/eval/task_metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lithe/base/error.h"
#include "lithe/eval/bleu.h"
#include "lithe/eval/chrf.h"
#include "tests/data/files_for_tests.h"

namespace lithe {
namespace {

using Classes = std::vector<int32_t>;
using Values = std::vector<double>;

constexpr double kInf = std::numeric_limits<double>::infinity();

// Expected numbers come from scikit-learn 1.9.1, SciPy 1.17.1 and seqeval 1.2.2; each test says the call.

TEST(ClassMetrics, TwoClassesAsScikitLearn) {
  const Classes t = {0, 1, 1, 0, 1, 0, 1, 1, 0, 1}, p = {0, 1, 0, 0, 1, 1, 1, 1, 1, 1};
  EXPECT_DOUBLE_EQ(accuracy(t, p), 0.7);                    // accuracy_score(t, p)
  EXPECT_NEAR(f1_binary(t, p), 0.7692307692307693, 1e-15);  // f1_score(t, p)
  EXPECT_NEAR(macro_f1(t, p), 0.6703296703296704, 1e-15);   // f1_score(t, p, average='macro')
  EXPECT_DOUBLE_EQ(micro_f1(t, p), 0.7);                    // f1_score(t, p, average='micro')
  EXPECT_NEAR(matthews(t, p), 0.3563483225498992, 1e-15);   // matthews_corrcoef(t, p)
}

TEST(ClassMetrics, ManyClassesAsScikitLearn) {
  const Classes t = {0, 1, 2, 2, 1, 0, 3, 2, 2, 1}, p = {0, 2, 2, 2, 1, 1, 0, 2, 0, 4};  // 3 and 4 on one side only
  EXPECT_DOUBLE_EQ(accuracy(t, p), 0.5);
  EXPECT_NEAR(macro_f1(t, p), 0.31, 1e-15);                // f1_score(t, p, average='macro')
  EXPECT_NEAR(matthews(t, p), 0.3142857142857143, 1e-15);  // matthews_corrcoef(t, p)
}

TEST(ClassMetrics, UndefinedCasesAreThoseOfScikitLearn) {
  EXPECT_EQ(matthews(Classes{0, 1, 1}, Classes{1, 1, 1}), 0);  // matthews_corrcoef
  EXPECT_EQ(matthews(Classes{1, 1}, Classes{1, 1}), 0);
  EXPECT_EQ(f1_binary(Classes{0, 0}, Classes{0, 0}), 0);  // f1_score: 0 with a warning
  EXPECT_EQ(macro_f1(Classes{0, 0}, Classes{1, 1}), 0);
  EXPECT_TRUE(std::isnan(accuracy(Classes{}, Classes{})));
  EXPECT_TRUE(std::isnan(macro_f1(Classes{}, Classes{})));
  expect_error([] { accuracy(Classes{1, 2}, Classes{1}); }, {"accuracy", "each of 2 examples", "got 1"});
}

TEST(ValueMetrics, CorrelationsAsScipy) {
  const Values x = {5.0, 4.75, 0.0, 2.5, 2.5, 3.8, 1.0, 0.2}, y = {4.1, 4.9, 0.3, 2.0, 3.1, 2.0, 2.0, -0.4};
  EXPECT_NEAR(pearson(x, y), 0.8865035087809309, 1e-14);    // scipy.stats.pearsonr(x, y)[0]
  EXPECT_NEAR(spearman(x, y), 0.859041213929178, 1e-14);    // scipy.stats.spearmanr(x, y)[0], ties on both sides
  EXPECT_NEAR(mean_squared_error(x, y), 0.7665625, 1e-15);  // mean_squared_error(x, y)
  EXPECT_NEAR(pearson(Values{1, 2, 3}, Values{1e300, 2e300, 4e300}), 0.9819805060619655, 1e-14);  // pearsonr
  EXPECT_DOUBLE_EQ(pearson(Values{1, 2}, Values{9, 3}), -1);
}

TEST(ValueMetrics, UndefinedCorrelationsAreNaN) {
  EXPECT_TRUE(std::isnan(pearson(Values{1, 2, 3}, Values{1, 1, 1})));  // pearsonr: nan, constant input
  EXPECT_TRUE(std::isnan(spearman(Values{1, 2, 3}, Values{1, 1, 1})));
  EXPECT_TRUE(std::isnan(pearson(Values{1, 2, 3}, Values{1, kInf, 1})));  // pearsonr: nan
  EXPECT_TRUE(std::isnan(spearman(Values{1, 2, 3}, Values{1, NAN, 1})));
  EXPECT_TRUE(std::isnan(pearson(Values{1}, Values{1})));
  EXPECT_TRUE(std::isnan(mean_squared_error(Values{}, Values{})));
  EXPECT_FALSE(std::isnan(pearson(Values{1, 2, 3}, Values{0, 1e-300, 0})));
}

// The functions of SQuAD's evaluate-v2.0.py, run in Python on these texts.
TEST(AnswerMetrics, NormaliseAsTheEvaluationOfSquad) {
  EXPECT_EQ(normalize_answer("The Eiffel Tower!"), "eiffel tower");
  EXPECT_EQ(normalize_answer("  an  apple\ta day."), "apple day");
  EXPECT_EQ(normalize_answer("A.B. the\u2013Cat"), "ab \u2013cat");
  EXPECT_EQ(normalize_answer("a\u00b2 \u00dcBER the"), "a\u00b2 \u00fcber");
  EXPECT_EQ(normalize_answer("U.S.A."), "usa");
  EXPECT_EQ(normalize_answer("\u00c9cole an\u00e9 the"), "\u00e9cole an\u00e9");
  EXPECT_EQ(normalize_answer("the"), "");
  EXPECT_EQ(normalize_answer("\xFF\xC3"), "\uFFFD\uFFFD");  // a model may write anything
}

TEST(AnswerMetrics, ScoresAsTheEvaluationOfSquad) {
  EXPECT_EQ(exact_match("The Cat", "cat."), 1);
  EXPECT_EQ(exact_match("cat", "cats"), 0);
  EXPECT_NEAR(answer_f1("in the 10th and 11th centuries", "10th and 11th centuries"), 0.888888888888889, 1e-15);
  EXPECT_NEAR(answer_f1("the the cat", "cat cat"), 0.6666666666666666, 1e-15);
  EXPECT_EQ(answer_f1("the", "a"), 1);
  EXPECT_EQ(answer_f1("", "x"), 0);
}

// seqeval.metrics.f1_score(T, Q) with its default mode.
double seqeval(const std::vector<std::vector<std::string>>& truth, const std::vector<std::vector<std::string>>& found) {
  LabelNames names;
  std::vector<std::vector<int32_t>> tags;
  for (const auto* side : {&truth, &found})
    for (const auto& sentence : *side) {
      tags.emplace_back();
      for (const auto& tag : sentence) tags.back().push_back(names.index(tag, "test"));
    }
  const std::vector<std::span<const int32_t>> all(tags.begin(), tags.end());
  const auto middle = all.begin() + ptrdiff_t(truth.size());
  return entity_f1({all.begin(), middle}, {middle, all.end()}, names.names());
}

TEST(TagMetrics, SpansAsSeqeval) {
  EXPECT_NEAR(seqeval({{"B-PER", "I-PER", "O", "B-LOC"},
                       {"I-ORG", "I-ORG", "O", "B-LOC", "B-LOC"},
                       {"O", "I-PER", "I-LOC", "B-LOC", "I-LOC"},
                       {"O", "O"}},
                      {{"B-PER", "I-PER", "O", "I-LOC"},
                       {"B-ORG", "I-ORG", "O", "B-LOC", "I-LOC"},
                       {"O", "B-PER", "B-LOC", "I-LOC", "I-LOC"},
                       {"O", "B-PER"}}),
              0.5333333333333333, 1e-15);
  EXPECT_EQ(seqeval({{"O"}}, {{"O"}}), 0);                // 0 with a warning
  EXPECT_EQ(seqeval({{"B-", "I-"}}, {{"B-", "I-"}}), 1);  // a type without a name
  EXPECT_EQ(seqeval({{"B-A", "I-A"}}, {{"B-A", "B-A"}}), 0);
  expect_error([] { seqeval({{"NOUN"}}, {{"O"}}); }, {"O, B-x or I-x", "'NOUN'"});
}

TEST(TranscriptionMetrics, EditsByLabels) {
  using Labels = std::vector<int32_t>;
  EXPECT_EQ(edit_distance(Labels{}, Labels{}), 0);
  EXPECT_EQ(edit_distance(Labels{1, 2, 3}, Labels{}), 3);
  EXPECT_EQ(edit_distance(Labels{}, Labels{1, 2}), 2);
  EXPECT_EQ(edit_distance(Labels{10, 8, 19, 19, 4, 13}, Labels{18, 8, 19, 19, 8, 13, 6}), 3);  // kitten, sitting
  EXPECT_EQ(edit_distance(Labels{0, 1, 2, 3}, Labels{1, 2, 3, 0}), 2);
}

// ---- by name

TaskConfig task(const std::string& type, const std::vector<std::string>& metrics = {}, const std::string& best = "") {
  TaskConfig config;
  config.type = type;
  config.metrics = metrics;
  config.metric_for_best_model = best;
  return config;
}

std::vector<std::string> names_of(const std::vector<TaskMetric>& metrics) {
  std::vector<std::string> names;
  for (const auto& metric : metrics) names.push_back(metric.name);
  return names;
}

TEST(ChooseMetrics, TheUsualOnesForEachType) {
  const std::vector<std::string> labels = {"no", "yes"};
  EXPECT_EQ(names_of(choose_metrics(task("classification"), labels).metrics), (std::vector<std::string>{"accuracy"}));
  EXPECT_EQ(names_of(choose_metrics(task("regression"), {}).metrics),
            (std::vector<std::string>{"pearson", "spearman"}));
  EXPECT_EQ(names_of(choose_metrics(task("tagging"), labels).metrics), (std::vector<std::string>{"accuracy"}));
  EXPECT_EQ(names_of(choose_metrics(task("span"), {}).metrics), (std::vector<std::string>{"exact_match", "f1"}));
  EXPECT_EQ(choose_metrics(task("regression"), {}).best.name, "pearson");
  const ChosenMetrics chosen = choose_metrics(task("regression", {"pearson", "mse"}, "mse"), {});
  EXPECT_EQ(chosen.best.name, "mse");
  EXPECT_EQ(chosen.best.better, Better::lower);
  for (const TaskMetric& metric : all_task_metrics()) EXPECT_FALSE(metric.help.empty()) << metric.name;
}

TEST(ChooseMetrics, TextsAreMeasuredAsTranscriptsAndTranslations) {
  const auto answers = [](const std::string& text) {
    Example e;
    e.answers = {{.text = text}};
    return e;
  };
  const auto said = [](const std::string& text) {
    Prediction p;
    p.text = text;
    return p;
  };
  const TaskConfig config = task("text", {"wer", "cer", "bleu", "chrf"});
  const auto scores = [&](const std::vector<Prediction>& predictions, const std::vector<Example>& examples) {
    std::vector<double> out;
    for (const Score& s : score_predictions(choose_metrics(config, {}).metrics, predictions, examples, {}))
      out.push_back(s.value);
    return out;
  };
  const std::vector<Example> examples{answers("the cat sat down here"), answers("a dog")};
  const std::vector<double> right = scores({said("the cat sat down here"), said("a dog")}, examples);
  for (size_t i = 0; i < right.size(); ++i) EXPECT_NEAR(right[i], i < 2 ? 0 : 100, 1e-9) << i;
  // A word of seven, and three characters of 26, are wrong.
  const std::vector<double> some = scores({said("the cat sat down here"), said("a")}, examples);
  EXPECT_NEAR(some[0], 1 / 7., 1e-12);
  EXPECT_NEAR(some[1], 4 / 26., 1e-12);
  const std::vector<std::string> texts{"the cat sat down here", "a"};
  const TextReferences references{{"the cat sat down here", "a dog"}};
  EXPECT_EQ(some[2], corpus_bleu(texts, references).score);
  EXPECT_EQ(some[3], corpus_chrf(texts, references));
  EXPECT_EQ(choose_metrics(config, {}).best.name, "wer");
}

TEST(ChooseMetrics, NamesAreCheckedBeforeLabelsAreKnown) {
  check_metrics({.type = "tagging", .metrics = {"f1"}});
  EXPECT_THROW(check_metrics({.type = "tagging", .metrics = {"bleu"}}), Error);
  EXPECT_THROW(check_metrics({.type = "tagging", .metric_for_best_model = "f1"}), Error);
}

TEST(ChooseMetrics, RefusesWhatDoesNotFit) {
  const auto refused = [](const TaskConfig& config, const std::vector<std::string>& labels,
                          const std::vector<std::string>& parts) {
    expect_error([&] { choose_metrics(config, labels); }, parts, ExitCode::usage);
  };
  refused(task("classification", {"pearson"}), {"a", "b"}, {"'pearson'", "classification", "accuracy, f1"});
  refused(task("classification", {"acuracy"}), {"a", "b"}, {"did you mean 'accuracy'?"});
  refused(task("classification", {"f1"}), {"a", "b", "c"}, {"f1 needs two classes", "got 3", "macro_f1"});
  refused(task("tagging", {"f1"}), {"O", "NOUN"}, {"f1 needs tags O, B-x and I-x", "'NOUN'"});
  refused(task("span", {"f1", "f1"}), {}, {"'f1' stands twice"});
  refused(task("span", {"f1"}, "exact_match"), {}, {"metric_for_best_model", "f1", "got 'exact_match'"});
}

std::vector<double> values_of(const std::vector<Score>& scores) {
  std::vector<double> values;
  for (const Score& score : scores) values.push_back(score.value);
  return values;
}

TEST(ScorePredictions, EachTypeReadsItsFields) {
  const std::vector<std::string> bio = {"O", "B-X", "I-X"};
  const auto score = [](const TaskConfig& config, const std::vector<Prediction>& predictions,
                        const std::vector<Example>& examples, const std::vector<std::string>& labels) {
    return values_of(score_predictions(choose_metrics(config, labels).metrics, predictions, examples, labels));
  };
  EXPECT_EQ(score(task("classification", {"f1", "accuracy"}), {{.label = 1}, {.label = 0}, {.label = 1}},
                  {{.label = 1}, {.label = 1}, {.label = 1}}, {"a", "b"}),
            (std::vector<double>{0.8, 2.0 / 3}));
  EXPECT_EQ(score(task("regression", {"mse"}), {{.value = 1}, {.value = 2}}, {{.value = 1}, {.value = 4}}, {}),
            (std::vector<double>{2}));
  EXPECT_EQ(score(task("tagging", {"accuracy", "f1"}), {{.tags = {1, 2}}, {.tags = {0, 0}}},
                  {{.tags = {1, 2}}, {.tags = {0, 1}}}, bio),
            (std::vector<double>{0.75, 2.0 / 3}));
  // The best of two right answers; an empty answer where there is none, and where there is one.
  EXPECT_EQ(score(task("span"), {{.text = "the cat"}, {.text = ""}, {.text = "x"}, {.text = ""}},
                  {{.answers = {{"a dog", 0}, {"cat", 0}}}, {}, {}, {.answers = {{"y", 0}}}}, {}),
            (std::vector<double>{0.5, 0.5}));
}

TEST(ScorePredictions, RefusesWhatDoesNotFitTheExamples) {
  const std::vector<std::string> labels = {"O", "B-X"};
  const auto refused = [&](const char* type, const std::vector<Prediction>& predictions,
                           const std::vector<Example>& examples, const std::vector<std::string>& parts) {
    const auto metrics = choose_metrics(task(type), labels).metrics;
    expect_error([&] { score_predictions(metrics, predictions, examples, labels); }, parts);
  };
  refused("classification", {{.label = 0}}, {{.label = 0}, {.label = 1}}, {"each of 2 examples", "got 1"});
  refused("classification", {}, {}, {"no examples"});
  refused("classification", {{.label = 2}}, {{.label = 0}}, {"prediction 0", "class 2", "2 labels"});
  refused("classification", {{}}, {{.label = 0}}, {"class -1"});
  refused("tagging", {{.tags = {0}}}, {{.tags = {0, 1}}}, {"prediction 0 must have 2 tags, got 1"});
  refused("tagging", {{.tags = {7}}}, {{.tags = {0}}}, {"class 7"});
}

}  // namespace
}  // namespace lithe

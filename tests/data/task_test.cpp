#include "lithe/data/task.h"

#include <set>

#include "tests/data/files_for_tests.h"
#include "tests/support/data.h"

namespace lithe {
namespace {

TaskConfig read(const std::string& yaml) {
  TaskConfig config;
  read_fields(parse_yaml(yaml, "r.yaml"), "task", [&](Fields& f) { config.fields(f); });
  return config;
}

// `count` lines "label<TAB>text number".
std::string rows(int count, const char* mark = "text") {
  std::string out;
  for (int i = 0; i < count; ++i) out += cat(i % 3 == 0 ? "no" : "yes", "\t", mark, " ", i, "\n");
  return out;
}

TEST(TaskConfig, ReadsARecipeSection) {
  const TaskConfig config = read(
      "type: regression\ntrain: a.csv\ntest: [b.csv, c.csv]\ntext: 1\ntext_pair: 2\nlabel: score\nheader: true\n"
      "validation_fraction: 0.1\nmetrics: [pearson, mse]\nmetric_for_best_model: mse");
  EXPECT_EQ(config.test, (std::vector<std::string>{"b.csv", "c.csv"}));
  EXPECT_EQ(config.text, "1");
  const ExampleLayout layout = example_layout(config);
  EXPECT_EQ(layout.type, TaskType::regression);
  EXPECT_EQ(layout.label, "score");
  EXPECT_TRUE(layout.header);
  expect_error([] { read("type: clasification"); }, {"r.yaml:1", "task.type", "did you mean 'classification'?"},
               ExitCode::usage);
  expect_error([] { read("format: xml"); }, {"task.format", "label_text"}, ExitCode::usage);
  expect_error([] { read("text_par: 2"); }, {"did you mean 'text_pair'?"}, ExitCode::usage);
}

TEST(LoadTask, LearnsSortedLabelsFromTrainingFilesOnly) {
  const TestFiles files;
  TaskConfig config;
  config.train = {files.add("a.tsv", "yes\tone\nno\ttwo\n"), files.add("b.tsv", "maybe\tthree\n")};
  config.test = {files.add("t.tsv", "no\tfour\n")};
  config.text = "2";
  config.label = "1";
  const TaskData data = load_task(config);
  EXPECT_EQ(data.labels, (std::vector<std::string>{"maybe", "no", "yes"}));
  ASSERT_EQ(data.train.size(), 3u);
  EXPECT_EQ(data.train[0].label, 2);
  EXPECT_EQ(data.test[0].label, 1);
  EXPECT_TRUE(data.validation.empty());

  config.validation = {files.add("v.tsv", "non\tfive\n")};
  expect_error([&] { load_task(config); }, {"v.tsv:1: column 1", "'non'", "maybe, no, yes", "did you mean 'no'?"});
}

TEST(LoadTask, GivenOrKnownLabelsKeepTheirOrder) {
  const TestFiles files;
  TaskConfig config;
  config.test = {files.add("t.tsv", "no\tfour\nyes\tfive\n")};
  config.text = "2";
  config.label = "1";
  EXPECT_EQ(load_task(config, {"yes", "no"}).test[0].label, 1);
  expect_error([&] { load_task(config); }, {"task.labels", "task.train"}, ExitCode::usage);
  config.labels = {"no", "yes"};
  EXPECT_EQ(load_task(config).test[0].label, 0);
  expect_error([&] { load_task(config, {"yes", "no"}); }, {"no, yes", "trained on yes, no"}, ExitCode::usage);
}

TEST(LoadTask, HoldsOutTheSameShareEachTime) {
  const TestFiles files;
  TaskConfig config;
  config.train = {files.add("a.tsv", rows(200))};
  config.text = "2";
  config.label = "1";
  config.validation_fraction = 0.1;
  const TaskData data = load_task(config), again = load_task(config);
  EXPECT_EQ(data.validation.size(), 20u);
  EXPECT_EQ(data.train.size(), 180u);
  std::set<std::string> texts;
  for (const auto& part : {data.train, data.validation})
    for (const Example& e : part) texts.insert(e.text);
  EXPECT_EQ(texts.size(), 200u);
  EXPECT_NE(data.validation.front().text, "text 180") << "the end alone would be one class in sorted files";
  for (size_t i = 0; i < 20; ++i) EXPECT_EQ(data.validation[i].text, again.validation[i].text);
}

TEST(LoadTask, QuestionsAboutOneContextStayTogether) {
  const TestFiles files;
  std::string paragraphs;
  for (int p = 0; p < 10; ++p) {
    paragraphs += cat(p ? "," : "", R"({"context": "context )", p, R"(", "qas": [)");
    for (int q = 0; q < 4; ++q) paragraphs += cat(q ? "," : "", R"({"question": ")", q, R"(", "answers": []})");
    paragraphs += "]}";
  }
  TaskConfig config;
  config.type = "span";
  config.train = {files.add("a.json", R"({"data": [{"paragraphs": [)" + paragraphs + "]}]}")};
  config.validation_fraction = 0.25;
  const TaskData data = load_task(config);
  EXPECT_EQ(data.validation.size(), 12u);  // 10 of 40 are wanted, in units of 4
  std::set<std::string> held;
  for (const Example& e : data.validation) held.insert(e.pair);
  EXPECT_EQ(held.size(), 3u);
  for (const Example& e : data.train) EXPECT_FALSE(held.count(e.pair));
}

TEST(LoadTask, RefusesWhatContradictsItself) {
  const TestFiles files;
  TaskConfig config;
  const auto refused = [&](const std::vector<std::string>& parts, ExitCode code = ExitCode::usage) {
    expect_error([&] { load_task(config); }, parts, code);
  };
  refused({"no files"});
  config.train = {files.add("a.tsv", rows(4))};
  config.text = "2";
  config.label = "1";
  config.validation = {files / "a.tsv"};
  refused({"a.tsv", "task.train", "task.validation"});
  config.validation = {files.add("b.tsv", rows(3))};
  config.validation_fraction = 0.5;
  refused({"validation and validation_fraction"});
  config.validation_fraction = 0;
  config.train.push_back(files / "*.tsv");
  refused({"a.tsv", "task.train twice"});
  config.train = {files.add("one.tsv", "yes\ta\nyes\tb\n")};
  config.validation.clear();
  refused({"two labels or more", "got yes"}, ExitCode::failed);
  config.type = "regression";
  config.labels = {"a"};
  refused({"labels", "regression"});
}

// ---- the files that the READMEs of the data sets count

struct Counts {
  size_t train, validation, test;
};

TaskData expect_counts(TaskConfig config, const std::string& folder, const Counts& counts) {
  for (auto* list : {&config.train, &config.validation, &config.test})
    for (std::string& name : *list) name = (kit::data_path(folder) / name).string();
  TaskData data = load_task(config);
  EXPECT_EQ(data.train.size(), counts.train) << folder;
  EXPECT_EQ(data.validation.size(), counts.validation) << folder;
  EXPECT_EQ(data.test.size(), counts.test) << folder;
  return data;
}

double majority(const std::vector<Example>& examples) {
  std::map<int32_t, double> counts;
  double most = 0;
  for (const Example& e : examples) most = std::max(most, ++counts[e.label]);
  return most / double(examples.size());
}

TEST(RealTasks, ClassificationFilesHaveTheCountsOfTheirReadme) {
  if (!std::filesystem::exists(kit::data_path("classification")))
    GTEST_SKIP() << "no data in " << kit::data_path("classification") << "; set LITHE_DATA";
  TaskData data = expect_counts(
      read("{train: stsa.binary.train, validation: stsa.binary.dev, test: stsa.binary.test, format: label_text}"),
      "classification/sst2", {6920, 872, 1821});
  EXPECT_EQ(data.labels, (std::vector<std::string>{"0", "1"}));
  EXPECT_NEAR(majority(data.test), 0.501, 5e-4);
  data = expect_counts(
      read("{train: stsa.fine.train, validation: stsa.fine.dev, test: stsa.fine.test, format: label_text}"),
      "classification/sst5", {8544, 1101, 2210});
  EXPECT_NEAR(majority(data.test), 0.286, 1e-3);
  data = expect_counts(read("{train: train.tsv, validation: val.tsv, test: dev.tsv, text: 4, label: 2}"),
                       "classification/cola", {7250, 1301, 1043});
  EXPECT_NEAR(majority(data.test), 0.691, 5e-4);
  data = expect_counts(read("{train: train.tsv, test: dev.tsv, header: true, text: sentence1, text_pair: sentence2}"),
                       "classification/rte", {2127, 0, 277});
  EXPECT_EQ(data.labels, (std::vector<std::string>{"entailment", "not_entailment"}));
  EXPECT_NEAR(majority(data.test), 0.527, 5e-4);
  expect_counts(read("{test: val.tsv, text: 2, text_pair: 3, label: 4, labels: [entailment, not_entailment]}"),
                "classification/rte", {0, 0, 363});
  data = expect_counts(read("{train: dev.tsv, header: true, text: question, text_pair: sentence}"),
                       "classification/qnli", {5463, 0, 0});
  EXPECT_NEAR(majority(data.train), 0.505, 5e-4);
  data = expect_counts(
      read(
          "{train: msr_paraphrase_train.txt, test: msr_paraphrase_test.txt, format: tsv, header: true, label: Quality, "
          "text: '#1 String', text_pair: '#2 String'}"),
      "classification/mrpc", {4076, 0, 1725});
  EXPECT_NEAR(majority(data.test), 0.665, 5e-4);
}

TEST(RealTasks, StsbHasScoresFromZeroToFive) {
  if (!std::filesystem::exists(kit::data_path("classification")))
    GTEST_SKIP() << "no data in " << kit::data_path("classification") << "; set LITHE_DATA";
  const TaskData data = expect_counts(read("{type: regression, train: stsb-en-train.csv, validation: stsb-en-dev.csv, "
                                           "test: stsb-en-test.csv, text: 1, text_pair: 2, label: 3}"),
                                      "classification/stsb", {5749, 1500, 1379});
  for (const Example& e : data.train) {
    EXPECT_GE(e.value, 0);
    EXPECT_LE(e.value, 5);
    EXPECT_FALSE(e.text.empty() || e.pair.empty());
  }
}

TEST(RealTasks, EnglishWebTreebankHasItsSentencesWordsAndTags) {
  if (!std::filesystem::exists(kit::data_path("syntax/UD_English-EWT")))
    GTEST_SKIP() << "no data in " << kit::data_path("syntax/UD_English-EWT") << "; set LITHE_DATA";
  const TaskData data =
      expect_counts(read("{type: tagging, train: en_ewt-ud-train.conllu, validation: en_ewt-ud-dev.conllu, test: "
                         "en_ewt-ud-test.conllu}"),
                    "syntax/UD_English-EWT", {12544, 2001, 2077});
  EXPECT_EQ(data.labels.size(), 17u);
  const auto words = [](const std::vector<Example>& examples) {
    size_t count = 0;
    for (const Example& e : examples) count += e.words.size();
    return count;
  };
  EXPECT_EQ(words(data.train), 204577u);
  EXPECT_EQ(words(data.validation), 25147u);
  EXPECT_EQ(words(data.test), 25094u);
}

TEST(RealTasks, QuestionsHaveTheirAnswersInTheContext) {
  if (!std::filesystem::exists(kit::data_path("qa")))
    GTEST_SKIP() << "no data in " << kit::data_path("qa") << "; set LITHE_DATA";
  const TaskData v2 = expect_counts(read("{type: span, test: dev-v2.0-cs224n-half.json}"), "qa/squad-v2", {0, 0, 6078});
  EXPECT_EQ(std::count_if(v2.test.begin(), v2.test.end(), [](const Example& e) { return e.answers.empty(); }), 3168);
  const TaskData v1 =
      expect_counts(read("{type: span, test: [xquad.en.json, xquad.de.json]}"), "qa/xquad", {0, 0, 2 * 1190});
  for (const auto& part : {v2.test, v1.test})
    for (const Example& e : part)
      for (const Answer& a : e.answers) EXPECT_EQ(e.pair.substr(size_t(a.begin), a.text.size()), a.text) << e.id;
}

TEST(LoadTask, FoldsArePartsOfTheTrainingExamplesWithTheirClasses) {
  const TestFiles files;
  TaskConfig config = read("folds: 4");
  config.train = {files.add("a.tsv", rows(42))};
  config.label = "1", config.text = "2";
  std::multiset<std::string> all;
  for (config.fold = 1; config.fold <= 4; ++config.fold) {
    const TaskData data = load_task(config);
    EXPECT_EQ(data.train.size() + data.test.size(), 42u);
    EXPECT_NEAR(double(data.test.size()), 10.5, 1);
    int64_t no = 0;
    std::set<std::string> learnt;
    for (const Example& e : data.train) learnt.insert(e.text);
    for (const Example& e : data.test) {
      all.insert(e.text);
      no += data.labels[size_t(e.label)] == "no";
      EXPECT_FALSE(learnt.count(e.text));
    }
    EXPECT_NEAR(double(no), 3.5, 0.5);  // a third of the examples
    const TaskData again = load_task(config);
    EXPECT_EQ(again.test[0].text, data.test[0].text);
  }
  EXPECT_EQ(all.size(), 42u);
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), 42u);
  config.fold = 2, config.validation_fraction = 0.2;
  const TaskData data = load_task(config);
  EXPECT_EQ(data.train.size() + data.validation.size() + data.test.size(), 42u);
  EXPECT_GT(data.validation.size(), 5u);
  for (const char* yaml : {"folds: 1", "{folds: 3, fold: 4}", "fold: 2"}) {
    TaskConfig wrong = read(yaml);
    wrong.train = config.train, wrong.label = "1", wrong.text = "2";
    expect_error([&] { load_task(wrong); }, {"fold"}, ExitCode::usage);
  }
  config.test = config.train;
  expect_error([&] { load_task(config); }, {"folds", "test", "keep one"}, ExitCode::usage);
}

TEST(LoadTask, AllOptionsThatAFormatHasNoUseForAreToldAtOnce) {
  const TestFiles files;
  TaskConfig config = read("{format: label_text, header: true, text: text, label: label}");
  config.train = {files.add("a.txt", "yes one\nno two\n")};
  expect_error([&] { load_task(config); }, {"label_text", "task.header, task.text, task.label"}, ExitCode::usage);
}

}  // namespace
}  // namespace lithe

// Texts that further encoders read beside those of a task.
#include "lithe/data/task_batches.h"
#include "tests/data/files_for_tests.h"
#include "tests/data/store_kit.h"

namespace lithe {
namespace {

TaskConfig config_of(const std::string& yaml) {
  TaskConfig config;
  read_fields(parse_yaml(yaml, "r.yaml"), "task", [&](Fields& f) { config.fields(f); });
  return config;
}

TEST(TaskSources, AreColumnsOfTables) {
  const TestFiles files;
  TaskConfig config = config_of("{header: true, sources: {trees: parse}}");
  config.train = {files.add("t.tsv", "label\tparse\ttext\ngood\t(a)\ta\nbad\t\tbb\n")};
  TaskData data = load_task(config);
  ASSERT_EQ(data.train.size(), 2u);
  EXPECT_EQ(data.train[0].sources, (std::map<std::string, std::string>{{"trees", "(a)"}}));
  EXPECT_EQ(data.train[1].sources, (std::map<std::string, std::string>{{"trees", ""}}));
  const uint64_t before = TaskBatches(data.train, TaskType::classification, *bytes(), 8, 16, 0, false).fingerprint();
  const TaskBatches batches(data.train, TaskType::classification, *bytes(), 8, 16, 0, false);
  const Batch batch = batches.batch(0, 0);
  const Batch& trees = batch.sources.at("trees");
  EXPECT_EQ(trees.sequences(), batch.sequences());
  EXPECT_EQ(batches.largest_sources(), (std::map<std::string, int64_t>{{"trees", trees.rows()}}));
  EXPECT_GT(trees.rows(), 3);
  data.train[1].sources["trees"] = "(b)";
  EXPECT_NE(TaskBatches(data.train, TaskType::classification, *bytes(), 8, 16, 0, false).fingerprint(), before);

  config.header = false;
  config.train = {files.add("t.jsonl",
                            "{\"text\": \"a\", \"label\": \"x\", \"parse\": \"(a)\"}\n"
                            "{\"text\": \"b\", \"label\": \"y\", \"parse\": \"(b)\"}\n")};
  EXPECT_EQ(load_task(config).train[1].sources.at("trees"), "(b)");
  config.train = {files.add("u.jsonl", "{\"text\": \"a\", \"label\": \"x\"}\n")};
  expect_error([&] { load_task(config); }, {"u.jsonl:1", "has no 'parse'", "set task.sources"});
}

TEST(TaskSources, SayWhatTheyCannotBe) {
  const auto refused = [](const std::string& yaml, const std::string& why) {
    expect_error([&] { config_of(yaml).further_sources(); }, {why}, ExitCode::usage);
  };
  refused("{sources: [a]}", "must hold columns by the names of encoders");
  refused("{sources: {a: {}}}", "must be the name or the number of a column");
  refused("{type: tagging, sources: {a: b}}", "not of tagging");
  refused("{format: label_text, sources: {a: b}}", "which files of format label_text have not");
}

}  // namespace
}  // namespace lithe

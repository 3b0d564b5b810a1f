// Tasks: the head and the number of classes that go with each type.
#include "tests/parts/objective_kit.h"

namespace lithe {
namespace {

struct Fitted {
  std::string error;
  ModelConfig model;
};

Fitted fit(const std::string& type, const std::string& model, std::vector<std::string> labels, double smoothing = 0) {
  const auto bytes = make_byte_tokenizer();
  TaskConfig task;
  task.type = type;
  Fitted out{"", read_model_config(parse_yaml(model, "model"))};
  out.error = kit::coded_error_of([&] {
    kit::objective("task")->prepare(
        {.tokenizer = *bytes, .label_smoothing = smoothing, .task = &task, .labels = std::move(labels)}, out.model);
  });
  return out;
}

TEST(TaskObjective, ClassesComeFromTheTask) {
  const Fitted two = fit("classification", "{architecture: encoder, head: classify}", {"no", "yes"});
  EXPECT_EQ(two.error, "no error");
  EXPECT_EQ(two.model.num_labels, 2);
  EXPECT_EQ(two.model.label_names, (std::vector<std::string>{"no", "yes"}));
  const Fitted none = fit("span", "{architecture: encoder, head: span}", {});
  EXPECT_EQ(none.error, "no error");
  EXPECT_EQ(none.model.num_labels, 1);
  EXPECT_EQ(fit("classification", "{head: classify, num_labels: 3}", {"no", "yes"}).error,
            "2 task: model.num_labels is 3, the task has 2; leave it out");
  TaskConfig named;
  EXPECT_EQ(kit::objective("task")->classes(named), 0);  // only the examples know
  named.labels = {"a", "b", "c"};
  EXPECT_EQ(kit::objective("task")->classes(named), 3);
}

TEST(TaskObjective, EachTypeHasItsHead) {
  EXPECT_EQ(fit("tagging", "{head: classify}", {"a"}).error, "2 task: type tagging needs model.head tag, not classify");
  EXPECT_EQ(fit("classification", "{head: lm}", {"a"}).error,
            "2 task: type classification needs model.head classify, not lm");
  EXPECT_EQ(fit("regression", "{head: classify}", {}).error,
            "2 task: type regression needs model.head.problem_type regression");
  EXPECT_EQ(fit("regression", "{head: {type: classify, problem_type: regression}}", {}).error, "no error");
  EXPECT_NE(fit("regression", "{head: {type: classify, problem_type: regression}}", {}, 0.1)
                .error.find("2 train: label_smoothing 0.1 spreads over classes"),
            std::string::npos);
}

}  // namespace
}  // namespace lithe

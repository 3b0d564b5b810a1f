// The labels of section task: classes, numbers, tags or spans, as the head has them [TB 6.5.2].
#include "lithe/base/error.h"
#include "lithe/objective/objective.h"

namespace lithe {
namespace {

class TaskLabels final : public Objective {
 public:
  TaskLabels(const Scope&, const NoOptions&, const Args&) {}
  Lessons learns_from() const override { return Lessons::task; }
  int64_t classes(const TaskConfig& task) const override { return int64_t(task.labels.size()); }

  void prepare(const LessonFacts& facts, ModelConfig& model) const override {
    check(facts.task, "objective", "task needs the section task");
    const TaskConfig& task = *facts.task;
    const TaskType type = task_type(task);
    const std::string head = task_head(type);
    check_usage(model.head.type == head, "task", "type ", task.type, " needs model.head ", head, ", not ",
                model.head.type);
    if (head == "classify") {
      const Node* problem = model.head.options.find("problem_type");
      const bool regression = problem && problem->text() == "regression";
      check_usage(regression == (type == TaskType::regression), "task", "type ", task.type,
                  " needs model.head.problem_type ",
                  type == TaskType::regression ? "regression" : "single_label_classification");
      check_usage(!regression || facts.label_smoothing == 0, "train", "label_smoothing ", facts.label_smoothing,
                  " spreads over classes, which a regression has none of; leave it out");
    }
    if (type == TaskType::text) {
      check_usage(model.architecture != Architecture::encoder, "task",
                  "type text writes its answers, which architecture "
                  "encoder cannot; set model.architecture to decoder or encoder_decoder");
      return;
    }
    const int64_t classes = std::max<int64_t>(1, int64_t(facts.labels.size()));  // one number where there are none
    check_usage(!model.num_labels || model.num_labels == classes, "task", "model.num_labels is ", model.num_labels,
                ", the task has ", classes, "; leave it out");
    model.num_labels = classes;
    model.label_names = facts.labels;
  }
};

}  // namespace

void register_objective_task(Registry& registry) {
  registry.add<Objective, TaskLabels, NoOptions>(
      "task", {.summary = "predict the labels of section task, as the head has them", .source = "TB 6.5.2"});
}

}  // namespace lithe

#include "lithe/cli/train_run.h"

#include "lithe/eval/task_evaluation.h"
#include "lithe/eval/translation_evaluation.h"
#include "lithe/infer/generate.h"

namespace lithe {

TrainRun train_run_of(const Recipe& recipe) {
  TrainRun run;
  run.recipe = resolved(recipe);
  run.model = recipe.model;
  run.data = recipe.data;
  run.train = recipe.train;
  run.lessons = recipe.lessons();
  if (run.lessons.task)
    run.score = [score = score_task_of(recipe.task)](const Model& model, const TrainingData& data) {
      return score(model, static_cast<const TaskBatches&>(*data.validation), data.labels);
    };
  if (run.lessons.translation) run.score = score_translation_of(recipe.translation, recipe.translate);
  run.from_pretrained = recipe.from_pretrained;
  run.fresh_weights = recipe.fresh_weights;
  run.sample_prompt = recipe.generate.prompt;
  run.sampler = [config = recipe.generate](const Model& model, const Tokenizer& tokenizer, const std::string& prompt) {
    return generate(model, tokenizer, {prompt}, config)[0].text;
  };
  return run;
}

}  // namespace lithe

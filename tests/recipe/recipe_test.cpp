// A recipe from its text to the resolved form and back.
#include "lithe/recipe/recipe.h"

#include <gtest/gtest.h>

#include "lithe/base/error.h"
#include "tests/support/errors.h"
#include "tests/support/process.h"

namespace lithe {
namespace {

const std::string kText =
    "model: {hidden_size: 16, num_hidden_layers: 1, mixer: {type: attention, num_attention_heads: 2}}\n"
    "data: {files: [text.txt]}\ntrain: {max_steps: 3, learning_rate: 0.01}\ngenerate: {prompt: And}\n";

TEST(Recipe, TheResolvedFormSaysAllAndReadsTheSame) {
  const Recipe recipe = read_recipe(kText, "text", {"train.learning_rate=0.02", "eval.stride=8"});
  EXPECT_EQ(recipe.train.learning_rate, 0.02);
  EXPECT_EQ(recipe.eval.stride, 8);
  EXPECT_EQ(recipe.generate.prompt, "And");
  EXPECT_FALSE(recipe.has_task() || recipe.has_translation());
  const Node all = resolved(recipe);
  for (const char* section : {"model", "data", "task", "translation", "train", "eval", "generate", "translate"})
    EXPECT_TRUE(all.find(section)) << section;
  EXPECT_EQ(to_yaml(resolved(read_recipe(to_yaml(all), "resolved", {}, true))), to_yaml(all));
}

TEST(Recipe, AKeyInTheWrongSectionIsToldWhereItBelongs) {
  const auto error = [](const std::string& override) {
    return kit::coded_error_of([&] { read_recipe(kText, "text", {override}); });
  };
  EXPECT_NE(error("learning_rate=1").find("'learning_rate' belongs in section 'train', not at the top level"),
            std::string::npos);
  EXPECT_NE(error("model.num_attention_heads=4").find("'num_attention_heads' is an option of "), std::string::npos);
}

TEST(Recipe, PretrainedPartsAreNamedAsParametersAre) {
  const Recipe recipe = read_recipe(kText, "text", {"pretrained_parts.encoder=runs/first"});
  ASSERT_EQ(recipe.pretrained_parts.entries().size(), 1u);
  EXPECT_EQ(recipe.pretrained_parts.entries()[0].first, "encoder");
  EXPECT_EQ(recipe.pretrained_parts.find("encoder")->text(), "runs/first");
}

TEST(Recipe, ObjectivesHaveOptionsOfTheirOwn) {
  const Recipe masked = read_recipe(kText, "text", {"train.objective={type: mlm, mlm_probability: 0.3}"});
  EXPECT_EQ(masked.train.objective.type, "mlm");
  EXPECT_EQ(masked.train.objective.options.find("mlm_probability")->text(), "0.3");
  EXPECT_EQ(masked.train.objective.options.find("whole_word_mask")->text(), "false");
  EXPECT_EQ(read_recipe(kText, "text").train.objective.type, "clm");
  EXPECT_EQ(kit::coded_error_of([] { read_recipe(kText, "text", {"train.mlm_probability=0.3"}); }),
            "2 recipe: --set train.mlm_probability: 'mlm_probability' is an option of objective 'mlm' now: "
            "train.objective: {type: mlm, mlm_probability: ...}");
}

// A run keeps its resolved recipe; those of earlier programs have the options of objectives beside their name.
TEST(Recipe, RunsOfEarlierProgramsAreRead) {
  const kit::Scratch scratch;
  Node old = resolved(read_recipe(kText, "text"));
  Node train = *old.find("train");
  train.set("objective", Node::scalar("mlm"));
  train.set("mlm_probability", Node::scalar("0.25"));
  train.set("whole_word_mask", Node::scalar("true"));
  train.set("shuffle_probability", Node::scalar("0.1"));
  train.set("random_probability", Node::scalar("0.1"));
  old.set("train", train);
  scratch.add("resolved_recipe.yaml", to_yaml(old));
  const Recipe recipe = recipe_of_run(scratch.path());
  EXPECT_EQ(recipe.train.objective.type, "mlm");
  EXPECT_EQ(recipe.train.objective.options.find("mlm_probability")->text(), "0.25");
  EXPECT_EQ(recipe.train.objective.options.find("whole_word_mask")->text(), "true");
  EXPECT_EQ(to_yaml(stored_recipe(scratch.path())), to_yaml(resolved(recipe)));
}

// Before, each was told after the one before it was mended.
TEST(Recipe, AllFaultsAreToldAtOnce) {
  const std::string error = kit::coded_error_of([] {
    read_recipe(
        "model: {hidden_size: -1}\ndata: {files: [a.txt], fils: 3}\ntrain: {max_steps: x, learning_rate: [1]}\n",
        "r.yaml");
  });
  EXPECT_EQ(error.substr(0, 10), "2 recipe: ") << error;
  for (const char* word : {"'model.hidden_size'", "'fils'", "'train.max_steps'", "'train.learning_rate'", "; also: "})
    EXPECT_NE(error.find(word), std::string::npos) << word << " in " << error;
}

TEST(Recipe, NullIsTheDefault) {
  const Recipe recipe =
      read_recipe(kText, "text", {"task.header=null", "train.learning_rate=null", "generate.prompt=null"});
  EXPECT_FALSE(recipe.task.header);
  EXPECT_EQ(recipe.train.learning_rate, TrainConfig().learning_rate);
  EXPECT_EQ(recipe.generate.prompt, read_recipe("data: {files: [a]}", "text").generate.prompt);
}

TEST(Recipe, AFormatThatIsChosenReplacesTheColumnsOfTheRecipe) {
  const std::string text =
      "task: {train: [a.tsv], format: tsv, header: true, text: sentence, label: kind}\ntrain: {objective: task}\n";
  const TaskConfig task = read_recipe(text, "text", {"task.format=label_text"}).task;
  EXPECT_EQ(task.format, "label_text");
  EXPECT_FALSE(task.header);
  EXPECT_EQ(task.text + task.label, "");
  EXPECT_EQ(read_recipe(text, "text", {"task.format=csv"}).task.text, "sentence");
  EXPECT_EQ(read_recipe(text, "text", {"task.format=label_text", "task.label=1"}).task.label, "1");  // a mistake
  EXPECT_EQ(read_recipe(text, "text", {"task.format=jsonl"}).task.label, "kind");
  EXPECT_FALSE(read_recipe(text, "text", {"task.format=jsonl"}).task.header);
}

}  // namespace
}  // namespace lithe

// A recipe from its text to the resolved form and back.
#include "lithe/recipe/recipe.h"

#include <gtest/gtest.h>

#include "lithe/base/error.h"
#include "tests/support/errors.h"

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

}  // namespace
}  // namespace lithe

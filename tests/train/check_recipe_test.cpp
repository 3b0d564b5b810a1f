// What a recipe's model cannot obey is told when it is read, by a plan as by a training.
#include "lithe/train/check_recipe.h"

#include "lithe/train/plan_recipe.h"
#include "tests/train/run_kit.h"

namespace lithe {
namespace {

constexpr const char* kBytes = "tokenizer: {type: bytes}";
constexpr const char* kWords = "tokenizer: {type: wordpiece, vocab_size: 300}";

// `model` stands over the keys of a small decoder.
Recipe recipe_of(const std::string& model, const std::string& sections, const std::string& train = "",
                 const std::string& data = kBytes) {
  Node keys = parse_yaml(
      "{architecture: decoder, hidden_size: 8, num_hidden_layers: 2, position: rotary, mixer: {type: attention, "
      "num_attention_heads: 2}, ffn: {type: relu, intermediate_size: 6}}",
      "model");
  const Node over = parse_yaml("{" + model + "}", "model");
  for (const auto& [key, value] : over.entries()) keys.set(key, value);
  Node root = Node::map();
  root.set("model", keys);
  return read_recipe(cat(to_yaml(root), "data: {sequence_length: 16, documents: line, ", data,
                         "}\ntrain: {max_steps: 2, batch_tokens: 48", train, "}\n", sections),
                     "recipe");
}

std::string error_of_plan(Recipe recipe) {
  return kit::coded_error_of([&] { plan_recipe(recipe, 0, false); });
}

void expect_planned(const Recipe& recipe) { EXPECT_EQ(error_of_plan(recipe), "no error"); }

void expect_refused(const Recipe& recipe, const std::string& why) {
  const std::string error = error_of_plan(recipe);
  EXPECT_TRUE(error.starts_with("2 ") && error.find(why) != std::string::npos) << error << " in place of " << why;
}

TEST(CheckRecipe, DecodingThatTheModelDoesNotKnow) {
  expect_planned(recipe_of("", "generate: {cache_dtype: int8}\n"));
  expect_refused(recipe_of("", "generate: {exit: 'layer:1'}\n"), "generate.exit");
  expect_refused(recipe_of("", "eval: {exit: 'entropy:1'}\n"), "eval.exit");
  expect_refused(recipe_of("", "generate: {early_stop: true}\n"), "early_stop asks the head");
  expect_planned(recipe_of("head: {type: lm, early_stop: true}", "generate: {early_stop: true}\n"));
  expect_refused(recipe_of("mixer: gru", "generate: {cache_dtype: int8}\n"), "generate.cache_dtype");
}

TEST(CheckRecipe, ColumnsOfATreebankThatTheDataHaveNot) {
  expect_refused(
      recipe_of(
          "architecture: encoder, head: mlm, mixer: {type: attention, num_attention_heads: 2, field: {type: tree}}", "",
          ", objective: mlm", kWords),
      "of a treebank, and this text stands in none");
}

TEST(CheckRecipe, AFixedSequenceWithoutAText) {
  expect_refused(recipe_of("architecture: encoder, head: mlm, mixer: {type: fixed_seq_qk, num_attention_heads: 2}", "",
                           ", objective: mlm", kWords),
                 "needs reference_ids");
}

TEST(CheckRecipe, SourcesBeyondWhatIsRead) {
  const auto translator = [](const std::string& model, const std::string& translation = "") {
    return recipe_of("architecture: encoder_decoder, " + model,
                     cat("translation: {train: {source: [a], target: [b]}", translation, "}\n"),
                     ", objective: seq2seq");
  };
  expect_planned(translator("encoder: {max_position_embeddings: 5}"));  // rotary has no limit
  expect_refused(translator("encoder: {max_position_embeddings: 5, position: learned}"), "read up to 5 tokens");
  expect_refused(translator("encoder: {max_position_embeddings: 5, mixer: linear}, cross_attention: {type: attention, "
                            "num_attention_heads: 2}"),
                 "max_position_embeddings of the encoder");
  expect_refused(translator("cross_attention: {type: linformer, num_attention_heads: 2, max_source_positions: 5}"),
                 "max_source_positions of model.cross_attention");
  const std::string context = ", sources: {context: {from: previous}}";
  expect_refused(translator("encoders: {context: {}}, combine: sum", context), "is another text (from: previous)");
  expect_planned(translator("encoders: {context: {}}, combine: concat_len", context));
}

TEST(CheckRecipe, AFileOfTwoParts) {
  const kit::Scratch scratch;
  const std::string pairs = scratch.add("pairs.tsv", "a\tb\n");
  expect_refused(recipe_of("architecture: encoder_decoder",
                           cat("translation: {train: {source: [a], target: [b]}, validation: {pairs: ['", pairs,
                               "']}, test: {pairs: ['", pairs, "']}}\n"),
                           ", objective: seq2seq"),
                 "is in translation.validation.pairs and in translation.test.pairs");
}

TEST(CheckRecipe, GrowthOfWhatDoesNotGrow) {
  expect_refused(recipe_of("", "", ", growth: {steps: [1], layers: [3]}"), "the model has 2 layers");
  expect_refused(recipe_of("mixer: {type: attention, num_attention_heads: 2, field: {type: local, window: [1, 2]}}", "",
                           ", growth: {steps: [1], width: [2]}"),
                 "window has 2 numbers");
  expect_refused(recipe_of("position: alibi", "", ", growth: {steps: [1], width: [2]}"),
                 "model.position alibi does not grow wider");
  expect_refused(recipe_of("stack: fusion", "", ", growth: {steps: [1], layers: [4]}"), "has no parameter 'stack.");
  for (const char* growth : {"width: [2]", "layers: [4]", "layers: [4], zero_new_residual: true"})
    expect_planned(recipe_of("", "", cat(", growth: {steps: [1], ", growth, "}")));
}

// Positions that end: documents are planned up to where they do.
TEST(CheckRecipe, CarriedStatesOfPositionsThatEnd) {
  for (const char* mixer : {"gru", "{type: attention, num_attention_heads: 2, field: {type: span, left: 3}}"})
    for (const char* validation : {"", ", validation_fraction: 0.1"})
      expect_planned(
          recipe_of(cat("position: learned, mixer: ", mixer), "", ", carry_state: true", cat(kBytes, validation)));
}

TEST(CheckRecipe, TrainingsSayTheSame) {
  const kit::TrainKit kit;
  TrainRun run = kit.run("", kit::kHeldOutData, "{max_steps: 1, batch_tokens: 32}");
  run.recipe.generate.exit = "layer:1";
  EXPECT_TRUE(kit::coded_error_of([&] { train(run); }).starts_with("2 generate.exit: "));
  EXPECT_FALSE(std::filesystem::exists(run.out / "resolved_recipe.yaml"));
}

}  // namespace
}  // namespace lithe

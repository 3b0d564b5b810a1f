// A run that learns from another: planned, resumed, and by the recipe of lithe distill's making.
#include "lithe/model/from_layers.h"
#include "lithe/model/safetensors.h"
#include "tests/train/run_kit.h"

namespace lithe {
namespace {

const std::string kTeacher =
    "{vocab_size: 257, hidden_size: 16, num_hidden_layers: 4, mixer: {type: attention, num_attention_heads: 2}, ffn: "
    "{type: swiglu, intermediate_size: 24}}";
const std::string kStudent =
    "{vocab_size: 257, hidden_size: 16, num_hidden_layers: 2, mixer: {type: attention, num_attention_heads: 2}, ffn: "
    "{type: swiglu, intermediate_size: 24}}";

std::string section(const TrainRun& teacher, const std::string& options) {
  return "{max_steps: 12, batch_tokens: 128, learning_rate: 0.01, logging_steps: 3, save_steps: 4, save_total_limit: "
         "9, auxiliary_objectives: {d: {type: distillation, teacher: " +
         teacher.out.string() + options + "}}}";
}

TrainRun taught_teacher(const kit::TrainKit& kit) {
  const TrainRun run =
      kit.run(kTeacher, kit::kHeldOutData, "{max_steps: 30, batch_tokens: 128, learning_rate: 0.01}", "teacher");
  train(run);
  return run;
}

TEST(DistillationRun, ItsMemoryIsPlannedAndItLearns) {
  const kit::TrainKit kit;
  const TrainRun teacher = taught_teacher(kit);
  for (const char* options :
       {"", ", loss: kl, teacher_precision: bf16", ", top_k: 8",
        ", mixing: 0.5, hidden_weight: 0.1, relation_weight: 1, relations: [distance, angle, queries]"}) {
    SCOPED_TRACE(options);
    const TrainRun run = kit.run(kStudent, kit::kHeldOutData, section(teacher, options), cat("run", options));
    const TrainResult result = train(run);
    EXPECT_EQ(result.planned.peak, result.measured.peak);
    for (int c = 0; c < kMemoryClasses; ++c)
      EXPECT_EQ(result.planned.by_class[size_t(c)], result.measured.by_class[size_t(c)]) << name_of(MemoryClass(c));
    std::vector<double> losses;
    for (const Json& line : kit::json_lines(run.out / "metrics.jsonl"))
      if (line.contains("auxiliary")) losses.push_back(line["auxiliary"]["d"]);
    ASSERT_EQ(losses.size(), 4u);
    EXPECT_LT(losses.back(), losses.front());
  }
}

TEST(DistillationRun, AResumedRunHasTheBitsOfOneThatNeverStopped) {
  const kit::TrainKit kit;
  const TrainRun teacher = taught_teacher(kit);
  const std::string options = ", mixing: 0.5, hidden_weight: 0.1, hidden_map: true";
  const TrainRun whole = kit.run(kStudent, kit::kHeldOutData, section(teacher, options), "whole");
  train(whole);
  const TrainRun again = kit.killed_after(whole, 4, "again");
  train(again);
  for (const char* file : {"model.safetensors", "metrics.jsonl"})
    EXPECT_TRUE(read_file(again.out / file) == read_file(whole.out / file)) << file;
}

TEST(DistillationRun, BeginsWithLayersOfTheTeacher) {
  const kit::TrainKit kit;
  const TrainRun teacher = taught_teacher(kit);
  TrainRun run = kit.run(kStudent, kit::kHeldOutData, section(teacher, ""), "begun");
  run.recipe.from_pretrained = teacher.out.string();
  run.recipe.from_layers.layers = {2, 4};
  run.initialise = true;
  train(run);
  const SafetensorsFile mine(run.out / "model.safetensors"), theirs(teacher.out / "model.safetensors");
  for (const auto& [name, entry] : mine.entries()) {
    std::string source = name;
    if (name.starts_with("layers.0.")) source.replace(7, 1, "1");
    if (name.starts_with("layers.1.")) source.replace(7, 1, "3");
    const Tensor a = empty(entry.shape, DType::f32), b = empty(entry.shape, DType::f32);
    mine.read(name, a);
    theirs.read(source, b);
    for (int64_t i = 0; i < a.numel(); ++i) ASSERT_EQ(value_at(a, i), value_at(b, i)) << name;
  }
  run.recipe.from_layers.layers = {2, 4, 1};
  run.overwrite = true;
  EXPECT_NE(kit::coded_error_of([&] { train(run); }).find("names 3 layers, and the model has 2"), std::string::npos);
}

TEST(DistillationRun, NamesOfLayersThatAreLeftOutGo) {
  Node model = parse_yaml(
      "{num_hidden_layers: 3, layers: {a: {}, b: {norm: layer}}, mixers: {}, layer_types: [a, b, a]}", "model");
  keep_layers(model, {.layers = {1, 3}});
  EXPECT_EQ(model.find("layers")->entries().size(), 1u);
  EXPECT_EQ(model.find("layers")->entries()[0].first, "a");
  const ModelConfig config = read_model_config(model);
  EXPECT_EQ(config.layer_types, (std::vector<std::string>{"a", "a"}));
}

TEST(DistillationRun, ATeacherOfOtherWordsIsRefused) {
  const kit::TrainKit kit;
  const TrainRun teacher = taught_teacher(kit);
  EXPECT_NE(
      kit::coded_error_of([&] {
        train(kit.run("{hidden_size: 16, num_hidden_layers: 1, mixer: {type: attention, num_attention_heads: 2}}",
                      "{sequence_length: 16, tokenizer: {type: bpe, vocab_size: 300}}", section(teacher, ""), "other"));
      }).find("is not that of the recipe"),
      std::string::npos);
}

}  // namespace
}  // namespace lithe

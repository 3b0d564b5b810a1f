// Objectives beside the one of a recipe, with parameters of their own: trained, planned, saved and resumed, not
// published.
#include "lithe/model/safetensors.h"
#include "lithe/ops/basic.h"
#include "tests/train/run_kit.h"

namespace lithe {
namespace {

const std::string kTwoLayers =
    "{vocab_size: 257, hidden_size: 16, num_hidden_layers: 2, mixer: {type: attention, num_attention_heads: 2}, ffn: "
    "{type: swiglu, intermediate_size: 24}, hidden_dropout: 0.1}";

std::string section(const std::string& more) {
  return "{max_steps: 12, batch_tokens: 128, learning_rate: 0.01, logging_steps: 3, save_steps: 4, save_total_limit: "
         "9, "
         "auxiliary_objectives: {low: {type: layer_prediction, layer: 1, weight: 0.5}}" +
         more + "}";
}

std::vector<double> auxiliary(const Path& run) {
  std::vector<double> out;
  for (const Json& line : kit::json_lines(run / "metrics.jsonl"))
    if (line.contains("auxiliary")) out.push_back(line["auxiliary"]["low"]);
  return out;
}

TEST(AuxiliaryObjective, ItsParametersArePlannedTrainedAndNotPublished) {
  const kit::TrainKit kit;
  for (const char* more : {"", ", precision: bf16", ", gradient_accumulation_steps: 2, gradient_checkpointing: true",
                           ", optimizer_states: int8"}) {
    SCOPED_TRACE(more);
    const TrainRun run = kit.run(kTwoLayers, kit::kHeldOutData, section(more), cat("run", more));
    const TrainResult result = train(run);
    EXPECT_EQ(result.planned.peak, result.measured.peak);
    for (int c = 0; c < kMemoryClasses; ++c)
      EXPECT_EQ(result.planned.by_class[size_t(c)], result.measured.by_class[size_t(c)]) << name_of(MemoryClass(c));
    const std::vector<double> losses = auxiliary(run.out);
    ASSERT_EQ(losses.size(), 4u);
    EXPECT_LT(losses.back(), losses.front() - 0.3);
    const SafetensorsFile published(run.out / "model.safetensors");
    for (const auto& [name, entry] : published.entries()) EXPECT_FALSE(name.starts_with("objective.")) << name;
    const SafetensorsFile own(checkpoint_path(run.out, 12) / "objective.safetensors");
    EXPECT_EQ(own.entries().size(), 3u);
    EXPECT_EQ(own.entries().at("objective.low.map.weight").shape, Shape({16, 257}));
  }
}

TEST(AuxiliaryObjective, ThePlanNamesIt) {
  const kit::TrainKit kit;
  const TrainRun run = kit.run(kTwoLayers, "{sequence_length: 16}", section(""));
  ModelConfig model = run.recipe.model;
  model.max_position_embeddings = 16;
  const Plan plan = plan_training(model, run.recipe.train, {.sequence_length = 16}, false);
  EXPECT_EQ(plan.objective_parameters, 16 + 16 * 257 + 257);
  int64_t of_parts = 0, of_objective = 0;
  for (const PartCost& part : plan.parts) {
    of_parts += part.parameters;
    if (part.part != "objective") continue;
    of_objective = part.parameters;
    EXPECT_GT(part.step_flops, 0);
    EXPECT_EQ(part.forward_flops, 0);  // evaluation is of the model alone
  }
  EXPECT_EQ(of_objective, plan.objective_parameters);
  EXPECT_EQ(of_parts, plan.parameters + plan.objective_parameters);
}

TEST(AuxiliaryObjective, AResumedRunHasTheBitsOfOneThatNeverStopped) {
  const kit::TrainKit kit;
  for (const char* more : {"", ", precision: bf16, optimizer_states: int8"}) {
    const TrainRun whole = kit.run(kTwoLayers, kit::kHeldOutData, section(more), cat("whole", more));
    train(whole);
    const TrainRun again = kit.killed_after(whole, 4, cat("again", more));
    train(again);
    for (const char* file : {"model.safetensors", "metrics.jsonl"})
      EXPECT_TRUE(read_file(again.out / file) == read_file(whole.out / file)) << file << more;
    for (const char* file : {"objective.safetensors", "optimizer.safetensors"})
      EXPECT_TRUE(read_file(checkpoint_path(again.out, 12) / file) == read_file(checkpoint_path(whole.out, 12) / file))
          << file << more;
  }
}

TEST(AuxiliaryObjective, AProbeOfAFrozenModelLearns) {
  const kit::TrainKit kit;
  const TrainRun run = kit.run(kTwoLayers, kit::kHeldOutData, section(", freeze: ['*']"));
  const TrainResult result = train(run);
  EXPECT_EQ(result.planned.peak, result.measured.peak);
  const std::vector<double> losses = auxiliary(run.out);
  EXPECT_LT(losses.back(), losses.front() - 0.3);
  EXPECT_TRUE(read_file(checkpoint_path(run.out, 4) / "model.safetensors") ==
              read_file(checkpoint_path(run.out, 12) / "model.safetensors"));
}

// A frozen model of the objective's own, whose rows those of the model are to come near.
struct ImitationConfig {
  double weight = 50;
  void fields(Fields& f) { f("weight", weight, "of its loss"); }
};

class Imitation final : public Objective {
 public:
  Imitation(const Scope& scope, const ImitationConfig& config, const Args& args) : weight_(config.weight) {
    if (!args.model) return;
    const BuildContext& c = scope.context();
    teacher_ = std::make_unique<Model>(
        args.model->config(), ModelOptions{.device = c.device, .dtype = c.dtype, .compute = c.compute, .seed = 9});
  }
  bool beside() const override { return true; }
  void prepare(const LessonFacts&, ModelConfig&) const override {}
  void want(const Model&, Pass& pass) const override { pass.want({Tap::Kind::rows, 1}); }
  Var loss(const Ran& ran, const Targets&, const LossTerms& terms) const override {
    Pass pass;
    want(ran.model, pass);
    {
      const NoGrad frozen;
      teacher_->run(ran.input, pass);
    }
    const Var far = add(ran.tap({Tap::Kind::rows, 1}), pass.get({Tap::Kind::rows, 1}), 1, -1);
    const Var squares = sum(mul(far, far));
    if (!squares.value().is_meta()) terms.sums->loss = value_at(squares.value(), 0);
    return scale(squares, weight_ * terms.scale);
  }

 private:
  double weight_;
  std::unique_ptr<const Model> teacher_;
};

TEST(AuxiliaryObjective, ASecondModelIsPlannedAndStaysAsItIs) {
  Registry::instance().add<Objective, Imitation, ImitationConfig>("imitation_of_test", {.summary = "of this test"});
  const kit::TrainKit kit;
  const auto run = [&](const std::string& beside, const char* out) {
    const TrainRun one =
        kit.run(kTwoLayers, kit::kHeldOutData,
                "{max_steps: 12, batch_tokens: 128, learning_rate: 0.01, logging_steps: 3" + beside + "}", out);
    return std::pair(train(one), one.out);
  };
  const auto [alone, unused] = run("", "alone");
  const auto [taught, out] = run(", auxiliary_objectives: {low: imitation_of_test}", "taught");
  const auto [watched, beside] = run(", auxiliary_objectives: {low: {type: imitation_of_test, weight: 0}}", "watched");
  EXPECT_EQ(taught.planned.peak, taught.measured.peak);
  const auto weights = [](const TrainResult& r) { return r.planned.by_class[size_t(MemoryClass::weights)]; };
  EXPECT_EQ(weights(taught), 2 * weights(alone));
  EXPECT_LT(auxiliary(out).back(), 0.5 * auxiliary(beside).back());
}

TEST(AuxiliaryObjective, WhatCannotStandThereIsRefused) {
  const kit::TrainKit kit;
  const auto refused = [&](const std::string& train_section) {
    return kit::coded_error_of([&] {
      train(kit.run(kTwoLayers, kit::kHeldOutData, "{max_steps: 2, batch_tokens: 128, " + train_section + "}",
                    "refused"));
    });
  };
  EXPECT_EQ(
      refused("auxiliary_objectives: {a: clm}"),
      "2 train: auxiliary_objectives.a: objective clm learns from batches of its own; give it to train.objective");
  EXPECT_EQ(refused("objective: layer_prediction"),
            "2 train: objective layer_prediction learns beside another; give train.objective that one, and this to "
            "train.auxiliary_objectives");
  EXPECT_NE(refused("auxiliary_objectives: {a: {type: layer_prediction, layer: 2}}").find("layer 2 of 2 is not below"),
            std::string::npos);
  EXPECT_NE(refused("auxiliary_objectives: {a.b: layer_prediction}").find("give one without a '.'"), std::string::npos);
  EXPECT_NE(refused("auxiliary_objectives: [layer_prediction]").find("must be a section of names"), std::string::npos);
  EXPECT_NE(refused("auxiliary_objectives: {a: layer_prediction}, growth: {steps: [1], layers: [4]}")
                .find("do not grow with it"),
            std::string::npos);
}

}  // namespace
}  // namespace lithe

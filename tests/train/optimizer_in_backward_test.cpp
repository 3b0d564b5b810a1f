// Runs that update layers within the backward pass (train.optimizer_in_backward).
#include "lithe/train/checkpoint.h"
#include "lithe/train/plan.h"
#include "tests/train/run_kit.h"

namespace lithe {
namespace {

std::string training(const std::string& more) {
  return "{max_steps: 6, batch_tokens: 64, learning_rate: 0.01, logging_steps: 1, eval_steps: 3, save_steps: 2, "
         "save_total_limit: 9, max_grad_norm: 0" +
         more + "}";
}

TEST(OptimizerInBackward, GivesTheBitsOfUpdatesAtTheEnd) {
  const kit::TrainKit kit;
  const std::string layers = "hidden_size: 64, num_hidden_layers: 6";
  int number = 0;
  for (const auto& [model, more] : std::vector<std::pair<std::string, std::string>>{
           {"{" + layers + "}", ""},
           {"{" + layers + ", tie_word_embeddings: false, hidden_dropout: 0.1}", ", gradient_checkpointing: true"},
           {"{" + layers + ", mixer: {type: linear_attention, num_attention_heads: 2}}",
            ", precision: bf16, optimizer_states: int8"},
           {"{" + layers + ", ffn: {type: moe, num_experts: 4, num_experts_per_tok: 2}}", ", ema_decay: 0.9"},
           {"{" + layers + "}", ", freeze: [embedding.*, \"layers.2.*\"]"},
           {"{" + layers + "}", ", growth: {steps: [3], layers: [12], optimizer_state: copy}"}}) {
    SCOPED_TRACE(model + more);
    const TrainRun at_end = kit.run(model, kit::kHeldOutData, training(more), cat("end", ++number)),
                   within = kit.run(model, kit::kHeldOutData, training(more + ", optimizer_in_backward: true"),
                                    cat("within", number));
    train(at_end);
    const TrainResult result = train(within);
    EXPECT_TRUE(read_file(within.out / "model.safetensors") == read_file(at_end.out / "model.safetensors"));
    EXPECT_TRUE(read_file(checkpoint_path(within.out, 6) / "optimizer.safetensors") ==
                read_file(checkpoint_path(at_end.out, 6) / "optimizer.safetensors"));
    EXPECT_TRUE(read_file(within.out / "metrics.jsonl") == read_file(at_end.out / "metrics.jsonl"));  // norms, too
    if (more.find("growth") != std::string::npos) continue;  // growing itself may need more than a step
    EXPECT_EQ(result.planned.peak, result.measured.peak);
    const TrainRun killed = kit.killed_after(within, 2, cat("killed", number));
    train(killed);
    EXPECT_TRUE(read_file(killed.out / "model.safetensors") == read_file(within.out / "model.safetensors"));
  }
}

TEST(OptimizerInBackward, HasTheGradientsOfOneLayerInMemory) {
  const kit::TrainKit kit;
  const auto plan = [&](const char* within) {
    const TrainRun run =
        kit.run("{vocab_size: 257, hidden_size: 128, num_hidden_layers: 12}", kit::kHeldOutData,
                cat("{max_steps: 1, batch_tokens: 32, max_grad_norm: 0, optimizer_in_backward: ", within, "}"));
    ModelConfig model = run.recipe.model;
    model.vocab_size = 257, model.max_position_embeddings = 16;
    return plan_training(model, run.recipe.train, {.sequence_length = 16}, false);
  };
  const Plan end = plan("false"), within = plan("true");
  const int64_t layer = 4 * 128 * 128 + 3 * 128 * 24 + 2 * 128;
  EXPECT_EQ(end.step.flops, within.step.flops);
  EXPECT_LE(within.memory.peak, end.memory.peak - 9 * 4 * layer);
}

TEST(OptimizerInBackward, StopsAtTheFirstGradientThatIsNotFinite) {
  const kit::TrainKit kit;
  const TrainRun run = kit.run("{num_hidden_layers: 3}", kit::kHeldOutData,
                               "{max_steps: 50, batch_tokens: 64, learning_rate: 1.0e+30, warmup_steps: 0, "
                               "max_grad_norm: 0, optimizer_in_backward: true}");
  const std::string error = kit::coded_error_of([&] { train(run); });
  EXPECT_EQ(error.substr(0, 2), "3 ") << error;
}

TEST(OptimizerInBackward, RefusesWhatNeedsAllGradients) {
  const kit::TrainKit kit;
  for (const auto& [model, train_section, says] : std::vector<std::array<std::string, 3>>{
           {"", "{max_steps: 1, batch_tokens: 64, optimizer_in_backward: true}", "set max_grad_norm to 0"},
           {"",
            "{max_steps: 1, batch_tokens: 64, gradient_accumulation_steps: 2, max_grad_norm: 0, "
            "optimizer_in_backward: true}",
            "gradient_accumulation_steps 2"},
           {"",
            "{max_steps: 1, batch_tokens: 64, max_grad_norm: 0, loss_scaling: {type: dynamic}, precision: bf16, "
            "optimizer_in_backward: true}",
            "leave loss_scaling"},
           {"{num_hidden_layers: 2, stack: reversible}",
            "{max_steps: 1, batch_tokens: 64, max_grad_norm: 0, optimizer_in_backward: true}", "one plain stack"},
           {"{num_hidden_layers: 2, share: {layers: cycle, distinct: 1}}",
            "{max_steps: 1, batch_tokens: 64, max_grad_norm: 0, optimizer_in_backward: true}", "share nothing"}}) {
    const std::string error = kit::error_of([&] { train(kit.run(model, kit::kHeldOutData, train_section)); });
    EXPECT_NE(error.find(says), std::string::npos) << train_section << ": " << error;
  }
}

}  // namespace
}  // namespace lithe

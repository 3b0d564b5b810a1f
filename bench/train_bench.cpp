// Training throughput and memory on the three GPT configurations that the PyTorch peer (bench/peers/torch_train.py)
// runs: forward, cross-entropy, backward, AdamW on one batch of random tokens.
//   train_bench a|b|c f32|bf16 [steps | turns] [recompute] [int8: moments in 8 bits]
// Prints one line of key=value pairs, or takes turns as bench/peers/turns.py asks; run each case in a fresh process
// (peakRSS is the process's).
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "bench/turns.h"
#include "lithe/base/machine.h"
#include "lithe/base/threads.h"
#include "lithe/bench/timing.h"
#include "lithe/train/plan.h"

namespace {

using namespace lithe;
using namespace lithe::bench;

struct Shape3 {
  int64_t layers, hidden, heads, vocabulary, context, batch;
};
const std::map<std::string, Shape3> kConfigs = {
    {"a", {6, 512, 8, 8192, 256, 8}}, {"b", {12, 768, 12, 50257, 512, 2}}, {"c", {4, 256, 8, 2048, 128, 16}}};

// Without steps: as turns.py asks.
int run(const std::string& name, const std::string& precision, int steps, bool recompute, bool int8) {
  const Shape3 s = kConfigs.at(name);
  const std::string yaml =
      cat("{hidden_size: ", s.hidden, ", num_hidden_layers: ", s.layers, ", vocab_size: ", s.vocabulary,
          ", max_position_embeddings: ", s.context,
          ", position: learned, mixer: {type: attention, num_attention_heads: ", s.heads,
          ", attention_bias: true, output_bias: true}, ffn: gelu, norm: {type: layer, eps_mode: variance}}");
  const ModelConfig config = read_model_config(parse_yaml(yaml, "train_bench"));
  TrainConfig train;
  train.precision = precision;
  train.batch_tokens = s.context * s.batch;
  train.learning_rate = 3e-4;
  train.max_grad_norm = 0;  // as the peer
  train.gradient_checkpointing = recompute;
  if (int8) train.optimizer_states = "int8";
  const Plan plan = plan_training(config, train, {.sequence_length = s.context}, false);

  Model model(config, {.dtype = train.parameter_dtype(), .compute = train.compute(), .trainable = true});
  model.set_recompute(recompute);
  TrainedObjective objective(train, model);
  AdamW optimizer({&model.parameters(), &objective.parameters()}, train);
  Batch batch;
  const RandomKey key{.seed = 1, .purpose = purpose_of("train_bench")};
  batch.offsets = {0};
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t t = 0; t < s.context; ++t) {
      batch.tokens.push_back(int32_t(random_below(key, uint64_t(b * (s.context + 1) + t), uint64_t(s.vocabulary))));
      batch.labels.push_back(int32_t(random_below(key, uint64_t(b * (s.context + 1) + t + 1), uint64_t(s.vocabulary))));
    }
    batch.offsets.push_back(int64_t(batch.tokens.size()));
  }
  const std::vector<DeviceBatch> batches = {to_device(batch, Device::cpu)};
  const std::string name_line =
      cat("lithe cfg=", name, " dtype=", precision, " mode=", recompute ? "recompute" : "keep", int8 ? "-int8" : "");
  LossSums sums;
  int64_t done = 0;
  // Seconds of a step, and of its gradients.
  const auto step = [&] {
    const double start = now();
    sums = accumulate_gradients(model, objective, batches, train, ++done).objective;
    const double middle = now();
    optimizer.step(done, train.learning_rate, 1);
    return std::pair{now() - start, middle - start};
  };
  step();
  step();
  if (!steps) return take_turns({{cat(name_line, " count=", train.batch_tokens), [&] { return step().first; }}}), 0;
  std::vector<double> total, gradient, update;
  while (done < steps + 2) {
    const auto [all, gradients] = step();
    total.push_back(all);
    gradient.push_back(gradients);
    update.push_back(all - gradients);
  }
  std::printf(
      "%s threads=%d params=%.1fM tok/s=%.1f step_ms=%.0f min=%.0f max=%.0f "
      "fwdbwd=%.0f opt=%.0f GFLOP/s=%.0f peakRSS_MB=%.0f ledger_MB=%.0f planned_MB=%.0f loss=%.3f\n",
      name_line.c_str(), threads(), double(plan.parameters) * 1e-6, double(train.batch_tokens) / median(total),
      1e3 * median(total), 1e3 * *std::min_element(total.begin(), total.end()),
      1e3 * *std::max_element(total.begin(), total.end()), 1e3 * median(gradient), 1e3 * median(update),
      plan.step.flops / median(total) * 1e-9, double(peak_resident_bytes()) / 1048576,
      double(ledger(Device::cpu).peak()) / 1048576, double(plan.memory.peak) / 1048576,
      sums.loss / double(sums.labels));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || !kConfigs.count(argv[1]) || (std::strcmp(argv[2], "f32") && std::strcmp(argv[2], "bf16"))) {
    std::fprintf(stderr, "usage: train_bench a|b|c f32|bf16 [steps | turns] [recompute] [int8]\n");
    return 2;
  }
  const auto asks = [&](const char* word) {
    return std::any_of(argv + std::min(argc, 4), argv + argc, [&](const char* a) { return !std::strcmp(a, word); });
  };
  const bool turns = argc > 3 && !std::strcmp(argv[3], "turns");
  const int steps = turns ? 0 : argc > 3 ? std::max(1, std::atoi(argv[3])) : 8;
  return run(argv[1], argv[2], steps, asks("recompute"), asks("int8"));
}

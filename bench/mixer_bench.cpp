// Time of a training step, a prefill and a decoding step of models that differ in their mixer alone (width 256, 8
// heads, 4 layers), measured in turns: medians, and of training the fastest.
//   mixer_bench f32|bf16 TOKENS [steps] [mixer options as YAML ...]
// TOKENS in a sequence, 4096 tokens in a batch at least. Without mixers: attention and those that replace it at
// constant state; run it with several TOKENS to see what grows with them.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "lithe/base/threads.h"
#include "lithe/bench/timing.h"
#include "lithe/train/plan.h"

namespace {

using namespace lithe;
using namespace lithe::bench;

struct Case {
  std::string name;
  std::unique_ptr<Model> model;
  double state_bytes = 0;
  std::vector<double> train, prefill, decode;  // seconds
};

Tensor random_ids(int64_t n, int64_t vocabulary) {
  const Tensor ids = empty({n}, DType::i32);
  const RandomKey key{.seed = 1, .purpose = purpose_of("mixer_bench")};
  for (int64_t i = 0; i < n; ++i)
    ids.data<int32_t>()[i] = int32_t(random_below(key, uint64_t(i), uint64_t(vocabulary)));
  return ids;
}

void measure(Case& c, int64_t tokens, bool warm) {
  const int64_t sequences = std::max<int64_t>(1, 4096 / tokens), vocabulary = c.model->config().vocab_size;
  std::vector<int64_t> offsets{0};
  for (int64_t b = 1; b <= sequences; ++b) offsets.push_back(b * tokens);
  const Tensor ids = random_ids(sequences * tokens, vocabulary);
  const Sequences rows(offsets);
  const double train = seconds([&] {
    Tape tape;
    Pass pass;
    tape.backward(c.model->loss_of(c.model->run({ids, rows}, pass), {}, {.labels = ids}));
  });
  const auto state = c.model->make_state(1, tokens + 16);
  const auto feed = [&](int64_t first, int64_t count) {
    Pass pass;
    c.model->run({ids.slice(first, first + count), c.model->continue_sequences(*state, {count})}, pass, state.get());
  };
  const double prefill = seconds([&] { feed(0, tokens); });
  const double decode = seconds([&] {
    for (int i = 0; i < 16; ++i) feed(i, 1);
  });
  c.state_bytes = double(state->bytes());
  if (warm) return;
  c.train.push_back(train);
  c.prefill.push_back(prefill);
  c.decode.push_back(decode / 16);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || (std::strcmp(argv[1], "f32") && std::strcmp(argv[1], "bf16")) || std::atoi(argv[2]) < 1) {
    std::fprintf(stderr, "usage: mixer_bench f32|bf16 TOKENS [steps] [mixer ...]\n");
    return 2;
  }
  const int64_t tokens = std::atoi(argv[2]);
  const int steps = argc > 3 ? std::max(1, std::atoi(argv[3])) : 8;
  std::vector<std::string> mixers(argv + std::min(argc, 4), argv + argc);
  if (mixers.empty())
    mixers = {"{type: attention, num_attention_heads: 8}",
              "{type: mlp}",
              "{type: nonapprox, num_attention_heads: 8}",
              "{type: approx, num_attention_heads: 8}",
              "{type: approx, num_attention_heads: 8, mode: diag}",
              "{type: retention, num_attention_heads: 8}",
              "{type: linear_attention, num_attention_heads: 8}",
              "{type: gated_linear_attention, num_attention_heads: 8, gate: channel, normalise: false}",
              "{type: delta_rule, num_attention_heads: 8}",
              "{type: selective_ssm}",
              "{type: ssm, complex: true}",
              "{type: light_convolution}",
              "{type: lstm}"};
  std::vector<Case> cases;
  for (const std::string& mixer : mixers) {
    const ModelConfig config = read_model_config(parse_yaml(
        cat("{hidden_size: 256, num_hidden_layers: 4, vocab_size: 256, max_position_embeddings: ", tokens + 16,
            ", position: rotary, norm: rms, ffn: swiglu, mixer: ", mixer, "}"),
        "mixer_bench"));
    const DType compute = std::strcmp(argv[1], "f32") ? DType::bf16 : DType::f32;
    cases.push_back({mixer, std::make_unique<Model>(config, ModelOptions{.compute = compute, .trainable = true})});
  }
  for (int i = -1; i < steps; ++i)
    for (Case& c : cases) measure(c, tokens, i < 0);
  for (const Case& c : cases)
    std::printf(
        "mixer=\"%s\" dtype=%s T=%ld threads=%d train_ms=%.1f train_min=%.1f prefill_ms=%.2f decode_ms=%.3f "
        "state_KB=%.0f\n",
        c.name.c_str(), argv[1], long(tokens), threads(), 1e3 * median(c.train),
        1e3 * *std::min_element(c.train.begin(), c.train.end()), 1e3 * median(c.prefill), 1e3 * median(c.decode),
        c.state_bytes / 1024);
  return 0;
}

// What embeddings cost in training: forward and backward of every one beside a whole training step (forward, backward,
// AdamW) of a BERT-mini with almost none, a table of three rows, in the same round.
//   embedding_bench f32|bf16 [rounds] [part of an embedding's name]
// BERT-mini: 4 layers of width 256, 4 heads, 64 sequences of 128 tokens, three labels a token. Width 768: the
// embeddings alone. "% of step": median over rounds of an embedding's forward and backward over the step.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>

#include "lithe/base/threads.h"
#include "lithe/bench/timing.h"
#include "lithe/train/optimizer.h"
#include "lithe/train/step.h"

namespace {

using namespace lithe;  // a program, not a library
using namespace lithe::bench;

constexpr int64_t kSequences = 64, kLength = 128, kTokens = kSequences * kLength, kVocabulary = 50265;

// Words drawn with probability 1 / rank, as in text; one token in kLength is special.
std::vector<int64_t> words(int64_t types) {
  const RandomKey key{.seed = 1, .purpose = purpose_of("embedding_bench")};
  std::vector<int64_t> out;
  for (int64_t i = 0; i < kTokens; ++i)
    out.push_back(i % kLength ? int64_t(std::pow(double(types), random_uniform(key, uint64_t(i)))) - 1 : -1);
  return out;
}

// The tokens that an embedding reads: ids, or codes with random payloads.
Tensor tokens_of(const PartInfo& info) {
  const int64_t width = info.token_width;
  const std::vector<int64_t> drawn = words(kVocabulary);
  const RandomKey key{.seed = 2, .purpose = purpose_of("embedding_bench")};
  const Tensor out = zeros(width == 1 ? Shape{kTokens} : Shape{kTokens, width}, DType::i32);
  int32_t* at = out.data<int32_t>();
  for (int64_t i = 0; i < kTokens; ++i) {
    const int64_t word = drawn[size_t(i)];
    if (width == 1) {
      at[i] = int32_t(std::max<int64_t>(word, 0));
      continue;
    }
    at[i * width] = word < 0 ? 0 : 5;
    for (int64_t j = 1; j < width && word >= 0; ++j)
      at[i * width + j] = int32_t(uint32_t(random_below(
          key, uint64_t(word * width + j), info.payload_below ? uint64_t(info.payload_below) : uint64_t(1) << 32)));
  }
  return out;
}

struct Case {
  std::string name;
  int64_t width;
  Parameters parameters;
  BuildContext context;
  std::unique_ptr<Embedding> part;
  Tensor tokens, dy;
  std::vector<double> forward, both, share;  // seconds, seconds, of a step
};

std::unique_ptr<Case> make(const std::string& name, int64_t width, DType compute) {
  const Registry& registry = Registry::instance();
  const PartInfo& info = registry.get(Embedding::slot, name, {}).info;
  auto c = std::make_unique<Case>();
  c->name = name;
  c->width = width;
  c->context = {.parameters = &c->parameters, .compute = compute};
  c->part =
      registry.make<Embedding>({name, Node()}, Scope(c->context, "embedding"),
                               {.vocab_size = kVocabulary, .hidden_size = width, .token_width = info.token_width});
  c->tokens = tokens_of(info);
  c->dy = zeros({kTokens, width}, compute);
  for (int64_t i = 0; i < c->dy.numel(); ++i) set_value(c->dy, i, double(i * 7919 % 2001) / 1000 - 1);
  return c;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || (std::strcmp(argv[1], "f32") && std::strcmp(argv[1], "bf16"))) {
    std::fprintf(stderr, "usage: embedding_bench f32|bf16 [rounds] [part of an embedding's name]\n");
    return 2;
  }
  const int rounds = argc > 2 ? std::max(1, std::atoi(argv[2])) : 5;
  const std::string filter = argc > 3 ? argv[3] : "";
  TrainConfig train;
  train.precision = argv[1];
  train.batch_tokens = kTokens;
  const ModelConfig config = read_model_config(parse_yaml(
      cat("{architecture: encoder, hidden_size: 256, num_hidden_layers: 4, vocab_size: 3, max_position_embeddings: ",
          kLength,
          ", position: learned, mixer: {type: attention, num_attention_heads: 4, attention_bias: true, output_bias: "
          "true}, ffn: gelu, norm: layer, residual: post, tie_word_embeddings: false, head: lm}"),
      "embedding_bench"));
  Model model(config, {.compute = train.compute(), .trainable = true});
  TrainedObjective objective(train, model);
  AdamW optimizer({&model.parameters(), &objective.parameters()}, train);
  std::vector<int64_t> offsets{0};
  for (int64_t b = 1; b <= kSequences; ++b) offsets.push_back(b * kLength);
  const DeviceBatch batch{.input = {zeros({kTokens}, DType::i32), Sequences(offsets)},
                          .targets = {.labels = zeros({kTokens}, DType::i32)},
                          .labelled = kTokens};

  std::vector<std::unique_ptr<Case>> cases;
  for (int64_t width : {256, 768})
    for (const Registry::Entry* entry : Registry::instance().slot(Embedding::slot))
      if (entry->name.find(filter) != std::string::npos) cases.push_back(make(entry->name, width, train.compute()));

  std::vector<double> steps;
  for (int round = -1; round < rounds; ++round) {  // the first warms up
    const double step = seconds([&] {
      accumulate_gradients(model, objective, {batch}, train, round + 2);
      optimizer.step(round + 2, 1e-4, 1);
    });
    if (round >= 0) steps.push_back(step);
    for (const auto& c : cases) {
      double forward = 0;
      const double both = seconds([&] {
        Tape tape;
        Var y;
        forward = seconds([&] { y = c->part->forward(c->tokens); });
        tape.backward(y, c->dy);
      });
      if (round < 0) continue;
      c->forward.push_back(forward);
      c->both.push_back(both);
      c->share.push_back(100 * both / step);
    }
  }
  std::printf("BERT-mini training step, %ld tokens, %s, %d threads: %.1f ms (%.1f to %.1f)\n", long(kTokens), argv[1],
              threads(), 1e3 * median(steps), 1e3 * *std::min_element(steps.begin(), steps.end()),
              1e3 * *std::max_element(steps.begin(), steps.end()));
  std::printf("%5s %-12s %12s %12s %12s %10s\n", "width", "embedding", "parameters", "forward", "gradient",
              "% of step");
  for (const auto& c : cases)
    std::printf("%5ld %-12s %12ld %9.1f ns %9.1f ns %10s\n", long(c->width), c->name.c_str(),
                long(c->parameters.count()), 1e9 * median(c->forward) / double(kTokens),
                1e9 * (median(c->both) - median(c->forward)) / double(kTokens),
                c->width == 256 ? cat(std::round(100 * median(c->share)) / 100).c_str() : "");
  return 0;
}

// Attention under masks of trees beside full attention: 4 texts of 512 words each, 8 heads of 64 channels, random
// dependency trees whose arcs are as short as those of English. Cases in turns, medians; what a mask costs to make is
// apart, as it is made once a pass for all layers.
//   tree_bench f32|bf16 [rounds] [words]
// Prints a line of key=value pairs a case: forward without a tape, forward and backward, both also as shares of full
// attention, and the making of the mask.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "lithe/base/threads.h"
#include "lithe/bench/timing.h"
#include "lithe/nn/registry.h"
#include "lithe/parts/common/tree_mask.h"

namespace {

using namespace lithe;
using namespace lithe::bench;

constexpr int64_t kTexts = 4, kHeads = 8, kHeadDim = 64;
const RandomKey kKey{.seed = 1, .purpose = purpose_of("tree_bench")};

// Heads of a text's words: the word before or behind mostly, at times one farther away.
std::vector<int32_t> random_heads(int64_t words, uint64_t text) {
  std::vector<int32_t> heads(static_cast<size_t>(words));
  const auto root = int64_t(random_below(kKey, text, uint64_t(words)));
  for (int64_t w = 0; w < words; ++w) {
    int64_t step = 1;
    while (step < 8 && random_uniform(kKey, uint64_t((text * 100 + uint64_t(step)) * 4096 + uint64_t(w))) < 0.5) ++step;
    const int64_t to = w < root ? std::min(root, w + step) : std::max(root, w - step);  // towards the root
    heads[size_t(w)] = w == root ? 0 : int32_t(to + 1);
  }
  return heads;
}

struct Case {
  std::string name;
  std::unique_ptr<TreeMask> mask;  // none: full attention
  std::vector<double> forward, train, made;
};

Case tree(const std::string& options) {
  TreeMaskConfig config;
  read_fields(parse_yaml(options, "tree_bench"), "tree_bench", [&](Fields& f) { config.fields(f); });
  return {options,
          std::make_unique<TreeMask>(config, Field::Args{.causal = false, .num_attention_heads = kHeads}),
          {},
          {},
          {}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || (std::strcmp(argv[1], "f32") && std::strcmp(argv[1], "bf16"))) {
    std::fprintf(stderr, "usage: tree_bench f32|bf16 [rounds] [words]\n");
    return 2;
  }
  const DType type = std::strcmp(argv[1], "f32") ? DType::bf16 : DType::f32;
  const int rounds = argc > 2 ? std::max(1, std::atoi(argv[2])) : 15;
  const int64_t words = argc > 3 ? std::max(2, std::atoi(argv[3])) : 512, rows = kTexts * words,
                columns = kHeads * kHeadDim;
  std::vector<int64_t> offsets{0};
  const Tensor word = empty({rows}, DType::i32), head = empty({rows}, DType::i32);
  for (int64_t b = 0; b < kTexts; ++b) {
    const std::vector<int32_t> heads = random_heads(words, uint64_t(b));
    for (int64_t w = 0; w < words; ++w)
      word.data<int32_t>()[b * words + w] = int32_t(w), head.data<int32_t>()[b * words + w] = heads[size_t(w)];
    offsets.push_back((b + 1) * words);
  }
  const Sequences texts(offsets);
  const auto random = [&](uint32_t purpose) {
    const Tensor x = empty({rows, columns}, type);
    for (int64_t i = 0; i < x.numel(); ++i)
      set_value(x, i, random_normal({.seed = 1, .purpose = purpose}, uint64_t(i)));
    return x;
  };
  const Tensor q = random(1), k = random(2), v = random(3), dout = random(4);
  std::vector<Case> cases;
  cases.push_back({"full", nullptr, {}, {}, {}});
  for (const char* options :
       {"{max_distance: 1}", "{max_distance: 2}", "{weight: exp, apply: add}", "{weight: exp, apply: log_add}",
        "{weight: reciprocal, apply: multiply_logits}", "{weight: zscore, squash: sigmoid, apply: multiply_weights}"})
    cases.push_back(tree(options));

  for (int round = -1; round < rounds; ++round)
    for (Case& c : cases) {
      Pass pass;
      pass.give("word", word), pass.give("head", head);
      std::vector<FieldInput::Keys> keys(size_t(kTexts), {0, words, 0});
      AttendOptions options{.heads = kHeads, .kv_heads = kHeads, .scale = 1 / std::sqrt(double(kHeadDim))};
      const double made = seconds([&] {
        if (!c.mask) return;
        const FieldInput in{q, k, texts, pass, q, keys, options.scale};
        kernels::AttentionPattern pattern = c.mask->pattern(in);
        options.mask = pattern.mask, options.tiles = std::move(pattern.tiles), options.bias = c.mask->bias(in);
      });
      const double forward = seconds([&] {
        const NoGrad no_grad;
        attend(q, k, v, texts, texts, options);
      });
      const double train = seconds([&] {
        Tape tape;
        tape.backward(attend(Var::leaf(q), Var::leaf(k), Var::leaf(v), texts, texts, options), dout);
      });
      if (round < 0) continue;
      c.made.push_back(made), c.forward.push_back(forward), c.train.push_back(train);
    }
  for (const Case& c : cases)
    std::printf(
        "mask=\"%s\" dtype=%s T=%ld threads=%d forward_ms=%.2f share=%.2f train_ms=%.2f share=%.2f made_ms=%.2f\n",
        c.name.c_str(), argv[1], long(words), threads(), 1e3 * median(c.forward),
        median(c.forward) / median(cases[0].forward), 1e3 * median(c.train), median(c.train) / median(cases[0].train),
        1e3 * median(c.made));
  return 0;
}

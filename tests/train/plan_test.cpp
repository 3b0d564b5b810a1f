// The planned peak is the measured one, to the byte.
#include "lithe/train/plan.h"

#include "lithe/train/plan_ranks.h"
#include "tests/train/run_kit.h"

namespace lithe {
namespace {

struct Draw {
  uint64_t seed;
  uint64_t used = 0;
  int64_t below(int64_t n) {
    return int64_t(random_below({.seed = seed, .purpose = purpose_of("recipe")}, used++, uint64_t(n)));
  }
  template <class T>
  T of(std::initializer_list<T> choices) {
    return *(choices.begin() + below(int64_t(choices.size())));
  }
};

class RandomRecipe : public testing::TestWithParam<uint64_t> {};

TEST_P(RandomRecipe, PlannedPeakEqualsMeasuredPeak) {
  Draw draw{GetParam()};
  const int64_t heads = draw.of<int64_t>({1, 2, 4}), width = heads * draw.of<int64_t>({4, 6, 8});
  const std::string head_type = draw.of<std::string>({"mha", "mqa", "gqa", "sha", "skv", "mhe_mul", "static_emb_qk"});
  const std::string attention =
      cat("{type: attention, num_attention_heads: ", heads, ", heads: ",
          head_type == "gqa" ? cat("{type: gqa, num_key_value_heads: ", heads > 1 ? heads / 2 : 1, "}") : head_type,
          ", output: ", draw.of<std::string>({"dense", "none"}),
          ", attention_dropout: ", draw.of<std::string>({"0", "0", "0.1"}), "}");
  const std::string other = cat("{type: ", draw.of<std::string>({"nonapprox", "approx", "rnd_emb_qk", "fixed_seq_qk"}),
                                ", num_attention_heads: ", heads, "}");
  const std::string residual = draw.of<std::string>({"pre", "post", "res_post", "rk2"}),
                    stack = residual == "post" ? "plain" : draw.of<std::string>({"plain", "plain", "reversible"});
  const std::string model = cat(
      "{vocab_size: ", 257 + draw.below(3), ", hidden_size: ", width, ", num_hidden_layers: ", draw.below(4),
      ", position: ", draw.of<std::string>({"rotary", "sinusoidal", "learned", "none"}),
      ", mixer: ", draw.of<std::string>({attention, attention, attention, other, "mlp", "linear"}),
      ", ffn: {type: ", draw.of<std::string>({"relu", "gelu", "swiglu"}), ", intermediate_size: ", 5 + draw.below(60),
      "}, norm: ", draw.of<std::string>({"rms", "layer"}), ", residual: ", residual, ", stack: ", stack,
      ", tie_word_embeddings: ", draw.of<std::string>({"true", "false"}),
      ", hidden_dropout: ", draw.of<std::string>({"0", "0.2"}), "}");
  const int64_t length = draw.of<int64_t>({8, 17, 32, 64}), parts = draw.of<int64_t>({1, 2, 3}),
                micro = length + draw.below(3 * length);
  const std::string data = cat("{sequence_length: ", length, ", documents: ", draw.of<std::string>({"file", "line"}),
                               ", validation_fraction: ", draw.of<std::string>({"0", "0.05", "0.3"}), "}");
  const std::string train_section =
      cat("{max_steps: 3, batch_tokens: ", micro * parts, ", gradient_accumulation_steps: ", parts,
          ", precision: ", draw.of<std::string>({"f32", "bf16", "f32"}),
          ", gradient_checkpointing: ", draw.of<std::string>({"true", "false"}),
          ", optimizer_states: ", draw.of<std::string>({"f32", "int8"}),
          ", label_smoothing: ", draw.of<std::string>({"0", "0.1"}), ", eval_steps: ", draw.of<std::string>({"0", "1"}),
          "}");
  SCOPED_TRACE(model + "\n" + data + "\n" + train_section);
  const kit::TrainKit kit(kit::small_text(4000, GetParam()));
  set_threads(GetParam() % 6 == 0 ? 2 : 1);
  const TrainResult result = train(kit.run(model, data, train_section));
  EXPECT_EQ(result.steps, 3);
  EXPECT_EQ(result.planned.peak, result.measured.peak);
  for (int c = 0; c < kMemoryClasses; ++c)
    EXPECT_EQ(result.planned.by_class[size_t(c)], result.measured.by_class[size_t(c)]) << name_of(MemoryClass(c));
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomRecipe, testing::Range<uint64_t>(1, 19));

TEST(Plan, CountsParametersAndLeavesTheLedgerEmpty) {
  const kit::TrainKit kit;
  const TrainRun run = kit.run("", "{sequence_length: 16}", "{max_steps: 1, batch_tokens: 32}");
  ModelConfig model = run.recipe.model;
  model.max_position_embeddings = 16;
  const Plan plan = plan_training(model, run.recipe.train, {.sequence_length = 16}, false);
  // table 257x16; block: q, k, v, o 16x16, gate and up 16x24, down 24x16, two norms; final norm
  EXPECT_EQ(plan.parameters, 257 * 16 + 4 * 16 * 16 + 3 * 16 * 24 + 2 * 16 + 16);
  EXPECT_EQ(ledger(Device::meta).current(), 0);
  EXPECT_EQ(plan.state_bytes_per_token, 2 * 16 * 4);
  EXPECT_EQ(plan.state_bytes_constant, 0);
  int64_t parts = 0;
  for (const PartCost& part : plan.parts) parts += part.parameters;
  EXPECT_EQ(parts, plan.parameters);
}

TEST(Plan, ReversibleLayersCostOneMoreForwardPassAndNoMoreActivations) {
  const kit::TrainKit kit;
  const auto plan = [&](const std::string& stack, int64_t layers) {
    const TrainRun run = kit.run(cat("{stack: ", stack, ", num_hidden_layers: ", layers, "}"), "{sequence_length: 16}",
                                 "{max_steps: 1, batch_tokens: 512}");
    ModelConfig model = run.recipe.model;
    model.vocab_size = 300, model.max_position_embeddings = 16;
    return plan_training(model, run.recipe.train, {.sequence_length = 16}, false);
  };
  const Plan plain = plan("plain", 3), reversible = plan("reversible", 3), deep = plan("reversible", 6);
  EXPECT_EQ(reversible.parameters, plain.parameters);
  const auto part = [](const Plan& p, const std::string& name) {
    const auto found = std::find_if(p.parts.begin(), p.parts.end(), [&](const PartCost& c) { return c.part == name; });
    EXPECT_NE(found, p.parts.end()) << name;
    return found == p.parts.end() ? PartCost() : *found;
  };
  for (const std::string name : {"layers.*.mixer", "layers.*.ffn"}) {
    const PartCost a = part(plain, name), b = part(reversible, name);
    EXPECT_EQ(b.forward_flops, a.forward_flops);
    EXPECT_NEAR(b.step_flops, a.step_flops + a.forward_flops, 1e-9 * a.step_flops) << name;
  }
  const auto activations = [](const Plan& p) { return p.memory.by_class[size_t(MemoryClass::activations)]; };
  EXPECT_EQ(activations(deep), activations(reversible));
  EXPECT_LT(activations(reversible), activations(plain));
}

TEST(Plan, FitsABudgetOrSaysTheLeast) {
  const kit::TrainKit kit;
  const std::string data = "{sequence_length: 16}", section = "{max_steps: 2, batch_tokens: 512}";
  TrainRun run = kit.run("", data, section);
  ModelConfig model = run.recipe.model;
  model.max_position_embeddings = 16;
  const int64_t whole = plan_training(model, run.recipe.train, {.sequence_length = 16}, false).memory.peak;
  TrainConfig fitted = run.recipe.train;
  const Plan plan = fit_memory(model, fitted, {.sequence_length = 16}, whole * 6 / 10);
  EXPECT_LE(plan.memory.peak, whole * 6 / 10);
  EXPECT_GT(fitted.gradient_accumulation_steps, 1);
  EXPECT_NE(kit::coded_error_of([&] {
              fit_memory(model, fitted, {.sequence_length = 16}, 1000);
            }).find("4 memory: the budget of 1000 B cannot be met: the least this model and batch need is"),
            std::string::npos);

  run.memory_budget = whole - 1;
  EXPECT_EQ(kit::coded_error_of([&] { train(run); }).substr(0, 9), "4 memory:");
  EXPECT_FALSE(std::filesystem::exists(run.out / "resolved_recipe.yaml"));  // the directory can be used again
  run.fit_memory = true;
  const TrainResult result = train(run);
  EXPECT_LE(result.measured.peak, run.memory_budget);
  // What was chosen belongs to the run: to go on without choosing would give other bits.
  run.resume = true;
  run.fit_memory = false;
  run.memory_budget = 0;
  EXPECT_NE(kit::coded_error_of([&] { train(run); }).find("train.gradient_accumulation_steps was 2 and is now 1"),
            std::string::npos);
}

TEST(Plan, ReadsSizes) {
  const auto bytes = [](const std::string& text) { return parse_bytes(text, "serve", "--memory"); };
  EXPECT_EQ(bytes("4GiB"), int64_t(4) << 30);
  EXPECT_EQ(bytes("500MB"), 500000000);
  EXPECT_EQ(bytes("1.5g"), int64_t(1.5 * (1 << 30)));
  EXPECT_EQ(bytes(" 7 kb"), 7000);
  EXPECT_EQ(bytes("12"), 12);
  EXPECT_EQ(bytes("2TiB"), int64_t(2) << 40);
  EXPECT_EQ(bytes("0.5TB"), 500000000000);
  for (const char* bad : {"", "GiB", "-1", "0", "nan", "inf", "4 apples", "1e999", "1e30", "4GiB!"})
    EXPECT_EQ(kit::coded_error_of([&] { bytes(bad); }),
              cat("2 serve: --memory must be a size like 4GiB or 500MB, above 0, got '", bad, "'"));
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(7), "7 B");
}

// The bottleneck is what costs more than the same work divided evenly.
TEST(RanksPlan, TheBottleneckIsWhatCosts) {
  RanksPlan plan{
      .parallel = {.data = 4}, .compute = 1, .optimizer = 0.01, .latency = 0.9, .even_compute = 1, .efficiency = 0.5};
  EXPECT_EQ(plan.bottleneck(), "latency");
  plan.even_compute = 0.05;
  EXPECT_EQ(plan.bottleneck(), "computation");
  plan.even = false;
  EXPECT_EQ(plan.bottleneck(), "computation (uneven parts)");
  plan.even = true, plan.parallel = {.data = 2, .tensor = 2};
  EXPECT_EQ(plan.bottleneck(), "computation (not all of it is divided)");
  plan.waiting = 2;
  EXPECT_EQ(plan.bottleneck(), "stages that wait");
  EXPECT_EQ(plan.ranks(), 4);
  EXPECT_EQ(division_text(plan.parallel), "data 2, tensor 2");
  plan.efficiency = 0.99;
  EXPECT_EQ(plan.bottleneck(), "computation");
}

}  // namespace
}  // namespace lithe

// The recipes that come with lithe: published hyperparameters, and that all of them can be read.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "lithe/analyze/model_cost.h"
#include "lithe/base/error.h"
#include "lithe/base/token_code.h"
#include "lithe/model/model.h"
#include "lithe/recipe/recipe.h"
#include "lithe/train/schedule.h"
#include "tests/support/process.h"

namespace lithe {
namespace {

namespace fs = std::filesystem;

Recipe preset(const std::string& name) { return load_recipe("recipes/presets/" + name + ".yaml", {}); }

// The rate at step n of a run of `total` steps, as the trainer makes it.
double rate(const Recipe& r, int64_t n, int64_t total) {
  const TrainConfig& c = r.train;
  const int64_t warmup = c.warmup_steps ? c.warmup_steps : std::llround(c.warmup_ratio * double(total));
  return Schedule{.type = c.lr_scheduler_type,
                  .peak = c.learning_rate,
                  .floor = c.min_learning_rate,
                  .warmup = warmup,
                  .total = total,
                  .decay_ratio = c.decay_ratio,
                  .restarts = c.num_cycles}
      .at(n);
}

struct Published {
  std::string name;
  int64_t steps, warmup, batch_tokens;  // steps: of the preset's own limit, or of an assumed corpus for epochs
  double first, peak, last, beta2, epsilon, decay, dropout;
};

class Preset : public testing::TestWithParam<Published> {};

// oracle: train.presets
TEST_P(Preset, HasThePublishedNumbers) {
  const Published& p = GetParam();
  const Recipe r = preset(p.name);
  r.train.validate(r.data.sequence_length);
  EXPECT_EQ(r.train.total_steps(1 << 30), p.steps);
  EXPECT_EQ(r.train.batch_tokens, p.batch_tokens);
  const auto near = [](double want) { return 1e-6 * want + 1e-15; };
  EXPECT_NEAR(rate(r, 1, p.steps), p.first, near(p.first));
  EXPECT_NEAR(rate(r, p.warmup, p.steps), p.peak, near(p.peak));
  EXPECT_LE(rate(r, p.warmup + 1, p.steps), p.peak);
  EXPECT_NEAR(rate(r, p.steps, p.steps), p.last, near(p.last));
  EXPECT_EQ(r.train.adam_beta1, 0.9);
  EXPECT_EQ(r.train.adam_beta2, p.beta2);
  EXPECT_EQ(r.train.adam_epsilon, p.epsilon);
  EXPECT_EQ(r.train.weight_decay, p.decay);
  EXPECT_EQ(r.model.hidden_dropout, p.dropout);
}

constexpr int64_t kEpochs = int64_t(1) << 30;  // micro-batches an epoch in total_steps above
INSTANTIATE_TEST_SUITE_P(
    All, Preset,
    testing::Values(Published{"hashformer_pretrain", 500000, 10000, 128 * 512, 5e-9, 5e-5, 0, 0.9999, 1e-8, 0.01, 0.1},
                    Published{"hashformer_finetune", 5 * kEpochs, 322122547, 32 * 512, 3e-5 / 322122547, 3e-5, 0, 0.999,
                              1e-6, 0, 0.1},
                    Published{"mhe_pretrain", 1000000, 10000, 128 * 512, 1e-8, 1e-4, 0, 0.9999, 1e-8, 0.01, 0.1},
                    Published{"mhe_finetune", 20 * kEpochs, 1288490189, 32 * 512, 3e-5 / 1288490189, 3e-5, 0, 0.999,
                              1e-6, 0, 0.1},
                    Published{"mhe_nmt", 100000, 4000, 256 * 100, 1.746928e-7, 6.987712e-4,
                              1 / std::sqrt(512.0 * 100000), 0.95, 1e-8, 0.1, 0.1},
                    Published{"transformer_base", 100000, 4000, 50000, 1.746928e-7, 6.987712e-4,
                              1 / std::sqrt(512.0 * 100000), 0.98, 1e-9, 0, 0.1},
                    Published{"transformer_big", 300000, 4000, 50000, 1.235265e-7, 4.941059e-4,
                              1 / std::sqrt(1024.0 * 300000), 0.98, 1e-9, 0, 0.3},
                    Published{"decon_pretrain", 28610, 2000, 524288, 2e-7, 4e-4, 0, 0.9999, 1e-8, 0.1, 0},
                    Published{"hadamard_pretrain", 38146, 381, 262144, 6e-4 / 381, 6e-4, 0, 0.95, 1e-8, 0.1, 0}),
    [](const auto& info) { return info.param.name; });

TEST(Presets, EffectiveBatchIsPerDeviceTimesDevices) {
  EXPECT_EQ(preset("decon_pretrain").train.batch_tokens, 524288);
  EXPECT_EQ(preset("hashformer_pretrain").train.gradient_accumulation_steps, 8);
  EXPECT_EQ(preset("hashformer_pretrain").train.micro_batch_tokens(), 16 * 512);
  EXPECT_EQ(preset("mhe_pretrain").train.gradient_accumulation_steps, 4);
  EXPECT_EQ(preset("mhe_pretrain").train.micro_batch_tokens(), 32 * 512);
}

// Parameters as published; docs/cost-model.md has the formulas.
struct Size {
  std::string name;
  std::vector<std::string> set;
  int64_t parameters, layers, mixers;  // all; of the layers; of their mixers; 0: not published
};

class PresetSize : public testing::TestWithParam<Size> {};

// oracle: decon.model_sizes, acct.hadamard
TEST_P(PresetSize, IsThePublishedOne) {
  const Size& want = GetParam();
  Recipe r = load_recipe("recipes/presets/" + want.name + ".yaml", want.set);
  r.model.vocab_size = r.data.tokenizer.vocab_size;
  r.model.max_position_embeddings = r.data.sequence_length;
  const analyze::ModelCost cost = analyze::model_cost(r.model, {.length = 64});
  int64_t layers = 0, mixers = 0;
  for (const analyze::CostOfPart& part : cost.parts) {
    if (part.part.starts_with("layers")) layers += part.parameters;
    if (part.part == "layers.*.mixer") {
      mixers += part.parameters;
      EXPECT_EQ(part.published.parameters, double(part.parameters));
    }
  }
  if (want.parameters) {
    EXPECT_EQ(cost.total.parameters, want.parameters);
  }
  if (want.layers) {
    EXPECT_EQ(layers, want.layers);
  }
  if (want.mixers) {
    EXPECT_EQ(mixers, want.mixers);
  }
}

const std::vector<std::string> plain_heads(const std::string& heads) {
  return {"model.mixer.heads=" + heads, "model.mixer.attention_bias=false", "model.mixer.output_bias=false"};
}
constexpr int64_t kGpt2 = 124'439'808, kGpt2Mixers = 12 * 4 * 768 * (768 + 1);
INSTANTIATE_TEST_SUITE_P(
    All, PresetSize,
    testing::Values(Size{"decon_pretrain", {}, 25'181'184 + 512 + 2 * 50'304 * 512, 25'181'184, 0},
                    Size{"decon_160m", {}, 113'292'288 + 768 + 50'304 * 768, 113'292'288, 0},
                    Size{"decon_500m", {}, 390'964'224 + 896 + 2 * 50'304 * 896, 390'964'224, 0},
                    Size{"decon_1.7b", {}, 1'526'841'344 + 2048 + 2LL * 50'304 * 2048, 1'526'841'344, 0},
                    Size{"hadamard_pretrain", {}, 123'701'760, 0, 0}, Size{"hadamard_small", {}, 353'806'304, 0, 0},
                    Size{"hadamard_base", {}, 757'275'648, 0, 0},
                    Size{"hadamard_pretrain", {"model.mixer.output=hadamard"}, 116'633'088, 0, 0},
                    Size{"hadamard_small", {"model.mixer.output=hadamard"}, 328'665'056, 0, 0},
                    Size{"hadamard_base", {"model.mixer.output=hadamard"}, 700'689'408, 0, 0},
                    Size{"gpt2_base", {}, kGpt2, 0, kGpt2Mixers},
                    Size{"gpt2_base", plain_heads("mha"), kGpt2 - kGpt2Mixers + 28'311'552, 0, 28'311'552},
                    Size{"gpt2_base", plain_heads("sha"), kGpt2 - kGpt2Mixers + 8'847'360, 0, 8'847'360},
                    Size{"gpt2_base", plain_heads("skv"), kGpt2 - kGpt2Mixers + 21'233'664, 0, 21'233'664},
                    Size{"gpt2_base", plain_heads("el_att"), kGpt2 - kGpt2Mixers + 14'155'776, 0, 14'155'776},
                    Size{"gpt2_base", plain_heads("mqa"), kGpt2 - kGpt2Mixers + 15'335'424, 0, 15'335'424},
                    Size{"gpt2_base", plain_heads("mhe_add"), kGpt2 - kGpt2Mixers + 8'875'008, 0, 8'875'008},
                    Size{"mhe_pretrain", {}, 0, 0, 8'875'008}),
    [](const auto& info) {
      std::string name = info.param.name + (info.param.set.empty() ? "" : info.param.set[0].substr(17));
      std::replace(name.begin(), name.end(), '.', '_');
      std::replace(name.begin(), name.end(), '=', '_');
      return name;
    });

TEST(Presets, EncodersLearnFromTextAndThenFromTasks) {
  for (const char* name : {"hashformer_pretrain", "mhe_pretrain"}) {
    const Recipe r = preset(name);
    const bool words = r.data.tokenizer.type == "words";
    EXPECT_EQ(r.model.architecture, Architecture::encoder);
    EXPECT_EQ(r.model.head.type, words ? "tag" : "mlm");
    EXPECT_EQ(r.train.objective.type, words ? "shuffle_random" : "mlm");
    EXPECT_EQ(r.data.tokenizer.type, words ? "words" : "wordpiece");
    EXPECT_EQ(r.data.sequence_length, 512);
    EXPECT_EQ(r.model.mixer.options.find("attention_dropout")->text(), "0.1");
    EXPECT_FALSE(r.has_task());
  }
  EXPECT_EQ(preset("mhe_pretrain").data.tokenizer.vocab_size, 30000);
  for (const char* name : {"hashformer_finetune", "mhe_finetune"}) {
    const Recipe r = preset(name);
    EXPECT_TRUE(r.has_task());
    EXPECT_EQ(r.train.objective.type, "task");
    EXPECT_EQ(r.model.head.type, "classify");
    EXPECT_EQ(r.train.eval_steps, 421);
    EXPECT_EQ(r.train.early_stopping_patience > 0, std::string(name) == "mhe_finetune");
  }
}

// The overrides that the recipe's comment names.
TEST(Presets, TheVariantsOfHashformersAreAnOverrideAway) {
  const auto with = [](const std::vector<std::string>& set) {
    return load_recipe("recipes/presets/hashformer_pretrain.yaml", set);
  };
  EXPECT_EQ(with({"data.tokenizer.hash=lsh"}).data.tokenizer.words.hash, "lsh");
  EXPECT_EQ(with({"model.embedding=hash_add"}).model.embedding.type, "hash_add");
  EXPECT_EQ(with({"model.embedding=hash_proj"}).model.embedding.type, "hash_proj");
  const Recipe table =
      with({"model.embedding={type: hash_table, num_buckets: 50000}", "data.tokenizer={type: words, code: bucket}"});
  EXPECT_EQ(table.data.tokenizer.words.num_buckets, 50000);
  const Recipe mlm =
      with({"train.objective=mlm", "train.learning_rate=1e-4", "model.head=mlm", "model.embedding=lookup",
            "model.tie_word_embeddings=true",
            "data.tokenizer={type: bpe, vocab_size: 50265, specials: [<s>, <pad>, </s>, <unk>, <mask>]}"});
  EXPECT_EQ(mlm.train.learning_rate, 1e-4);
  EXPECT_EQ(mlm.model.embedding.type, "lookup");
  EXPECT_EQ(mlm.data.tokenizer.vocab_size, 50265);
}

struct HashSize {
  std::string embedding;
  int64_t token_width, published;  // ints a token; parameters of the embedding as in Table 2.2
  double millions;                 // of the whole model, published
};

class HashformerSize : public testing::TestWithParam<HashSize> {};

// The published models are RoBERTa's base encoder with a binary head. It has one row of a token type, and the published
// hash embeddings have one row of padding; ours have neither, but six rows of special tokens, which are not counted
// there. oracle: metric.embedding_efficiency
TEST_P(HashformerSize, IsThePublishedOneButForSpecialRows) {
  const HashSize& want = GetParam();
  constexpr int64_t d = 768, words = 50'265, base = 124'647'170;
  const bool lookup = want.embedding == "lookup", table = want.embedding.starts_with("{type: hash_table");
  Recipe r = load_recipe("recipes/presets/hashformer_pretrain.yaml",
                         {"model.head=classify", "model.num_labels=2", "model.embedding=" + want.embedding});
  r.model.complete(lookup ? words : code_values, want.token_width, 514);
  const Model model(r.model, {.device = Device::meta});
  int64_t embedding = 0;
  for (const Parameter& p : model.parameters().all())
    if (p.name == "embedding.special")
      EXPECT_EQ(p.master.value().numel(), code_values * d);
    else if (p.name.starts_with("embedding."))
      embedding += p.master.value().numel();
  const int64_t special = lookup ? 0 : code_values * d, padding = lookup || table ? 0 : d;
  EXPECT_EQ(embedding + padding, want.published);
  const int64_t published = model.parameters().count() - special + padding + d;
  EXPECT_EQ(published, base - words * d + want.published);
  EXPECT_EQ(std::round(double(published) / 1e4) / 100, want.millions);
}

INSTANTIATE_TEST_SUITE_P(All, HashformerSize,
                         testing::Values(HashSize{"lookup", 1, 38'603'520, 124.65},
                                         HashSize{"{type: hash_table, num_buckets: 50265}", 2, 38'603'520, 124.65},
                                         HashSize{"{type: hash_table, num_buckets: 1038}", 2, 797'184, 86.84},
                                         HashSize{"hash_pool", 5, 797'184, 86.84},
                                         HashSize{"hash_add", 5, 197'376, 86.24},
                                         HashSize{"hash_proj", 5, 99'072, 86.14}));

// Every recipe in the repository is read, is valid, and comes back the same from what a run stores.
TEST(Recipes, AllParseAndRoundTrip) {
  int count = 0;
  const kit::Scratch scratch;
  for (const auto& entry : fs::recursive_directory_iterator("recipes")) {
    if (entry.path().extension() != ".yaml") continue;
    // Experiments and searches change recipes; tests/compare reads them. Zero-shot tasks are none.
    const Node file = parse_yaml(read_file(entry.path()), entry.path().string());
    if (file.find("variants") || file.find("choices") || file.find("output_type")) continue;
    SCOPED_TRACE(entry.path());
    ++count;
    const Recipe r = load_recipe(entry.path(), {});
    r.train.validate(r.data.sequence_length);
    r.generate.validate();
    const std::string stored = to_yaml(resolved(r));
    EXPECT_EQ(to_yaml(resolved(load_recipe(scratch.add("again.yaml", stored), {}))), stored);
    EXPECT_EQ(read_file(entry.path()).front(), '#') << "a shipped recipe says what it is in its first line";
  }
  EXPECT_GE(count, 9);
}

}  // namespace
}  // namespace lithe

// Translation from recipe to BLEU: training, the choice of the best model, averaged weights, vocabularies.
#include "lithe/eval/translation_evaluation.h"

#include "lithe/infer/load.h"
#include "lithe/model/safetensors.h"
#include "lithe/train/checkpoint.h"
#include "lithe/train/trainer.h"
#include "tests/train/run_kit.h"

namespace lithe {
namespace {

namespace fs = std::filesystem;

// Each word has its own translation, in the same order: what a small model learns in seconds.
std::string pairs(int64_t from, int64_t to) {
  static const std::vector<std::pair<std::string, std::string>> words = {
      {"one", "eins"}, {"two", "zwei"}, {"three", "drei"}, {"dog", "hund"}, {"cat", "katze"}, {"house", "haus"}};
  std::string out;
  for (int64_t i = from; i < to; ++i) {
    std::string source, target;
    const RandomKey key{.seed = 7, .purpose = purpose_of("test.pairs")};
    for (uint64_t w = 0; w < 4; ++w) {
      const auto& [a, b] = words[random_below(key, uint64_t(i) * 4 + w, words.size())];
      source += (w ? " " : "") + a;
      target += (w ? " " : "") + b;
    }
    out += source + "\t" + target + "\n";
  }
  return out;
}

class TranslationRun : public testing::Test {
 protected:
  TranslationRun() {
    train_ = kit_.scratch.add("train.tsv", pairs(0, 600));
    valid_ = kit_.scratch.add("valid.tsv", pairs(600, 620));
  }
  TrainRun run(const std::string& train, const std::string& out = "run", const std::string& data = "",
               const std::string& more = "", const std::string& metric = "bleu") {
    TrainRun run = kit_.run(
        "{architecture: encoder_decoder, hidden_size: 32, num_hidden_layers: 1, position: learned, norm: layer, "
        "mixer: {type: attention, num_attention_heads: 2}, ffn: {type: relu, intermediate_size: 64}" +
            more + "}",
        "{files: [], sequence_length: 32, tokenizer: {type: bpe, vocab_size: 300}" + data + "}",
        "{objective: seq2seq, batch_tokens: 512, learning_rate: 0.005, weight_decay: 0, logging_steps: 10, " + train +
            "}",
        out);
    TranslationConfig& translation = run.recipe.translation;
    translation.max_length = 32;
    translation.metric_for_best_model = metric;
    translation.train.pairs = {train_};
    translation.validation.pairs = {valid_};
    return run;
  }

  kit::TrainKit kit_;
  std::string train_, valid_;
};

TEST_F(TranslationRun, LearnsToTranslateAndKeepsTheBestByBleu) {
  const TrainRun r = run("max_steps: 2500, eval_steps: 500, save_steps: 500");
  const TrainResult result = train(r);
  std::map<std::string, double> metrics(result.metrics.begin(), result.metrics.end());
  EXPECT_GT(metrics.at("bleu"), 90);
  EXPECT_GT(metrics.at("chrf"), 90);
  EXPECT_TRUE(result.perplexity);
  EXPECT_LE(result.measured.peak, result.planned.peak) << "the plan is a bound";
  const LoadedModel loaded = load_model(r.out, "best", "f32");
  ASSERT_EQ(loaded.source_tokenizer, loaded.tokenizer);
  const auto best = translate(*loaded.model, *loaded.source_tokenizer, *loaded.tokenizer,
                              {"two cat house one", "", "dog dog three one"}, {});
  EXPECT_EQ(best[0][0].text, "zwei katze haus eins");
  EXPECT_EQ(best[1][0].text, "");
  EXPECT_EQ(best[2][0].text, "hund hund drei eins");
}

TEST_F(TranslationRun, AveragedWeightsAreTheMeanOfTheLastCheckpoints) {
  const TrainRun r =
      run("max_steps: 40, save_steps: 10, save_total_limit: 3, average_checkpoints: 3", "run", "", "", "loss");
  train(r);
  const SafetensorsFile averaged(r.out / "averaged" / "model.safetensors");
  for (const auto& [name, entry] : averaged.entries()) {
    const Tensor got = empty(entry.shape, entry.dtype);
    averaged.read(name, got);
    std::vector<double> mean(size_t(got.numel()), 0);
    for (int64_t step : {20, 30, 40}) {
      const SafetensorsFile one(checkpoint_path(r.out, step) / "model.safetensors");
      const Tensor x = empty(entry.shape, entry.dtype);
      one.read(name, x);
      for (int64_t i = 0; i < x.numel(); ++i) mean[size_t(i)] += value_at(x, i) / 3;
    }
    for (int64_t i = 0; i < got.numel(); ++i)
      ASSERT_EQ(float(value_at(got, i)), float(mean[size_t(i)])) << name << " element " << i;
  }
  EXPECT_NO_THROW(load_model(r.out, "averaged", "f32"));
  EXPECT_EQ(kit::coded_error_of([&] { run("max_steps: 4, average_checkpoints: 2").recipe.train.validate(32); }),
            "2 train: average_checkpoints 2 needs save_steps above 0 and a save_total_limit of as many, got 0 and 2");
}

TEST_F(TranslationRun, AVocabularyForEachSide) {
  const std::string own = ", source_tokenizer: {type: bpe, vocab_size: 280}";
  EXPECT_EQ(kit::coded_error_of([&] { train(run("max_steps: 2", "refused", own)); }),
            "2 model: data.source_tokenizer gives the source a vocabulary of its own; set "
            "share_encoder_decoder_embeddings to false");
  const TrainRun r =
      run("max_steps: 3", "own", own, ", share_encoder_decoder_embeddings: false, tie_word_embeddings: true", "loss");
  train(r);
  const LoadedModel loaded = load_model(r.out, "", "f32");
  EXPECT_NE(loaded.source_tokenizer, loaded.tokenizer);
  EXPECT_EQ(loaded.model->config().encoder_config().vocab_size, loaded.source_tokenizer->vocab_size());
  EXPECT_TRUE(fs::exists(r.out / "source" / "tokenizer.json"));
  // It is resumed with the same tokenizers.
  TrainRun on = r;
  on.resume = true;
  on.recipe.train.max_steps = 3;
  EXPECT_EQ(train(on).steps, 3);
}

TEST_F(TranslationRun, AResumedRunHasTheSameBits) {
  const std::string plan = "max_steps: 24, eval_steps: 8, save_steps: 8, save_total_limit: 5";
  const TrainRun whole = run(plan, "whole");
  train(whole);
  TrainRun resumed = run(plan, "resumed");
  train(resumed);
  // As if it had been killed after step 8.
  for (int64_t step : {16, 24}) fs::remove_all(checkpoint_path(resumed.out, step));
  resumed.resume = true;
  train(resumed);
  EXPECT_TRUE(read_file(whole.out / "model.safetensors") == read_file(resumed.out / "model.safetensors"));
  EXPECT_EQ(read_file(whole.out / "metrics.jsonl"), read_file(resumed.out / "metrics.jsonl"));
}

TEST_F(TranslationRun, WhatDoesNotBelongTogetherIsRefused) {
  TrainRun no_section = run("max_steps: 2", "a");
  no_section.recipe.translation = {};
  no_section.recipe.data.files = {train_};
  EXPECT_EQ(kit::coded_error_of([&] { train(no_section); }),
            "2 train: objective seq2seq and a section translation belong together; the objective is seq2seq, and there "
            "is none");
  TrainRun decoder = run("max_steps: 2", "b");
  decoder.recipe.model.architecture = Architecture::decoder;
  EXPECT_EQ(kit::coded_error_of([&] { train(decoder); }),
            "2 train: objective seq2seq needs model.architecture encoder_decoder, not decoder");
  TrainRun longer = run("max_steps: 2", "c");
  longer.recipe.translation.max_length = 64;
  EXPECT_EQ(kit::coded_error_of([&] { train(longer); }),
            "2 translation: max_length 64 is above data.sequence_length 32, the most that the model has positions for");
}

}  // namespace
}  // namespace lithe

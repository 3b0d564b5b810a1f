// Comparing models that translate: their scores and the noise of these, what they share with comparisons of text, and
// what is refused.
#include "lithe/compare/translation.h"

#include <cmath>
#include <csignal>
#include <thread>

#include "lithe/base/stop.h"
#include "lithe/eval/bleu.h"
#include "tests/compare/compare_kit.h"
#include "tests/support/text.h"

namespace lithe::compare {
namespace {

const std::string kFew = "measure: {sentences: 5, repeats: 3, train_steps: 1}\n";

using kit::contains;

// A language of twelve words, one for one: base.yaml learns it from 120 sentences.
struct TranslationKit : kit::CompareKit {
  TranslationKit() {
    corpus("train", 120);
    corpus("validation", 8);
    corpus("test", 24);
    translating("base.yaml");
  }

  void corpus(const std::string& part, uint64_t sentences) const {
    std::string source, target;
    for (uint64_t i = 0; i < sentences; ++i) {
      source += "this is";
      target += "das ist";
      for (uint64_t w = 0; w < 1 + i % 3; ++w) {
        const uint64_t word = random_below({.seed = purpose_of(part.c_str())}, 4 * i + w, 10);
        source += cat(" x", word);
        target += cat(" y", word);
      }
      source += "\n";
      target += " .\n";
    }
    write_file(directory / (part + ".en"), source);
    write_file(directory / (part + ".de"), target);
  }

  void translating(const std::string& name, const std::string& model = "hidden_size: 16, num_hidden_layers: 1",
                   const std::string& parts = "train validation test", int64_t heads = 4) const {
    std::string translation = "max_length: 32";
    for (const std::string part : {"train", "validation", "test"})
      if (contains(parts, part)) {
        const std::string file = (directory / part).string();
        translation += cat(", ", part, ": {source: [", file, ".en], target: [", file, ".de]}");
      }
    write_file(directory / name,
               cat("model: {architecture: encoder_decoder, ", model, ", mixer: {type: attention, num_attention_heads: ",
                   heads, "}, ffn: {type: relu, intermediate_size: 32}}\ntranslation: {", translation,
                   "}\ntranslate: {num_beams: 2}\ndata: {tokenizer: {type: bpe, vocab_size: 290}, sequence_length: 32, "
                   "cache_directory: ",
                   (directory / "cache").string(),
                   "}\ntrain: {objective: seq2seq, max_steps: 60, batch_tokens: 256, learning_rate: 0.01}\n"));
  }
};

TEST(CompareTranslations, TheFilesHoldEverything) {
  const TranslationKit kit;
  const Comparison c = kit.run(kit::kHeads + "seeds: [1, 2]\n" + kFew);
  const Json json = kit.json();
  EXPECT_EQ(json.at("score"), "bleu");
  EXPECT_TRUE(contains(json.at("held_out"), "24 sentences of the test part")) << json.at("held_out");
  for (const Json& v : json.at("variants")) {
    const bool base = v.at("name") == "mha";
    for (const char* metric : {"bleu", "chrf"}) {
      const Json& m = v.at(metric);
      double mean = 0;
      for (const Json& run : v.at("runs")) mean += run.at(metric).get<double>() / 2;
      EXPECT_NEAR(m.at("score"), mean, 1e-9);
      EXPECT_GT(mean, 0);
      EXPECT_LE(m.at("low"), m.at("high"));
      EXPECT_EQ(m.contains("p"), !base);
      if (base) continue;
      EXPECT_GT(m.at("p"), 0);
      EXPECT_LE(m.at("p"), m.at("p_corrected"));
      EXPECT_LE(m.at("p_corrected"), 1);
    }
    EXPECT_EQ(v.at("score"), (v.at("runs")[0].at("bleu").get<double>() + v.at("runs")[1].at("bleu").get<double>()) / 2);
    for (const Json& run : v.at("runs")) {
      EXPECT_NEAR(run.at("token_perplexity"), std::exp(run.at("loss").get<double>()), 1e-9);
      EXPECT_GT(run.at("measured_peak_bytes"), 0);
      EXPECT_LE(run.at("measured_peak_bytes"), run.at("planned_peak_bytes"));  // a bound: batches differ
      // What a text alone has is not there.
      for (const char* key : {"word_perplexity", "bits_per_byte"}) EXPECT_FALSE(run.contains(key)) << key;
    }
    EXPECT_FALSE(v.at("speed").contains("cells"));
    EXPECT_GT(v.at("speed").at("training_step").at("tokens_per_second"), 0);
    const Json& searches = v.at("speed").at("translation");
    ASSERT_EQ(searches.size(), 2u);
    EXPECT_EQ(searches[0].at("num_beams"), 1);
    EXPECT_EQ(searches[1].at("num_beams"), 2);
    for (const Json& s : searches) {
      EXPECT_EQ(s.at("sentences"), 5);
      EXPECT_GT(s.at("sentences_per_second"), 0);
    }
  }
  // PRR and PEoP are the thesis's of BLEU, over the seeds that both finished.
  const auto& mha = c.variants[0];
  const auto& sha = c.variants[1];
  EXPECT_EQ(mha.prr, 100);
  double prr = 0, peop = 0;
  for (size_t s = 0; s < 2; ++s) {
    prr += 100 * sha.runs[s].bleu / mha.runs[s].bleu / 2;
    peop += (mha.runs[s].bleu / sha.runs[s].bleu - 1) /
            (double(mha.mixer_parameters) / double(sha.mixer_parameters) - 1) / 2;
  }
  EXPECT_NEAR(sha.prr, prr, 1e-9);
  EXPECT_NEAR(mha.peop_mixer, peop, 1e-9 * std::max(1.0, std::abs(peop)));
  EXPECT_TRUE(std::isnan(sha.peop_mixer));
  // One layer of width 16 in f32 keeps a key and a value of either side; with one head of four a quarter of that.
  EXPECT_EQ(mha.target_state, 2 * 16 * 4);
  EXPECT_EQ(mha.source_state, 2 * 16 * 4);
  EXPECT_EQ(sha.target_state, 2 * 4 * 4);
  EXPECT_EQ(sha.source_state, 2 * 4 * 4);
  EXPECT_EQ(json.at("variants")[1].at("state_bytes_per_source_token"), 2 * 4 * 4);
  EXPECT_EQ(json.at("speed_differences").size(), 2u * (1 + 2));
  const std::string markdown = read_file(kit.directory / "out/comparison.md"),
                    page = read_file(kit.directory / "out/comparison.html");
  for (const std::string& text : {markdown, page})
    for (const char* word : {"BLEU", "chrF", "95 %", "PRR", "PEoP", "Translations", "paired bootstrap"})
      EXPECT_TRUE(contains(text, word)) << word;
  for (const char* word : {"prefill", "Prefill", "Reading a prompt"}) {
    EXPECT_FALSE(contains(markdown, word)) << word;
    EXPECT_FALSE(contains(page, word)) << word;
  }
}

// Table 3.3 counts six layers of each side, three attentions a pair of layers, and no biases.
// oracle: mixer.sha mixer.el_att mixer.mqa mixer.skv mixer.mhe_mul mixer.mhe_add
TEST(CompareTranslations, AttentionsOfAllThreeKindsAreCounted) {
  const TranslationKit kit;
  kit.translating("base.yaml", "hidden_size: 512, num_hidden_layers: 6", "train test", 8);
  const Comparison c = kit.plan(
      "baseline: mha\nvariants: {mha: {}, sha: {model.mixer.heads: sha}, el: {model.mixer.heads: el_att}, "
      "mqa: {model.mixer.heads: mqa}, skv: {model.mixer.heads: skv}, mul: {model.mixer.heads: mhe_mul}, "
      "add: {model.mixer.heads: mhe_add}}\n");
  const int64_t published[] = {18874368, 6488064, 9437184, 10616832, 14155776, 6515712, 6515712};
  for (size_t v = 0; v < c.variants.size(); ++v) EXPECT_EQ(c.variants[v].mixer_parameters, published[v]) << c.name(v);
}

TEST(CompareTranslations, EqualTranslationsAreNoDifference) {
  const TranslationKit kit;
  const Comparison c = kit.run(kit::kTwins + "seeds: [1, 2]\nmeasure: {repeats: 0}\n");
  const ResampledMetric& bleu = c.variants[1].translation->bleu;
  EXPECT_EQ(c.variants[0].runs[0].translations, c.variants[1].runs[0].translations);
  EXPECT_EQ(bleu.p, 1);
  EXPECT_FALSE(bleu.beyond);
  EXPECT_EQ(c.losses[0].both.value, 0);
  EXPECT_FALSE(c.winner);
}

// The scores of translations that are known, of a baseline and one other, by seed.
TranslationResult resampled(const std::vector<std::vector<std::string>>& baseline,
                            const std::vector<std::vector<std::string>>& other) {
  const TranslationKit kit;
  Comparison c = kit.plan(kit::kTwins);
  Translations t;
  for (const char* reference : {"the cat sat on the mat", "a dog ran", "it was late in the day", "who are you"})
    t.held_out.push_back({"source", reference});
  for (size_t v = 0; v < 2; ++v)
    for (const auto& translations : v == 0 ? baseline : other) {
      Outcome& run = c.variants[v].runs.emplace_back();
      run.seed = int64_t(c.variants[v].runs.size());
      run.status = RunStatus::finished;
      run.translations = translations;
      count_matches(t, run);
    }
  resample(c);
  return *c.variants[1].translation;
}

const std::vector<std::string> kRight{"the cat sat on the mat", "a dog ran", "it was late in the day", "who are you"},
    kNear{"the cat sat on a mat", "a dog ran", "it was late today", "who are they"}, kWrong{"x", "y", "z", "w"},
    kOtherwiseWrong{"u v", "y", "z", "w"};

TEST(CompareTranslations, WithOneSeedTheyAreThePairedBootstrap) {
  const TextReferences references{kRight};
  const Bleu bleu;
  const PairedBootstrap expected =
      paired_bootstrap(bleu, segment_counts(bleu, kRight, references), segment_counts(bleu, kNear, references));
  const ResampledMetric m = resampled({kRight}, {kNear}).bleu;
  EXPECT_EQ(m.p, expected.p);
  EXPECT_EQ(m.score.score, expected.system.score);
  EXPECT_EQ(m.score.low, expected.system.low);
  EXPECT_EQ(m.score.high, expected.system.high);
}

TEST(CompareTranslations, SeedsAreAveragedAndOnlyCommonOnesPaired) {
  const ResampledMetric near = resampled({kRight}, {kNear}).bleu, wrong = resampled({kRight}, {kWrong}).bleu,
                        both = resampled({kRight}, {kNear, kWrong}).bleu;
  EXPECT_DOUBLE_EQ(both.score.score, (near.score.score + wrong.score.score) / 2);
  EXPECT_EQ(both.p, near.p);  // the second seed has no run of the baseline
}

TEST(CompareTranslations, EqualScoresAreNoDifference) {
  const ResampledMetric nothing = resampled({kWrong}, {kOtherwiseWrong}).bleu;  // of unlike lengths, both match nothing
  EXPECT_EQ(nothing.score.score, 0);
  EXPECT_EQ(nothing.p, 1);
  EXPECT_FALSE(nothing.beyond);
}

TEST(CompareTranslations, WithoutAMatchRetentionIsUndefined) {
  const TranslationKit kit;
  const Comparison c =
      kit.run(kit::kTwins + "set: {train.learning_rate: 1.0e-9, train.max_steps: 1}\nmeasure: {repeats: 0}\n");
  ASSERT_EQ(c.variants[0].runs[0].bleu, 0) << "this test needs a model that matches nothing";
  EXPECT_TRUE(kit.json().at("variants")[1].at("prr").is_null());
}

TEST(CompareTranslations, ASystemThatLearnedNothingIsWorseBeyondTheNoise) {
  const TranslationKit kit;
  const Comparison c = kit.run(
      "baseline: a\nvariants: {a: {}, b: {train.learning_rate: 1.0e-6}}\nseeds: [1, 2]\nmeasure: {repeats: 0}\n");
  const ResampledMetric& chrf = c.variants[1].translation->chrf;
  EXPECT_LT(chrf.score.score, c.variants[0].translation->chrf.score.score);
  EXPECT_TRUE(chrf.beyond) << chrf.p;
  EXPECT_LT(c.variants[1].prr, 100);
  EXPECT_TRUE(std::any_of(c.sentences.begin(), c.sentences.end(),
                          [](const std::string& s) { return contains(s, "Lower BLEU than a"); }));
}

TEST(CompareTranslations, ContinuesWithTheSameNumbers) {
  const TranslationKit kit;
  const Path run = run_directory(kit.directory / "out", "sha", 1);
  std::atomic<bool> over = false;
  std::thread interrupter([&] {
    while (!over && !std::filesystem::exists(run / "metrics.jsonl")) std::this_thread::yield();
    set_stop_signal(SIGINT);
  });
  const Comparison stopped = kit.run(kit::kHeads + kFew);
  over = true;
  interrupter.join();
  set_stop_signal(0);
  EXPECT_EQ(stopped.status, Progress::stopped);
  const Comparison first = kit.run(kit::kHeads + kFew);
  const auto trained = std::filesystem::last_write_time(run / "model.safetensors");
  const auto again = [&] {
    const Comparison c = kit.run(kit::kHeads + kFew);
    EXPECT_EQ(c.status, Progress::complete);
    EXPECT_EQ(std::filesystem::last_write_time(run / "model.safetensors"), trained);
    for (size_t v = 0; v < 3; ++v) {
      EXPECT_EQ(c.variants[v].runs[0].translations, first.variants[v].runs[0].translations);
      EXPECT_EQ(c.variants[v].translation->bleu.score.low, first.variants[v].translation->bleu.score.low);
      EXPECT_EQ(c.speed.rounds[2][v].translation, first.speed.rounds[2][v].translation);
    }
    EXPECT_EQ(c.sentences, first.sentences);
  };
  again();
  write_file(run / "quality.json", "{\"key\": 1");  // damaged: translated again
  again();
  Json fewer = parse_json(read_file(run / "quality.json"), "quality");
  fewer["translations"].erase(0);
  write_file(run / "quality.json", fewer.dump());
  again();
  // Rounds of another shape are not read as if they were these.
  Json rounds = parse_json(read_file(kit.directory / "out/rounds.json"), "rounds");
  rounds["rounds"][0][1]["translation"] = Json::array();
  write_file(kit.directory / "out/rounds.json", rounds.dump());
  EXPECT_EQ(kit.run(kit::kHeads + kFew).speed.rounds.size(), 3u);
}

// Sources in bytes have several times the rows of their translations, and still every sequence has positions.
TEST(CompareTranslations, SourcesMayBeMuchLongerThanTranslations) {
  const TranslationKit kit;
  const Comparison c = kit.plan(kit::kTwins +
                                "set: {data.source_tokenizer: {type: bytes}, "
                                "model.share_encoder_decoder_embeddings: false, train.batch_tokens: 512}\n");
  EXPECT_GT(c.variants[0].variant.plan.memory.peak, 0);
}

TEST(CompareTranslations, ParametersAreMatched) {
  const TranslationKit kit;
  const Comparison c = kit.plan(
      "baseline: mha\nvariants: {mha: {}, sha: {model.mixer.heads: sha}}\n"
      "budget: {match: parameters, solve: model.ffn.intermediate_size, multiple_of: 1, tolerance: 0.02}\n");
  const Variant& sha = c.variants[1].variant;
  EXPECT_GT(sha.share.to, 32);
  EXPECT_NEAR(sha.share.amount / sha.share.target, 1, 0.02);
}

TEST(CompareTranslations, RefusesWhatCannotBeCompared) {
  const TranslationKit kit;
  kit.recipe("text.yaml", "");
  EXPECT_TRUE(contains(kit.refusal("baseline: a\nvariants: {a: {}, b: {recipe: text.yaml}}\n"),
                       "train.objective must be the same in all variants: it is clm in 'b' and seq2seq in 'a'"));
  EXPECT_TRUE(contains(kit.refusal("baseline: a\nvariants: {a: {}, b: {translate.num_beams: 4}}\n"),
                       "translate.num_beams must be the same in all variants"));
  EXPECT_TRUE(contains(kit.refusal("baseline: a\nvariants: {a: {}, b: {translation.max_length: 16}}\n"),
                       "translation.max_length must be the same in all variants"));
  EXPECT_TRUE(contains(kit.refusal(kit::kTwins + "score: word_perplexity\n"), "score word_perplexity is of a text"));
  EXPECT_EQ(kit.plan(kit::kTwins + "score: chrf\n").experiment.score, "chrf");
  kit.translating("base.yaml", "hidden_size: 16, num_hidden_layers: 1", "train");
  EXPECT_TRUE(contains(kit.refusal(kit::kTwins), "the recipe holds no translations out"));
  kit.translating("base.yaml", "hidden_size: 16, num_hidden_layers: 1", "train validation");
  EXPECT_TRUE(contains(kit.plan(kit::kTwins).held_out, "8 sentences of the validation part"));
  const kit::CompareKit texts;
  EXPECT_TRUE(contains(texts.refusal(kit::kTwins + "score: bleu\n"), "score bleu is of translations"));
}

}  // namespace
}  // namespace lithe::compare

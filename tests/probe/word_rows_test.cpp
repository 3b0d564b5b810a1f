// Rows and maps of words, of models that are not trained, and tasks over them.
#include "lithe/probe/word_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "lithe/base/error.h"
#include "lithe/probe/cloze.h"
#include "lithe/probe/probing.h"
#include "lithe/probe/tasks.h"
#include "lithe/text/framing.h"
#include "tests/support/data.h"
#include "tests/support/model_kit.h"
#include "tests/support/text.h"

namespace lithe::probe {
namespace {

constexpr const char* kTexts[] = {"shiji was written by sima qian .", "the cat sat on the mat", "a poem by li bai"};

LoadedModel model_of(const std::string& more, uint64_t seed = 1) {
  LoadedModel loaded;
  WordPieceTrainer trainer({.vocab_size = 200, .min_frequency = 1});
  for (int i = 0; i < 20; ++i)
    for (const char* text : kTexts) trainer.add(text);
  loaded.tokenizer = trainer.train();
  loaded.model = std::make_unique<Model>(
      kit::model_config(cat(
          "{architecture: encoder, hidden_size: 12, num_hidden_layers: 2, vocab_size: ", loaded.tokenizer->vocab_size(),
          ", max_position_embeddings: 40, mixer: {type: attention, num_attention_heads: 3}, ffn: {type: "
          "relu, intermediate_size: 16}, head: {type: mlm}, ",
          more, "}")),
      ModelOptions{.seed = seed});
  kit::randomise(loaded.model->parameters(), seed);
  return loaded;
}

std::vector<Sentence> sentences() {
  return {{{"the", "cat", "sat"}, {true, true, true}}, {{"sima", "qian"}, {true, true}}, {{"a", "mat"}, {}}};
}

std::vector<float> all_numbers(const WordRows& rows) {
  std::vector<float> out;
  for (int64_t l = 0; l < rows.layers(); ++l) out.insert(out.end(), rows.layer(l).begin(), rows.layer(l).end());
  return out;
}

TEST(WordRows, AreOfEveryLayerFromTheEmbeddingsOnAndAlikeFromDisk) {
  const LoadedModel loaded = model_of("position: learned");
  std::vector<float> before;
  for (const Parameter& p : loaded.model->parameters().all())
    for (int64_t i = 0; i < p.master.value().numel(); ++i) before.push_back(float(value_at(p.master.value(), i)));
  const Probed model = probed(loaded);
  const WordRows rows = word_rows(model, sentences(), {});
  EXPECT_EQ(rows.layers(), 3);
  EXPECT_EQ(rows.words(), 7);
  EXPECT_EQ(rows.width(), 12);
  const std::vector<float> numbers = all_numbers(rows);

  const Path cache = Path(testing::TempDir()) / "probe-word-rows";
  std::filesystem::remove_all(cache);
  const RowOptions options{.cache = cache, .fingerprint = 7};
  EXPECT_EQ(all_numbers(word_rows(model, sentences(), options)), numbers);
  EXPECT_EQ(all_numbers(word_rows(model, sentences(), options)), numbers);  // read again
  // A damaged file is made anew; other options, sentences and models have other files.
  std::vector<Path> files;
  for (const auto& entry : std::filesystem::directory_iterator(cache)) files.push_back(entry.path());
  EXPECT_EQ(files.size(), 3u);
  std::fstream(files[0], std::ios::in | std::ios::out | std::ios::binary) << "damaged";
  EXPECT_EQ(all_numbers(word_rows(model, sentences(), options)), numbers);
  word_rows(model, sentences(), {.pieces = "last", .cache = cache, .fingerprint = 7});
  word_rows(model, {sentences()[0]}, options);
  word_rows(model, sentences(), {.cache = cache, .fingerprint = 8});
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(cache), {}), 12);
  std::filesystem::remove_all(cache);

  std::vector<float> after;  // the model stays as it was, and gathers no gradients
  for (const Parameter& p : loaded.model->parameters().all()) {
    for (int64_t i = 0; i < p.master.value().numel(); ++i) after.push_back(float(value_at(p.master.value(), i)));
    EXPECT_FALSE(p.master.grad().defined());
  }
  EXPECT_EQ(before, after);
}

TEST(WordRows, OfASentenceDoNotDependOnTheOthers) {
  const LoadedModel loaded = model_of("position: sinusoidal");
  const Probed model = probed(loaded);
  const WordRows all = word_rows(model, sentences(), {}), alone = word_rows(model, {sentences()[1]}, {});
  for (int64_t l = 0; l < 3; ++l)
    for (int64_t i = 0; i < 2 * 12; ++i) EXPECT_EQ(all.row(l, 3)[i], alone.row(l, 0)[i]);
}

TEST(WordRows, OfPiecesAreTheirMeanOrOneOfThem) {
  const LoadedModel loaded = model_of("position: learned");
  const Probed model = probed(loaded);
  const WordRows mean = word_rows(model, {{{"matsat"}, {}}}, {}),
                 first = word_rows(model, {{{"matsat"}, {}}}, {.pieces = "first"}),
                 last = word_rows(model, {{{"matsat"}, {}}}, {.pieces = "last"});
  const auto pieces = int64_t(loaded.tokenizer->encode("matsat").size());
  ASSERT_GE(pieces, 2);
  for (int64_t c = 0; pieces == 2 && c < 12; ++c)
    EXPECT_NEAR(mean.row(2, 0)[c], (first.row(2, 0)[c] + last.row(2, 0)[c]) / 2, 1e-5);
  EXPECT_NE(all_numbers(first), all_numbers(last));
  EXPECT_THROW(word_rows(model, sentences(), {.pieces = "max"}), Error);
  EXPECT_EQ(fitting(model, {{{"the", "cat"}, {}}, {{"the", "cat", "sat", "on"}, {}}, {{}, {}}}, 5),
            (std::vector<bool>{true, false, false}));
}

// Above a compressor a word has the rows that stand for its tokens: [CLS] the | cat sat | [SEP].
TEST(WordRows, AreThoseOfFewerRowsAboveACompressor) {
  const LoadedModel loaded = model_of(
      "position: learned, layers: {short: {compressor: {type: pool, size: 2}}, long: {expander: repeat}}, layer_types: "
      "[short, long]");
  const std::vector<Sentence> one{{{"the", "cat", "sat"}, {}}};
  const WordRows rows = word_rows(probed(loaded), one, {});
  for (int64_t c = 0; c < 12; ++c) EXPECT_EQ(rows.row(1, 1)[c], rows.row(1, 2)[c]);
  bool same = true;
  for (int64_t c = 0; c < 12; ++c) same = same && rows.row(1, 0)[c] == rows.row(1, 1)[c];
  EXPECT_FALSE(same);
  // What leaves the layer, of the row that the model has for these tokens.
  const std::vector<int32_t> ids =
      frame(*loaded.tokenizer, loaded.tokenizer->encode("the cat sat"), {}, false, 40).tokens;
  ASSERT_EQ(ids.size(), 5u);
  Pass pass;
  pass.want({Tap::Kind::rows, 0});
  const NoGrad no_grad;
  loaded.model->run({tensor_of({5}, ids), Sequences::single(5)}, pass);
  const Tensor layer = pass.get({Tap::Kind::rows, 0}).value();
  ASSERT_EQ(layer.rows(), 3);
  for (int64_t c = 0; c < 12; ++c) EXPECT_EQ(rows.row(1, 1)[c], float(value_at(layer, 12 + c)));
}

TEST(WordMaps, SumWhatPiecesGetAndAverageWhatTheyGive) {
  const LoadedModel loaded = model_of("position: learned");
  const WordMaps maps = word_maps(probed(loaded), {{"the", "matsat", "sat"}, {}});
  ASSERT_EQ(maps.layers.size(), 2u);
  for (const WordMaps::Layer& layer : maps.layers) {
    EXPECT_EQ(layer.heads, 3);
    for (int64_t h = 0; h < 3; ++h)
      for (int64_t i = 0; i < 3; ++i) {
        double sum = 0;
        for (int64_t j = 0; j < 3; ++j) sum += layer.head(h, 3)[size_t(i * 3 + j)];
        EXPECT_LT(sum, 1 + 1e-6);  // the rest goes to the special tokens
        EXPECT_GT(sum, 0);
      }
  }
}

Corpus corpus_of(std::vector<std::vector<std::string>> texts) {
  Corpus out{.file = "test"};
  for (auto& words : texts) {
    TreeSentence s;
    s.words = std::move(words);
    s.space_after.assign(s.words.size(), true);
    out.sentences.push_back(std::move(s));
  }
  return out;
}

double accuracy_of(const Predictor& predictor, const Dataset& data) {
  const std::vector<int32_t> said = predictor.predict(data).classes;
  double right = 0;
  for (size_t i = 0; i < said.size(); ++i) right += said[i] == data.instances[i].labels[0];
  return right / double(said.size());
}

// oracle: probe.reorder
TEST(Order, IsSeenByPositionsAlone) {
  const Corpus corpus = corpus_of(std::vector<std::vector<std::string>>(40, {"cat", "cat"}));
  const Task task = make_task("order", corpus, corpus, {});
  EXPECT_EQ(task.labels, (std::vector<std::string>{"first before second", "second before first"}));
  for (const Instance& i : task.train) EXPECT_EQ(i.labels[0], i.first.begin < i.second.begin ? 0 : 1);
  const PredictorConfig config{.epochs = 60, .learning_rate = 1e-2};
  const LoadedModel with = model_of("position: sinusoidal"), without = model_of("position: none");
  const WordRows seen = word_rows(probed(with), corpus.texts(), {}),
                 blind = word_rows(probed(without), corpus.texts(), {});
  const Dataset data{&seen, task.train}, blank{&blind, task.train};
  EXPECT_EQ(accuracy_of(Predictor(config, data, 2, {0}), data), 1);
  double most = 0;
  for (const Instance& i : task.train) most += i.labels[0] / double(task.train.size());
  EXPECT_NEAR(accuracy_of(Predictor(config, blank, 2, {2}), blank), std::max(most, 1 - most), 1e-9);
}

TEST(Swaps, AreOfNeighboursInsideAndHalfOfThem) {
  std::vector<std::vector<std::string>> texts;
  for (int i = 0; i < 400; ++i) texts.push_back({"a", "b", "c", "d", "e", "."});
  texts.push_back({"too", "short", "."});
  texts.push_back({"a", "b", "b", "."});
  const Corpus corpus = corpus_of(texts);
  const std::vector<Swap> swaps = draw_swaps(corpus, 1);
  const std::vector<Sentence> moved = swapped(corpus, swaps);
  int64_t count = 0;
  for (size_t s = 0; s < 400; ++s) {
    EXPECT_TRUE(swaps[s].at >= 1 && swaps[s].at <= 3);
    count += swaps[s].swap;
    EXPECT_EQ(moved[s].words == corpus.texts()[s].words, !swaps[s].swap);
  }
  EXPECT_NEAR(double(count) / 400, 0.5, 4 * 0.5 / 20);
  EXPECT_EQ(swaps[400].at, -1);
  EXPECT_EQ(swaps[401].at, -1);
}

TEST(Lengths, FallIntoOneBinEach) {
  for (int64_t length = 1; length < 60; ++length) {
    const int32_t bin = length_bin(length, {5, 10, 20});
    EXPECT_EQ(bin, length <= 5 ? 0 : length <= 10 ? 1 : length <= 20 ? 2 : 3);
  }
  EXPECT_EQ(number_of("1,200.5"), 1200.5);
  EXPECT_EQ(number_of("-3"), -3);
  EXPECT_EQ(number_of("Seven"), 7);
  EXPECT_TRUE(std::isnan(number_of("3rd")) && std::isnan(number_of("-")) && std::isnan(number_of("")));
}

Parameter* output_bias(Model& model) {
  for (Parameter& p : model.parameters().all())
    if (p.name.rfind("head", 0) == 0 && p.master.value().numel() == model.config().vocab_size &&
        p.master.value().shape().rank() == 1)
      return &p;
  return nullptr;
}

// oracle: probe.cloze
TEST(Cloze, RanksFirstWhatTheHeadMemorised) {
  const LoadedModel loaded = model_of("position: learned");
  Parameter* bias = output_bias(*loaded.model);
  ASSERT_NE(bias, nullptr);
  for (const int32_t id : loaded.tokenizer->encode("sima qian")) set_value(bias->master.value(), id, 50);
  const Probed model = probed(loaded);
  const Fact two{"shiji was written by [MASK] .", {"sima qian"}, {}, "test:1"},
      one{"shiji was written by sima [MASK] .", {"qian"}, {}, "test:2"},
      other{"a poem by [MASK]", {"li bai"}, {}, "test:3"};
  const ClozeResult answers = probe_cloze(model, {two, other}, {.candidates = "answers"});
  EXPECT_EQ(answers.answers[0].rank, 1);
  EXPECT_EQ(answers.answers[0].best, "sima qian");
  EXPECT_EQ(answers.answers[1].rank, 2);
  EXPECT_EQ(answers.precision(1), 0.5);
  EXPECT_EQ(answers.mean_reciprocal_rank(), 0.75);
  const ClozeResult vocabulary = probe_cloze(model, {one, other}, {});
  EXPECT_LE(vocabulary.answers[0].rank, 2);  // sima and qian are alike
  EXPECT_EQ(vocabulary.passed_over, 1);      // an answer of two tokens
  EXPECT_EQ(vocabulary.candidates, double(loaded.tokenizer->vocab_size()));
  // Fewer candidates: ranks can only rise, and scores stay.
  Fact fewer = one;
  fewer.candidates = {"qian", "cat", "mat"};
  const ClozeResult among = probe_cloze(model, {fewer}, {});
  EXPECT_LE(among.answers[0].rank, vocabulary.answers[0].rank);
  EXPECT_EQ(among.answers[0].log_probability, vocabulary.answers[0].log_probability);
  // A constant on all logits changes nothing.
  for (int64_t i = 0; i < bias->master.value().numel(); ++i)
    set_value(bias->master.value(), i, value_at(bias->master.value(), i) + 3);
  const ClozeResult shifted = probe_cloze(model, {one, other}, {});
  EXPECT_EQ(shifted.answers[0].rank, vocabulary.answers[0].rank);
  EXPECT_NEAR(shifted.answers[0].log_probability, vocabulary.answers[0].log_probability, 1e-4);
  EXPECT_EQ(frequent_answers({two, other}).answers.size(), 2u);
}

TEST(Cloze, CausalModelsScoreTheCompletedText) {
  LoadedModel loaded = model_of("position: learned");
  const ModelConfig config =
      kit::model_config(cat("{hidden_size: 12, num_hidden_layers: 1, vocab_size: ", loaded.tokenizer->vocab_size(),
                            ", max_position_embeddings: 40, position: learned, mixer: {type: attention, "
                            "num_attention_heads: 3}, ffn: {type: relu, intermediate_size: 16}}"));
  loaded.model = std::make_unique<Model>(config, ModelOptions{});
  kit::randomise(loaded.model->parameters(), 3);
  const Fact fact{"shiji was written by [MASK] .", {"sima qian"}, {"sima qian", "li bai"}, "test:1"};
  const ClozeResult result = probe_cloze(probed(loaded), {fact}, {});
  EXPECT_GE(result.answers[0].rank, 1);
  EXPECT_LT(result.answers[0].log_probability, 0);
  EXPECT_THROW(probe_cloze(probed(loaded), {fact}, {.candidates = "vocabulary"}), Error);
}

// What a probe of the whole program gives, on a treebank of a few sentences.
TEST(Probing, HasEveryTaskWithItsBaselines) {
  const Path directory = Path(testing::TempDir()) / "probe-probing";
  std::filesystem::create_directories(directory);
  std::string bank;
  for (int i = 0; i < 30; ++i)
    bank += cat("1\tthe\tthe\tDET\tDT\t_\t2\tdet\t_\t_\n2\t", i % 2 ? "cat" : "mat",
                "\t_\tNOUN\tNN\tNumber=Sing\t3\tnsubj\t_\t_\n3\tsat\t_\tVERB\tVBD\t_\t0\troot\t_\t_\n4\ton\t_"
                "\tADP\tIN\t_\t6\tcase\t_\t_\n"
                "5\tthe\tthe\tDET\tDT\t_\t6\tdet\t_\t_\n6\tmat\t_\tNOUN\tNN\tNumber=Sing\t3\tobl\t_\t_\n7\t.\t."
                "\tPUNCT\t.\t_\t3\tpunct\t_\t_\n\n");
  write_file(directory / "bank.conllu", bank);
  const LoadedModel loaded = model_of("position: learned");
  ProbingOptions options{.tasks = {"distance", "depth", "heads", "pos", "label:feats.Number", "function", "word",
                                   "order", "swap", "deprel"},
                         .train = directory / "bank.conllu",
                         .test = directory / "bank.conllu",
                         .predictors = {"linear", "edge"},
                         .seeds = 2};
  options.tasks.erase(options.tasks.begin() + 4);  // one label alone is refused, below
  options.description_length = true;
  options.predictor.projection = options.predictor.hidden = 8;
  options.predictor.least_steps = options.structural.least_steps = 0;
  const ProbingResult result = run_probing(loaded, "test", options);
  EXPECT_EQ(result.columns, (std::vector<std::string>{"0", "1", "2", "mixture"}));
  EXPECT_EQ(result.tasks.size(), 8u);
  EXPECT_EQ(result.tasks[0].curves.size(), 2u);
  EXPECT_EQ(result.tasks[0].curves[1].model, "random weights");
  for (const TaskResult& task : result.tasks) {
    const std::vector<Measured>* scores = task.curves[0].of(task.score);
    ASSERT_NE(scores, nullptr) << task.name;
    for (const Measured& m : *scores) EXPECT_EQ(m.values.size(), 2u) << task.name;
  }
  const TaskResult& pos = result.tasks[2];
  EXPECT_EQ(pos.name, "pos");
  ASSERT_NE(pos.curves[0].of("selectivity"), nullptr);
  ASSERT_NE(pos.curves[0].of("compression"), nullptr);
  EXPECT_EQ(pos.baselines[1].second.at("accuracy"), 1);  // every word has one tag
  ASSERT_TRUE(result.heads.has_value());
  EXPECT_NEAR(result.heads->trivial.at("chain").at("uuas"), 3.0 / 6, 1e-12);  // 1-2, 2-3, 5-6
  EXPECT_EQ(probing_json(result)["tasks"].size(), 8u);
  EXPECT_NE(probing_page(result).find("Trees"), std::string::npos);
  options.tasks = {"distance", "pos"};
  EXPECT_EQ(probing_json(run_probing(loaded, "test", options)), probing_json(run_probing(loaded, "test", options)));
  options.tasks = {"label:feats.Number"};
  EXPECT_THROW(run_probing(loaded, "test", options), Error);
  options.tasks = {"postag"};
  EXPECT_THROW(run_probing(loaded, "test", options), Error);
  std::filesystem::remove_all(directory);
}

TEST(SpanFiles, AreReadAndRefusedLineByLine) {
  const Path file = Path(testing::TempDir()) / "spans.jsonl";
  const auto with = [&](const std::string& text) {
    write_file(file, text);
    return read_corpus(file, 0);
  };
  const Corpus corpus = with(
      "{\"text\": \"the cat sat\", \"targets\": [{\"span1\": [0, 2], \"span2\": [2, 3], \"label\": \"agent\"}]}\n\n"
      "{\"text\": \"a mat\", \"targets\": []}\n");
  ASSERT_EQ(corpus.sentences.size(), 2u);
  EXPECT_EQ(corpus.spans[0][0].first.end, 2);
  EXPECT_EQ(corpus.spans[0][0].labels, std::vector<std::string>{"agent"});
  EXPECT_THROW(with("{\"text\": \"the cat\", \"targets\": [{\"span1\": [0, 3], \"label\": \"x\"}]}\n"), Error);
  EXPECT_THROW(with("{\"text\": \"the cat\", \"targets\": [{\"span1\": [0, 1]}]}\n"), Error);
  EXPECT_THROW(with("{\"text\": \"the cat\"}\n"), Error);
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace lithe::probe

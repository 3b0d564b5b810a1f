// Segmentations drawn at random: the lattice of a unigram tokenizer, and BPE-dropout.
#include "lithe/text/segmentation.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <thread>

#include "lithe/base/fields.h"
#include "lithe/text/unigram_lattice.h"
#include "tests/support/sentencepiece.h"
#include "text_for_tests.h"

namespace lithe {
namespace {

Ids sorted(Ids ids) {
  std::sort(ids.begin(), ids.end());
  return ids;
}

// "abc" as abc (.6), ab c (.3) or a bc (.1), the book's three candidates.
UnigramLattice three_candidates() {
  return UnigramLattice(3, {{0, 1, 1, std::log(.2)},
                            {0, 2, 2, std::log(.5)},
                            {0, 3, 3, std::log(.6)},
                            {1, 3, 4, std::log(.5)},
                            {2, 3, 5, std::log(.6)}});
}

// How often each of the candidates comes; they are told apart by their first piece: abc, ab, a.
std::vector<double> frequencies(const UnigramLattice& lattice, const SegmentationSampling& how, int draws) {
  std::map<int32_t, int> seen;
  for (int i = 0; i < draws; ++i) ++seen[lattice.draw(how, {.seed = 5, .step = uint64_t(i)})[0].id];
  return {double(seen[3]) / draws, double(seen[2]) / draws, double(seen[1]) / draws};
}

// Five standard deviations of a frequency: one draw in two million fails.
double five_sigma(double probability, int draws) { return 5 * std::sqrt(probability * (1 - probability) / draws); }

void expect_frequencies(const std::vector<double>& expected, const SegmentationSampling& how) {
  constexpr int draws = 100000;
  const auto found = frequencies(three_candidates(), how, draws);
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(found[i], expected[i], five_sigma(expected[i], draws)) << i;
}

// oracle: tok.sampling
TEST(UnigramLattice, DrawsInProportionToAPower) {
  expect_frequencies({.389199, .338818, .271983}, {.alpha = .2});
  expect_frequencies({.6, .3, .1}, {.alpha = 1});
  expect_frequencies({1. / 3, 1. / 3, 1. / 3}, {.alpha = 0});
  expect_frequencies({.389199, .338818, .271983}, {.alpha = .2, .candidates = 3});
  expect_frequencies({.389199 / (.389199 + .338818), .338818 / (.389199 + .338818), 0}, {.alpha = .2, .candidates = 2});
  // The length prior: weights .6^.2, (.3 e^-1)^.2 and (.1 e^-1)^.2, as the others have one token more.
  const double a = .389199, b = .338818 * std::exp(-.2), c = .271983 * std::exp(-.2), sum = a + b + c;
  expect_frequencies({a / sum, b / sum, c / sum}, {.alpha = .2, .length_penalty = 1});
}

TEST(UnigramLattice, TakesTheBestWithoutAlphaAndInTheLimit) {
  for (const SegmentationSampling& how : {SegmentationSampling{}, {.alpha = 1e9}, {.alpha = .2, .candidates = 1}})
    EXPECT_EQ(frequencies(three_candidates(), how, 50)[0], 1);
  // abc against ab c, which is more probable but has a token more.
  const UnigramLattice two(3, {{0, 2, 2, std::log(.9)}, {0, 3, 3, std::log(.1)}, {2, 3, 5, std::log(.9)}});
  EXPECT_EQ(frequencies(two, {}, 1)[1], 1);
  EXPECT_EQ(frequencies(two, {.length_penalty = 10}, 1)[0], 1);
  EXPECT_EQ(frequencies(two, {.alpha = 1e6, .length_penalty = 10}, 1)[0], 1);
}

TEST(UnigramLattice, RefusesWhatIsNoPath) {
  const UnigramLattice gap(3, {{0, 1, 1, 0}, {2, 3, 2, 0}});
  EXPECT_FALSE(gap.connected());
  EXPECT_THROW(gap.draw({}, {}), Error);
  EXPECT_THROW(UnigramLattice(3, {{2, 4, 1, 0}}), Error);
  EXPECT_TRUE(UnigramLattice(0, {}).draw({.alpha = 1}, {}).empty());
}

std::string corpus() {
  std::string out;
  for (int i = 0; i < 200; ++i) out += cat("the quick brown fox jumps over lazy dog number ", i, " again\n");
  return out;
}

std::unique_ptr<Tokenizer> unigram() {
  UnigramTrainer trainer({.vocab_size = 60});
  trainer.add(corpus());
  return trainer.train();
}

std::unique_ptr<Tokenizer> bpe() {
  const std::string text = corpus();
  const std::string_view texts[] = {text};
  return train_bpe(texts, {.vocab_size = 300});
}

TEST(Segmentation, UnigramRestoresTheTextAndReachesTheBest) {
  NEEDS_SENTENCEPIECE;
  const auto tokenizer = unigram();
  const std::string text = "the lazy fox jumps again over number 7";
  const size_t fewest = tokenizer->sample(text, {.length_penalty = 1e6}, {}).size();
  std::map<Ids, int> seen;
  for (uint64_t i = 0; i < 200; ++i) {
    const RandomKey key{.seed = 1, .step = i};
    const Ids ids = tokenizer->sample(text, {.alpha = .2}, key);
    EXPECT_EQ(tokenizer->decode(ids), text);
    EXPECT_GE(ids.size(), fewest);
    EXPECT_EQ(ids, tokenizer->sample(text, {.alpha = .2}, key));
    ++seen[ids];
  }
  EXPECT_GT(seen.size(), 4u);
  EXPECT_EQ(tokenizer->sample(text, {.alpha = 1e9}, {}), tokenizer->encode(text));
  EXPECT_EQ(tokenizer->sample(text, {}, {}), tokenizer->encode(text));
}

TEST(Segmentation, UnknownCharactersAreDrawnOnlyWhereNothingElseCovers) {
  NEEDS_SENTENCEPIECE;
  const auto tokenizer = unigram();
  const int32_t unk = *tokenizer->specials().unk;
  for (uint64_t i = 0; i < 100; ++i) {
    const Ids ids = tokenizer->sample("the \u732b\u732b dog", {.alpha = 0}, {.step = i});
    EXPECT_EQ(std::count(ids.begin(), ids.end(), unk), 1) << "in a row they are one";
  }
  EXPECT_TRUE(tokenizer->sample("", {.alpha = 1}, {}).empty());
}

TEST(Segmentation, ReachesTheLibrarysBestOnRealText) {
  if (data("tokenizers").empty()) GTEST_SKIP() << "needs $LITHE_DATA/tokenizers";
  std::istringstream in(read_file(data("tokenizers/sentencepiece/botchan.txt")));
  const auto t5 = load_tokenizer(data("tokenizers/sentencepiece/t5.model"));
  std::string line;
  for (int i = 0; i < 1000 && std::getline(in, line); ++i) {
    const Ids best = t5->encode(line);
    // The same pieces; their order differs where two segmentations have exactly one probability.
    EXPECT_EQ(sorted(t5->sample(line, {.alpha = 1, .candidates = 1}, {})), sorted(best)) << line;
    EXPECT_EQ(t5->decode(t5->sample(line, {.alpha = .2}, {.step = uint64_t(i)})), t5->decode(best)) << line;
    EXPECT_LE(t5->sample(line, {.length_penalty = 1e6}, {}).size(), best.size()) << line;
  }
}

TEST(Segmentation, DropoutGoesFromMergesToBytes) {
  const auto tokenizer = bpe();
  const std::string text = "the quick brown fox \xFF jumps";
  EXPECT_EQ(tokenizer->sample(text, {.dropout = 0}, {}), tokenizer->encode(text));
  EXPECT_EQ(tokenizer->sample(text, {.dropout = 1}, {}).size(), text.size());
  std::map<Ids, int> seen;
  double tokens = 0;
  for (uint64_t i = 0; i < 200; ++i) {
    const RandomKey key{.seed = 1, .step = i};
    const Ids ids = tokenizer->sample(text, {.dropout = .1}, key);
    EXPECT_EQ(tokenizer->decode(ids), text);
    EXPECT_EQ(ids, tokenizer->sample(text, {.dropout = .1}, key));
    tokens += double(ids.size()) / 200;
    ++seen[ids];
  }
  EXPECT_GT(seen.size(), 50u);
  EXPECT_GT(tokens, double(tokenizer->encode(text).size()));
  EXPECT_EQ(tokenizer->sample(text, {.dropout = 1e-300}, {}), tokenizer->encode(text)) << "dropout leaves no cache";
}

TEST(Segmentation, EachMergeIsPassedOverWithTheGivenProbability) {
  // One word of two bytes and one merge: it is cut in two with probability p.
  const std::string text = "ab ab ab ab";
  const std::string_view texts[] = {text};
  const auto tokenizer = train_bpe(texts, {.vocab_size = 258});
  ASSERT_EQ(tokenizer->encode("ab").size(), 1u);
  constexpr int draws = 20000;
  int cut = 0;
  for (uint64_t i = 0; i < draws; ++i) cut += tokenizer->sample("ab", {.dropout = .3}, {.step = i}).size() == 2;
  EXPECT_NEAR(double(cut) / draws, .3, five_sigma(.3, draws));
}

TEST(Segmentation, IsTheSameFromManyThreads) {
  NEEDS_SENTENCEPIECE;
  const auto one = unigram(), other = bpe();
  const auto draw = [&](uint64_t i) {
    Ids ids = one->sample("the lazy dog", {.alpha = .2}, {.step = i});
    const Ids more = other->sample("the lazy dog", {.dropout = .2}, {.step = i});
    ids.insert(ids.end(), more.begin(), more.end());
    return ids;
  };
  std::vector<Ids> found(200);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 2; ++t)
    threads.emplace_back([&, t] {
      for (size_t i = t; i < found.size(); i += 2) found[i] = draw(i);
    });
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i], draw(i));
}

TEST(Segmentation, RefusesWhatATokenizerCannotDo) {
  NEEDS_SENTENCEPIECE;
  const auto refusal = [](const Tokenizer& tokenizer, const SegmentationSampling& how) {
    return error_of([&] { tokenizer.sample("the dog", how, {}); });
  };
  const auto one = unigram(), other = bpe(), bytes = make_byte_tokenizer();
  for (const auto& message : {refusal(*one, {.dropout = .1}), refusal(*one, {.dropout = .1, .alpha = 1}),
                              refusal(*other, {.alpha = .2}), refusal(*other, {.length_penalty = 1})})
    EXPECT_NE(message.find("alpha and length_penalty a unigram tokenizer"), std::string::npos) << message;
  EXPECT_NE(refusal(*other, {.dropout = 2}).find("dropout must be in [0, 1], got 2"), std::string::npos);
  EXPECT_NE(refusal(*one, {.alpha = -1}).find("alpha must be finite"), std::string::npos);
  EXPECT_NE(refusal(*one, {.alpha = 1, .candidates = 5000}).find("0 to 1000, got 5000"), std::string::npos);
  EXPECT_NE(refusal(*one, {.length_penalty = 1, .candidates = 5}).find("without alpha"), std::string::npos);
  EXPECT_EQ(bytes->sample("ab", {.dropout = .5}, {}), bytes->encode("ab"));
}

TEST(Segmentation, IsReadFromARecipe) {
  SegmentationSampling how;
  read_fields(parse_yaml("{alpha: 0.2, candidates: 64}", "recipe"), "sampling", [&](Fields& f) { how.fields(f); });
  EXPECT_EQ(how.alpha, .2);
  EXPECT_EQ(how.candidates, 64);
  EXPECT_FALSE(how.off());
}

}  // namespace
}  // namespace lithe

#include "lithe/data/translation_batches.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <tuple>

#include "lithe/base/random.h"
#include "lithe/base/threads.h"
#include "lithe/trees/treebank.h"
#include "tests/data/files_for_tests.h"
#include "tests/data/store_kit.h"
#include "tests/support/data.h"
#include "tests/support/sentencepiece.h"

namespace lithe {
namespace {

using Offsets = std::vector<int64_t>;

TranslationBatches make(std::vector<TextPair> pairs, const TranslationLimits& limits, int64_t batch_tokens,
                        bool shuffle = false, uint64_t seed = 1) {
  return {std::move(pairs), bytes(), bytes(), limits, batch_tokens, seed, shuffle};
}

// Pair i of `count`: sides of up to `longest` letters, each pair unlike all others.
std::vector<TextPair> some_pairs(int64_t count, uint64_t longest) {
  const RandomKey key{.seed = 5, .purpose = purpose_of("pairs")};
  std::vector<TextPair> pairs;
  for (int64_t i = 0; i < count; ++i)
    pairs.push_back({cat(i, std::string(random_below(key, uint64_t(2 * i), longest), 's')),
                     cat(i, std::string(random_below(key, uint64_t(2 * i + 1), longest), 't'))});
  return pairs;
}

// The pairs of a batch as text, their frames checked.
std::vector<TextPair> pairs_of(const Batch& batch) {
  std::vector<TextPair> pairs;
  EXPECT_EQ(batch.offsets.size(), batch.sources.at("source").offsets.size());
  EXPECT_EQ(batch.labels.size(), batch.tokens.size());
  EXPECT_EQ(batch.offsets.back(), int64_t(batch.tokens.size()));
  EXPECT_EQ(batch.sources.at("source").offsets.back(), int64_t(batch.sources.at("source").tokens.size()));
  for (size_t b = 0; b + 1 < batch.offsets.size(); ++b) {
    const Ids source(batch.sources.at("source").tokens.begin() + batch.sources.at("source").offsets[b],
                     batch.sources.at("source").tokens.begin() + batch.sources.at("source").offsets[b + 1]),
        rows(batch.tokens.begin() + batch.offsets[b], batch.tokens.begin() + batch.offsets[b + 1]),
        labels(batch.labels.begin() + batch.offsets[b], batch.labels.begin() + batch.offsets[b + 1]);
    EXPECT_EQ(source.back(), kEnd);
    EXPECT_EQ(rows.front(), kEnd);
    EXPECT_EQ(labels.back(), kEnd);
    EXPECT_TRUE(std::equal(rows.begin() + 1, rows.end(), labels.begin()));  // a label is the next row's token
    pairs.push_back({std::string(source.begin(), source.end() - 1), std::string(labels.begin(), labels.end() - 1)});
  }
  return pairs;
}

TEST(TranslationBatches, TargetsAreDelayedByOne) {
  const auto batches = make({{"ab", "xyz"}, {"", ""}, {"c", "w"}}, {}, 1000);
  ASSERT_EQ(batches.batches_per_epoch(), 1);
  const Batch batch = batches.batch(0, 0);
  EXPECT_EQ(batch.sources.at("source").tokens, (Ids{'a', 'b', kEnd, kEnd, 'c', kEnd}));
  EXPECT_EQ(batch.sources.at("source").offsets, (Offsets{0, 3, 4, 6}));
  EXPECT_EQ(batch.tokens, (Ids{kEnd, 'x', 'y', 'z', kEnd, kEnd, 'w'}));
  EXPECT_EQ(batch.labels, (Ids{'x', 'y', 'z', kEnd, kEnd, 'w', kEnd}));
  EXPECT_EQ(batch.offsets, (Offsets{0, 4, 5, 7}));
  EXPECT_TRUE(batch.predicted.empty());
  EXPECT_EQ(batches.batch(3, 0), batch);  // in order every epoch is the same
  EXPECT_EQ(batches.largest_batch(), 7);
  EXPECT_EQ(batches.largest_sources().at("source"), 6);
  EXPECT_EQ(batches.dropped(), 0);
  const auto ids = batches.target_tokens(0);
  EXPECT_EQ(Ids(ids.begin(), ids.end()), (Ids{'x', 'y', 'z'}));
}

TEST(TranslationBatches, FurtherSourcesStandBeside) {
  const std::vector<TextPair> pairs = {{"ab", "xyz", {{"context", ""}, {"tree", "(ab)"}}},
                                       {"c", "w", {{"context", "ab"}, {"tree", "c"}}}};
  auto batches = make(pairs, {}, 1000);
  const Batch batch = batches.batch(0, 0);
  EXPECT_EQ(batch.sources.at("context").tokens, (Ids{kEnd, 'a', 'b', kEnd}));
  EXPECT_EQ(batch.sources.at("context").offsets, (Offsets{0, 1, 4}));
  EXPECT_EQ(batch.sources.at("tree").tokens, (Ids{'(', 'a', 'b', ')', kEnd, 'c', kEnd}));
  EXPECT_EQ(batches.largest_sources(), (std::map<std::string, int64_t>{{"context", 4}, {"source", 5}, {"tree", 7}}));
  EXPECT_EQ(batches.source_rows(), batches.largest_sources());
  // Models that read fewer sources see the same pairs.
  const uint64_t before = batches.fingerprint();
  batches.give_only({"source", "tree"});
  Batch fewer = batch;
  fewer.sources.erase("context");
  EXPECT_EQ(batches.batch(0, 0), fewer);
  EXPECT_EQ(batches.largest_sources(), (std::map<std::string, int64_t>{{"source", 5}, {"tree", 7}}));
  EXPECT_EQ(batches.fingerprint(), before);
  EXPECT_NE(make({{"ab", "xyz"}, {"c", "w"}}, {}, 1000).fingerprint(), before);
  // What is too long counts, on any side.
  EXPECT_EQ(make(pairs, {.max_length = 4, .leave_out = true}, 1000).dropped(), 1);
  expect_error([&] { make(pairs, {.max_length = 4}, 1000); }, {"has 5 tokens of tree, more than 4"}, ExitCode::usage);
}

// A further source that is the source has its words, wherever it comes from; another text has none.
TEST(TranslationBatches, FurtherSourcesThatAreTheSourceHaveItsWords) {
  std::vector<TextPair> pairs;
  for (const char* word : {"ab", "c"}) {
    TextPair pair{cat(word, " d"), "x", {{"same", cat(word, " d")}, {"other", "c d"}}};
    pair.tree = std::make_shared<const TreeSentence>(
        parse_conllu_trees(cat("1\t", word, "\t_\tX\t_\t_\t0\troot\t_\t_\n2\td\t_\tX\t_\t_\t1\tdep\t_\t_\n\n"), "f",
                           refusing("test"))
            .at(0));
    pairs.push_back(std::move(pair));
  }
  const Batch batch = make(pairs, {}, 1000).batch(0, 0);
  const Batch& source = batch.sources.at("source");
  EXPECT_EQ(source.words.word_of, (Ids{0, 0, 1, 1, -1, 0, 1, 1, -1}));
  EXPECT_EQ(batch.sources.at("same"), source);
  EXPECT_EQ(batch.sources.at("other").words, Batch::Words{});  // that of the second pair alone is the source
}

TEST(TranslationBatches, FurtherSourcesCountInTheSizesOfBatches) {
  std::vector<TextPair> pairs = some_pairs(101, 20);
  for (size_t i = 0; i < pairs.size(); ++i) pairs[i].sources["more"] = std::string(i * 7 % 23, 'm');
  const auto batches = make(pairs, {}, 150, true);
  std::map<std::string, int64_t> seen;
  int64_t sequences = 0;
  for (int64_t k = 0; k < batches.batches_per_epoch(); ++k) {
    const Batch batch = batches.batch(0, k);
    int64_t rows = batch.rows();
    for (const auto& [name, source] : batch.sources) {
      rows += source.rows();
      EXPECT_EQ(source.sequences(), batch.sequences());
      seen[name] = std::max(seen[name], source.rows());
    }
    EXPECT_LE(rows, 150);
    sequences += batch.sequences();
  }
  EXPECT_EQ(sequences, 101);
  for (const auto& [name, rows] : batches.largest_sources()) EXPECT_LE(seen.at(name), rows) << name;
}

TEST(TranslationBatches, EveryPairOnceAnEpochInBatchesOfAboutTheSize) {
  const auto pairs = some_pairs(301, 20);
  std::set<std::vector<TextPair>, decltype([](const auto& a, const auto& b) { return a[0].source < b[0].source; })>
      first_batches;
  for (const bool shuffle : {false, true})
    for (const int64_t batch_tokens : {1, 30, 47, 48, 100, 1000, 100000}) {
      const auto batches = make(pairs, {}, batch_tokens, shuffle);
      int64_t rows = 0, longest = 0, most_source = 0, most_target = 0;
      for (const TextPair& p : pairs) {
        const auto pair_rows = int64_t(p.source.size() + p.target.size()) + 2;
        rows += pair_rows;
        longest = std::max(longest, pair_rows);
      }
      const int64_t count = batches.batches_per_epoch();
      const int64_t stretch = std::max(batch_tokens - longest + 1, longest);
      EXPECT_EQ(count, rows <= batch_tokens ? 1 : std::min((rows + stretch - 1) / stretch, rows / longest));
      for (const int64_t epoch : {0, 1}) {
        std::vector<TextPair> seen;
        for (int64_t k = 0; k < count; ++k) {
          const Batch batch = batches.batch(epoch, k);
          EXPECT_GE(batch.sequences(), 1);
          const int64_t source = batch.sources.at("source").offsets.back(), target = batch.rows();
          EXPECT_LT(source + target, (rows + count - 1) / count + longest);
          most_source = std::max(most_source, source);
          most_target = std::max(most_target, target);
          for (const TextPair& p : pairs_of(batch)) seen.push_back(p);
        }
        if (!shuffle) {
          EXPECT_EQ(seen, pairs);
        } else {
          EXPECT_NE(seen, pairs);
          first_batches.insert(seen);
          EXPECT_TRUE(std::is_permutation(seen.begin(), seen.end(), pairs.begin(), pairs.end()));
        }
      }
      if (shuffle) {
        EXPECT_LE(most_source, batches.largest_sources().at("source"));
        EXPECT_LE(most_target, batches.largest_target());
      } else {
        EXPECT_EQ(most_source, batches.largest_sources().at("source"));
        EXPECT_EQ(most_target, batches.largest_target());
      }
      EXPECT_EQ(batches.largest_batch(), batches.largest_target());
    }
  EXPECT_EQ(first_batches.size(), 2u);  // one order an epoch, whatever the size of batches
}

// Ten pairs of 1 + 9 rows and ten of 9 + 1: a batch of three pairs may have nothing but one kind.
TEST(TranslationBatches, BoundsHoldForTheWorstOrder) {
  std::vector<TextPair> pairs(20);
  for (size_t i = 0; i < 20; ++i) (i < 10 ? pairs[i].source : pairs[i].target) = std::string(8, 'x');
  const auto batches = make(pairs, {}, 29, true);
  ASSERT_EQ(batches.batches_per_epoch(), 10);
  // Fewer than 20 rows and a pair: at most two pairs of 9, and a third's share of nine rows of ten.
  EXPECT_EQ(batches.largest_sources().at("source"), 9 + 9 + 9);
  int64_t most = 0;
  for (int64_t epoch = 0; epoch < 50; ++epoch)
    for (int64_t k = 0; k < 10; ++k) most = std::max(most, batches.batch(epoch, k).sources.at("source").offsets.back());
  EXPECT_EQ(most, 18);
  EXPECT_LE(make(pairs, {}, 100000, true).largest_sources().at("source"), 100);  // never more than all
}

TEST(TranslationBatches, ShufflesBySeedAndEpoch) {
  const auto pairs = some_pairs(50, 5);
  const auto a = make(pairs, {}, 60, true, 1), same = make(pairs, {}, 60, true, 1), b = make(pairs, {}, 60, true, 2);
  EXPECT_EQ(a.batch(7, 3), same.batch(7, 3));
  EXPECT_NE(a.batch(7, 3), a.batch(8, 3));
  EXPECT_NE(a.batch(7, 3), b.batch(7, 3));
  EXPECT_EQ(a.fingerprint(), b.fingerprint());
  EXPECT_NE(a.fingerprint(), make(some_pairs(49, 5), {}, 60).fingerprint());
  // The same bytes cut elsewhere.
  EXPECT_NE(make({{"ab", "c"}, {"d", "e"}}, {}, 60).fingerprint(),
            make({{"a", "c"}, {"bd", "e"}}, {}, 60).fingerprint());
  EXPECT_NE(make({{"ab", "c"}}, {}, 60).fingerprint(), make({{"a", "bc"}}, {}, 60).fingerprint());
  expect_error([&] { a.batch(0, a.batches_per_epoch()); }, {"batch", "does not exist"});
}

TEST(TranslationBatches, TrainingLeavesOutWhatIsTooLongOrBlank) {
  const std::vector<TextPair> pairs = {{"abc", "abc"}, {"abcd", "a"}, {"a", "abcd"}, {"a", "abc"},
                                       {" \t", "a"},   {"a", ""},     {"", ""},      {"\u3000", "b"}};
  const auto kept = [&](const TranslationLimits& limits) {
    const auto batches = make(pairs, limits, 1000);
    EXPECT_EQ(batches.dropped() + int64_t(batches.pairs().size()), int64_t(pairs.size()));
    EXPECT_EQ(pairs_of(batches.batch(0, 0)), batches.pairs());
    std::string names;
    for (const TextPair& p : batches.pairs()) names += p.source + "-" + p.target + " ";
    return names;
  };
  EXPECT_EQ(kept({.leave_out = true}), "abc-abc abcd-a a-abcd a-abc ");
  EXPECT_EQ(kept({.max_length = 4, .leave_out = true}), "abc-abc a-abc ");        // three letters and the end
  EXPECT_EQ(kept({.max_length_ratio = 2, .leave_out = true}), "abc-abc a-abc ");  // 4 to 2 rows
  EXPECT_EQ(kept({.max_length_ratio = 1.5, .leave_out = true}), "abc-abc ");
  EXPECT_EQ(make(pairs, {.max_length = 5}, 1000).pairs(), pairs);  // evaluation keeps blank lines too
  expect_error([&] { make(pairs, {.max_length = 4}, 1000); },
               {"pair 2 ('abcd') has 5 and 2 tokens, more than 4", "data.sequence_length"}, ExitCode::usage);
  expect_error([&] { make(pairs, {.max_length = 1, .leave_out = true}, 9); }, {"none of the 8 pairs", "4 have a side"});
  expect_error([&] { make(pairs, {.max_length_ratio = 0.5}, 9); }, {"max_length_ratio", "0.5"}, ExitCode::usage);
  expect_error([] { make({}, {}, 9); }, {"no pairs"}, ExitCode::usage);
  expect_error([&] { make(pairs, {}, 0); }, {"batch_tokens", "got 0"}, ExitCode::usage);
}

TEST(TranslationBatches, TokenizersMustEndATextAndHaveAVocabulary) {
  const std::shared_ptr<const Tokenizer> words = make_tokenizer({.type = "words"}, {}),
                                         no_end = parse_tokenizer(
                                             R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []},
          "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
          "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}})",
                                             "test");
  const std::vector<TextPair> pairs = {{"a", "b"}};
  expect_error([&] { TranslationBatches(pairs, words, bytes(), {}, 9, 1, false); },
               {"the source tokenizer has no vocabulary"}, ExitCode::usage);
  expect_error([&] { TranslationBatches(pairs, bytes(), no_end, {}, 9, 1, false); },
               {"the target tokenizer has no token that ends a text", "</s>"}, ExitCode::usage);
}

TEST(TranslationBatches, EachSideHasItsTokenizer) {
  const auto trained = [](std::vector<std::string> specials) {
    const std::string_view text = "aa aa aa";
    return train_bpe({&text, 1}, {.vocab_size = 261, .min_frequency = 1, .specials = std::move(specials)});
  };
  const std::shared_ptr<const Tokenizer> two = trained({"<s>", "</s>"});
  const TranslationBatches batches({{"b", "a"}}, bytes(), two, {}, 9, 1, false);
  const Batch batch = batches.batch(0, 0);
  EXPECT_EQ(batch.sources.at("source").tokens, (Ids{'b', kEnd}));
  EXPECT_EQ(batch.tokens, (Ids{0, two->encode("a")[0]}));  // <s> begins
  EXPECT_EQ(batch.labels, (Ids{two->encode("a")[0], 1}));  // </s> ends
}

TEST(TranslationBatches, ThreadsDoNotMatter) {
  const auto pairs = some_pairs(500, 40);
  const int before = threads();
  set_threads(1);
  const auto one = make(pairs, {}, 500, true);
  set_threads(2);
  const auto two = make(pairs, {}, 500, true);
  set_threads(before);
  EXPECT_EQ(one.fingerprint(), two.fingerprint());
  EXPECT_EQ(one.batch(1, 1), two.batch(1, 1));
}

// Pairs of sentences of words of a few syllables, and a BPE and a unigram tokenizer of them.
std::vector<TextPair> sentences(int64_t count) {
  const std::string syllables[] = {"ka", "mon", "tir", "su", "lem", "po", "vi", "dar"};
  const RandomKey key{.seed = 6, .purpose = purpose_of("sentences")};
  uint64_t element = 0;
  const auto word = [&] {
    std::string out;
    for (uint64_t left = 1 + random_below(key, element++, 4); left > 0; --left)
      out += syllables[random_below(key, element++, std::size(syllables))];
    return out;
  };
  std::vector<TextPair> pairs(static_cast<size_t>(count));
  for (TextPair& pair : pairs)
    for (std::string* side : {&pair.source, &pair.target})
      for (uint64_t left = 1 + random_below(key, element++, 12); left > 0; --left)
        *side += (side->empty() ? "" : " ") + word();
  return pairs;
}

std::shared_ptr<const Tokenizer> bpe_of(const std::vector<TextPair>& pairs) {
  BpeTrainer trainer({.vocab_size = 300});
  for (const TextPair& pair : pairs) trainer.add(pair.source + "\n" + pair.target);
  return trainer.train();
}

std::shared_ptr<const Tokenizer> unigram_of(const std::vector<TextPair>& pairs) {
  UnigramTrainer trainer({.vocab_size = 50});
  for (const TextPair& pair : pairs) trainer.add(pair.source + " " + pair.target);
  return trainer.train();
}

// The sequences of one epoch by text; the bounds and max_length hold, every text comes as often as in the pairs.
std::map<std::string, Ids> drawn_sources(const TranslationBatches& batches, int64_t epoch, const Tokenizer& source,
                                         const Tokenizer& target, int64_t max_length) {
  std::map<std::string, Ids> out;
  std::vector<TextPair> seen;
  for (int64_t k = 0; k < batches.batches_per_epoch(); ++k) {
    const Batch batch = batches.batch(epoch, k);
    EXPECT_LE(batch.sources.at("source").offsets.back(), batches.largest_sources().at("source"));
    EXPECT_LE(batch.rows(), batches.largest_target());
    for (size_t b = 0; b + 1 < batch.offsets.size(); ++b) {
      const Ids from(batch.sources.at("source").tokens.begin() + batch.sources.at("source").offsets[b],
                     batch.sources.at("source").tokens.begin() + batch.sources.at("source").offsets[b + 1] - 1),
          to(batch.labels.begin() + batch.offsets[b], batch.labels.begin() + batch.offsets[b + 1] - 1);
      EXPECT_LE(int64_t(std::max(from.size(), to.size())) + 1, max_length);
      EXPECT_TRUE(std::equal(to.begin(), to.end(), batch.tokens.begin() + batch.offsets[b] + 1));
      seen.push_back({source.decode(from), target.decode(to)});
      out[seen.back().source] = from;
    }
  }
  const auto sorted = [](std::vector<TextPair> pairs) {
    std::ranges::sort(pairs, {}, [](const TextPair& pair) { return std::tie(pair.source, pair.target); });
    return pairs;
  };
  EXPECT_TRUE(sorted(std::move(seen)) == sorted(batches.pairs()));
  return out;
}

// oracle: tok.sampling
TEST(DrawnTranslations, AreCutAnewEveryEpochWithinTheBounds) {
  NEEDS_SENTENCEPIECE;
  const auto pairs = sentences(400);
  const auto bpe = bpe_of(pairs), unigram = unigram_of(pairs);
  const TranslationLimits limits{.max_length = 1000, .leave_out = true};
  for (const int64_t batch_tokens : {1, 60, 300, 100000}) {
    const auto make_drawn = [&](uint64_t seed) {
      return TranslationBatches(pairs, bpe, unigram, limits, batch_tokens, seed, true,
                                {.source = {.dropout = .2}, .target = {.alpha = .2}});
    };
    const auto batches = make_drawn(1), same = make_drawn(1), other = make_drawn(2);
    const TranslationBatches plain(pairs, bpe, unigram, limits, batch_tokens, 1, true);
    EXPECT_EQ(batches.batches_per_epoch(), plain.batches_per_epoch());
    EXPECT_GT(batches.largest_sources().at("source"), plain.largest_sources().at("source"));
    EXPECT_GT(batches.largest_target(), plain.largest_target());
    EXPECT_EQ(batches.batch(5, 0), same.batch(5, 0));  // whatever was asked for before
    const auto first = drawn_sources(batches, 0, *bpe, *unigram, 1000),
               second = drawn_sources(batches, 1, *bpe, *unigram, 1000),
               again = drawn_sources(other, 0, *bpe, *unigram, 1000);
    int64_t by_epoch = 0, by_seed = 0;
    for (const auto& [text, ids] : first) by_epoch += second.at(text) != ids;
    for (const auto& [text, ids] : first) by_seed += again.at(text) != ids;
    EXPECT_GT(by_epoch, int64_t(first.size()) * 3 / 4) << batch_tokens;
    EXPECT_GT(by_seed, int64_t(first.size()) * 3 / 4) << batch_tokens;
    EXPECT_EQ(drawn_sources(batches, 0, *bpe, *unigram, 1000), first);
    EXPECT_EQ(batches.pairs(), plain.pairs());
    const auto kept = batches.source_tokens(7), encoded = plain.source_tokens(7);
    EXPECT_TRUE(std::ranges::equal(kept, encoded));
  }
}

TEST(DrawnTranslations, KeepTheirTokensWhereDrawnOnesAreTooLong) {
  const auto pairs = sentences(300);
  const auto bpe = bpe_of(pairs);
  int64_t longest = 0;
  for (const TextPair& pair : pairs)
    longest = std::max({longest, int64_t(bpe->encode(pair.source).size()), int64_t(bpe->encode(pair.target).size())});
  // Single bytes: most texts are then longer than any in tokens. Without max_length the longest side is the limit.
  for (const int64_t max_length : {int64_t(0), longest / 2, longest * 2}) {
    const TranslationBatches batches(pairs, bpe, bpe, {.max_length = max_length, .leave_out = true}, 200, 1, true,
                                     {.source = {.dropout = 1}});
    const int64_t limit = max_length ? max_length : longest + 1;
    int64_t bytes = 0;
    for (const auto& [text, ids] : drawn_sources(batches, 0, *bpe, *bpe, limit)) {
      if (int64_t(text.size()) + 1 > limit) {
        EXPECT_EQ(ids, bpe->encode(text));
      }
      bytes += ids.size() == text.size();
    }
    EXPECT_GT(bytes, 0);
    EXPECT_LE(batches.largest_target(), batches.largest_sources().at("source"));  // nothing is drawn there
  }
}

// Of 2000 pairs every second one is looked at, which here are single letters that drawing leaves as they are.
TEST(DrawnTranslations, BatchesStayWithinTheBoundAlsoWhereTheGrowthWasMisjudged) {
  auto pairs = sentences(2000);
  const auto bpe = bpe_of(pairs);
  for (size_t i = 0; i < pairs.size(); i += 2) pairs[i].source = i == 0 ? "mon tir" : "x";
  const TranslationLimits limits{.max_length = 1000, .leave_out = true};
  const TranslationBatches batches(pairs, bpe, bpe, limits, 100, 1, true, {.source = {.dropout = 1}}),
      plain(pairs, bpe, bpe, limits, 100, 1, true);
  EXPECT_LT(batches.largest_sources().at("source"), plain.largest_sources().at("source") * 5 / 4);
  int64_t most = 0;
  for (int64_t k = 0; k < batches.batches_per_epoch(); ++k)
    most = std::max(most, batches.batch(0, k).sources.at("source").offsets.back());
  EXPECT_LE(most, batches.largest_sources().at("source"));
  EXPECT_GT(most, batches.largest_sources().at("source") - 100);  // and use it: the next text's letters did not fit
}

TEST(DrawnTranslations, TheTokenizerCounts) {
  const auto pairs = sentences(50);
  const auto bpe = bpe_of(pairs);
  const auto print = [&](const TranslationSampling& sampling) {
    return TranslationBatches(pairs, bpe, bpe, {.leave_out = true}, 100, 1, true, sampling).fingerprint();
  };
  EXPECT_EQ(print({}), print({.source = {.dropout = 0}}));
  EXPECT_NE(print({}), print({.source = {.dropout = .1}}));
}

TEST(DrawnTranslations, RefuseTokenizersThatCannotBeSampled) {
  NEEDS_SENTENCEPIECE;
  const auto pairs = sentences(50);
  const auto bpe = bpe_of(pairs), unigram = unigram_of(pairs);
  WordPieceTrainer trainer({.vocab_size = 60, .specials = {"[UNK]", "<s>", "</s>"}});
  for (const TextPair& pair : pairs) trainer.add(pair.source);
  const std::shared_ptr<const Tokenizer> word_piece = trainer.train();
  const auto refused = [&](const std::shared_ptr<const Tokenizer>& source, const TranslationSampling& sampling,
                           const std::vector<std::string>& words) {
    expect_error([&] { TranslationBatches(pairs, source, bpe, {.leave_out = true}, 100, 1, true, sampling); }, words,
                 ExitCode::usage);
  };
  refused(unigram, {.source = {.dropout = .1}},
          {"source_segmentation", "dropout needs a BPE", "or leave source_segmentation out"});
  refused(word_piece, {.source = {.dropout = .1}}, {"source_segmentation", "which only a BPE has", "type bpe"});
  refused(bpe, {.target = {.alpha = .2}}, {"target_segmentation", "unigram tokenizer"});
  refused(bpe, {.target = {.dropout = 2}}, {"target_segmentation", "got 2"});
  refused(bpe, {.target = {.candidates = 2}}, {"target_segmentation", "without alpha"});
  refused(bytes(), {.source = {.dropout = .1}}, {"source_segmentation", "merges nothing", "type bpe"});
}

TEST(TranslationBatches, Multi30k) {
  const Path folder = kit::data_if_any("translation/multi30k");
  if (folder.empty()) GTEST_SKIP() << "needs $LITHE_DATA/translation/multi30k";
  const auto pairs =
      read_pairs({.source = {(folder / "train.en.gz").string()}, .target = {(folder / "train.de.gz").string()}});
  ASSERT_EQ(pairs.size(), 29000u);
  EXPECT_EQ(pairs[0].source, "Two young, White males are outside near many bushes.");
  const auto batches = make(pairs, {.max_length = 128, .max_length_ratio = 3, .leave_out = true}, 16384, true);
  EXPECT_EQ(batches.dropped() + int64_t(batches.pairs().size()), 29000);
  EXPECT_GT(batches.dropped(), 0);
  int64_t seen = 0;
  for (int64_t k = 0; k < batches.batches_per_epoch(); ++k) {
    const Batch batch = batches.batch(0, k);
    seen += batch.sequences();
    EXPECT_LE(batch.sources.at("source").offsets.back(), batches.largest_sources().at("source"));
    EXPECT_LE(batch.rows(), batches.largest_target());
    EXPECT_LE(batch.sources.at("source").offsets.back() + batch.rows(), 16384 + 256);
  }
  EXPECT_EQ(seen, int64_t(batches.pairs().size()));
  EXPECT_LT(batches.largest_sources().at("source"),
            16384);  // the bound is of use: both sides of a batch do not count as one

  BpeTrainer trainer({.vocab_size = 2000});
  for (size_t i = 0; i < 3000; ++i) trainer.add(pairs[i].source + "\n" + pairs[i].target);
  const std::shared_ptr<const Tokenizer> bpe = trainer.train();
  const TranslationBatches drawn(pairs, bpe, bpe, {.max_length = 128, .leave_out = true}, 16384, 1, true,
                                 {.source = {.dropout = .1}, .target = {.dropout = .1}});
  const auto first = drawn_sources(drawn, 0, *bpe, *bpe, 128);
  int64_t others = 0;
  for (const auto& [text, ids] : first) others += ids != bpe->encode(text);
  EXPECT_GT(others, int64_t(first.size()) * 9 / 10);  // the room is enough for nearly all
}

TEST(TranslationBatches, NoBatchIsLargerThanItsBudget) {
  for (const int64_t budget : {100, 160, 333, 1000})
    for (const bool shuffle : {false, true}) {
      const auto batches = make(some_pairs(211, 20), {}, budget, shuffle);
      EXPECT_GT(batches.batches_per_epoch(), 1);
      for (int64_t epoch = 0; epoch < 3; ++epoch)
        for (int64_t k = 0; k < batches.batches_per_epoch(); ++k) {
          const Batch batch = batches.batch(epoch, k);
          EXPECT_LE(batch.sources.at("source").offsets.back() + batch.rows(), budget) << k;
        }
    }
}

}  // namespace
}  // namespace lithe

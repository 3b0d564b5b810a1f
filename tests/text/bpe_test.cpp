#include "lithe/base/json.h"
#include "lithe/base/log.h"
#include "lithe/base/threads.h"
#include "lithe/text/bpe_merges.h"
#include "lithe/text/byte_alphabet.h"
#include "lithe/text/pretokenizer.h"
#include "text_for_tests.h"

#include <map>
#include <thread>

namespace lithe {
namespace {

using Symbols = std::vector<std::string>;
using Pairs = std::vector<std::pair<std::string, std::string>>;

// ---- references, as plain as they can be

/// Repeats: the pair of lowest rank, its leftmost occurrence.
Symbols merge_plainly(Symbols word, const Pairs& merges) {
  for (;;) {
    size_t best = merges.size(), at = 0;
    for (size_t i = 0; i + 1 < word.size(); ++i) {
      const size_t rank =
          size_t(std::find(merges.begin(), merges.end(), std::pair(word[i], word[i + 1])) - merges.begin());
      if (rank < best) best = rank, at = i;
    }
    if (best == merges.size()) return word;
    word[at] += word[at + 1];
    word.erase(word.begin() + ptrdiff_t(at) + 1);
  }
}

Symbols bytes_of(const std::string& word) {
  Symbols out;
  for (const char c : word) out.push_back(std::string(1, c));
  return out;
}

/// Encodes every word anew with the merges so far, counts every pair, takes the most frequent, of these the greatest.
Pairs train_bpe_plainly(const std::map<std::string, int64_t>& words, size_t new_tokens, int64_t min_frequency) {
  Pairs merges;
  std::map<std::string, int> tokens;
  while (tokens.size() < new_tokens) {
    std::map<std::pair<std::string, std::string>, int64_t> counts;
    for (const auto& [word, count] : words) {
      const Symbols symbols = merge_plainly(bytes_of(word), merges);
      for (size_t i = 0; i + 1 < symbols.size(); ++i) counts[{symbols[i], symbols[i + 1]}] += count;
    }
    const std::pair<const std::pair<std::string, std::string>, int64_t>* best = nullptr;
    for (const auto& entry : counts)
      if (!best || entry.second >= best->second)
        best = &entry;  // the map is sorted: the last of equals is the greatest
    if (!best || best->second < min_frequency) break;
    merges.push_back(best->first);
    tokens[best->first.first + best->first.second] = 1;
  }
  return merges;
}

Pairs merges_of(const Tokenizer& tokenizer) {
  Pairs merges;
  for (const auto& text :
       parse_json(tokenizer.to_json(), "test").at("model").at("merges").get<std::vector<std::string>>()) {
    const size_t space = text.find(' ');
    merges.push_back({*unspell_bytes(text.substr(0, space)), *unspell_bytes(text.substr(space + 1))});
  }
  return merges;
}

std::unique_ptr<Tokenizer> trained_bpe(const std::string& text, int64_t vocab_size, int64_t min_frequency = 2) {
  const std::string_view view = text;
  return train_bpe({&view, 1}, {.vocab_size = vocab_size, .min_frequency = min_frequency});
}

std::string some_english() {
  std::string text;
  std::vector<std::string> words = {"the", "then", "cats", "don't", "1984", "über", "漢字"};
  for (uint64_t w = 0; w < 100; ++w) words.push_back(random_text(w, 2 + w % 8, "thecatsmonr"));
  for (uint64_t i = 0; i < 6000; ++i) {
    text += words[random_below({.seed = 5}, i, words.size())];
    text += random_below({.seed = 6}, i, 9) == 0 ? ".\n" : " ";
  }
  return text;
}

// ---- training

// oracle: tok.bpe
TEST(BpeTraining, EqualsThePlainAlgorithmOnRandomTexts) {
  set_log_level(LogLevel::error);  // many of these texts are too short for 60 merges
  for (uint64_t seed = 0; seed < 60; ++seed) {
    // Few letters and long words: many ties and runs of one letter.
    const std::string text = random_text(seed, 40 + seed * 8,
                                         seed % 3 == 0   ? "abc  "
                                         : seed % 3 == 1 ? "ab "
                                                         : "aaaaaaaab ");
    std::map<std::string, int64_t> words;
    PreTokenizer pretokenizer;
    pretokenizer.add_split(Pattern(gpt2_pattern, "test"));
    pretokenizer.pieces(text, [&](auto pieces) {
      for (const auto& piece : pieces) ++words[std::string(piece)];
    });
    for (const int64_t min_frequency : {1, 2}) {
      const auto tokenizer = trained_bpe(text, 257 + 60, min_frequency);
      const Pairs expected = train_bpe_plainly(words, 60, min_frequency);
      ASSERT_EQ(merges_of(*tokenizer), expected) << "seed " << seed << " '" << text << "'";
    }
  }
  set_log_level(LogLevel::info);
}

// oracle: tok.bpe
TEST(BpeTraining, TiesGoToTheGreaterPairAndRunsMergeFromTheLeft) {
  // "ab", "cd" and "ba" are equally frequent: (c, d) is the greatest.
  EXPECT_EQ(merges_of(*trained_bpe("ab,ab,cd,cd,ba,ba", 257 + 3)), (Pairs{{"c", "d"}, {"b", "a"}, {"a", "b"}}));
  const auto run = trained_bpe("aaaaa aaaaa", 257 + 1, 1);
  EXPECT_EQ(merges_of(*run), (Pairs{{"a", "a"}}));
  EXPECT_EQ(run->encode("aaaaa"), (Ids{257, 257, *run->id("a")}));
}

TEST(BpeTraining, DoesNotDependOnThreadsOrderOrCutting) {
  const std::string text = some_english();
  const int before = threads();
  set_threads(1);
  const std::string one = trained_bpe(text, 400)->to_json();
  set_threads(3);
  EXPECT_EQ(trained_bpe(text, 400)->to_json(), one);
  set_threads(before);

  BpeTrainer pieces({.vocab_size = 400});
  const size_t cut = text.find('\n', text.size() / 2) + 1;  // the text before ends with a line end, a word of its own
  pieces.add(std::string_view(text).substr(cut));
  pieces.add(std::string_view(text).substr(0, cut));
  EXPECT_EQ(merges_of(*pieces.train()), merges_of(*parse_tokenizer(one, "one")));
}

TEST(BpeTraining, SpecialTokensAreNotLearned) {
  std::string text;
  for (int i = 0; i < 50; ++i) text += "one<|endoftext|>two";
  const auto tokenizer = trained_bpe(text, 290);
  for (int32_t id = 1; id < tokenizer->vocab_size(); ++id)
    EXPECT_EQ(tokenizer->token(id).find("<|"), std::string::npos);
  EXPECT_EQ(tokenizer->specials().bos, 0);
  EXPECT_EQ(tokenizer->specials().eos, 0);
  EXPECT_FALSE(tokenizer->specials().pad || tokenizer->specials().unk);
  EXPECT_TRUE(tokenizer->is_special(0));
  EXPECT_FALSE(tokenizer->is_special(1));

  const Ids with = tokenizer->encode_with_specials("one<|endoftext|>two");
  EXPECT_EQ(std::count(with.begin(), with.end(), 0), 1);
  const Ids without = tokenizer->encode("one<|endoftext|>two");
  EXPECT_EQ(std::count(without.begin(), without.end(), 0), 0);
  EXPECT_EQ(tokenizer->decode(with), tokenizer->decode(without));
}

TEST(BpeTraining, StopsWhenNoPairIsFrequentEnough) {
  const auto tokenizer = trained_bpe("ab ab ab x y z", 1000);
  EXPECT_EQ(merges_of(*tokenizer), (Pairs{{"a", "b"}, {" ", "ab"}}));
  EXPECT_EQ(tokenizer->vocab_size(), 257 + 2);
  EXPECT_EQ(trained_bpe("", 300)->vocab_size(), 257);
}

TEST(BpeTraining, RefusesImpossibleOptions) {
  EXPECT_EQ(error_of([] { BpeTrainer({.vocab_size = 256}); }),
            "tokenizer: vocab_size must be at least 257 (256 bytes and 1 special token), got 256");
  EXPECT_EQ(error_of([] { BpeTrainer({.min_frequency = 0}); }), "tokenizer: min_frequency must be at least 1, got 0");
  EXPECT_EQ(error_of([] {
              BpeTrainer({.specials = {"<s>", "<s>"}});
            }),
            "tokenizer: special token '<s>' is given twice");
}

// ---- encoding

// oracle: tok.bpe
TEST(BpeEncoding, WithoutMergesTokensAreBytes) {
  const auto none = trained_bpe("some text some text", 257);
  const std::string text = random_bytes(1, 5000) + "naïve 漢字";
  const Ids ids = none->encode(text);
  ASSERT_EQ(ids.size(), text.size());
  for (size_t i = 0; i < ids.size(); ++i) ASSERT_EQ(none->piece(ids[i], false), std::string(1, text[i]));
}

// oracle: tok.bpe
TEST(BpeEncoding, DecodingGivesBackAnyBytes) {
  const std::string english = some_english();
  for (const auto& tokenizer : {trained_bpe(english, 257), trained_bpe(english, 330), make_byte_tokenizer()}) {
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(english)), english);
    for (uint64_t seed = 0; seed < 200; ++seed) {
      const std::string noise = random_bytes(seed, seed * 3);
      ASSERT_EQ(tokenizer->decode(tokenizer->encode(noise)), noise) << "seed " << seed;
      ASSERT_EQ(tokenizer->decode(tokenizer->encode_with_specials(noise)), noise) << "seed " << seed;
    }
    for (const char* odd :
         {"", "\xFF", "\xC3", "a\xE2\x82", "\xED\xA0\x80", "\xF4\x90\x80\x80 b", "\xC0\xAF", "caf\xC3\xA9\xC3"})
      EXPECT_EQ(tokenizer->decode(tokenizer->encode(odd)), odd);
    const std::string zeros("a\0\0b", 4);
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(zeros)), zeros);
  }
}

// oracle: tok.bpe
TEST(BpeEncoding, LengthDoesNotGrowWithMerges) {
  const std::string text = some_english();
  size_t before = text.size() + 1;
  for (const int64_t vocab_size : {257, 258, 260, 270, 290, 310, 330}) {
    const size_t length = trained_bpe(text, vocab_size)->encode(text).size();
    EXPECT_LT(length, before) << vocab_size;  // each further merge occurs in the text, so even less
    before = length;
  }
}

// oracle: tok.bpe
TEST(BpeEncoding, MergesApplyInTheOrderLearned) {
  const auto tokenizer = trained_bpe(some_english(), 330);
  const Pairs merges = merges_of(*tokenizer);
  ASSERT_GT(merges.size(), 60u);
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const std::string word = random_text(seed, 1 + seed % 60, "thecatsmonr");  // one word to the pattern
    Symbols pieces;
    for (const int32_t id : tokenizer->encode(word)) pieces.push_back(tokenizer->piece(id, false));
    ASSERT_EQ(pieces, merge_plainly(bytes_of(word), merges)) << word;
  }
}

TEST(BpeEncoding, HeapAndScanAgreeOnRandomMerges) {
  // Random merges, not learned ones: results that no training gives, and ranks against the order of lengths.
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const RandomKey key{.seed = seed};
    std::vector<Merge> merges;
    std::map<std::pair<int32_t, int32_t>, size_t> ranks;
    for (int32_t m = 0; m < 12; ++m) {
      const auto pick = [&](uint64_t i) { return int32_t(random_below(key, 2 * uint64_t(m) + i, uint64_t(3 + m))); };
      const Merge merge{pick(0), pick(1), 3 + m};
      if (ranks.emplace(std::pair(merge.left, merge.right), merges.size()).second) merges.push_back(merge);
    }
    for (const size_t length : {2, 7, 24, 25, 80}) {
      Ids word;
      for (size_t i = 0; i < length; ++i) word.push_back(int32_t(random_below(key, 1000 + i, 3)));
      Ids expected = word;
      for (;;) {
        size_t best = merges.size(), at = 0;
        for (size_t i = 0; i + 1 < expected.size(); ++i)
          if (const auto found = ranks.find({expected[i], expected[i + 1]});
              found != ranks.end() && found->second < best)
            best = found->second, at = i;
        if (best == merges.size()) break;
        expected[at] = merges[best].result;
        expected.erase(expected.begin() + ptrdiff_t(at) + 1);
      }
      BpeMerges(merges).apply(word);
      ASSERT_EQ(word, expected) << "seed " << seed << " length " << length;
    }
  }
}

TEST(BpeEncoding, BigTextsAndLongWordsAreTheSameByAnyNumberOfThreads) {
  std::string text;
  while (text.size() < 1'500'000) text += some_english() + random_bytes(text.size(), 20) + "  \n ";
  text += std::string(300'000, 'a') + random_text(1, 200'000, "the");
  const auto tokenizer = trained_bpe(some_english(), 330);
  const int before = threads();
  set_threads(1);
  const Ids one = tokenizer->encode(text);
  set_threads(4);
  EXPECT_EQ(tokenizer->encode(text), one);
  EXPECT_EQ(tokenizer->encode(text), one) << "from warm caches";
  set_threads(before);
  EXPECT_EQ(tokenizer->decode(one), text);
}

TEST(BpeEncoding, ManyThreadsMayEncodeAtOnce) {
  const std::string text = some_english();
  const auto tokenizer = trained_bpe(text, 330);
  const Ids expected = tokenizer->encode(text);
  std::vector<Ids> results(8);
  std::vector<std::thread> workers;
  for (Ids& result : results) workers.emplace_back([&] { result = tokenizer->encode(text); });
  for (std::thread& worker : workers) worker.join();
  for (const Ids& result : results) EXPECT_EQ(result, expected);
}

// ---- bytes

TEST(ByteTokenizer, IdsAreBytes) {
  const auto bytes = make_byte_tokenizer();
  EXPECT_EQ(bytes->vocab_size(), 257);
  EXPECT_EQ(bytes->specials().bos, 256);
  EXPECT_EQ(bytes->specials().eos, 256);
  EXPECT_EQ(bytes->encode("A\xFF\n"), (Ids{65, 255, 10}));
  EXPECT_EQ(bytes->encode_with_specials("A<|endoftext|>"), (Ids{65, 256}));
  EXPECT_EQ(bytes->decode(Ids{72, 105, 256}), "Hi<|endoftext|>");
  EXPECT_EQ(bytes->token(' '), "Ġ");
  EXPECT_EQ(bytes->id("Ġ"), 32);
  EXPECT_EQ(error_of([&] { bytes->decode(Ids{257}); }), "tokenizer: id 257 is outside the vocabulary of 257");
  EXPECT_EQ(error_of([&] { bytes->token(-1); }), "tokenizer: id -1 is outside the vocabulary of 257");
}

TEST(ByteAlphabet, IsGpt2s) {
  EXPECT_EQ(spell_bytes(std::string("\0 \n!~\x7F\xA0\xA1\xAD\xFF", 10)), "ĀĠĊ!~ġł¡Ńÿ");
  std::string all;
  for (int i = 0; i < 256; ++i) all += char(byte_in_spelling_order(i));
  EXPECT_EQ(all.substr(0, 3), "!\"#");
  EXPECT_EQ(unspell_bytes(spell_bytes(all)), all);
  EXPECT_FALSE(unspell_bytes("a b"));
  EXPECT_FALSE(unspell_bytes("漢"));
}

TEST(BpeTraining, RolesOfTranslation) {
  TokenizerConfig config;
  config.type = "bpe";
  config.vocab_size = 280;
  config.specials = {"<pad>", "<unk>", "<s>", "</s>"};
  const auto tokenizer = make_tokenizer(config, [](const auto& each) {
    each("the house is small");  // the languages' texts come one after the other
    each("das Haus ist klein, das Haus");
  });
  EXPECT_EQ(tokenizer->specials().pad, 0);
  EXPECT_EQ(tokenizer->specials().unk, 1);
  EXPECT_EQ(tokenizer->specials().bos, 2);
  EXPECT_EQ(tokenizer->specials().eos, 3);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("das house")), "das house");
}

}  // namespace
}  // namespace lithe

// Training of WordPiece.
#include <map>

#include "lithe/base/fields.h"
#include "lithe/base/json.h"
#include "lithe/base/log.h"
#include "lithe/base/threads.h"
#include "text_for_tests.h"

namespace lithe {
namespace {

std::unique_ptr<Tokenizer> trained_wordpieces(const std::string& text, const WordPieceTraining& options) {
  WordPieceTrainer trainer(options);
  trainer.add(text);
  return trainer.train();
}

Words vocabulary_of(const Tokenizer& tokenizer) {
  Words out;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) out.push_back(tokenizer.token(id));
  return out;
}

/// Counts every pair anew after each merge and takes the most frequent, of equals the greatest.
Words train_wordpieces_plainly(const std::map<std::string, int64_t>& counts, size_t merges, int64_t min_frequency) {
  std::map<std::string, Words> words;
  for (const auto& [word, count] : counts)
    for (size_t i = 0; i < word.size(); ++i) words[word].push_back((i == 0 ? "" : "##") + word.substr(i, 1));
  Words learned;
  while (learned.size() < merges) {
    std::map<std::pair<std::string, std::string>, int64_t> pairs;
    for (const auto& [word, pieces] : words)
      for (size_t i = 0; i + 1 < pieces.size(); ++i) pairs[{pieces[i], pieces[i + 1]}] += counts.at(word);
    const std::pair<const std::pair<std::string, std::string>, int64_t>* best = nullptr;
    for (const auto& entry : pairs)
      if (!best || entry.second >= best->second) best = &entry;
    if (!best || best->second < min_frequency) break;
    const auto [left, right] = best->first;
    const std::string joined = left + right.substr(2);
    learned.push_back(joined);
    for (auto& [word, pieces] : words)
      for (size_t i = 0; i + 1 < pieces.size(); ++i)
        if (pieces[i] == left && pieces[i + 1] == right) {
          pieces[i] = joined;
          pieces.erase(pieces.begin() + ptrdiff_t(i) + 1);
        }
  }
  return learned;
}

TEST(WordPieceTraining, EqualsThePlainAlgorithm) {
  set_log_level(LogLevel::error);
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const std::string text = random_text(seed, 60 + seed * 10, seed % 2 ? "abc  " : "aab ");
    std::map<std::string, int64_t> words;
    std::istringstream in(text);
    for (std::string word; in >> word;) ++words[word];
    const auto tokenizer = trained_wordpieces(text, {.vocab_size = 50});
    const Words all = vocabulary_of(*tokenizer);
    size_t singles = 5;
    while (singles < all.size() && (all[singles].size() == 1 || (all[singles].size() == 3 && all[singles][0] == '#')))
      ++singles;
    const Words learned(all.begin() + ptrdiff_t(singles), all.end());
    ASSERT_EQ(learned, train_wordpieces_plainly(words, 50 - singles, 2)) << "seed " << seed << " '" << text << "'";
  }
  set_log_level(LogLevel::info);
}

TEST(WordPieceTraining, IsBertsTokenizer) {
  const auto tokenizer = trained_wordpieces("Playing played plays play. PLAYÍNG, playing!", {.vocab_size = 50});
  const Words all = vocabulary_of(*tokenizer);
  EXPECT_EQ(Words(all.begin(), all.begin() + 8), (Words{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "!", ",", "."}));
  EXPECT_EQ(all[8], "a");
  const Specials& s = tokenizer->specials();
  EXPECT_EQ(s.pad, 0);
  EXPECT_EQ(s.unk, 1);
  EXPECT_EQ(s.cls, 2);
  EXPECT_EQ(s.sep, 3);
  EXPECT_EQ(s.mask, 4);
  EXPECT_EQ(tokenizer->encode("playing"), (Ids{*tokenizer->id("playing")}))
      << "lower case without accents: seen thrice";
  EXPECT_TRUE(tokenizer->id("##n") && !tokenizer->id("##!")) << "only what was seen within a word";
  EXPECT_TRUE(tokenizer->continues_word(*tokenizer->id("##g")));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("Plays, playing")), "plays, playing");
  EXPECT_EQ(tokenizer->encode("xyz"), (Ids{1}));
  EXPECT_EQ(tokenizer->encode("[MASK]"), (Ids{1, 1, 1})) << "plain text unless specials are asked for";
  EXPECT_EQ(tokenizer->encode_with_specials("[MASK]"), (Ids{4}));
}

TEST(WordPieceTraining, DoesNotDependOnThreadsOrOrder) {
  std::string text;
  for (uint64_t w = 0; w < 20'000; ++w)
    text += random_text(random_below({.seed = 3}, w, 400), 1 + w % 7, "etaoin") + " ";
  const int before = threads();
  set_threads(1);
  const std::string one = trained_wordpieces(text, {.vocab_size = 300})->to_json();
  set_threads(3);
  EXPECT_EQ(trained_wordpieces(text, {.vocab_size = 300})->to_json(), one);
  set_threads(before);
  WordPieceTrainer halves({.vocab_size = 300});
  const size_t cut = text.find(' ', text.size() / 2);
  halves.add(text.substr(cut));
  halves.add(text.substr(0, cut));
  EXPECT_EQ(halves.train()->to_json(), one);
}

TEST(WordPieceTraining, RareCharactersAndSpecials) {
  // Room for two characters: the two most frequent. Words with another one teach nothing.
  const auto small = trained_wordpieces("aab aab aab aac aac [MASK][MASK] [MASK]", {.vocab_size = 5 + 5});
  EXPECT_EQ(small->vocab_size(), 10);
  EXPECT_EQ(vocabulary_of(*small)[5], "a");
  EXPECT_EQ(vocabulary_of(*small)[6], "b");
  EXPECT_EQ(vocabulary_of(*small)[9], "aa") << "as frequent as (##a, ##b) without aac, and greater";
  EXPECT_EQ(small->encode("aac"), (Ids{1}));
  const auto more = trained_wordpieces("go go", {.vocab_size = 12, .specials = {"[UNK]", "[PAD]", "<hide>"}});
  EXPECT_EQ(more->encode_with_specials("<hide>"), (Ids{2}));
  EXPECT_TRUE(more->is_special(2));
  EXPECT_EQ(error_of([] { WordPieceTrainer({.specials = {"[PAD]"}}); }),
            "tokenizer: specials of a WordPiece must hold [UNK], for words that no pieces make up");
  EXPECT_NE(error_of([] { WordPieceTrainer({.vocab_size = 6}); }).find("vocab_size must be at least 7"),
            std::string::npos);
  EXPECT_EQ(trained_wordpieces("", {.vocab_size = 20})->vocab_size(), 5);
}

TEST(TokenizerConfig, SpecialsOfTrainedTokenizers) {
  const auto make = [](const std::string& yaml) {
    TokenizerConfig config;
    read_fields(parse_yaml(yaml, "r.yaml"), "data.tokenizer", [&](Fields& f) { config.fields(f); });
    return make_tokenizer(config, [](const auto& add) { add("go go go"), add("go far"); });
  };
  const auto bpe = make("{type: bpe, vocab_size: 262, specials: [<s>, <pad>, </s>, <unk>, <mask>]}");
  EXPECT_EQ(bpe->specials().bos, 0);
  EXPECT_EQ(bpe->specials().pad, 1);
  EXPECT_EQ(bpe->specials().eos, 2);
  EXPECT_EQ(bpe->specials().unk, 3);
  EXPECT_EQ(bpe->specials().mask, 4);
  // The cache of trained tokenizers keeps tokenizer.json alone: the roles must be found in it.
  EXPECT_EQ(parse_tokenizer(bpe->to_json(), "again")->fingerprint(), bpe->fingerprint());
  const auto bert = make("{type: wordpiece, vocab_size: 30}");
  EXPECT_EQ(parse_tokenizer(bert->to_json(), "again")->fingerprint(), bert->fingerprint());
  EXPECT_EQ(bert->token(2), "[CLS]");
  EXPECT_NE(error_of([&] { make("{type: bpe, vocab_size: 300, specials: [<mask>]}"); }).find("known to end a text"),
            std::string::npos);
}

}  // namespace
}  // namespace lithe

// SentencePiece models: against the library, published ids, save and load, streaming, training.
#include <sentencepiece_processor.h>

#include <cmath>

#include "lithe/base/json.h"
#include "lithe/base/log.h"
#include "lithe/text/tokenizer_json.h"
#include "lithe/text/utf8.h"
#include "sentencepiece_for_tests.h"
#include "tests/support/process.h"
#include "tests/support/sentencepiece.h"
#include "text_for_tests.h"

namespace lithe {
namespace {

std::vector<std::string> botchan_lines() {
  std::istringstream in(read_file(data("tokenizers/sentencepiece/botchan.txt")));
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

const char* const hard_texts[] = {"",
                                  " ",
                                  "  two  spaces ",
                                  "Ｈｅｌｌｏ ﷺ ①",
                                  "日本語のテキスト",
                                  "😀😀 x 😀",
                                  "a\tb\nc\n\n",
                                  "x\xFF\xFEy",
                                  "<s> </s> <unk> <pad>",
                                  "under▁line▁",
                                  "e\u0301 \u00e9",
                                  "\u200b\u00a0"};

TEST(SentencePiece, EncodesAndDecodesAsTheLibrary) {
  if (data("tokenizers").empty()) GTEST_SKIP() << "needs $LITHE_DATA/tokenizers";
  const auto lines = botchan_lines();
  ASSERT_GT(lines.size(), 4000u);
  for (const char* name : {"t5.model", "open_llama_3b.model", "test_model.model", "test_ja_model.model"}) {
    const Path path = data(std::string("tokenizers/sentencepiece/") + name);
    const auto ours = load_tokenizer(path);
    sentencepiece::SentencePieceProcessor library;
    ASSERT_TRUE(library.LoadFromSerializedProto(read_file(path)).ok());
    EXPECT_EQ(ours->vocab_size(), library.GetPieceSize());
    size_t ties = 0;
    std::vector<std::string> texts(std::begin(hard_texts), std::end(hard_texts));
    texts.insert(texts.end(), lines.begin(), lines.end());
    for (const std::string& text : texts) {
      const Ids expected = library.EncodeAsIds(text);
      const Ids ids = ours->encode(text);
      // Debian's library orders pieces otherwise where two segmentations have one probability, which today's does not.
      ASSERT_TRUE(std::is_permutation(ids.begin(), ids.end(), expected.begin(), expected.end()))
          << name << ": '" << text << "'";
      ties += ids != expected;
      ASSERT_EQ(valid_utf8(ours->decode(expected)), library.DecodeIds(expected)) << name << ": '" << text << "'";
    }
    EXPECT_LT(ties, texts.size() / 50) << name;
  }
}

// Of segmentations with equal sums of scores; sums are in single precision over the whole text. From the library 0.2.3.
TEST(SentencePiece, TiesAreBrokenAsByTodaysLibrary) {
  if (data("tokenizers").empty()) GTEST_SKIP() << "needs $LITHE_DATA/tokenizers";
  const auto t5 = load_tokenizer(data("tokenizers/sentencepiece/t5.model"));
  EXPECT_EQ(t5->encode("in the school----\" he"), (Ids{16, 8, 496, 18, 14817, 121, 3, 88}));
  EXPECT_EQ(t5->encode("            def foo(xxx_todo_changeme):"),
            (Ids{20, 89, 5575, 32, 599, 19230, 226, 834, 235, 26, 32, 834, 13073, 526, 61, 10}));
  const auto test = load_tokenizer(data("tokenizers/sentencepiece/test_model.model"));
  EXPECT_EQ(test->encode("................................ ................................"),
            (Ids{4, 269, 269, 6, 6, 269, 269, 269, 4, 6, 6, 269, 269, 269, 269, 269}));
}

TEST(SentencePiece, GivesThePublishedIdsOfT5) {
  if (data("tokenizers").empty()) GTEST_SKIP() << "needs $LITHE_DATA/tokenizers";
  const auto t5 = load_tokenizer(data("tokenizers/sentencepiece/t5.model"));
  const Json golden = parse_json(read_file(data("tokenizers/parity/swift-transformers/t5_base_encoded.json")), "t5");
  Ids ids = t5->encode(golden.at("text").get<std::string>());
  Ids expected = golden.at("token_ids").get<Ids>();
  if (!expected.empty() && expected.back() == t5->specials().eos) expected.pop_back();
  EXPECT_EQ(ids, expected);
}

TEST(SentencePiece, RolesAreThoseOfTheModel) {
  if (data("tokenizers").empty()) GTEST_SKIP() << "needs $LITHE_DATA/tokenizers";
  const auto t5 = load_tokenizer(data("tokenizers/sentencepiece/t5.model"));
  EXPECT_FALSE(t5->specials().bos.has_value());
  EXPECT_EQ(t5->specials().pad, 0);
  EXPECT_EQ(t5->specials().eos, 1);
  EXPECT_EQ(t5->specials().unk, 2);
  const auto llama = load_tokenizer(data("tokenizers/sentencepiece/open_llama_3b.model"));
  EXPECT_EQ(llama->specials().unk, 0);
  EXPECT_EQ(llama->specials().bos, 1);
  EXPECT_EQ(llama->specials().eos, 2);
  EXPECT_FALSE(llama->specials().pad.has_value());
  EXPECT_EQ(llama->encode_with_specials("<s>Hello"), (Ids{1, llama->encode("Hello")[0]}));
  EXPECT_EQ(llama->piece(1, true), "<s>");
  EXPECT_EQ(t5->piece(2, true), " \u2047 ");
  EXPECT_TRUE(t5->is_special(0) && t5->is_special(2) && !t5->is_special(3));
  EXPECT_TRUE(t5->continues_word(*t5->id("s")));
  EXPECT_FALSE(t5->continues_word(*t5->id("\u2581the")));
  EXPECT_THROW(t5->piece(32000, true), Error);
  EXPECT_THROW(t5->token(-1), Error);
}

TEST(SentencePiece, IsKeptAsATokenizerJson) {
  if (data("tokenizers").empty()) GTEST_SKIP() << "needs $LITHE_DATA/tokenizers";
  const kit::Scratch scratch;
  for (const char* name : {"t5.model", "open_llama_3b.model"}) {
    const auto loaded = load_tokenizer(data(std::string("tokenizers/sentencepiece/") + name));
    save_tokenizer(*loaded, scratch / "run");
    const auto again = load_tokenizer(scratch / "run");
    EXPECT_EQ(again->to_json(), loaded->to_json());
    EXPECT_EQ(again->fingerprint(), loaded->fingerprint());
    EXPECT_EQ(again->specials().eos, loaded->specials().eos);
    EXPECT_EQ(again->encode("Hello w\u00f6rld"), loaded->encode("Hello w\u00f6rld"));

    std::string damaged = loaded->to_json();
    char& middle = damaged[damaged.size() / 2];
    middle = middle == 'A' ? 'B' : 'A';
    EXPECT_NE(error_of([&] { parse_tokenizer(damaged, "damaged"); }).find("was changed or damaged"), std::string::npos);
  }
}

// Texts where Hugging Face's library itself cuts otherwise are left out: names of special tokens are these tokens
// there, and bytes that are no UTF-8 are none of its.
TEST(SentencePiece, IsWrittenForHuggingFace) {
  if (data("tokenizers").empty()) GTEST_SKIP() << "needs $LITHE_DATA/tokenizers";
  const auto lines = botchan_lines();
  for (const char* name : {"t5.model", "open_llama_3b.model", "test_model.model", "test_ja_model.model"}) {
    const std::string model = read_file(data(std::string("tokenizers/sentencepiece/") + name));
    const auto ours = load_tokenizer(data(std::string("tokenizers/sentencepiece/") + name));
    const auto written = parse_tokenizer(sentencepiece_json(model, name), "tokenizer.json");
    size_t ties = 0;
    std::vector<std::string> texts(std::begin(hard_texts), std::end(hard_texts));
    texts.insert(texts.end(), lines.begin(), lines.end());
    for (const std::string& text : texts) {
      if (!is_valid_utf8(text) || text.find("<s>") != text.npos) continue;
      const Ids ids = ours->encode(text);
      const Ids there = written->encode(text);
      // Of two orders of the same pieces its sums, in double precision, find another one better than SentencePiece's.
      ASSERT_TRUE(std::is_permutation(ids.begin(), ids.end(), there.begin(), there.end()))
          << name << ": '" << text << "'";
      ties += ids != there;
      const bool unknown = std::find(ids.begin(), ids.end(), *ours->specials().unk) != ids.end();
      if (!unknown) {
        ASSERT_EQ(written->decode(ids), ours->decode(ids)) << name << ": '" << text << "'";
      }
    }
    EXPECT_LT(ties, texts.size() / 50) << name;
  }
}

TEST(SentencePiece, StreamsTheTextThatDecodeGives) {
  if (data("tokenizers").empty()) GTEST_SKIP() << "needs $LITHE_DATA/tokenizers";
  const auto llama = load_tokenizer(data("tokenizers/sentencepiece/open_llama_3b.model"));
  const std::string text = "Hello w\u00f6rld \U0001F600, again and again";
  StreamDecoder stream(*llama);
  std::string out;
  for (const int32_t id : llama->encode(text)) out += stream.push(id);
  EXPECT_EQ(out + stream.finish(), text);

  StreamDecoder after_prompt(*llama, false);
  EXPECT_EQ(after_prompt.push(llama->encode("again")[0]), " again");
}

// A corpus of a few words in many orders.
std::string small_corpus() {
  const char* const words[] = {"the",     "unhappy", "happy",   "happiness", "walked",
                               "walking", "talked",  "talking", "cat",       "dog"};
  std::string out;
  for (uint64_t i = 0; i < 3000; ++i) {
    out += words[random_below({.seed = 3}, i, std::size(words))];
    out += i % 9 == 8 ? ".\n" : " ";
  }
  return out;
}

std::unique_ptr<Tokenizer> trained_unigram(const std::string& corpus, const UnigramTraining& options) {
  UnigramTrainer trainer(options);
  trainer.add(corpus);
  return trainer.train();
}

#ifndef LITHE_HAVE_SENTENCEPIECE
TEST(UnigramTraining, WithoutTheLibraryItSaysSo) {
  EXPECT_NE(error_of([] { UnigramTrainer(); }).find("libsentencepiece-dev"), std::string::npos);
}
#endif

TEST(UnigramTraining, LearnsPiecesAndRoles) {
  NEEDS_SENTENCEPIECE;
  const auto tokenizer = trained_unigram(small_corpus(), {.vocab_size = 40, .specials = {"<mask>", "<fr>"}});
  EXPECT_EQ(tokenizer->vocab_size(), 40);
  EXPECT_EQ(tokenizer->specials().pad, 0);
  EXPECT_EQ(tokenizer->specials().unk, 1);
  EXPECT_EQ(tokenizer->specials().bos, 2);
  EXPECT_EQ(tokenizer->specials().eos, 3);
  EXPECT_EQ(tokenizer->specials().mask, 4);
  EXPECT_EQ(tokenizer->id("<fr>"), 5);
  const std::string text = "the unhappy dog walked.";
  const Ids ids = tokenizer->encode(text);
  EXPECT_LT(ids.size(), text.size() / 2);
  EXPECT_EQ(tokenizer->decode(ids), text);
  EXPECT_EQ(tokenizer->encode_with_specials("<fr> the")[0], 5);
  const kit::Scratch scratch;
  save_tokenizer(*tokenizer, scratch / "run");
  EXPECT_EQ(load_tokenizer(scratch / "run")->fingerprint(), tokenizer->fingerprint());
}

TEST(UnigramTraining, DependsOnTheTextsAlone) {
  NEEDS_SENTENCEPIECE;
  const std::string corpus = small_corpus();
  const size_t middle = corpus.find('\n', corpus.size() / 2) + 1;
  UnigramTrainer trainer({.vocab_size = 40});
  trainer.add(corpus.substr(middle));
  trainer.add(corpus.substr(0, middle));
  EXPECT_EQ(trainer.train()->to_json(), trained_unigram(corpus, {.vocab_size = 40})->to_json());
}

TEST(UnigramTraining, ErrorsSayWhatToChange) {
  NEEDS_SENTENCEPIECE;
  const std::string corpus = small_corpus();
  const std::string large = error_of([&] { trained_unigram(corpus, {.vocab_size = 4000}); });
  EXPECT_NE(large.find("vocab_size 4000 is too large"), std::string::npos) << large;
  const size_t number = large.find("no more pieces than ");
  ASSERT_NE(number, std::string::npos) << large;
  const int64_t most = std::stoll(large.substr(number + 20));
  EXPECT_EQ(trained_unigram(corpus, {.vocab_size = most})->vocab_size(), most);
  EXPECT_NE(error_of([&] { trained_unigram(corpus, {.vocab_size = 10}); }).find("too small"), std::string::npos);
  EXPECT_NE(error_of([&] { trained_unigram(" \n", {}); }).find("no words"), std::string::npos);
  EXPECT_NE(error_of([&] { trained_unigram(corpus, {.specials = {"<a,b>"}}); }).find("comma"), std::string::npos);
  EXPECT_NE(error_of([&] { trained_unigram(corpus, {.vocab_size = 4}); }).find("at least 5"), std::string::npos);
}

TEST(UnigramTraining, IsATypeOfTheRecipe) {
  NEEDS_SENTENCEPIECE;
  TokenizerConfig config;
  config.type = "unigram";
  config.vocab_size = 40;
  EXPECT_TRUE(learns_from_texts(config));
  const std::string corpus = small_corpus();
  const auto made = make_tokenizer(config, [&](const auto& each) { each(corpus); });
  EXPECT_EQ(made->fingerprint(), trained_unigram(corpus, {.vocab_size = 40})->fingerprint());
  config.min_frequency = 7;
  EXPECT_NE(error_of([&] { make_tokenizer(config, {}); }).find("min_frequency"), std::string::npos);
}

std::unique_ptr<Tokenizer> loaded(const std::string& model) {
  const kit::Scratch scratch;
  return load_tokenizer(scratch.add("x.model", model));
}
std::string refusal(const std::string& model) {
  return error_of([&] { loaded(model); });
}

/// Cut between two fields a model may still be one.
void refusal_or_load(const std::string& model) {
  try {
    loaded(model)->encode("Aab");
  } catch (const Error&) {
  }
}

TEST(SentencePieceFile, SmallModelNormalizesAndEncodes) {
  const auto tokenizer = loaded(small_sentencepiece());
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("Aab")), "aab");
  EXPECT_EQ(tokenizer->encode("A<x>"), (Ids{3, 4, 9})) << "a user-defined piece is one";
  EXPECT_EQ(tokenizer->sample("A<x>", {.alpha = 100}, {}), (Ids{3, 4, 9}));
  EXPECT_EQ(loaded(small_sentencepiece({}))->encode("A").back(), 0) << "without rules A is unknown";
}

/// BPE with runs of '-', what the user defined, and one piece that is not used.
std::string small_bpe(const std::string& more = "", bool byte_fallback = false) {
  std::string model = proto_piece("<unk>", 0, 2) + proto_piece("<s>", 0, 3) + proto_piece("</s>", 0, 3);
  float score = 0;
  for (const char* piece : {"--", "---", "\u2581a", "ab", "\u2581ab", "\u2581", "-", "a", "b", "<", "x"})
    model += proto_piece(piece, score--, 1);
  model += proto_piece("<x>", 0, 4) + more;
  if (byte_fallback)
    for (int byte = 0; byte < 256; ++byte) {
      char name[8];
      std::snprintf(name, sizeof name, "<0x%02X>", byte);
      model += proto_piece(name, 0, 6);
    }
  return model + proto_bytes(2, proto_number(3, 2) + proto_number(35, byte_fallback));
}

// Expected ids are those of SentencePiece 0.2.3 for the same files.
TEST(SentencePieceFile, BpeMergesWhatMakesTheBestPiece) {
  const auto tokenizer = loaded(small_bpe());
  EXPECT_EQ(tokenizer->encode("-----"), (Ids{8, 3, 4}));
  EXPECT_EQ(tokenizer->encode("ab aab a<x>b <x"), (Ids{7, 5, 6, 5, 14, 11, 8, 12, 13}));
  EXPECT_EQ(tokenizer->encode("\u00e4\u00e4b"), (Ids{8, 0, 11})) << "unknown characters in a row are one";
  EXPECT_EQ(loaded(small_bpe("", true))->encode("\u00e4b"), (Ids{8, 210, 179, 11}));
  EXPECT_EQ(tokenizer->sample("ab", {.dropout = 1}, {}), (Ids{8, 10, 11}));
  EXPECT_EQ(loaded(small_bpe(proto_piece("b-b", -20, 5)))->encode("b-b"), (Ids{8, 11, 9, 11}));
  EXPECT_NE(refusal(small_bpe(proto_piece("ba", -20, 5))).find("is unused and can be merged"), std::string::npos);
}

TEST(SentencePieceFile, ByteFallbackNeedsEveryByte) {
  const std::string model = small_sentencepiece() + proto_bytes(2, proto_number(35, 1));
  EXPECT_NE(refusal(model + proto_piece("<0x00>", 0, 6)).find("has no piece for byte 1"), std::string::npos);
}

// The same ids as of its parts, however long the text is.
TEST(SentencePieceFile, LongTextsAreCutAsShortOnes) {
  const auto tokenizer = loaded(small_sentencepiece());
  const Ids once = tokenizer->encode("ab ba");
  std::string text;
  Ids expected;
  for (int i = 0; i < 5000; ++i) {
    text += "ab ba ";
    expected.insert(expected.end(), once.begin(), once.end());
  }
  EXPECT_EQ(tokenizer->encode(text), expected);
}

TEST(SentencePieceFile, RefusesWhatIsNoModel) {
  const std::string model = small_sentencepiece();
  EXPECT_NE(refusal("").find("has no pieces"), std::string::npos);
  EXPECT_NE(refusal("{\"version\": \"1.0\"}").find("no SentencePiece model"), std::string::npos);
  EXPECT_NE(refusal(std::string(1000, '\xFF')).find("no SentencePiece model"), std::string::npos);
  for (size_t size = 0; size < model.size(); size += 1 + size / 50) refusal_or_load(model.substr(0, size));
  EXPECT_NE(refusal(proto_piece("a", -1, 1)).find("no piece is of type unknown"), std::string::npos);
  EXPECT_NE(refusal(model + proto_piece("a", -1, 1)).find("has two ids"), std::string::npos);
  EXPECT_NE(refusal(model + proto_piece("", -1, 1)).find("piece 10 has 0 bytes"), std::string::npos);
  EXPECT_NE(refusal(model + proto_piece(std::string(5000, 'a'), -1, 1)).find("has 5000 bytes"), std::string::npos);
  EXPECT_NE(refusal(model + proto_piece("\xFF", -1, 1)).find("must be UTF-8"), std::string::npos);
  EXPECT_NE(refusal(model + proto_piece(std::string("a\0", 2), -1, 1)).find("zero byte"), std::string::npos);
  EXPECT_NE(refusal(model + proto_piece("c", NAN, 1)).find("not finite"), std::string::npos);
  EXPECT_NE(refusal(model + proto_piece("c", 0, 7)).find("type 7"), std::string::npos);
  EXPECT_NE(refusal(small_sentencepiece({}, 3)).find("model type 3 is not supported"), std::string::npos);
  EXPECT_NE(refusal(model + proto_bytes(2, proto_number(24, 1))).find("suffix"), std::string::npos);
  EXPECT_NE(refusal(model + proto_bytes(5, proto_bytes(2, "x"))).find("denormalizer"), std::string::npos);
}

TEST(SentencePieceFile, RefusesRulesThatLeadOutsideTheirTable) {
  const std::string a("a\0", 2);
  const auto with = [&](size_t at, uint32_t unit, const std::string& replacements) {
    auto units = one_rule();
    units[at] = unit;
    return refusal(small_sentencepiece(proto_rules(units, replacements)));
  };
  EXPECT_NE(with(0, 5000u << 10, a).find("place 5000 of 1024"), std::string::npos);
  EXPECT_NE(with(256 ^ 'A', 4096u << 10 | 1u << 8 | 'A', a).find("of 1024"), std::string::npos);
  EXPECT_NE(with(256 ^ 'A' ^ 512, 1u << 31 | 7, a).find("replacement at 7 of 2 bytes"), std::string::npos);
  EXPECT_NE(with(256 ^ 'A', uint32_t('A') << 10 | 'A', a).find("a circle"), std::string::npos);
  EXPECT_NE(refusal(small_sentencepiece(proto_rules(one_rule(), "a"))).find("a replacement of more"),
            std::string::npos);
  EXPECT_NE(refusal(small_sentencepiece(proto_rules(one_rule(), std::string("\xFF\0", 2)))).find("no UTF-8"),
            std::string::npos);
  EXPECT_NE(refusal(small_sentencepiece(std::string("\xFF\xFF\xFF\xFFxx", 6))).find("announce"), std::string::npos);
  EXPECT_NE(refusal(small_sentencepiece("ab")).find("2 bytes"), std::string::npos);
}

TEST(SentencePieceFile, CutAnywhereRealModelsEndWithAnError) {
  if (data("tokenizers").empty()) GTEST_SKIP() << "needs $LITHE_DATA/tokenizers";
  const std::string model = read_file(data("tokenizers/sentencepiece/test_model.model"));
  for (size_t i = 1; i < 40; ++i) refusal_or_load(model.substr(0, model.size() * i / 40));
}

}  // namespace
}  // namespace lithe

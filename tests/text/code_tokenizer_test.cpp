// Tokenizers without a vocabulary: words, characters, their files, collisions and neighbours.
#include "lithe/text/code_tokenizer.h"
#include "lithe/base/fields.h"
#include "lithe/base/json.h"
#include "lithe/base/log.h"
#include "lithe/base/threads.h"
#include "lithe/text/framing.h"
#include "lithe/text/md5.h"
#include "lithe/text/word_neighbours.h"
#include "tests/support/process.h"
#include "text_for_tests.h"

namespace lithe {
namespace {

Words cut_words(const std::string& text, bool lowercase = true) {
  Words out;
  WordCutter(lowercase).words(text, [&](auto words) { out.insert(out.end(), words.begin(), words.end()); });
  return out;
}

/// The tokenizer of a recipe, learned from a few words.
std::unique_ptr<Tokenizer> make(const std::string& yaml) {
  TokenizerConfig config;
  read_fields(parse_yaml(yaml, "r.yaml"), "data.tokenizer", [&](Fields& f) { config.fields(f); });
  return make_tokenizer(config, [](const auto& add) { add("play plays played player"), add("a zebra plays!"); });
}

const char* const all_kinds[] = {"type: words",
                                 "{type: words, key: en, lowercase: false}",
                                 "{type: words, code: bucket, num_buckets: 1000}",
                                 "{type: words, hash: lsh}",
                                 "{type: words, hash: lsh, bits: 420, ngram_max: 3, hash_seed: 5}",
                                 "{type: words, hash: lsh, code: bucket, num_buckets: 50, ngram_vocab_size: 60}",
                                 "type: characters"};

// oracle: tok.whitespace
TEST(WordCutter, AsTheReleasedCode) {
  EXPECT_EQ(cut_words("Don't stop!"), (Words{"don", "'", "t", "stop", "!"}));
  EXPECT_EQ(cut_words("Don't stop!", false), (Words{"Don", "'", "t", "stop", "!"}));
  EXPECT_EQ(cut_words("a_b2  (x)... \t\n«ÉTÉ»\u3000漢字"), (Words{"a_b2", "(", "x", ")...", "«", "été", "»", "漢字"}));
  EXPECT_EQ(cut_words(""), Words());
  EXPECT_EQ(cut_words(" \n"), Words());
  EXPECT_EQ(cut_words("a\xFF!b\xE2\x82"), (Words{"a", "\xFF!", "b", "\xE2\x82"}));
  EXPECT_EQ(cut_words("cafe\u0301"), (Words{"cafe", "\u0301"})) << "as in Python, a mark is no word character";
  EXPECT_EQ(cut_words("a\x1F"
                      "b"),
            (Words{"a", "b"}));
}

// oracle: tok.whitespace
TEST(WordCutter, JoinedWordsAreCutAlike) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const Words once = cut_words(random_text(seed, 200, "aBc_1.,! \n'-"));
    std::string joined;
    for (const std::string& word : once) joined += word + " ";
    ASSERT_EQ(cut_words(joined), once);
  }
}

// oracle: tok.whitespace
TEST(WordTokenizer, PairsAreFramedAsRobertas) {
  const auto words = make("{type: words, code: bucket, num_buckets: 1000}");
  ASSERT_EQ(words->width(), 2);
  const Ids a = words->encode("play"), b = words->encode("two words");
  EXPECT_EQ(a, (Ids{5, 933}));
  const FramedText pair = frame(*words, a, b, true, 512);
  EXPECT_EQ(pair.tokens, (Ids{0, 0, 5, 933, 2, 0, 2, 0, 5, b[1], 5, b[3], 2, 0}));
  EXPECT_EQ(pair.a_begin, 1);
  EXPECT_EQ(pair.b_begin, 4);
  EXPECT_EQ(pair.b_tokens, 2);
  EXPECT_EQ(frame_specials(*words, true), 4);
  EXPECT_EQ(frame(*words, a, {}, false, 512).tokens, (Ids{0, 0, 5, 933, 2, 0}));
  Ids many;
  for (int i = 0; i < 600; ++i) many.insert(many.end(), a.begin(), a.end());
  EXPECT_EQ(frame(*words, many, many, true, 512).tokens.size(), 2u * 512);
  EXPECT_EQ(error_of([&] { frame(*words, Ids{5}, {}, false, 512); }),
            "frame: a text of 1 ints is no whole number of tokens of 2 ints");
}

TEST(CodeTokenizers, KnowTheirSpecials) {
  for (const char* kind : all_kinds) {
    const auto tokenizer = make(kind);
    const Specials& s = tokenizer->specials();
    EXPECT_EQ(s.bos, code_bos);
    EXPECT_EQ(s.pad, code_pad);
    EXPECT_EQ(s.eos, code_eos);
    EXPECT_EQ(s.unk, code_unk);
    EXPECT_EQ(s.mask, code_mask);
    EXPECT_FALSE(s.cls || s.sep);
    EXPECT_EQ(tokenizer->vocab_size(), 6);
    EXPECT_EQ(tokenizer->token(4), "<mask>");
    EXPECT_EQ(tokenizer->id("<pad>"), 1);
    EXPECT_TRUE(tokenizer->is_special(0) && !tokenizer->is_special(5));
    EXPECT_FALSE(tokenizer->continues_word(5));
    EXPECT_EQ(tokenizer->code().width(), tokenizer->width());

    const size_t width = size_t(tokenizer->width());
    EXPECT_GT(width, 1u);
    Ids expected(width, 0);
    expected[0] = code_mask;
    const Ids one = tokenizer->encode("a");
    ASSERT_EQ(one.size(), width);
    EXPECT_EQ(one[0], code_ordinary);
    expected.insert(expected.begin(), one.begin(), one.end());
    EXPECT_EQ(tokenizer->encode_with_specials("a<mask>"), expected);
    EXPECT_EQ(std::count(expected.begin(), expected.end(), code_mask), 1);
    const std::string refusal = error_of([&] { tokenizer->decode(one); });
    EXPECT_NE(refusal.find("without a vocabulary"), std::string::npos) << refusal;
    EXPECT_THROW(tokenizer->piece(5, true), Error);
    EXPECT_THROW(tokenizer->token(6), Error);
  }
  EXPECT_EQ(make("{type: words, hash: lsh, bits: 420}")->width(), 1 + 14);
}

TEST(CharacterTokenizer, CodesAreCodePoints) {
  const auto characters = make("type: characters");
  EXPECT_EQ(characters->encode("aé漢\U0001F600 \n"), (Ids{5, 'a', 5, 0xE9, 5, 0x6F22, 5, 0x1F600, 5, ' ', 5, '\n'}));
  EXPECT_EQ(characters->encode("a\xFF\xE2\x82"), (Ids{5, 'a', code_unk, 0, code_unk, 0}));
  EXPECT_EQ(characters->code().size, 0x110000);
}

TEST(WordTokenizer, ThreadsAndCachesDoNotMatter) {
  std::string text;
  for (uint64_t i = 0; i < 60'000; ++i)
    text += random_text(random_below({.seed = 1}, i, 3000), 1 + i % 9, "abcde") + " ";
  const int before = threads();
  for (const char* kind : all_kinds) {
    set_threads(1);
    const Ids one = make(kind)->encode(text);
    set_threads(3);
    const auto tokenizer = make(kind);
    EXPECT_EQ(tokenizer->encode(text), one) << kind;
    EXPECT_EQ(tokenizer->encode(text), one) << kind << ", from warm caches";
  }
  set_threads(before);
}

TEST(FeatureTokenizer, ReadsNumbersToTheBit) {
  const auto tokenizer = make("{type: features, num_features: 2}");
  EXPECT_EQ(tokenizer->width(), 3);
  EXPECT_EQ(tokenizer->code().payload, TokenCode::Payload::features);
  const auto bits = [](float x) { return std::bit_cast<int32_t>(x); };
  EXPECT_EQ(tokenizer->encode(" 0.1, -2;1e-3\t4 \n"),
            (Ids{code_ordinary, bits(0.1f), bits(-2.0f), code_ordinary, bits(1e-3f), bits(4.0f)}));
  EXPECT_EQ(tokenizer->encode_with_specials("<mask>1 2"),
            (Ids{code_mask, 0, 0, code_ordinary, bits(1.0f), bits(2.0f)}));
  EXPECT_EQ(tokenizer->encode(""), Ids());
}

TEST(FeatureTokenizer, RefusesWhatIsNoRowOfNumbers) {
  const auto tokenizer = make("{type: features, num_features: 2}");
  const auto refusal = [&](const char* text) { return error_of([&] { tokenizer->encode(text); }); };
  EXPECT_EQ(
      refusal("1 2 3"),
      "tokenizer: a text has 3 numbers, which are no whole tokens of 2; data.tokenizer.num_features says how many "
      "make a token");
  for (const char* word : {"nan", "inf", "1e99", "x", "0x1", "--1"})
    EXPECT_EQ(refusal((std::string("1 ") + word).c_str()),
              std::string("tokenizer: number 2 of a text is '") + word +
                  "'; type features reads finite numbers of f32 between spaces, commas or semicolons");
  EXPECT_EQ(error_of([] { make("type: features"); }),
            "tokenizer: type features needs num_features, how many numbers a token is, at least 1; got 0");
  EXPECT_EQ(
      error_of([] { make("{type: characters, num_features: 2}"); }),
      "tokenizer: key num_features is given, but type characters does not use it: remove it, or choose what does");
}

// ---- files

TEST(CodeTokenizerFiles, SavedAndLoadedAgain) {
  const kit::Scratch scratch;
  const Path directory = scratch.path() / "codes";
  std::vector<uint64_t> prints;
  for (const char* kind : all_kinds) {
    const auto tokenizer = make(kind);
    save_tokenizer(*tokenizer, directory);
    const auto again = load_tokenizer(directory);
    EXPECT_EQ(again->to_json(), tokenizer->to_json());
    EXPECT_EQ(again->fingerprint(), tokenizer->fingerprint());
    EXPECT_EQ(again->encode("He played, she plays zebras!"), tokenizer->encode("He played, she plays zebras!"));
    EXPECT_EQ(again->width(), tokenizer->width());
    EXPECT_TRUE(std::find(prints.begin(), prints.end(), again->fingerprint()) == prints.end());
    prints.push_back(again->fingerprint());
    EXPECT_EQ(is_word_tokenizer(*again), std::string_view(kind) != "type: characters");
  }
  {
    const auto tokenizer = make("{type: features, num_features: 3}");
    save_tokenizer(*tokenizer, directory);
    const auto again = load_tokenizer(directory);
    EXPECT_EQ(again->to_json(), tokenizer->to_json());
    EXPECT_EQ(again->code().size, 3);
    EXPECT_EQ(again->encode("1 2 3"), tokenizer->encode("1 2 3"));
  }
  write_file(directory / "tokenizer_config.json", R"({"mask_token": "[MASK]"})");
  EXPECT_NE(error_of([&] {
              load_tokenizer(directory);
            }).find("mask_token is stated as '[MASK]', but a tokenizer without a vocabulary has <mask> there"),
            std::string::npos);
}

TEST(CodeTokenizerFiles, AnyChangeIsRefused) {
  for (const char* kind : all_kinds) {
    const Json file = parse_json(make(kind)->to_json(), "t");
    const auto refusal = [&](const Json& changed) {
      return error_of([&] { parse_tokenizer(changed.dump(), "t.json"); });
    };
    for (const auto& [key, value] : file.at(code_tokenizer_key).items()) {
      Json changed = file;
      Json& there = changed[code_tokenizer_key][key];
      if (key == "type") {
        there = value == "words" ? "characters" : "words";
      } else if (key == "hash") {
        there = value == "md5" ? "lsh" : "md5";
      } else if (key == "code") {
        there = value == "bits" ? "bucket" : "bits";
      } else if (value.is_boolean()) {
        there = !value.get<bool>();
      } else if (value.is_string()) {
        there = "other";
      } else {
        there = value.get<int64_t>() + 1;
      }
      EXPECT_NE(refusal(changed).find("tokenizer: "), std::string::npos) << kind << " " << key;
      changed[code_tokenizer_key].erase(key);
      EXPECT_NE(refusal(changed).find("tokenizer: "), std::string::npos) << kind << " without " << key;
    }
    Json more = file;
    more[code_tokenizer_key]["salt"] = 1;
    EXPECT_NE(refusal(more).find("must hold exactly the keys of"), std::string::npos);
    Json old = file;
    old[code_tokenizer_key]["version"] = 2;
    EXPECT_EQ(
        refusal(old),
        "tokenizer: 't.json'.lithe_tokenizer.version is 2, this program reads 1: hashes could differ, so the model "
        "needs the program that made it");
    if (!file.contains("ngrams")) continue;
    Json ngrams = file;
    std::swap(ngrams["ngrams"][0], ngrams["ngrams"][1]);
    EXPECT_NE(refusal(ngrams).find("the file was changed or damaged"), std::string::npos);
    Json drawn = file;
    drawn["drawn"] = "0123456789abcdef";
    EXPECT_NE(refusal(drawn).find("'t.json'.drawn is '0123456789abcdef', this machine draws '"), std::string::npos);
    ngrams["ngrams"][0] = 3;
    EXPECT_NE(refusal(ngrams).find("'t.json'.ngrams[0] must be text, got number"), std::string::npos);
  }
}

TEST(CodeTokenizerFiles, DamagedOnesEndWithAnError) {
  set_log_level(LogLevel::error);
  size_t loaded = 0, refused = 0;
  for (const char* kind : all_kinds) {
    const std::string sound = make(kind)->to_json();
    for (uint64_t i = 0; i < 300; ++i) {
      const RandomKey key{.seed = i};
      std::string file = sound;
      const size_t at = size_t(random_below(key, 1, file.size()));
      if (i % 3 == 0) file.resize(at);
      if (i % 3 == 1) file[at] = char(random_below(key, 2, 256));
      if (i % 3 == 2) file.erase(at, 1 + size_t(random_below(key, 2, 40)));
      try {
        const auto tokenizer = parse_tokenizer(file, "damaged");
        EXPECT_EQ(tokenizer->encode("plays zebras"), make(kind)->encode("plays zebras")) << "white space only";
        ++loaded;
      } catch (const Error&) {
        ++refused;
      }
    }
  }
  set_log_level(LogLevel::info);
  EXPECT_GT(refused, 1500u);
  EXPECT_LT(loaded, 400u);
}

TEST(TokenizerConfig, RefusesKeysThatTheTypeDoesNotUse) {
  EXPECT_EQ(
      error_of([] { make("{type: words, hash_seed: 3}"); }),
      "tokenizer: key hash_seed is given, but type words with hash md5 and code bits does not use it: remove it, or "
      "choose what does");
  EXPECT_NE(error_of([] { make("{type: words, code: bucket, bits: 64}"); }).find("key bits"), std::string::npos);
  EXPECT_NE(error_of([] { make("{type: words, vocab_size: 300}"); }).find("key vocab_size"), std::string::npos);
  EXPECT_NE(error_of([] { make("{type: bpe, hash: lsh}"); }).find("key hash is given, but type bpe"),
            std::string::npos);
  EXPECT_NE(error_of([] { make("{type: characters, lowercase: false}"); }).find("key lowercase"), std::string::npos);
  EXPECT_NE(error_of([] { make("{type: bytes, specials: [a]}"); }).find("key specials"), std::string::npos);
  EXPECT_EQ(make("{type: words, hash: lsh, bits: 32}")->width(), 2);
}

// ---- collisions and neighbours

TEST(WordNeighbours, CollisionsAreCountedAsByHand) {
  const auto two = make("{type: words, code: bucket, num_buckets: 2}");
  const Words words = {"play", "plays", "played", "cat", "dog", "play"};
  std::vector<Words> buckets(2);
  for (const char* word : {"play", "plays", "played", "cat", "dog"})
    buckets[size_t(modulo(Md5()(word), 2))].push_back(word);
  const WordCollisions c = word_collisions(*two, words);
  EXPECT_EQ(c.words, 5);
  EXPECT_EQ(c.codes, int64_t(!buckets[0].empty()) + int64_t(!buckets[1].empty()));
  int64_t pairs = 0;
  for (const Words& b : buckets) pairs += int64_t(b.size()) * (int64_t(b.size()) - 1) / 2;
  EXPECT_EQ(c.pairs, pairs);
  EXPECT_EQ(c.largest, buckets[0].size() > buckets[1].size() ? buckets[0] : buckets[1]);
  int64_t colliding = 0;
  std::vector<Words> shared;
  for (const Words& b : buckets)
    if (b.size() > 1) {
      colliding += int64_t(b.size());
      shared.push_back(b);
    }
  if (shared.size() == 2 && shared[0].size() < shared[1].size()) std::swap(shared[0], shared[1]);
  EXPECT_EQ(c.colliding, colliding);
  EXPECT_EQ(c.shared, shared);

  const WordCollisions none = word_collisions(*make("type: words"), words);
  EXPECT_EQ(none.codes, 5);
  EXPECT_EQ(none.pairs, 0);
  EXPECT_EQ(none.colliding, 0);
  EXPECT_TRUE(none.shared.empty());
  EXPECT_EQ(none.largest.size(), 1u);
  EXPECT_EQ(error_of([&] { word_collisions(*two, Words{"two words"}); }),
            "words: 'two words' must be one word to this tokenizer, but it is 2");
  EXPECT_THROW(word_collisions(*make_byte_tokenizer(), words), Error);
}

TEST(WordNeighbours, NearestByBitsAndByBucket) {
  const auto lsh = make("{type: words, hash: lsh, bits: 420}");
  const Words words = distinct_words(*lsh, "Play zebra plays. Played a zebra");
  EXPECT_EQ(words, (Words{"play", "zebra", "plays", ".", "played", "a"}));
  const auto near = nearest_words(*lsh, "play", words, 2);
  ASSERT_EQ(near.size(), 2u);
  EXPECT_EQ(near[0].word, "plays");
  EXPECT_EQ(near[1].word, "played");
  EXPECT_LT(near[0].distance, near[1].distance);
  const Ids a = lsh->encode("play"), b = lsh->encode("plays");
  int64_t distance = 0;
  for (int64_t j = 0; j < 420; ++j) distance += code_bit(a.data() + 1, j) != code_bit(b.data() + 1, j);
  EXPECT_EQ(near[0].distance, distance);

  const auto one = make("{type: words, code: bucket, num_buckets: 1}");
  const auto all = nearest_words(*one, "play", words, 99);
  EXPECT_EQ(all.size(), words.size() - 1);
  EXPECT_EQ(all[0].word, "zebra") << "in the order of the list";
  EXPECT_THROW(distinct_words(*make("type: characters"), "a"), Error);
}

}  // namespace
}  // namespace lithe

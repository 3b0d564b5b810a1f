// Special tokens around texts and pairs; roles and continuing pieces.
#include "lithe/text/framing.h"
#include "lithe/base/json.h"
#include "tests/support/process.h"
#include "text_for_tests.h"

namespace lithe {
namespace {

/// WordPiece of two pieces with the specials of BERT, 0 to 4.
std::unique_ptr<Tokenizer> small_bert() {
  const kit::Scratch scratch;
  return load_tokenizer(scratch.add("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##b\n"));
}

/// The bytes, then these tokens from 256.
std::unique_ptr<Tokenizer> bytes_with(const std::vector<std::string>& specials, const Json& config) {
  const kit::Scratch scratch;
  Json file = parse_json(make_byte_tokenizer()->to_json(), "bytes");
  file["added_tokens"] = Json::array();
  for (size_t i = 0; i < specials.size(); ++i)
    file["added_tokens"].push_back({{"id", 256 + i}, {"content", specials[i]}, {"special", true}});
  scratch.add("tokenizer.json", file.dump());
  scratch.add("tokenizer_config.json", config.dump());
  return load_tokenizer(scratch.path());
}

TEST(Framing, BertHasClsAndSep) {
  const auto bert = small_bert();
  const FramedText one = frame(*bert, Ids{5, 6}, {}, false, 512);
  EXPECT_EQ(one.tokens, (Ids{2, 5, 6, 3}));
  EXPECT_EQ(one.a_begin, 1);
  EXPECT_EQ(one.a_tokens, 2);
  EXPECT_EQ(one.b_tokens, 0);
  const FramedText pair = frame(*bert, Ids{5, 6}, Ids{5}, true, 512);
  EXPECT_EQ(pair.tokens, (Ids{2, 5, 6, 3, 5, 3}));
  EXPECT_EQ(pair.b_begin, 4);
  EXPECT_EQ(pair.b_tokens, 1);
  EXPECT_EQ(frame_specials(*bert, false), 2);
  EXPECT_EQ(frame_specials(*bert, true), 3);
}

TEST(Framing, RobertaHasTwoBetween) {
  const auto roberta =
      bytes_with({"<s>", "</s>", "<mask>"}, {{"cls_token", "<s>"}, {"sep_token", "</s>"}, {"mask_token", "<mask>"}});
  EXPECT_EQ(roberta->specials().mask, 258);
  EXPECT_EQ(frame(*roberta, Ids{'a'}, Ids{'b'}, true, 512).tokens, (Ids{256, 'a', 257, 257, 'b', 257}));
  EXPECT_EQ(frame_specials(*roberta, true), 4);
}

TEST(Framing, OtherwiseBosAndEos) {
  const auto bytes = make_byte_tokenizer();
  EXPECT_EQ(frame(*bytes, Ids{'a'}, Ids{'b'}, true, 512).tokens, (Ids{256, 'a', 256, 'b', 256}));
  EXPECT_EQ(frame(*bytes, Ids{}, {}, false, 2).tokens, (Ids{256, 256}));
  const auto bare = bytes_with({}, Json::object());
  EXPECT_EQ(frame(*bare, Ids{'a'}, {}, false, 1).tokens, (Ids{'a'}));
  EXPECT_NE(error_of([&] { frame(*bare, Ids{'a'}, Ids{'b'}, true, 9); }).find("neither sep nor eos"),
            std::string::npos);
}

/// Pops one token at a time, as BERT's code does.
std::pair<int64_t, int64_t> truncate_plainly(int64_t a, int64_t b, int64_t room) {
  while (a + b > room) --(a > b ? a : b);
  return {a, b};
}

TEST(Framing, TruncationTakesFromTheLongerFirst) {
  const auto bert = small_bert();
  for (int64_t a = 0; a < 9; ++a)
    for (int64_t b = 0; b < 9; ++b)
      for (int64_t room = 0; room < 18; ++room) {
        const FramedText f = frame(*bert, Ids(size_t(a), 5), Ids(size_t(b), 6), true, room + 3);
        ASSERT_EQ(std::pair(f.a_tokens, f.b_tokens), truncate_plainly(a, b, room)) << a << " " << b << " " << room;
        ASSERT_EQ(int64_t(f.tokens.size()), f.a_tokens + f.b_tokens + 3);
        ASSERT_EQ(f.b_begin, f.a_tokens + 2);
      }
  EXPECT_EQ(frame(*bert, Ids{5, 6, 6, 6}, {}, false, 4).tokens, (Ids{2, 5, 6, 3}));
  EXPECT_EQ(error_of([&] { frame(*bert, Ids{5}, Ids{5}, true, 2); }),
            "frame: max_tokens 2 is below the 3 special tokens around a pair; raise data.sequence_length, "
            "which holds these and the rows of pictures or sounds");
  EXPECT_EQ(error_of([&] { frame(*bert, Ids{5}, Ids{5}, false, 9); }),
            "frame: a second text is given, but pair is false");
}

TEST(Roles, OfEncodersAreFoundStatedAndSaved) {
  const auto bert = small_bert();
  const Specials& s = bert->specials();
  EXPECT_EQ(s.cls, 2);
  EXPECT_EQ(s.sep, 3);
  EXPECT_EQ(s.mask, 4);
  EXPECT_FALSE(make_byte_tokenizer()->specials().mask);

  const auto stated = bytes_with({"<s>", "</s>", "<mask>", "<hide>"}, {{"mask_token", "<hide>"}, {"cls_token", "<s>"}});
  EXPECT_EQ(stated->specials().mask, 259);
  const kit::Scratch scratch;
  save_tokenizer(*stated, scratch.path());
  const auto again = load_tokenizer(scratch.path());
  EXPECT_EQ(again->specials().mask, 259);
  EXPECT_EQ(again->specials().cls, 256);
  EXPECT_EQ(again->fingerprint(), stated->fingerprint());
  EXPECT_NE(parse_tokenizer(stated->to_json(), "t")->fingerprint(), stated->fingerprint()) << "the roles count";
}

TEST(ContinuesWord, OfWordPieceAndBytes) {
  const auto bert = small_bert();
  EXPECT_FALSE(bert->continues_word(5));
  EXPECT_TRUE(bert->continues_word(6));
  for (int32_t id = 0; id < 5; ++id) EXPECT_FALSE(bert->continues_word(id));
  EXPECT_THROW(bert->continues_word(7), Error);

  const auto bytes = make_byte_tokenizer();
  EXPECT_TRUE(bytes->continues_word('a'));
  EXPECT_TRUE(bytes->continues_word(0xC3));
  EXPECT_FALSE(bytes->continues_word(' '));
  EXPECT_FALSE(bytes->continues_word('\n'));
  EXPECT_FALSE(bytes->continues_word(256));
  EXPECT_EQ(bytes->width(), 1);
  EXPECT_EQ(bytes->code().payload, TokenCode::Payload::none);
}

}  // namespace
}  // namespace lithe

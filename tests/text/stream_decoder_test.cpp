#include "lithe/text/utf8.h"
#include "text_for_tests.h"

namespace lithe {
namespace {

TEST(StreamDecoder, ReturnsWholeCharacters) {
  const auto bytes = make_byte_tokenizer();
  StreamDecoder stream(*bytes);
  EXPECT_EQ(stream.push('a'), "a");
  EXPECT_EQ(stream.push(0xF0), "");
  EXPECT_EQ(stream.push(0x9F), "");
  EXPECT_EQ(stream.push(0xA6), "");
  EXPECT_EQ(stream.push(0x99), "🦙");
  EXPECT_EQ(stream.push(0xC3), "");
  EXPECT_EQ(stream.push('b'), "\uFFFDb");
  EXPECT_EQ(stream.push(0xE2), "");
  EXPECT_EQ(stream.push(0x82), "");
  EXPECT_EQ(stream.finish(), "\uFFFD");
  EXPECT_EQ(stream.finish(), "");
}

TEST(StreamDecoder, JoinedEqualsTheWholeDecodedAtOnce) {
  const auto bytes = make_byte_tokenizer();
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const std::string text = random_text(seed, 40, "ab\xC3\xA9\xE2\x82\xAC\xF0\x9F\xA6\x99\xED\xA0\xFF");
    std::string joined;
    StreamDecoder stream(*bytes);
    for (const int32_t id : bytes->encode(text)) {
      const std::string part = stream.push(id);
      EXPECT_TRUE(is_valid_utf8(part));
      joined += part;
    }
    joined += stream.finish();
    ASSERT_EQ(joined, valid_utf8(text)) << "seed " << seed;
  }
}

TEST(StreamDecoder, KnowsWhatStandsFirst) {
  const std::string json =
      R"({"model": {"type": "WordPiece", "unk_token": "[UNK]", "vocab": {"[UNK]": 0, "play": 1, "##ing": 2}}})";
  const auto tokenizer = parse_tokenizer(json, "test");
  StreamDecoder stream(*tokenizer);
  EXPECT_EQ(stream.push(1), "play");
  EXPECT_EQ(stream.push(2), "ing");
  EXPECT_EQ(stream.push(1), " play");
  EXPECT_EQ(stream.finish(), "");
  EXPECT_EQ(stream.push(1), "play") << "a new text";
}

}  // namespace
}  // namespace lithe

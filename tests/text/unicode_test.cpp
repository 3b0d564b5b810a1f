#include "lithe/text/unicode.h"

#include "lithe/text/normalizer.h"
#include "lithe/text/utf8.h"
#include "text_for_tests.h"

namespace lithe {
namespace {

TEST(Utf8, EveryCodePointThereAndBack) {
  for (uint32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    append_utf8(text, c);
    const Utf8Unit unit = utf8_unit(text);
    ASSERT_EQ(unit.kind, Utf8Unit::Kind::character);
    ASSERT_EQ(unit.code_point, c);
    ASSERT_EQ(unit.length, text.size());
    ASSERT_TRUE(is_valid_utf8(text));
  }
}

TEST(Utf8, RefusesWhatTheStandardRefuses) {
  for (const char* bad : {"\x80", "\xBF", "\xC0\xAF", "\xC1\xBF", "\xE0\x80\xAF", "\xED\xA0\x80", "\xF0\x80\x80\xAF",
                          "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFE", "\xFF", "\xC3", "\xE2\x82", "\xF0\x9F\xA6"}) {
    EXPECT_FALSE(is_valid_utf8(bad));
    EXPECT_EQ(valid_utf8_prefix(std::string("abcdefghijk") + bad), 11u);
  }
}

TEST(Utf8, ReplacementFollowsTheStandardsExample) {
  // Unicode 15, table 3-11 and the sequences before it.
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(valid_utf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), r + r + r + r + "A");
  EXPECT_EQ(valid_utf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(valid_utf8("ok é"), "ok é");
}

TEST(Unicode, Classes) {
  for (const uint32_t c : {0x9u, 0x20u, 0x85u, 0xA0u, 0x1680u, 0x2003u, 0x2028u, 0x202Fu, 0x3000u})
    EXPECT_TRUE(is_white_space(c)) << c;
  for (const uint32_t c : {0x180Eu, 0x200Bu, 0x41u}) EXPECT_FALSE(is_white_space(c)) << c;
  for (const uint32_t c : {0x21u, 0x5Fu, 0x3002u, 0x2014u, 0xABu}) EXPECT_TRUE(is_punctuation(c)) << c;
  for (const uint32_t c : {0x24u, 0x2Bu, 0x61u}) EXPECT_FALSE(is_punctuation(c)) << c;
  for (const uint32_t c : {0x61u, 0x30u, 0x5Fu, 0x6F22u, 0x301u}) EXPECT_TRUE(is_word_character(c)) << c;
  for (const uint32_t c : {0x20u, 0x2Du, 0x1F999u}) EXPECT_FALSE(is_word_character(c)) << c;
  EXPECT_TRUE(is_nonspacing_mark(0x301));
  EXPECT_TRUE(is_control(0x200B));
  EXPECT_FALSE(is_control(0x1F999));
}

TEST(Unicode, LowerCaseAndNormalForms) {
  std::string lower;
  for (const uint32_t c : {0x41u, 0xC9u, 0x130u, 0x3A3u, 0x1E9Eu}) append_lower_case(lower, c);
  EXPECT_EQ(lower, "aéi\u0307σß");
  EXPECT_EQ(normal_form("e\u0301\u1100\u1161 ﬁ", NormalForm::nfc), "é가 ﬁ");
  EXPECT_EQ(normal_form("Åﬁ", NormalForm::nfd), "A\u030aﬁ");
  EXPECT_EQ(normal_form("ﬁ①", NormalForm::nfkc), "fi1");
  EXPECT_EQ(normal_form("Å①", NormalForm::nfkd), "A\u030a1");
  EXPECT_EQ(normal_form("\u1100\u116D\u11A7\u11A8", NormalForm::nfc), "\uAD50\u11A7\u11A8");
  // What came after Unicode 9 stays, and nothing passes it: U+0D3B is no mark there, so U+093C does not come before it.
  EXPECT_EQ(normal_form("\u212B\u0D3B\u093C\u212B", NormalForm::nfc), "Å\u0D3B\u093CÅ");
  EXPECT_EQ(normal_form("\u0F71\u0D4D\u093C", NormalForm::nfc), "\u093C\u0D4D\u0F71");
  EXPECT_EQ(normal_form("\U00011938\u32FF", NormalForm::nfkd), "\U00011938\u32FF");
}

// The capitals of Unicode 16 and 17, which utf8proc's tables do not have.
TEST(Unicode, LowerCaseIsThatOfTheReference) {
  for (const auto& [upper, lower] : std::vector<std::pair<uint32_t, uint32_t>>{{0x10D57, 0x10D77},
                                                                               {0x16EA9, 0x16EC4},
                                                                               {0x1C89, 0x1C8A},
                                                                               {0xA7DC, 0x19B},
                                                                               {0xA7CB, 0x264},
                                                                               {0x10D66, 0x10D66}}) {
    std::string out, expected;
    append_lower_case(out, upper);
    append_utf8(expected, lower);
    EXPECT_EQ(out, expected) << upper;
  }
}

// Compared with tokenizers 0.23.3 on every code point.
TEST(Unicode, MarksAreThoseThatTheReferenceKnows) {
  EXPECT_EQ(strip_marks()("का\u0488क\u1CF2\u08D4\u08D3"), "कक\u08D3");
  const auto bert =
      bert_normalization({.clean_text = true, .chinese = false, .strip_accents = true, .lowercase = true});
  EXPECT_EQ(bert("Ékा\u1734\u08D4\u07FD\u200B\u0890"), "ekा\u08D4\u07FD\u0890");
  EXPECT_EQ(unicode_since(0x301), 8);
  EXPECT_EQ(unicode_since(0x8D4), 9);
  EXPECT_EQ(unicode_since(0x7FD), 10);
  EXPECT_EQ(unicode_since(0x10FFFF), 8);
}

}  // namespace
}  // namespace lithe

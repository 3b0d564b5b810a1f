#include "lithe/text/pretokenizer.h"

#include "lithe/base/threads.h"
#include "text_for_tests.h"

namespace lithe {
namespace {

using Pieces = std::vector<std::string>;

Pieces pieces(const PreTokenizer& pretokenizer, std::string_view text) {
  Pieces out;
  pretokenizer.pieces(text, [&](auto some) { out.insert(out.end(), some.begin(), some.end()); });
  return out;
}
Pieces cut_pieces(std::string_view expression, std::string_view text) {
  PreTokenizer pretokenizer;
  pretokenizer.add_split(Pattern(expression, "test"));
  return pieces(pretokenizer, text);
}

TEST(PreTokenizer, Gpt2Pattern) {
  EXPECT_EQ(cut_pieces(gpt2_pattern, "Hello  world, it's 42!?\n\n x"),
            (Pieces{"Hello", " ", " world", ",", " it", "'s", " 42", "!?", "\n\n", " x"}));
  EXPECT_EQ(cut_pieces(gpt2_pattern, "we'LL don't 'tis"), (Pieces{"we", "'", "LL", " don", "'t", " '", "tis"}));
  EXPECT_EQ(cut_pieces(gpt2_pattern, "naïve 漢字١٢ ½\u00a0\u2003b"),
            (Pieces{"naïve", " 漢字", "١٢", " ½", "\u00a0", "\u2003", "b"}));
  EXPECT_EQ(cut_pieces(gpt2_pattern, ""), Pieces{});
  EXPECT_EQ(cut_pieces(gpt2_pattern, "   "), Pieces{"   "});
}

TEST(PreTokenizer, MongolianVowelSeparatorIsNoSpace) {
  EXPECT_EQ(cut_pieces(R"(\s+)", "a\u180e b"), (Pieces{"a\u180e", " ", "b"}));
  EXPECT_EQ(cut_pieces(R"([^\s]+)", "a\u180e b"), (Pieces{"a\u180e", " ", "b"}));
  EXPECT_EQ(cut_pieces(R"(\S+)", "a\u180e b"), (Pieces{"a\u180e", " ", "b"}));
  EXPECT_EQ(cut_pieces(R"([\S]+)", "a\u180e\u3000b"), (Pieces{"a\u180e", "\u3000", "b"}));
}

TEST(PreTokenizer, BytesThatAreNoUtf8AreCutOut) {
  EXPECT_EQ(cut_pieces(gpt2_pattern, "ab\xFF\xFE cd\xC3"), (Pieces{"ab", "\xFF\xFE", " cd", "\xC3"}));
}

TEST(PreTokenizer, AnyStartAndThreadGivesTheSamePieces) {
  // Lookbehind, runs across any cut, and expressions whose walks from a wrong start meet the right one late or never.
  std::string text;
  for (uint64_t i = 0; text.size() < 400'000; ++i) {
    text += random_text(i, 50, "ab 1,\n");
    if (i % 50 == 0) text += std::string(3000 + i, i % 100 ? 'a' : ' ');
    if (i % 7 == 0) text += "漢字🦙";
  }
  const int before = threads();
  for (const std::string_view expression :
       {gpt2_pattern, std::string_view(R"((?<=a)b|\d{1,3}| +)"), std::string_view("a{1,7}|[^a]{5}"),
        std::string_view("(?s).{3}"), std::string_view("x*"), std::string_view("zzz")}) {
    set_threads(1);
    const Pieces one = cut_pieces(expression, text);
    for (const int n : {2, 3, 5}) {
      set_threads(n);
      EXPECT_EQ(cut_pieces(expression, text), one) << expression << " with " << n << " threads";
    }
    std::string joined;
    for (const auto& piece : one) joined += piece;
    EXPECT_EQ(joined, text);
  }
  set_threads(before);
}

TEST(PreTokenizer, Behaviors) {
  using B = Split::Behavior;
  const auto with = [](B behavior, bool invert) {
    PreTokenizer pretokenizer;
    pretokenizer.add_split(Pattern("-", "test"), behavior, invert);
    return pieces(pretokenizer, "the-final--countdown");
  };
  // The example of Hugging Face's documentation.
  EXPECT_EQ(with(B::removed, false), (Pieces{"the", "final", "countdown"}));
  EXPECT_EQ(with(B::isolated, false), (Pieces{"the", "-", "final", "-", "-", "countdown"}));
  EXPECT_EQ(with(B::merged_with_previous, false), (Pieces{"the-", "final-", "-", "countdown"}));
  EXPECT_EQ(with(B::merged_with_next, false), (Pieces{"the", "-final", "-", "-countdown"}));
  EXPECT_EQ(with(B::contiguous, false), (Pieces{"the", "-", "final", "--", "countdown"}));
  EXPECT_EQ(with(B::removed, true), (Pieces{"-", "-", "-"}));
}

// Falcon's digits stand behind ByteLevel: there each byte is a character, and some of those are numbers.
TEST(PreTokenizer, CutsBehindByteLevelSeeTheSpellingOfBytes) {
  PreTokenizer falcon;
  falcon.add_split(Pattern(gpt2_pattern, "test"));
  falcon.spell();
  falcon.add_split(Pattern(R"(\p{N})", "test"), Split::Behavior::contiguous);
  falcon.add_split(Pattern("[0-9][0-9][0-9]", "test"));
  EXPECT_EQ(pieces(falcon, "ab 12345x"), (Pieces{"ab", " ", "123", "45", "x"}));
  EXPECT_EQ(pieces(falcon, "\u00b2\u00e9"), (Pieces{"\xC2", "\xB2", "\xC3\xA9"}));
  PreTokenizer alone;
  alone.spell();
  alone.add_split(Pattern("\u0120", "test"), Split::Behavior::removed);  // which spells a space
  EXPECT_EQ(pieces(alone, "a b"), (Pieces{"a", "b"}));
}

TEST(PreTokenizer, PrefixSpace) {
  PreTokenizer first;
  first.add_prefix_space();
  first.add_split(Pattern(gpt2_pattern, "test"));
  EXPECT_EQ(pieces(first, "a b"), (Pieces{" a", " b"}));
  EXPECT_EQ(pieces(first, " a b"), (Pieces{" a", " b"}));
  PreTokenizer later;
  later.add_split(Pattern(R"(\d)", "test"));
  later.add_prefix_space();
  EXPECT_EQ(pieces(later, "a1 b"), (Pieces{" a", " 1", " b"}));
}

TEST(Pattern, RefusesWhatItCannotReadAsOniguruma) {
  const auto refused = [](const char* expression) { return error_of([&] { Pattern(expression, "file"); }); };
  EXPECT_EQ(refused("[a&&b]"), "tokenizer: file: expression '[a&&b]': an intersection of sets is not supported");
  EXPECT_EQ(refused("[a[bc]]"), "tokenizer: file: expression '[a[bc]]': a set within a set is not supported");
  EXPECT_EQ(refused("\\h+"), "tokenizer: file: expression '\\h+': \\h is not supported");
  EXPECT_EQ(refused("(*UTF)a"), "tokenizer: file: expression '(*UTF)a': a verb '(*' is not supported");
  EXPECT_NE(refused("(a").find("tokenizer: file: expression '(a': "), std::string::npos);
  EXPECT_EQ(refused("[[:graph:]]"), "tokenizer: file: expression '[[:graph:]]': [:graph:] is not supported");
  EXPECT_EQ(refused("\\pL"), "tokenizer: file: expression '\\pL': a property without braces is not supported");
  EXPECT_NO_THROW(Pattern("[[:alpha:]\\]\\[]+", "file"));
}

// What matches one of `characters`, as text.
std::string matches(const char* expression, std::string_view characters) {
  const Pattern pattern(expression, "test");
  std::string out;
  size_t begin = 0, end = 0;
  for (size_t from = 0; from < characters.size() && pattern.find(characters, from, begin, end); from = end)
    out += characters.substr(begin, end - begin);
  return out;
}

// As Oniguruma has them; bench/peers/expression_parity.py compares every character.
TEST(Pattern, SetsAndPropertiesAreOnigurumas) {
  constexpr std::string_view text = "a_\u0301\u00b2\u00bd\u24b6 7-\u0663$\u3001\u6f22\u3042";
  EXPECT_EQ(matches(R"(\w)", text), "a_\u0301\u00b2\u00bd\u24b67\u0663\u6f22\u3042");
  EXPECT_EQ(matches(R"([\w])", text), "a_\u0301\u24b67\u0663\u6f22\u3042");
  EXPECT_EQ(matches(R"(\W)", text), " -$\u3001");
  EXPECT_EQ(matches(R"([^\W\d_])", text), "a\u0301\u24b6\u6f22\u3042");
  EXPECT_EQ(matches(R"([\W7])", text), "\u00b2\u00bd 7-$\u3001");
  EXPECT_EQ(matches(R"([^\P{L}\P{Ll}])", text), "a");
  EXPECT_EQ(matches(R"([\P{L}])", text), "_\u0301\u00b2\u00bd\u24b6 7-\u0663$\u3001");
  EXPECT_EQ(matches(R"(\p{Han})", text), "\u6f22") << "not what other scripts share with it";
  EXPECT_EQ(matches(R"(\p{^Han})", "\u6f22\u3001"), "\u3001");
  EXPECT_EQ(matches("[[:punct:]]", text), "_\u24b6-$\u3001");
  EXPECT_EQ(matches("[[:alpha:]]", text), "a\u24b6\u6f22\u3042");
  EXPECT_EQ(matches(R"(\b.)", "ab e\u0301e"), "a e");
}

TEST(Pattern, CharactersOfUnicode16AreKnown) {
  EXPECT_EQ(matches(R"(\p{L})", "\ua7da-\U00010d50\U0002ebf0\U0001fae9"), "\ua7da\U00010d50\U0002ebf0");
  EXPECT_EQ(matches(R"(\p{N})", "\U0001d2c0\U00010d40"), "\U0001d2c0\U00010d40");
  EXPECT_EQ(matches(R"([^\p{L}\p{S}])", "\ua7da.\U0001fae9"), ".");
  EXPECT_EQ(matches(R"(\p{Han})", "\U0002ebf0"), "\U0002ebf0");
}

TEST(Pattern, ExplodingExpressionsEndWithAnError) {
  const Pattern pattern("(?:a+)+b|(?:a|aa)+c", "file");
  size_t begin = 0, end = 0;
  EXPECT_NE(error_of([&] { pattern.find(std::string(5000, 'a'), 0, begin, end); }).find("match"), std::string::npos);
}

TEST(Pattern, LiteralsAreNotExpressions) {
  size_t begin = 0, end = 0;
  ASSERT_TRUE(Pattern::literal("(a+|\\s)é", "test").find("xx(a+|\\s)é", 0, begin, end));
  EXPECT_EQ(begin, 2u);
}

}  // namespace
}  // namespace lithe

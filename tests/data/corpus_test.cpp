#include "lithe/data/corpus.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "files_for_tests.h"
#include "lithe/base/random.h"
#include "lithe/data/utf8_filter.h"

namespace lithe {
namespace {

using Texts = std::vector<std::string>;

Texts documents(const Corpus& corpus) {
  Texts out;
  corpus.for_each_document([&](std::string_view document) { out.emplace_back(document); });
  return out;
}
Texts documents(const std::vector<std::string>& files, CorpusOptions options = {}) {
  return documents(Corpus(files, options));
}

TEST(Corpus, FileRuleKeepsEveryByteOfAFile) {
  TestFiles files;
  const std::string text = "  one\r\r two\n\n\ttwo é\n\n";
  EXPECT_EQ(documents({files.add("a.txt", text)}), Texts{text});
}

TEST(Corpus, LineRuleDropsLineEndsAndBlankLines) {
  TestFiles files;
  EXPECT_EQ(documents({files.add("a.txt", "one\n\n two \r\n \t\nthree")}, {.documents = "line"}),
            (Texts{"one", " two ", "three"}));
}

TEST(Corpus, ParagraphsAreSeparatedByBlankLines) {
  TestFiles files;
  const std::string text = "\n\na\nb\n\nc\n \t \n\nd\r\ne\r\n\r\nf\n";
  EXPECT_EQ(documents({files.add("a.txt", text)}, {.documents = "paragraph"}), (Texts{"a\nb", "c", "d\ne", "f"}));
}

// A CR before an LF counted as text of its own: a perplexity of 2015 in place of 234.
TEST(Corpus, LineEndsOfOtherSystemsAreLineEnds) {
  TestFiles files;
  const std::string unix_text = "one\ntwo\n\nthree \n", other_text = "one\r\ntwo\r\n\r\nthree \r\n";
  const std::string a = files.add("a.txt", unix_text), b = files.add("b.txt", other_text);
  for (const char* rule : {"file", "paragraph", "line"})
    EXPECT_EQ(documents({b}, {.documents = rule}), documents({a}, {.documents = rule})) << rule;
  EXPECT_EQ(documents({files.add("c.jsonl", "{\"text\":\"one\\r\\ntwo\"}\r\n")}), Texts{"one\ntwo"});
  // Wherever the chunks of a file end, also between the two.
  for (const std::string& text : {other_text, std::string("\r"), std::string("\r\r\n\r"), std::string("a\r")})
    for (size_t size = 1; size <= text.size(); ++size) {
      Utf8Filter filter("x", InvalidUtf8::refuse);
      std::string got, want = text;
      unify_line_ends(want);
      for (size_t at = 0; at < text.size(); at += size) got += filter.feed(std::string_view(text).substr(at, size));
      got += filter.finish();
      EXPECT_EQ(got, want) << size;
    }
}

// A .gz of 46 MB may hold one line of 10 GB: what would be held in memory has a bound.
TEST(Corpus, ALineWithoutAnEndIsRefused) {
  Utf8Filter filter("bomb.txt.gz", InvalidUtf8::refuse);
  std::string block(size_t(1) << 20, 'a');
  filter.feed("one\ntwo\n");
  expect_error(
      [&] {
        for (int i = 0; i < 300; ++i) filter.feed(block);
      },
      {"corpus: bomb.txt.gz:3: the line has more than 256 MiB"});
  block.back() = '\n';
  Utf8Filter lines("long.txt", InvalidUtf8::refuse);
  for (int i = 0; i < 300; ++i) lines.feed(block);
}

TEST(Corpus, JsonlTakesTheNamedStringOfEachRecord) {
  TestFiles files;
  const std::string text =
      "{\"text\":\"one\\nline\",\"meta\":{\"text\":\"inner\",\"list\":[\"text\",{\"text\":1}]}}\n\n"
      "{\"n\":1e9,\"text\":\"\\u00e9\\ud83d\\ude00\"}\r\n{\"text\":\"  \"}\n{\"text\":\"last\",\"b\":\"other\"}";
  EXPECT_EQ(documents({files.add("a.jsonl", text)}), (Texts{"one\nline", "é😀", "last"}));
  EXPECT_EQ(documents({files.add("b.jsonl", "{\"text\":\"x\",\"body\":\"y\"}")}, {.text_field = "body"}), Texts{"y"});
}

TEST(Corpus, JsonlErrorsNameFileAndLine) {
  TestFiles files;
  const auto error = [&](const std::string& third, const std::vector<std::string>& parts) {
    const auto path = files.add("a.jsonl", "{\"text\":\"x\"}\n\n" + third + "\n");
    auto all = parts;
    all.push_back(path + ":3: ");
    expect_error([&] { documents({path}); }, all, ExitCode::usage);
  };
  error("{\"txt\":\"x\",\"id\":7}", {"no field 'text'", "'txt', 'id'", "data.text_field"});
  error("{}", {"no field 'text'", "it is empty"});
  error("{\"text\":7}", {"'text' is not a string"});
  error("{\"text\":null}", {"'text' is not a string"});
  error("{\"text\":[\"x\"]}", {"'text' is not a string"});
  error("{\"text\":{\"text\":\"x\"}}", {"'text' is not a string"});
  error("{\"text\":\"x\"", {"is not JSON at column 12"});
  error("plain words", {"is not JSON at column 1"});
  error("{\"text\":\"x\"} {\"text\":\"y\"}", {"is not JSON"});
  error("[\"text\"]", {"is not a JSON object"});
  error("\"text\"", {"is not a JSON object"});
  error("{\"inner\":{\"text\":\"x\"}}", {"no field 'text'"});
}

TEST(Corpus, JsonlSurvivesDeepNesting) {
  TestFiles files;
  const std::string deep(200000, '[');
  expect_error([&] { documents({files.add("a.jsonl", "{\"text\":\"x\",\"y\":" + deep)}); },
               {"a.jsonl:1", "is not JSON"}, ExitCode::usage);
  EXPECT_EQ(documents({files.add("b.jsonl", "{\"y\":" + deep + std::string(200000, ']') + ",\"text\":\"x\"}")}),
            Texts{"x"});
}

TEST(Corpus, CompressedFilesReadAsPlainOnes) {
  TestFiles files;
  std::string long_text;
  for (uint64_t i = 0; i < 300000; ++i) long_text += cat(random_u32({.seed = 5}, i), i % 7 ? " " : "\n");
  const std::string records = "{\"text\":\"one\"}\n{\"text\":\"two\"}\n";
  EXPECT_EQ(documents({files.add("a.txt.gz", gzip(long_text))}), Texts{long_text});
  EXPECT_EQ(documents({files.add("a.txt.zst", zstd(long_text))}), Texts{long_text});
  EXPECT_EQ(documents({files.add("b.jsonl.gz", gzip(records))}), (Texts{"one", "two"}));
  EXPECT_EQ(documents({files.add("b.jsonl.zst", zstd(records))}), (Texts{"one", "two"}));
}

TEST(Corpus, ManyMembersAndFramesAreOneText) {
  TestFiles files;
  EXPECT_EQ(documents({files.add("a.gz", gzip("one ") + gzip("") + gzip("two"))}), Texts{"one two"});
  EXPECT_EQ(documents({files.add("b.gz", gzip("one ") + std::string(1000, '\0'))}), Texts{"one "});
  EXPECT_EQ(documents({files.add("a.zst", zstd("one ") + zstd("") + zstd("two"))}), Texts{"one two"});
  const std::string skippable("\x50\x2A\x4D\x18\x03\x00\x00\x00xyz", 11);
  EXPECT_EQ(documents({files.add("b.zst", skippable + zstd("one"))}), Texts{"one"});
}

TEST(Corpus, EveryTruncationOfCompressedFilesIsNoticed) {
  TestFiles files;
  std::string text;
  for (uint64_t i = 0; i < 40; ++i) text += cat("word", random_u32({.seed = 1}, i), i % 5 ? " " : "\n");
  for (const auto& [name, whole] : {std::pair{"t.gz", gzip(text)}, {"t.zst", zstd(text)}})
    for (size_t size = 0; size < whole.size(); ++size)
      expect_error([&] { documents({files.add(name, whole.substr(0, size))}); }, {"corpus: '", name, "truncated"});
}

TEST(Corpus, DamagedCompressedFilesAreNoticed) {
  TestFiles files;
  const std::string text(5000, 'x');
  std::string gz = gzip(text);
  gz[gz.size() - 6] ^= 1;  // CRC
  expect_error([&] { documents({files.add("a.gz", gz)}); }, {"a.gz", "no sound gzip", "incorrect data check"});
  expect_error([&] { documents({files.add("b.gz", "just text, no gzip")}); }, {"b.gz", "no sound gzip"});
  expect_error([&] { documents({files.add("c.gz", gzip(text) + "garbage")}); }, {"c.gz", "no sound gzip"});
  expect_error([&] { documents({files.add("d.gz", gzip(text) + std::string(3, '\0') + "x")}); },
               {"d.gz", "after the end"});
  expect_error([&] { documents({files.add("a.zst", "just text, no zstd")}); }, {"a.zst", "no sound zstd"});
  expect_error([&] { documents({files.add("b.zst", zstd(text) + "garbage")}); }, {"b.zst", "no sound zstd"});
}

TEST(Corpus, BinaryFilesAreRefusedWithWhatTheyAre) {
  TestFiles files;
  const std::string nul("text \0 text", 11);
  expect_error([&] { documents({files.add("a.txt", nul)}); }, {"a.txt", "byte 5 is NUL", "UTF-8 text or JSON lines"});
  expect_error([&] { documents({files.add("b.txt", nul)}, {.allow_invalid_utf8 = true}); }, {"b.txt", "byte 5 is NUL"});
  expect_error([&] { documents({files.add("c.txt.gz", gzip(nul))}); }, {"c.txt.gz", "byte 5 is NUL"});
  expect_error([&] { documents({files.add("d.txt", gzip("text"))}); }, {"d.txt", "gzip data; name it .gz"});
  expect_error([&] { documents({files.add("e.txt", zstd("text"))}); }, {"e.txt", "zstd data; name it .zst"});
  expect_error([&] { documents({files.add("f.txt", std::string("\xFF\xFEt\0e\0", 6))}); },
               {"f.txt", "UTF-16", "iconv"});
}

TEST(Corpus, InvalidUtf8IsRefusedWithItsByte) {
  TestFiles files;
  expect_error([&] { documents({files.add("a.txt", "caf\xE9 noir")}); },
               {"a.txt", "not valid UTF-8 at byte 3;", "iconv", "allow_invalid_utf8"});
  expect_error([&] { documents({files.add("b.txt", "abcdefgh\xE2\x82")}); }, {"b.txt", "at byte 8;"});
  expect_error([&] { documents({files.add("c.txt", "\xEF\xBB\xBFxyz\xED\xA0\x80")}); }, {"c.txt", "at byte 6;"});
  // The place is in the whole file, wherever the reader's blocks end.
  const std::string head(3 * (size_t(1) << 20) - 1, 'x');
  EXPECT_EQ(documents({files.add("d.txt", head + "é")}), Texts{head + "é"});
  expect_error([&] { documents({files.add("d.txt", head + "\xC3(")}); }, {cat("at byte ", head.size(), ";")});
  expect_error([&] { documents({files.add("a.jsonl", "{\"text\":\"ok\"}\n{\"text\":\"caf\xE9\"}\n")}); },
               {"a.jsonl", "at byte 26;"});
}

TEST(Corpus, AllowedInvalidUtf8IsKeptInTextAndReplacedInJson) {
  TestFiles files;
  const CorpusOptions options{.allow_invalid_utf8 = true};
  EXPECT_EQ(documents({files.add("a.txt", "caf\xE9 \xE2\x82")}, options), Texts{"caf\xE9 \xE2\x82"});
  EXPECT_EQ(documents({files.add("a.jsonl", "{\"text\":\"caf\xE9\xE9 \xE2\x82!\"}")}, options),
            Texts{"caf\uFFFD\uFFFD \uFFFD!"});
}

TEST(Corpus, ByteOrderMarkIsDropped) {
  TestFiles files;
  EXPECT_EQ(documents({files.add("a.txt", "\xEF\xBB\xBFxyz"), files.add("b.txt", "\xEF\xBB\xBFlonger text")}),
            (Texts{"xyz", "longer text"}));
  EXPECT_EQ(documents({files.add("a.jsonl", "\xEF\xBB\xBF{\"text\":\"x\"}")}), Texts{"x"});
}

TEST(Corpus, PatternsKeepTheirOrderAndSortTheirMatches) {
  TestFiles files;
  for (const char* name : {"b2.txt", "b10.txt", "a.txt", "c.jsonl"})
    files.add(name, std::string(name) == "c.jsonl" ? "{\"text\":\"c.jsonl\"}" : name);
  EXPECT_EQ(documents({files / "b*.txt", files / "c.jsonl", files / "a.txt"}),
            (Texts{"b10.txt", "b2.txt", "c.jsonl", "a.txt"}));
}

TEST(Corpus, RefusesWhatIsNoReadableFile) {
  TestFiles files;
  make_directory(files / "folder");
  files.add("a.txt", "x");
  expect_error([&] { Corpus({files / "missing*.txt"}, {}); }, {"nothing matches", "missing*.txt"}, ExitCode::usage);
  expect_error([&] { Corpus({files / "folder"}, {}); }, {"folder' is a directory", "*.txt"}, ExitCode::usage);
  ASSERT_EQ(::mkfifo((files / "pipe").c_str(), 0600), 0);
  expect_error([&] { Corpus({files / "pipe"}, {}); }, {"pipe' is not a plain file"}, ExitCode::usage);
  expect_error(
      [&] {
        Corpus({files / "a.txt", files / "folder/../a.*"}, {});
      },
      {"named twice", "a.txt"}, ExitCode::usage);
  expect_error([&] { Corpus({}, {}); }, {"no files are given"}, ExitCode::usage);
  expect_error([&] { Corpus({files / "a.txt"}, {.documents = "page"}); }, {"file, paragraph or line", "'page'"},
               ExitCode::usage);
  if (::geteuid() != 0) {  // root reads everything
    ASSERT_EQ(::chmod((files / "a.txt").c_str(), 0), 0);
    expect_error([&] { Corpus({files / "a.txt"}, {}); }, {"a.txt", "Permission denied"});
  }
}

TEST(Corpus, EmptyCorporaAreRefused) {
  TestFiles files;
  expect_error([&] { documents({files.add("a.txt", "")}); }, {"a.txt' holds no text"});
  expect_error(
      [&] {
        documents({files.add("a.txt", " \n\t\n"), files.add("b.jsonl", "\n")});
      },
      {"a.txt' and 1 more holds no text"});
  expect_error([&] { documents({files.add("c.txt.gz", gzip(""))}); }, {"c.txt.gz' holds no text"});
}

TEST(Corpus, FingerprintIsOfContentsAndOptions) {
  TestFiles files;
  const auto a = files.add("a.txt", "one\ntwo\n"), b = files.add("b.txt", "three\n");
  const auto print = [](const std::vector<std::string>& names, CorpusOptions options = {}) {
    return Corpus(names, options).fingerprint();
  };
  const uint64_t first = print({a, b});
  EXPECT_EQ(first, print({a, b}));
  EXPECT_NE(first, print({b, a}));
  EXPECT_NE(first, print({a}));
  EXPECT_NE(first, print({a, b}, {.documents = "line"}));
  EXPECT_NE(first, print({a, b}, {.text_field = "body"}));
  EXPECT_NE(print({a}), print({files.add("a.jsonl", "one\ntwo\n")}));
  EXPECT_EQ(print({a}), print({files.add("moved.txt", "one\ntwo\n")}));
  files.add("b.txt", "Three\n");
  EXPECT_NE(first, print({a, b}));
  // Moving bytes from one file to the next is another corpus.
  EXPECT_NE(print({files.add("c.txt", "xy"), files.add("d.txt", "z")}),
            print({files.add("e.txt", "x"), files.add("f.txt", "yz")}));
  const Corpus whole({a}, {});
  EXPECT_NE(whole.fingerprint(), whole.training_part(0.5).fingerprint());
  EXPECT_NE(whole.held_out_part(0.5).fingerprint(), whole.training_part(0.5).fingerprint());
  EXPECT_NE(whole.training_part(0.25).fingerprint(), whole.training_part(0.5).fingerprint());
}

TEST(CorpusSplit, ShortDocumentsStayWhole) {
  TestFiles files;
  std::string text;
  for (int i = 0; i < 100; ++i) text += cat("line ", i + 100, "\n");  // 100 documents of 8 bytes
  const Corpus corpus({files.add("a.txt", text)}, {.documents = "line"});
  const Texts train = documents(corpus.training_part(0.1)), held_out = documents(corpus.held_out_part(0.1));
  ASSERT_EQ(train.size(), 90u);
  ASSERT_EQ(held_out.size(), 10u);
  EXPECT_EQ(train.back(), "line 189");
  EXPECT_EQ(held_out.front(), "line 190");
}

TEST(CorpusSplit, ALongDocumentIsDividedAtALineStart) {
  TestFiles files;
  std::string text;
  for (int i = 0; i < 100; ++i) text += cat("line ", i + 100, "\n");  // 900 bytes
  const Corpus corpus({files.add("a.txt", text)}, {});
  const Texts train = documents(corpus.training_part(0.105)), held_out = documents(corpus.held_out_part(0.105));
  ASSERT_EQ(train.size(), 1u);
  ASSERT_EQ(held_out.size(), 1u);
  // 94.5 bytes from the end is inside line 89 (counted from 0); the next line start is that of line 90.
  EXPECT_EQ(train[0], text.substr(0, 810));
  EXPECT_EQ(held_out[0], text.substr(810));
}

TEST(CorpusSplit, TheBoundaryNearestToThePlaceIsTaken) {
  TestFiles files;
  // Documents of 60, 30 and 10 bytes.
  const std::vector<std::string> names = {files.add("a.txt", std::string(59, 'a') + "\n"),
                                          files.add("b.txt", std::string(29, 'b') + "\n"),
                                          files.add("c.txt", std::string(9, 'c') + "\n")};
  const auto lengths = [&](double fraction) {
    std::vector<size_t> out;
    const Corpus corpus(names, {});
    for (const auto& text : documents(corpus.training_part(fraction))) out.push_back(text.size());
    out.push_back(0);
    for (const auto& text : documents(corpus.held_out_part(fraction))) out.push_back(text.size());
    return out;
  };
  EXPECT_EQ(lengths(0.10), (std::vector<size_t>{60, 30, 0, 10}));
  EXPECT_EQ(lengths(0.13), (std::vector<size_t>{60, 30, 0, 10}));  // 3 off, at most 6.5
  EXPECT_EQ(lengths(0.37), (std::vector<size_t>{60, 0, 30, 10}));
  EXPECT_EQ(lengths(0.40), (std::vector<size_t>{60, 0, 30, 10}));
}

TEST(CorpusSplit, ALongLineIsDividedAfterASpace) {
  TestFiles files;
  const Corpus corpus({files.add("a.txt", "title\n" + std::string(500, 'a') + " " + std::string(493, 'b') + "\n")},
                      {});  // 1001 bytes
  EXPECT_EQ(documents(corpus.held_out_part(0.52)), Texts{std::string(493, 'b') + "\n"});
  EXPECT_EQ(documents(corpus.held_out_part(0.1)), Texts{std::string(99, 'b') + "\n"});
}

// Whatever the corpus and the fraction: the two parts make the whole, neither is empty, and the size is as asked up to
// half of it.
TEST(CorpusSplit, PartsMakeTheWhole) {
  TestFiles files;
  for (uint64_t round = 0; round < 60; ++round) {
    const RandomKey key{.seed = 3, .step = round};
    std::string text = "start";
    const uint64_t words = 20 + random_below(key, 0, 400);
    for (uint64_t i = 1; i <= words; ++i) {
      text += std::string(1 + random_below(key, 3 * i, 6), char('a' + i % 26));
      const uint64_t kind = random_below(key, 3 * i + 1, 20);
      text += kind == 0 ? "\n\n" : kind < 3 ? "\n" : " ";
    }
    text += "end";
    const char* rules[] = {"file", "paragraph", "line"};
    const Corpus corpus({files.add("a.txt", text)}, {.documents = rules[round % 3]});
    const double fraction = 0.02 + 0.9 * random_uniform(key, 5000);
    std::string joined, whole;
    size_t train = 0, held_out = 0;
    for (const auto& d : documents(corpus)) whole += d;
    for (const auto& d : documents(corpus.training_part(fraction))) joined += d, train += d.size();
    for (const auto& d : documents(corpus.held_out_part(fraction))) joined += d, held_out += d.size();
    EXPECT_EQ(joined, whole) << "round " << round;
    EXPECT_GT(train, 0u) << "round " << round;
    EXPECT_GT(held_out, 0u) << "round " << round;
    const double wanted = fraction * double(whole.size());
    EXPECT_LE(std::abs(double(held_out) - wanted), 0.5 * wanted + 1) << "round " << round;
  }
}

TEST(CorpusSplit, TextWithoutLinesOrSpacesIsDividedBetweenCharacters) {
  TestFiles files;
  const Corpus corpus({files.add("a.txt", "ééééé")}, {});
  EXPECT_EQ(documents(corpus.training_part(0.5)), Texts{"ééé"});
  EXPECT_EQ(documents(corpus.held_out_part(0.5)), Texts{"éé"});
}

TEST(CorpusSplit, RefusesImpossibleFractions) {
  TestFiles files;
  const Corpus corpus({files.add("a.txt", "x")}, {});
  expect_error([&] { corpus.training_part(0); }, {"above 0 and below 1"}, ExitCode::usage);
  expect_error([&] { corpus.held_out_part(1); }, {"above 0 and below 1"}, ExitCode::usage);
  expect_error([&] { documents(corpus.training_part(0.5)); }, {"too short to hold out"});
}

}  // namespace
}  // namespace lithe

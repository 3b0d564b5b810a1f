#include "lithe/data/translation.h"

#include "tests/data/files_for_tests.h"

namespace lithe {
namespace {

using Pairs = std::vector<TextPair>;

TEST(TranslationConfig, ReadsARecipeSection) {
  TranslationConfig config;
  const auto read = [&](const std::string& yaml) {
    read_fields(parse_yaml(yaml, "r.yaml"), "translation", [&](Fields& f) { config.fields(f); });
  };
  read(
      "train: {source: [a.en, b.en], target: [a.de, b.de]}\ntest: {pairs: t.tsv}\nmax_length: 64\n"
      "max_length_ratio: 1.5");
  EXPECT_EQ(config.train.target, (std::vector<std::string>{"a.de", "b.de"}));
  EXPECT_EQ(config.test.pairs, std::vector<std::string>{"t.tsv"});
  EXPECT_TRUE(config.validation.empty());
  EXPECT_FALSE(config.test.empty());
  EXPECT_EQ(config.max_length, 64);
  EXPECT_EQ(config.max_length_ratio, 1.5);
  expect_error([&] { read("train: {sorce: a.en}"); }, {"translation.train", "did you mean 'source'?"}, ExitCode::usage);
  expect_error([&] { read("max_length: -1"); }, {"translation.max_length", "at least 0"}, ExitCode::usage);
}

TEST(ReadPairs, LinesOfTwoFilesThenOfTables) {
  const TestFiles files;
  const ParallelFiles named{
      .source = {files.add("1.en", "\xEF\xBB\xBFone\r\ntwo\n"), files.add("2.en.gz", gzip("three"))},
      .target = {files.add("1.de", "eins\nzwei"), files.add("2.de.zst", zstd("drei\n"))},
      .pairs = {files.add("p.tsv", "four \"4\"\tvier\n\t\n")}};
  EXPECT_EQ(read_pairs(named),
            (Pairs{{"one", "eins"}, {"two", "zwei"}, {"three", "drei"}, {"four \"4\"", "vier"}, {}}));
}

TEST(ReadPairs, PatternsMatchInTheSameOrder) {
  const TestFiles files;
  for (const char* part : {"b", "a"})
    for (const char* side : {"x", "y"}) files.add(cat(part, ".", side), cat(part, side, "\n"));
  EXPECT_EQ(read_pairs({.source = {files / "*.x"}, .target = {files / "*.y"}}), (Pairs{{"ax", "ay"}, {"bx", "by"}}));
}

TEST(ReadPairs, EveryLineIsKept) {
  const TestFiles files;
  // No line ends there for Unicode's other ends: a vertical tab, U+0085, U+2028, a lone CR.
  const std::string odd = "a\vb\u0085c\u2028d\re";
  EXPECT_EQ(read_pairs({.source = {files.add("a", odd + "\n\n\nend\n")}, .target = {files.add("b", "1\n\n3\n4\n")}}),
            (Pairs{{odd, "1"}, {"", ""}, {"", "3"}, {"end", "4"}}));
}

TEST(ReadPairs, UnequalLineCountsNameBothFilesAndCounts) {
  const TestFiles files;
  const std::string a = files.add("a.en", "1\n2\n3\n"), b = files.add("b.de", "1\n2\n");
  expect_error([&] { read_pairs({.source = {a}, .target = {b}}); }, {"a.en' has 3 lines", "b.de' has 2"});
  expect_error(
      [&] {
        read_pairs({.source = {a, b}, .target = {files.add("c", "1\n")}});
      },
      {"source has 2 files and target 1"}, ExitCode::usage);
  expect_error([&] { read_pairs({.source = {a}}); }, {"source has 1 files and target 0"}, ExitCode::usage);
}

using Sources = std::map<std::string, std::string>;
using From = FurtherSource::From;

TEST(ReadPairs, FurtherSourcesAreFilesBesideLinesBeforeOrTheSourceItself) {
  const TestFiles files;
  const std::map<std::string, FurtherSource> further{
      {"before", {.from = From::previous, .lines = 2}}, {"same", {.from = From::source}}, {"tree", {}}};
  ParallelFiles named{.source = {files.add("1.en", "a\nb\n\nd\n"), files.add("2.en", "e\n")},
                      .target = {files.add("1.de", "A\nB\n\nD\n"), files.add("2.de", "E\n")}};
  Node trees = Node::list();
  trees.push(Node::scalar(files.add("1.tree", "(a\n(b\n(\n\n")));
  trees.push(Node::scalar(files.add("2.tree", "(e\n")));
  named.sources.set("tree", trees);
  const Pairs pairs = read_pairs(named, further);
  ASSERT_EQ(pairs.size(), 5u);
  EXPECT_EQ(pairs[0].sources, (Sources{{"before", ""}, {"same", "a"}, {"tree", "(a"}}));
  EXPECT_EQ(pairs[1].sources, (Sources{{"before", "a"}, {"same", "b"}, {"tree", "(b"}}));
  EXPECT_EQ(pairs[2].sources, (Sources{{"before", "a b"}, {"same", ""}, {"tree", "("}}));
  EXPECT_EQ(pairs[3].sources, (Sources{{"before", "b"}, {"same", "d"}, {"tree", ""}}));
  EXPECT_EQ(pairs[4].sources, (Sources{{"before", ""}, {"same", "e"}, {"tree", "(e"}}));  // a file of its own

  named.sources.set("tree", Node::scalar(files / "1.tree"));
  expect_error([&] { read_pairs(named, further); }, {"source has 2 files and sources.tree 1"}, ExitCode::usage);
  named.source.pop_back(), named.target.pop_back();
  named.sources.set("tree", Node::scalar(files / "2.tree"));
  expect_error([&] { read_pairs(named, further); }, {"1.en' has 4 lines", "2.tree' has 1"});
  named.sources.set("other", Node::scalar(files / "2.tree"));
  expect_error([&] { read_pairs(named, further); }, {"sources names files of 'other'"}, ExitCode::usage);
  named.sources = {};
  expect_error([&] { read_pairs(named, further); }, {"sources has no files of 'tree'"}, ExitCode::usage);
}

TEST(ReadPairs, FurtherSourcesAreColumnsOfTables) {
  const TestFiles files;
  const std::map<std::string, FurtherSource> further{{"tree", {.from = From::column, .column = 4}}};
  EXPECT_EQ(read_pairs({.pairs = {files.add("t.tsv", "a\tA\tx\t(a)\n")}}, further),
            (Pairs{{"a", "A", {{"tree", "(a)"}}}}));
  expect_error([&] { read_pairs({.pairs = {files.add("u.tsv", "a\tA\n")}}, further); },
               {"u.tsv:1", "2 more behind tabs, got 1 tabs"});
  expect_error([&] { read_pairs({.source = {files.add("a", "a\n")}, .target = {files.add("b", "b\n")}}, further); },
               {"source 'tree' is column 4 of tables"}, ExitCode::usage);
  expect_error(
      [&] {
        read_pairs({.pairs = {files / "t.tsv"}}, {{"tree", {}}});
      },
      {"source 'tree' has files of its own, and pairs names tables"}, ExitCode::usage);
}

TEST(TranslationConfig, RefusesFurtherSourcesThatAreNone) {
  const auto refused = [](const std::string& yaml, const std::string& why) {
    TranslationConfig config;
    read_fields(parse_yaml(yaml, "r.yaml"), "translation", [&](Fields& f) { config.fields(f); });
    expect_error([&] { config.further_sources(); }, {why}, ExitCode::usage);
  };
  refused("sources: {source: {from: previous}}", "rename it");
  refused("sources: {a: {from: column, column: 2}}", "column must be 3 or more");
  refused("sources: {a: {column: 3}}", "column is for from: column");
  refused("sources: {a: {from: fil}}", "one of file, column, previous, source");
  refused("sources: [a]", "must hold sources by name");
  TranslationConfig config;
  config.sources = parse_yaml("{a: {from: previous, lines: 3}, b: {}}", "r.yaml");
  const auto sources = config.further_sources();
  EXPECT_EQ(sources.at("a").lines, 3);
  EXPECT_EQ(sources.at("b").from, From::file);
}

TEST(ReadPairs, RefusesBrokenFiles) {
  const TestFiles files;
  const auto refuse = [&](const std::string& bytes, const std::vector<std::string>& parts) {
    const std::string table = files.add("t.tsv", bytes);
    expect_error([&] { read_pairs({.pairs = {table}}); }, parts);
  };
  refuse("a\tb\nc\n", {"t.tsv:2", "got 0 tabs in 'c'"});
  refuse("a\tb\n\nc\td\n", {"t.tsv:2", "got 0 tabs"});
  refuse("a\tb\tc\n", {"t.tsv:1", "got 2 tabs"});
  refuse("a\tb\nc\t\xFF\n", {"t.tsv:2", "byte 3", "UTF-8"});
  refuse(std::string("a\tb\0", 4), {"NUL"});
  refuse("", {"t.tsv' is empty"});
  refuse("\xEF\xBB\xBF", {"t.tsv' is empty"});
  expect_error([&] { read_pairs({.pairs = {files.add("t.tsv.gz", gzip("a\tb\n").substr(0, 12))}}); }, {"t.tsv.gz"});
  expect_error([&] { read_pairs({.pairs = {files / "none.tsv"}}); }, {"none.tsv"}, ExitCode::usage);
}

TEST(ReadPairs, RefusesAFileNamedTwice) {
  const TestFiles files;
  const std::string a = files.add("a", "1\n"), b = files.add("b", "1\n");
  expect_error([&] { read_pairs({.source = {a}, .target = {a}}); },
               {"a' is in translation.source and in translation.target"}, ExitCode::usage);
  expect_error(
      [&] {
        read_pairs({.source = {a, a}, .target = {b, b}});
      },
      {"a' is in translation.source twice"}, ExitCode::usage);
  expect_error([] { read_pairs({}); }, {"no files are given"}, ExitCode::usage);
}

TEST(LoadTranslation, PartsShareNoFile) {
  const TestFiles files;
  const auto table = [&](const char* name) {
    return ParallelFiles{.pairs = {files.add(name, cat(name, "\tx\n", "second\ty\n"))}};
  };
  TranslationConfig config{.train = table("a"), .validation = table("b"), .test = table("c")};
  const TranslationData data = load_translation(config);
  EXPECT_EQ(data.train, (Pairs{{"a", "x"}, {"second", "y"}}));
  EXPECT_EQ(data.validation[0].source, "b");
  EXPECT_EQ(data.test[0].source, "c");

  config.test = table("a");
  expect_error([&] { load_translation(config); }, {"translation.train.pairs and in translation.test.pairs"},
               ExitCode::usage);
  config.test = {};
  EXPECT_TRUE(load_translation(config).test.empty());
  config.validation = {.source = {files / "b"}};
  expect_error([&] { load_translation(config); }, {"validation.source has 1 files and validation.target 0"},
               ExitCode::usage);
  expect_error([] { load_translation({}); }, {"no files are given", "translation.train"}, ExitCode::usage);
}

}  // namespace
}  // namespace lithe

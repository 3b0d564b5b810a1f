#include "lithe/data/tree_columns.h"

#include <bit>

#include "lithe/data/task_batches.h"
#include "lithe/data/translation.h"
#include "tests/data/files_for_tests.h"
#include "tests/data/store_kit.h"

namespace lithe {
namespace {

using Column = std::vector<int32_t>;

// "It 's ." with the tree 's -> It, 's -> "."; the store kit's tokenizer has a token a byte.
TreeSentence dependencies() {
  const std::string rows =
      "1\tIt\t_\tPRON\t_\t_\t2\tnsubj\t_\tHeadProbability=2:0.75,0:0.25\n"
      "2\t's\t_\tAUX\t_\t_\t0\troot\t_\tSpaceAfter=No|HeadProbability=0:1\n"
      "3\t.\t_\tPUNCT\t_\t_\t2\tpunct\t_\tHeadProbability=2:1\n\n";
  return parse_conllu_trees(rows, "f", refusing("test")).at(0);
}

TEST(TreeColumns, WordsAreCutOneByOne) {
  const TreeSentence s = dependencies();
  const WordTokens spaced = encode_words(*bytes(), s.words), text = encode_words(*bytes(), s.words, &s.space_after);
  EXPECT_EQ(spaced.word_of, (Column{0, 0, 1, 1, 1, 2, 2}));  // "It", " 's", " ."
  EXPECT_EQ(text.word_of, (Column{0, 0, 1, 1, 1, 2}));       // "It", " 's", "."
  EXPECT_EQ(bytes()->decode(text.tokens), s.text());
  EXPECT_TRUE(text.missing().empty());
}

TEST(TreeColumns, TokensHaveWhatTheirWordsHave) {
  auto tree = std::make_shared<const TreeSentence>(dependencies());
  Batch batch{.tokens = {9, 1, 1, 2, 3, 9}, .offsets = {0, 6}};
  batch.words = {{tree}, {-1, 0, 0, 1, 2, -1}};
  ColumnChoice choice{.names = {"word", "head", "span", "upos", "head_probabilities"}, .tags = {}};
  choice.set_tags("upos", {"AUX", "PRON"});
  const auto columns = tree_columns(choice, batch);
  EXPECT_EQ(columns.at("word"), (Column{-1, 0, 0, 1, 2, -1}));
  EXPECT_EQ(columns.at("head"), (Column{-1, 2, 2, 0, 2, -1}));
  EXPECT_EQ(columns.at("span"), (Column{-1, 0, 0, 1, 2, -1}));
  EXPECT_EQ(columns.at("upos"), (Column{0, 2, 2, 1, 0, 0}));  // PUNCT is not known
  const Column& parser = columns.at("head_probabilities");
  ASSERT_EQ(parser.size(), size_t(6 * 2 * kParserHeads));
  EXPECT_EQ(parser[0], -1);
  EXPECT_EQ(parser[2 * kParserHeads], 2);
  EXPECT_EQ(std::bit_cast<float>(parser[2 * kParserHeads + 1]), 0.75f);
  EXPECT_EQ(parser[2 * kParserHeads + 4], -1);
  EXPECT_EQ(tags_of({tree}, "upos"), (std::vector<std::string>{"AUX", "PRON", "PUNCT"}));
  EXPECT_THROW(tags_of({tree}, "pos"), Error);
  EXPECT_THROW(tree_columns({.names = {"depth"}, .tags = {}}, batch), Error);
  EXPECT_THROW(tree_columns(choice, Batch{.tokens = {1}, .offsets = {0, 1}}), Error);
}

TEST(TreeColumns, WhatTheTreebankDoesNotHaveIsSaidWithItsPlace) {
  const auto tree = [](TreeSentence s) { return std::make_shared<const TreeSentence>(std::move(s)); };
  expect_error([&] { tags_of({tree(dependencies())}, "lemma"); }, {"f:1: the treebank's column 'lemma'", "is empty"},
               ExitCode::usage);
  TreeSentence plain = plain_sentence("a dog");
  plain.place = "line 1";
  Batch batch{.tokens = {1, 2}, .offsets = {0, 2}};
  batch.words = {{tree(plain)}, {0, 1}};
  expect_error(
      [&] {
        tree_columns({.names = {"upos"}, .tags = {{"upos", {{"X", 1}}}}}, batch);
      },
      {"line 1: a plain text has no column 'upos'", ".conllu"}, ExitCode::usage);
}

// A tree that is none hides no line that is none.
TEST(Treebank, AWrongLineIsRefusedAlsoBehindAFaultOfATree) {
  const kit::Scratch files;
  const std::string cycle = "1\ta\t_\t_\t_\t_\t2\td\t_\t_\n2\tb\t_\t_\t_\t_\t1\td\t_\t_\n\n",
                    nine = "1\tc\t_\t_\t_\t_\t0\td\t_\n\n";
  files.add("cycle.conllu", cycle);
  files.add("both.conllu", cycle + nine);
  EXPECT_EQ(read_treebank(files / "cycle.conllu", "test").size(), 1u);
  expect_error([&] { read_treebank(files / "both.conllu", "test"); },
               {"both.conllu:4: a line of CoNLL-U has 10 columns"});
}

TEST(TreeColumns, ConstituentsOfBracketedTrees) {
  auto tree = std::make_shared<const TreeSentence>(
      parse_bracketed_trees("(S (NP (PRP It)) (VP (VBZ 's) (ADJP (JJ interesting))) (. !))", "f", refusing("test"))
          .at(0));
  Batch batch{.tokens = {1, 2, 3, 4}, .offsets = {0, 4}};
  batch.words = {{tree}, {0, 1, 2, 3}};
  const auto columns = tree_columns({.names = {"depth", "common", "span"}, .tags = {}}, batch);
  EXPECT_EQ(columns.at("depth"), (Column{3, 3, 4, 2}));
  EXPECT_EQ(columns.at("common"), (Column{1, 2, 1, 0}));
  EXPECT_EQ(columns.at("span"), (Column{0, 1, 2, 3}));
}

TEST(TreeColumns, ATaskOfParsingHasHeadsAndLabelsOfFirstTokens) {
  Example e;
  e.tree = std::make_shared<const TreeSentence>(dependencies());
  e.words = e.tree->words, e.tags = {1, 2, 3};
  const TaskBatches batches({e}, TaskType::parsing, *bytes(), 32, 64, 0, false);
  const Batch batch = batches.batch(0, 0);
  const TaskSequence& s = batches.sequences()[0];
  ASSERT_EQ(batch.labels.size(), size_t(2 * s.rows));
  for (size_t w = 0; w < 3; ++w) {
    const auto row = size_t(s.words[w]);
    EXPECT_EQ(batch.labels[row], w == 1 ? 0 : s.words[1] + 1);
    EXPECT_EQ(batch.labels[size_t(s.rows) + row], e.tags[w]);
  }
  EXPECT_EQ(std::count_if(batch.labels.begin(), batch.labels.end(), [](int32_t l) { return l >= 0; }), 6);
  EXPECT_EQ(batch.words.word_of.size(), size_t(s.rows));
}

TEST(TreeColumns, AWordWhoseHeadIsCutOffIsStillACandidate) {
  Example e;
  e.tree = std::make_shared<const TreeSentence>(dependencies());
  e.words = e.tree->words, e.tags = {1, 2, 3};
  const int64_t second = TaskBatches({e}, TaskType::parsing, *bytes(), 32, 64, 0, false).sequences()[0].words[1];
  const TaskBatches batches({e}, TaskType::parsing, *bytes(), second, 64, 0, false);
  const TaskSequence& s = batches.sequences()[0];
  ASSERT_GE(s.words[0], 0);
  ASSERT_LT(s.words[1], 0);
  const Batch batch = batches.batch(0, 0);
  EXPECT_EQ(batch.labels[size_t(s.words[0])], -2);
  EXPECT_EQ(std::count_if(batch.labels.begin(), batch.labels.end(), [](int32_t l) { return l >= 0; }), 0);
}

}  // namespace
}  // namespace lithe

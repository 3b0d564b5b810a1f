#include "lithe/trees/treebank.h"

#include <gtest/gtest.h>

#include "lithe/base/error.h"
#include "lithe/trees/attachment.h"

namespace lithe {
namespace {

std::string line(const std::string& id, const std::string& form, const std::string& head,
                 const std::string& deprel = "dep", const std::string& misc = "_") {
  return id + "\t" + form + "\t_\tX\t_\t_\t" + head + "\t" + deprel + "\t_\t" + misc + "\n";
}

struct Read {
  std::vector<TreeSentence> sentences;
  std::vector<std::string> problems;
};
Read treebank_of(const std::string& text, bool keep = false) {
  Read out;
  out.sentences = parse_conllu_trees(
      text, "f", [&](const std::string& problem) { out.problems.push_back(problem); }, keep);
  return out;
}

TEST(Conllu, RangesEmptyNodesAndComments) {
  const std::string text = "# sent_id = 1\n# label = good\n" + line("1-2", "don't", "_", "_", "SpaceAfter=No") +
                           line("1", "do", "3") + line("2", "n't", "1") + line("2.1", "X", "_") +
                           line("3", "go", "0", "root", "SpaceAfter=No") + line("4", ".", "3") + "\n";
  const Read got = treebank_of(text, true);
  ASSERT_EQ(got.sentences.size(), 1u);
  const TreeSentence& s = got.sentences[0];
  EXPECT_TRUE(got.problems.empty());
  EXPECT_EQ(s.words, (std::vector<std::string>{"do", "n't", "go", "."}));
  EXPECT_EQ(s.heads.heads, (std::vector<int32_t>{3, 1, 0, 3}));
  EXPECT_EQ(s.comments.at("label"), "good");
  EXPECT_EQ(s.place, "f:4");
  EXPECT_EQ(s.text(), "don'tgo.");  // the range has no space behind it
  EXPECT_EQ(to_conllu(s), text);
}

TEST(Conllu, SaysWhatIsWrongAndKeepsTheRest) {
  std::string many;
  for (int i = 1; i <= 10000; ++i) many += line(std::to_string(i), "w", i == 1 ? "0" : "1");
  const Read got =
      treebank_of(line("1", "a", "2") + line("2", "b", "1") + "\n" +                        // 1: a cycle
                  line("1", "a", "0") + line("2", "b", "0") + "\n" +                        // 4: two roots
                  line("1", "a", "0") + line("3", "b", "1") + line("4", "c", "1") + "\n" +  // 7: a word is missing
                  line("2", "a", "0") + line("1", "b", "2") + "\n" +                        // 11: out of order
                  "1\ta\n\n" +                                                              // 14: columns
                  line("1", "a", "0") + line("2", "", "1") + "\n" +                         // 16: an empty form
                  line("1", "a", "0") + line("2", "b", "_") + "\n" +                        // 19: a head is missing
                  line("1", "a", "0") + line("2", "b", "5") + "\n" +                        // 22: a head beyond
                  line("1", "fine", "0") + "\n" + many);                                    // 25, 27
  EXPECT_EQ(got.problems,
            (std::vector<std::string>{
                "f:1: no word is the root: none has the head 0", "f:5: words 1 and 2 are both roots; a tree has one",
                "f:8: the id must be 2, the next word of the sentence, got 3; sentences stand between empty lines",
                "f:11: the id must be 1, the next word of the sentence, got 2; sentences stand between empty lines",
                "f:14: a line of CoNLL-U has 10 columns between tabs, got 2", "f:17: the form (column 2) is empty",
                "f:20: word 2 has no head (column 7), but others have",
                "f:23: word 2 has the head 5, but the words are 1 to 2",
                "f:27: the sentence has 10000 words, more than 1000; is an empty line missing?"}));
  ASSERT_EQ(got.sentences.size(), 6u);  // what has no tree is here, too
  EXPECT_EQ(got.sentences[4].words, std::vector<std::string>{"fine"});
  EXPECT_TRUE(got.sentences[0].heads.heads.empty());
  EXPECT_EQ(got.sentences[5].words.size(), 10000u);
}

TEST(Conllu, ProbabilitiesOfAParser) {
  const Read got = treebank_of(line("1", "a", "0", "root", "A=b|HeadProbability=0:0.75,2:0.25") +
                                   line("2", "b", "1", "dep", "HeadProbability=1:1") + "\n",
                               true);
  ASSERT_EQ(got.sentences.size(), 1u);
  EXPECT_EQ(got.sentences[0].parser[0], (HeadProbabilities{{0, 0.75f}, {2, 0.25f}}));
  TreeSentence s = got.sentences[0];
  s.parser[1] = {{1, 0.5f}, {0, 0.5f}};
  EXPECT_NE(to_conllu(s).find("A=b|HeadProbability=0:0.750000,2:0.250000"), std::string::npos) << to_conllu(s);
  EXPECT_NE(to_conllu(s).find("HeadProbability=1:0.500000,0:0.500000"), std::string::npos);
  s.heads.heads[1] = -1, s.tags["deprel"][1] = "_", s.parser[1] = {};  // a word that the parser did not read
  EXPECT_NE(to_conllu(s).find("2\tb\t_\tX\t_\t_\t_\t_\t_\t_\n"), std::string::npos) << to_conllu(s);
  const Read holes = treebank_of(to_conllu(s));
  ASSERT_EQ(holes.sentences.size(), 1u);
  EXPECT_NE(holes.sentences[0].fault.find("word 2 has no head"), std::string::npos);
  EXPECT_EQ(treebank_of(line("1", "a", "0", "root", "HeadProbability=0:0.7") + "\n").problems.size(), 1u);
  EXPECT_EQ(
      treebank_of(line("1", "a", "0", "root", "HeadProbability=0:1") + line("2", "b", "1") + "\n").problems.size(), 1u);
}

TEST(Brackets, TracesOuterBracketsAndEscapes) {
  std::vector<std::string> problems;
  const auto got = parse_bracketed_trees(
      "( (S (NP-SBJ (-NONE- *)) (VP (VB Go)\n   (-LRB- -LRB-) (NN x))) )\n(S (X a)\n(S (X b))\n(NP)\n(S (Y c))) \n(S "
      "(Z d))\n",
      "f", [&](const std::string& problem) { problems.push_back(problem); });
  EXPECT_EQ(problems, (std::vector<std::string>{"f:3: the tree that begins here ends with 1 open brackets",
                                                "f:5: the bracket '(NP' is closed with nothing in it",
                                                "f:6: a bracket is closed that was not opened"}));
  ASSERT_EQ(got.size(), 3u);
  EXPECT_EQ(got[0].words, (std::vector<std::string>{"Go", "(", "x"}));
  EXPECT_EQ(got[0].tags.at("pos"), (std::vector<std::string>{"VB", "-LRB-", "NN"}));
  EXPECT_EQ(got[0].constituents.nodes[0].label, "S");
  EXPECT_EQ(got[1].words, std::vector<std::string>{"b"});
  EXPECT_EQ(got[2].words, std::vector<std::string>{"d"});
}

TEST(Brackets, SaysWhatIsWrongAndKeepsTheRest) {
  std::string many = "(S";
  for (int i = 0; i < 10000; ++i) many += " (N w)";
  const std::string deep = std::string(100000, '(') + "A a" + std::string(100000, ')');
  std::vector<std::string> problems;
  const auto got = parse_bracketed_trees(
      deep + "\n" + many + ")\n(S (X a)) more\n(S (X b) ))\nword (S (Y c))\n) (S (Y d))\r\n(S (Y\n   e)\n", "f",
      [&](const std::string& problem) { problems.push_back(problem); });
  EXPECT_EQ(problems,
            (std::vector<std::string>{
                "f:2: the sentence has 10000 words, more than 1000; are brackets missing?",
                "f:3: a tree begins with a bracket, got 'more'", "f:4: a bracket is closed that was not opened",
                "f:5: a tree begins with a bracket, got 'word'", "f:6: a tree begins with a bracket, got ')'",
                "f:7: the tree that begins here ends with 1 open brackets"}));
  ASSERT_EQ(got.size(), 5u);
  EXPECT_EQ(got[0].words, std::vector<std::string>{"a"});
  EXPECT_EQ(got[1].words.size(), 10000u);
  EXPECT_EQ(got[3].words, std::vector<std::string>{"c"});
  EXPECT_EQ(got[4].words, std::vector<std::string>{"d"});
}

// Lines that end as on Windows, a file that ends without an empty line, cycles beside a root.
TEST(Conllu, CyclesAndEndsOfLines) {
  std::string text = line("1", "a", "0") + line("2", "b", "3") + line("3", "c", "2") + "\n" +  // 1: a cycle, 2 and 3
                     line("1", "a", "0") + line("2", "b", "2") + "\n" +                        // 5: its own head
                     line("1", "a", "0") + line("2", "b", "x") + "\n" +                        // 8: no number
                     line("1-3", "ab", "_") + line("1", "a", "0") + line("2", "b", "1") +
                     "\n" +  // 11: a range too long
                     line("1", "fine", "0");
  std::string windows;
  for (const char c : text) windows += c == '\n' ? "\r\n" : std::string(1, c);
  for (const std::string& one : {text, windows}) {
    const Read got = treebank_of(one);
    EXPECT_EQ(got.problems,
              (std::vector<std::string>{"f:2: heads go round: 2 -> 3 -> 2", "f:6: word 2 is its own head",
                                        "f:9: the head (column 7) must be the number of a word, 0 or _, got 'x'",
                                        "f:14: a range ends at word 3, but the sentence has 2 words"}));
    ASSERT_EQ(got.sentences.size(), 3u);
    EXPECT_EQ(got.sentences[2].words, std::vector<std::string>{"fine"});
  }
}

TEST(PlainSentence, CutsPunctuationAndEndings) {
  const TreeSentence s = plain_sentence("\"He  doesn't go, (she's) 'ere... ok?!");
  EXPECT_EQ(s.words, (std::vector<std::string>{"\"", "He", "does", "n't", "go", ",", "(", "she", "'s", ")", "'ere",
                                               "...", "ok", "?", "!"}));
  EXPECT_EQ(s.text(), "\"He doesn't go, (she's) 'ere... ok?!");
  EXPECT_TRUE(plain_sentence("  ").words.empty());
}

// Counted by hand: 5 words, heads of 1, 3, 4 and 5 right, and of these the labels of 1 (a subtype does not count),
// 3, 4.
TEST(Attachment, AgreesWithAHandCountedFile) {
  const auto gold =
      treebank_of(line("1", "a", "2", "nsubj") + line("2", "b", "0", "root") + line("3", "c", "2", "obj") +
                  line("4", "d", "3", "punct") + line("5", "e", "2", "advmod") + "\n");
  const auto parsed =
      treebank_of(line("1", "a", "2", "nsubj:pass") + line("2", "b", "3", "root") + line("3", "c", "2", "obj") +
                  line("4", "d", "3", "punct") + line("5", "e", "2", "obl") + "\n");
  Attachment counts;
  for (size_t w = 0; w < 5; ++w) {  // the parse is a cycle, which files may not hold
    const int32_t heads[] = {2, 3, 2, 3, 2};
    counts.add(gold.sentences[0].heads.heads[w], gold.sentences[0].tags.at("deprel")[w], heads[w],
               parsed.sentences[0].tags.at("deprel")[w]);
  }
  EXPECT_EQ(counts.words, 5);
  EXPECT_EQ(counts.heads, 4);
  EXPECT_EQ(counts.labels, 3);
  EXPECT_DOUBLE_EQ(attachment(gold.sentences, gold.sentences).las(), 1);
  EXPECT_THROW(attachment(gold.sentences, parsed.sentences), Error);
}

}  // namespace
}  // namespace lithe

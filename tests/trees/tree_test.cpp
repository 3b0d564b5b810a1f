#include "lithe/trees/tree.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "lithe/base/error.h"
#include "lithe/base/random.h"
#include "lithe/trees/linear.h"
#include "lithe/trees/treebank.h"

namespace lithe {
namespace {

const DepTree kDep4{{2, 0, 2, 3}};
const char* const kConst = "(S (NP (PRP It)) (VP (VBZ 's) (ADJP (JJ interesting))) (. !))";

ConstTree read(const std::string& text) {
  const auto found = parse_bracketed_trees(text, "test", refusing("test"));
  EXPECT_EQ(found.size(), 1u);
  return found.at(0).constituents;
}

// A random tree of labels a to c and words, some of which look like brackets.
ConstTree random_tree(std::mt19937& random) {
  ConstTree out;
  const char* const words[] = {"the", "(", ")", "-LRB-", "\\x", "(a", ")b", "-RRB-", "dog"};
  const std::function<void(int32_t, int)> grow = [&](int32_t parent, int depth) {
    const auto at = int32_t(out.nodes.size());
    out.nodes.push_back({std::string(1, char('a' + random() % 3)), parent, false});
    for (uint32_t i = 0, n = 1 + random() % 3; i < n; ++i)
      if (depth < 4 && random() % 2)
        grow(at, depth + 1);
      else
        out.nodes.push_back({words[random() % 9], at, true});
  };
  grow(-1, 0);
  return out;
}

// oracle: syn.treedist
TEST(Trees, DistancesOfTheRunningExamples) {
  EXPECT_EQ(tree_distances(kDep4), (std::vector<int32_t>{0, 1, 2, 3, 1, 0, 1, 2, 2, 1, 0, 1, 3, 2, 1, 0}));
  const auto w = tree_distances(leaf_places(read(kConst)));
  EXPECT_EQ(w, (std::vector<int32_t>{0, 6, 7, 5, 6, 0, 5, 5, 7, 5, 0, 6, 5, 5, 6, 0}));
  const auto collapsed = tree_distances(leaf_places(read(kConst)), true);
  EXPECT_EQ(collapsed[1], 4);
  EXPECT_EQ(collapsed[0], 0);
}

// oracle: syn.treedist
TEST(Trees, DistancesAreAMetricOfATree) {
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    const auto m = int32_t(2 + random() % 7);
    DepTree tree;
    for (int32_t w = 1; w <= m; ++w) tree.heads.push_back(w == 1 ? 0 : int32_t(1 + random() % uint32_t(w - 1)));
    ASSERT_EQ(fault_of(tree), "");
    const auto w = tree_distances(tree);
    const auto at = [&](int32_t i, int32_t j) { return w[size_t(i * m + j)]; };
    for (int32_t a = 0; a < m; ++a)
      for (int32_t b = 0; b < m; ++b) {
        EXPECT_EQ(at(a, b), at(b, a));
        EXPECT_EQ(at(a, b) == 0, a == b);
        for (int32_t c = 0; c < m; ++c) {
          EXPECT_LE(at(a, c), at(a, b) + at(b, c));
          for (int32_t d = 0; d < m; ++d)  // the four-point condition
            EXPECT_LE(at(a, b) + at(c, d), std::max(at(a, c) + at(b, d), at(a, d) + at(b, c)));
        }
      }
    const auto neighbours = neighbours_of(tree);
    for (int32_t a = 0; a < m; ++a)
      for (int64_t reach : {0, 1, 2}) {
        std::vector<int32_t> near;
        for (int32_t b = 0; b < m; ++b)
          if (at(a, b) <= reach) near.push_back(b);
        EXPECT_EQ(near_words(neighbours, a, reach), near);
      }
  }
  DepTree chain{{0, 1, 2, 3, 4}};
  for (int32_t i = 0; i < 5; ++i)
    for (int32_t j = 0; j < 5; ++j) EXPECT_EQ(tree_distances(chain)[size_t(i * 5 + j)], std::abs(i - j));
  EXPECT_EQ(tree_distances(DepTree{{0, 0, 2}}), (std::vector<int32_t>{0, -1, -1, -1, 0, 1, -1, 1, 0}));
}

TEST(Trees, FaultsAreNamed) {
  EXPECT_EQ(fault_of(kDep4), "");
  EXPECT_EQ(fault_of({{2, 3, 2}}), "no word is the root: none has the head 0");
  EXPECT_EQ(fault_of({{0, 0}}), "words 1 and 2 are both roots; a tree has one");
  EXPECT_EQ(fault_of({{0, 3, 2}}), "heads go round: 2 -> 3 -> 2");
  EXPECT_EQ(fault_of({{0, 7}}), "word 2 has the head 7, but the words are 1 to 2");
  EXPECT_EQ(fault_of({{0, 2}}), "word 2 is its own head");
}

// oracle: syn.linearise
TEST(Linearise, TheRunningExample) {
  std::string text;
  const auto tokens = linearise(read(kConst));
  for (const std::string& token : tokens) text += (text.empty() ? "" : " ") + token;
  EXPECT_EQ(text, "(S (NP (PRP It )PRP )NP (VP (VBZ 's )VBZ (ADJP (JJ interesting )JJ )ADJP )VP (. ! ). )S");
  EXPECT_EQ(tokens.size(), 20u);
}

// oracle: syn.linearise
TEST(Linearise, ReadsBackWhatItWrote) {
  std::mt19937 random(2);
  for (int round = 0; round < 100; ++round) {
    const ConstTree tree = random_tree(random);
    const auto tokens = linearise(tree);
    EXPECT_EQ(parse_linear(tokens), tree);
    BracketStack stack;
    for (const std::string& token : tokens) {
      EXPECT_FALSE(stack.done());
      EXPECT_TRUE(stack.allows(token)) << token;
      stack.push(token);
      EXPECT_GE(stack.depth(), 0);
    }
    EXPECT_TRUE(stack.done());
    EXPECT_EQ(stack.depth(), 0);
    std::vector<std::string> words;
    for (const std::string& token : tokens)
      if (BracketStack::kind_of(token) == BracketStack::Kind::word) words.push_back(unescape_word(token));
    EXPECT_EQ(words, tree.words());
  }
}

// oracle: syn.linearise
TEST(Linearise, RefusesWhatIsNoTree) {
  using Tokens = std::vector<std::string>;
  for (const auto& [tokens, why] : std::vector<std::pair<Tokens, std::string>>{
           {{"(S", "a", ")NP"}, "token 3 ')NP' closes a bracket, but the one that is open is '(S'"},
           {{"(S", "a"}, "1 brackets are open at the end, the last of them '(S'"},
           {{"(S", ")S"}, "token 2 ')S' closes a bracket without a word or bracket in it"},
           {{"a"}, "token 1 'a' is a word outside of brackets"},
           {{"(S", "a", ")S", "b"}, "token 4 'b' stands behind the end of the tree"},
           {{}, "there is no token"}}) {
    try {
      parse_linear(tokens);
      ADD_FAILURE() << why;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
    }
  }
}

TEST(Trees, Phrases) {
  EXPECT_EQ(base_phrases(read("(S (NP (D the) (N dog)) (VP (V sees) (NP (D a) (N cat))) (. .))")).starts,
            (std::vector<int32_t>{0, 2, 3, 5}));
  EXPECT_EQ(top_phrases({{2, 3, 0, 5, 3}}).of_words(5), (std::vector<int32_t>{0, 0, 1, 2, 2}));
}

// What is known of a tree at a word: the paths by edges that the words so far have to their heads.
TEST(DepTree, KnownSoFar) {
  // a hangs on d, b on c, c on d: at b nothing joins them, at c they are three edges apart, over d, which is to come.
  const DepTree tree{{4, 3, 4, 0}};
  const auto neighbours = neighbours_of(tree);
  const auto known = [&](int32_t word, int64_t reach) { return known_words(tree, neighbours, word, reach); };
  EXPECT_EQ(known(1, 9), (std::vector<WordAt>{{1, 0}}));
  EXPECT_EQ(known(2, 9), (std::vector<WordAt>{{0, 2}, {1, 1}, {2, 0}}));
  EXPECT_EQ(known(2, 1), (std::vector<WordAt>{{1, 1}, {2, 0}}));
  EXPECT_EQ(known(3, 9), (std::vector<WordAt>{{0, 1}, {1, 2}, {2, 1}, {3, 0}}));
  // Against all paths, of random trees.
  for (uint64_t seed = 0; seed < 20; ++seed) {
    constexpr int64_t kWords = 9;
    std::vector<int32_t> order(kWords);
    for (int32_t i = 0; i < kWords; ++i) order[size_t(i)] = i;
    for (size_t i = kWords; i-- > 1;) std::swap(order[i], order[random_below({seed, 1}, i, i + 1)]);
    DepTree random{std::vector<int32_t>(kWords, 0)};
    for (size_t i = 1; i < kWords; ++i) random.heads[size_t(order[i])] = order[random_below({seed, 2}, i, i)] + 1;
    const auto joined = neighbours_of(random);
    for (int32_t word = 0; word < kWords; ++word) {
      std::vector<std::vector<int32_t>> d(kWords, std::vector<int32_t>(kWords, 99));
      for (int32_t w = 0; w < kWords; ++w) d[size_t(w)][size_t(w)] = 0;
      for (int32_t w = 0; w <= word; ++w)
        if (const int32_t head = random.heads[size_t(w)]; head > 0)
          d[size_t(w)][size_t(head - 1)] = d[size_t(head - 1)][size_t(w)] = 1;
      for (size_t k = 0; k < kWords; ++k)
        for (size_t i = 0; i < kWords; ++i)
          for (size_t j = 0; j < kWords; ++j) d[i][j] = std::min(d[i][j], d[i][k] + d[k][j]);
      std::vector<WordAt> want;
      for (int32_t w = 0; w <= word; ++w)
        if (d[size_t(word)][size_t(w)] < 99) want.emplace_back(w, d[size_t(word)][size_t(w)]);
      EXPECT_EQ(known_words(random, joined, word, kWords), want) << seed << " " << word;
    }
  }
}

}  // namespace
}  // namespace lithe

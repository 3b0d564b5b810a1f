#include "lithe/infer/tree_step.h"

#include <gtest/gtest.h>

#include "lithe/text/tokenizer.h"

namespace lithe {
namespace {

// oracle: syn.linearise
TEST(TreeStep, TextsThatMayStillBecomeTrees) {
  const auto possible = [](const std::string& text) { return tree_prefix(text).possible; };
  for (const char* text : {"", "(", "(S", "(S ", "(S a", "(S (NP a )N", "(S a )S", "(S a )S ", "(S -LRB- )S"})
    EXPECT_TRUE(possible(text)) << text;
  for (const char* text : {"a", ")", "( a", "(S )", "(S a )N", "(S a )S b", "(S a )S (", "(S a( ", "(S a )S )S"})
    EXPECT_FALSE(possible(text)) << text;
  EXPECT_TRUE(tree_prefix("(S (NP a )NP )S").whole);
  EXPECT_FALSE(tree_prefix("(S (NP a )NP )").whole);
  EXPECT_FALSE(tree_prefix("(S (NP a )NP").whole);
  EXPECT_FALSE(tree_prefix("(X", {"S", "NP"}).possible);
  EXPECT_TRUE(tree_prefix("(N", {"S", "NP"}).possible);
}

// Whatever the scores are, what is chosen is a tree, and its end.
TEST(TreeStep, RandomScoresGiveTrees) {
  const auto tokenizer = make_tokenizer({.type = "bytes"}, {});
  const int32_t end = *tokenizer->specials().eos;
  const auto step = tree_step(*tokenizer, {end}, {"S", "NP"});
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    std::vector<int32_t> tokens{end};
    for (int n = 0; n < 400 && (tokens.size() == 1 || tokens.back() != end); ++n) {
      std::vector<float> scores(size_t(tokenizer->vocab_size()));
      for (size_t i = 0; i < scores.size(); ++i)
        scores[i] = float(random_uniform({.seed = seed, .purpose = 7}, uint64_t(n) * 1000 + i)) +
                    (n > 20 && (i == ')' || i == 'S' || i == 'N' || i == 'P' || i == ' ') ? 1 : 0) +
                    (int32_t(i) == end ? 2 : 0);
      LogitRow row{.choice = TokenChoice(scores), .tokens = tokens, .prompt_tokens = 1};
      std::vector<LogitRow*> rows{&row};
      step->apply(rows);
      tokens.push_back(row.choice.choose(0.5));
    }
    ASSERT_EQ(tokens.back(), end);
    tokens.pop_back();
    const std::string text = tokenizer->decode(std::span(tokens).subspan(1));
    EXPECT_TRUE(tree_prefix(text, {"S", "NP"}).whole) << text;
  }
}

// However few tokens are left, they close what is open; too few for any tree are refused.
TEST(TreeStep, BracketsCloseBeforeTheLimit) {
  const auto tokenizer = make_tokenizer({.type = "bytes"}, {});
  const int32_t end = *tokenizer->specials().eos;
  for (const std::vector<std::string>& labels : {std::vector<std::string>{"S", "NP"}, std::vector<std::string>{}}) {
    const auto step = tree_step(*tokenizer, {end}, labels);
    for (int64_t limit = 6; limit <= 40; ++limit) {
      std::vector<int32_t> tokens{end};
      std::exception_ptr error;
      for (int64_t left = limit; left > 0 && !error && (tokens.size() == 1 || tokens.back() != end); --left) {
        std::vector<float> scores(size_t(tokenizer->vocab_size()));
        for (size_t i = 0; i < scores.size(); ++i)
          scores[i] = float(random_uniform({.seed = uint64_t(limit), .purpose = 7}, uint64_t(left) * 1000 + i)) +
                      (i == '(' || i == 'S' || i == 'N' || i == 'P' || i == ' ' ? 1 : 0);
        LogitRow row{.choice = TokenChoice(scores), .tokens = tokens, .prompt_tokens = 1, .tokens_left = left};
        LogitRow* const rows[] = {&row};
        const LogitSteps chain{step};
        const LogitSteps* const chains[] = {&chain};
        run_steps(rows, chains);
        error = row.error;
        if (!error) tokens.push_back(row.choice.choose(0.5));
      }
      const bool fits = limit >= 7;  // (S a )S
      EXPECT_EQ(bool(error), !fits) << limit;
      if (!fits) continue;
      if (tokens.back() == end) tokens.pop_back();
      const std::string text = tokenizer->decode(std::span(tokens).subspan(1));
      EXPECT_TRUE(tree_prefix(text, labels).whole) << limit << ": " << text;
    }
  }
}

}  // namespace
}  // namespace lithe

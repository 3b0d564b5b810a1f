#include "lithe/infer/prefix_tree.h"

#include <numeric>

#include "lithe/infer/decode_loop.h"
#include "tests/infer/infer_kit.h"

namespace lithe {
namespace {

std::vector<int32_t> text_from(int32_t first, int64_t count) {
  std::vector<int32_t> out(static_cast<size_t>(count));
  std::iota(out.begin(), out.end(), first);
  return out;
}

TEST(PrefixTree, FindsTheLongestBeginningThatLeavesAToken) {
  PrefixTree exact(4, false);
  EXPECT_FALSE(exact.find(text_from(0, 20)));
  exact.add(text_from(0, 4), 7, 100);
  exact.add(text_from(0, 12), 8, 300);
  EXPECT_EQ(exact.find(text_from(0, 20))->slot, 8);
  EXPECT_EQ(exact.find(text_from(0, 20))->tokens, 12);
  EXPECT_EQ(exact.find(text_from(0, 12))->slot, 7);  // 12 of 12 would leave nothing to read
  EXPECT_FALSE(exact.find(text_from(0, 4)));
  EXPECT_FALSE(exact.find(text_from(1, 20)));
  EXPECT_TRUE(exact.has(text_from(0, 4)));
  EXPECT_FALSE(exact.has(text_from(0, 8)));
  EXPECT_EQ(exact.bytes(), 400);
  exact.find(text_from(0, 20));
  EXPECT_EQ(exact.drop_oldest(), 7);
  EXPECT_EQ(exact.drop_oldest(), 8);
  EXPECT_FALSE(exact.drop_oldest());
  EXPECT_EQ(exact.entries(), 0);
  EXPECT_EQ(exact.bytes(), 0);

  PrefixTree forgets(4, true);
  EXPECT_TRUE(forgets.add(text_from(0, 4), 1, 10).empty());
  EXPECT_EQ(forgets.add(text_from(0, 12), 2, 30), std::vector<int64_t>{1});  // serves the shorter one, too
  EXPECT_EQ(forgets.find(text_from(0, 12))->slot, 2);
  EXPECT_EQ(forgets.find(text_from(0, 12))->tokens, 8);
  EXPECT_TRUE(forgets.has(text_from(0, 8)));
  EXPECT_EQ(forgets.bytes(), 30);
}

struct Answered {
  std::vector<int32_t> tokens;
  std::vector<double> log_probabilities;
  int64_t cached = 0;
};

// Prompts that begin alike in some places, some of them at once.
std::vector<Answered> answers(const Model& model, int64_t prefix_bytes, std::optional<DType> cache,
                              GenerateTimes* times) {
  DecodeLoop loop(model,
                  {.slots = 3, .longest = 120, .cache = cache, .prefix_bytes = prefix_bytes, .prefix_block = 16});
  std::vector<Answered> out(40);
  for (size_t i = 0; i < out.size(); ++i) {
    std::vector<int32_t> tokens = text_from(int32_t(i % 3) * 40, 10 + int64_t(i * 13) % 80);
    if (i % 4 == 0) tokens.back() = 250;
    DecodeRequest request{.tokens = std::move(tokens), .config = settings(i % 2 == 0, 6)};
    request.config.prefill_tokens = i % 7 == 6 ? 5 : 16;  // read in other pieces, nothing is shared
    request.config.seed = int64_t(i);
    request.log_probabilities = true;
    request.on_done = [&out, i](DecodeResult&& result) {
      out[i] = {result.tokens, result.log_probabilities, result.cached_tokens};
    };
    loop.submit(std::move(request));
    if (i % 5 == 4)
      while (loop.step()) {
      }
  }
  while (loop.step()) {
  }
  *times = loop.times();
  return out;
}

// The same bits with and without, for states that share pages, that are copied, and that keep a window.
TEST(PrefixCache, AnswersAreTheSame) {
  struct Case {
    std::unique_ptr<Model> model;
    std::optional<DType> cache;
  };
  std::vector<Case> cases;
  cases.push_back({byte_model("rotary", 128), {}});
  cases.push_back({byte_model("learned", 128), DType::i8});
  cases.push_back({byte_model("rotary", 128), DType::u8});
  cases.push_back({byte_model("none", 128, 4, 2, "retention"), {}});
  for (const Case& one : cases) {
    GenerateTimes none, some, few;
    const std::vector<Answered> want = answers(*one.model, 0, one.cache, &none);
    const std::vector<Answered> got = answers(*one.model, int64_t(1) << 30, one.cache, &some);
    const int64_t one_entry = one.model->state_bytes({96}, {}, one.cache);
    const std::vector<Answered> tight = answers(*one.model, 2 * one_entry, one.cache, &few);
    EXPECT_EQ(none.cached_tokens, 0);
    EXPECT_GT(some.cached_tokens, 300);
    EXPECT_GT(few.cached_tokens, 0);
    EXPECT_LE(few.prefix_bytes, 2 * one_entry);
    EXPECT_GE(some.prefixes, few.prefixes);
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_EQ(got[i].tokens, want[i].tokens) << i;
      EXPECT_EQ(got[i].log_probabilities, want[i].log_probabilities) << i;
      EXPECT_EQ(tight[i].tokens, want[i].tokens) << i;
      EXPECT_EQ(tight[i].log_probabilities, want[i].log_probabilities) << i;
      EXPECT_EQ(got[i].cached % 16, 0);
      if (i % 7 == 6) {
        EXPECT_EQ(got[i].cached, 0);
      }
    }
  }
}

}  // namespace
}  // namespace lithe

// Perplexity with carried states in place of windows.
#include <gtest/gtest.h>

#include "lithe/eval/held_out_text.h"
#include "lithe/eval/perplexity.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

std::vector<int32_t> document(int64_t n, uint64_t seed) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < n; ++i) ids.push_back(int32_t(random_below({.seed = seed}, uint64_t(i), 11)));
  return ids;
}
TokenStore text() {
  return TokenStore::from_documents({document(90, 1), document(1, 2), document(25, 3), document(140, 4)},
                                    {.vocab_size = 11, .begin_of_text = 0});
}
std::unique_ptr<Model> model_of(const std::string& mixer, const std::string& position = "rotary") {
  auto model = std::make_unique<Model>(
      kit::model_config(cat(
          "{vocab_size: 11, hidden_size: 16, max_position_embeddings: 64, num_hidden_layers: 2, position: ", position,
          ", mixer: ", mixer, ", ffn: {type: swiglu, intermediate_size: 24}}")),
      ModelOptions{.dtype = DType::f64, .compute = DType::f64, .seed = 3});
  kit::randomise(model->parameters(), 3, 0.6);
  return model;
}
EvalConfig carried(int64_t batch_tokens) {
  EvalConfig config;
  config.batch_tokens = batch_tokens;
  config.carry_state = true;
  return config;
}

// Two layers that see 5 tokens each reach 9: a window of 9 that moves by one token shows all of it.
TEST(CarriedPerplexity, IsThatOfSlidingWindowsOfTheSameContext) {
  const auto model = model_of("{type: attention, num_attention_heads: 2, field: {type: span, left: 4}}");
  EvalConfig windows;
  windows.context_length = 9;
  windows.stride = 1;
  const Perplexity slid = perplexity(*model, text(), windows, 32), whole = perplexity(*model, text(), carried(64), 32);
  EXPECT_EQ(slid.tokens, whole.tokens);
  EXPECT_NEAR(slid.loss(), whole.loss(), 1e-10);
}

TEST(CarriedPerplexity, DoesNotDependOnThePieces) {
  for (const char* mixer :
       {"{type: attention, num_attention_heads: 2, field: {type: span, left: 30}}", "{type: gru}",
        "{type: memory_attention, num_attention_heads: 2, memory: {type: snapshot, slots: 3, chunk: 4}}"}) {
    const auto model = model_of(mixer);
    std::vector<TextPiece> pieces[2];
    const Perplexity one = perplexity(*model, text(), carried(4096), 32, {}, &pieces[0]),
                     many = perplexity(*model, text(), carried(7), 32, {}, &pieces[1]);
    EXPECT_NEAR(one.loss(), many.loss(), 1e-10) << mixer;
    ASSERT_EQ(pieces[0].size(), pieces[1].size());
    for (size_t i = 0; i < pieces[0].size(); ++i) {
      EXPECT_EQ(pieces[0][i].tokens, pieces[1][i].tokens);
      EXPECT_NEAR(pieces[0][i].nll, pieces[1][i].nll, 1e-8);
    }
    const HeldOutText held_out(text(), 50);
    EXPECT_NEAR(held_out.score(*model, {})->loss, one.loss(), 1e-10);
  }
}

TEST(CarriedPerplexity, RefusesWindowsAndPositionsThatEnd) {
  const std::string mixer = "{type: attention, num_attention_heads: 2}";
  EvalConfig both = carried(64);
  both.stride = 4;
  EXPECT_NE(kit::coded_error_of([&] {
              perplexity(*model_of(mixer), text(), both, 32);
            }).find("2 eval: carry_state runs every document once"),
            std::string::npos);
  const auto limited = model_of(mixer, "learned");
  ASSERT_LT(limited->position_limit(), 140);
  EXPECT_NE(kit::coded_error_of([&] { perplexity(*limited, text(), carried(64), 32); }).find("2 eval: carry_state"),
            std::string::npos);
}

}  // namespace
}  // namespace lithe

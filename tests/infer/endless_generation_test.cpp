// Decoding without end: 100,000 tokens in a state that stays as it is.
#include <gtest/gtest.h>

#include "lithe/base/threads.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

// The most and the least bytes of decode state that the ledger had, measured every 1,000 tokens from the second
// thousand.
std::pair<int64_t, int64_t> held(const std::string& mixer, int64_t tokens) {
  set_threads(1);
  const Model model(
      kit::model_config(cat("{vocab_size: 11, hidden_size: 8, max_position_embeddings: 64, num_hidden_layers: "
                            "1, position: rotary, mixer: ",
                            mixer, ", ffn: {type: relu, intermediate_size: 8}}")),
      {});
  const NoGrad no_grad;
  const int64_t before = ledger(Device::cpu).current(MemoryClass::decode);
  const auto state = model.make_state(1, tokens);
  const Tensor ids = kit::random_ids(1000, 11, 3);
  std::pair<int64_t, int64_t> out{0, INT64_MAX};
  for (int64_t t = 0; t < tokens; ++t) {
    kit::forward(model, ids.slice(t % 1000, t % 1000 + 1), model.continue_sequences(*state, {1}), state.get());
    if (t < 1000 || t % 1000 != 999) continue;
    const int64_t now = ledger(Device::cpu).current(MemoryClass::decode) - before;
    out = {std::max(out.first, now), std::min(out.second, now)};
    EXPECT_EQ(state->bytes(), model.state_bytes({t + 1}));
  }
  return out;
}

// oracle: infer.kv_evict, mem.window
TEST(EndlessGeneration, AWindowAndSinksTakeTheSameBytesAfter100000Tokens) {
  const auto [most, least] = held(
      "{type: attention, num_attention_heads: 2, field: {type: union, fields: [{type: span, left: 63}, {type: global, "
      "tokens: 4}]}}",
      100000);
  EXPECT_LE(most, (64 + 64 + 63 + 64) * 2 * 8 * 4);  // the window, the sinks' page, and pages that are begun
  EXPECT_GT(least, 0);
}

TEST(EndlessGeneration, MemoriesTakeTheSameBytesAfter5000Tokens) {
  for (const char* memory : {"avg_pool", "{type: snapshot, slots: 4, chunk: 10}", "{type: priority_queue, slots: 6}",
                             "{type: priority_queue, slots: 8, score: usage, sinks: 2, recent: 3}",
                             "{type: continuous, basis: 4, refit: 10}",
                             "{type: short_long, window: 5, long: {type: snapshot, slots: 4, chunk: 10}}"}) {
    const auto [most, least] =
        held(cat("{type: memory_attention, num_attention_heads: 2, memory: ", memory, "}"), 5000);
    EXPECT_LE(most, least + 64 * 4) << memory;  // thousands are whole chunks
  }
}

}  // namespace
}  // namespace lithe

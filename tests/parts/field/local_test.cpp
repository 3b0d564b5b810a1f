#include <gtest/gtest.h>

#include "tests/parts/field/sparse_kit.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

FieldAttention two_heads(const std::string& field, bool causal = true) { return FieldAttention(field, causal, 2); }

// oracle: attn.local_window
TEST(LocalField, AWindowAsLongAsTheTextIsFullAttention) {
  const Tensor x = kit::normal({7, 8}, DType::f64, 1);
  for (const bool causal : {true, false}) {
    const Tensor full = two_heads("full", causal)(x);
    EXPECT_LE(kit::largest_difference(two_heads("{type: local, window: 7}", causal)(x), full), 1e-12);
    EXPECT_LE(kit::largest_difference(two_heads("{type: local, window: [9, 7]}", causal)(x), full), 1e-12);
    EXPECT_GT(kit::largest_difference(two_heads("{type: local, window: [9, 6]}", causal)(x), full), 1e-6);
  }
}

// oracle: attn.local_window
TEST(LocalField, AWindowOfOneGivesTheTokensOwnValue) {
  const FieldAttention local = two_heads("{type: local, window: 1}");
  const Tensor x = kit::normal({5, 8}, DType::f64, 1);
  const Tensor whole = local(x);
  for (int64_t i = 0; i < 5; ++i)
    EXPECT_LE(kit::largest_difference(local(clone(x.slice(i, i + 1))), clone(whole.slice(i, i + 1))), 1e-12);
}

// Weights by head: head h sees its own number of tokens, and all of them.
// oracle: attn.local_window
TEST(LocalField, EachHeadSeesItsOwnWindow) {
  const FieldAttention local = two_heads("{type: local, window: [2, 4]}");
  const int64_t T = 6;
  const MixerMaps maps = local.mixer->maps({Var(kit::normal({T, 8}, DType::f64, 1)), Sequences::single(T), nullptr});
  for (int64_t head = 0; head < 2; ++head)
    for (int64_t i = 0; i < T; ++i)
      for (int64_t j = 0; j < T; ++j) {
        const bool seen = j <= i && j > i - (head == 0 ? 2 : 4);
        EXPECT_EQ(value_at(maps.weights, (head * T + i) * T + j) > 0, seen) << head << " " << i << " " << j;
      }
}

// Older rows leave the cache, and decoding equals the whole.
// oracle: attn.local_window
TEST(LocalField, TheCacheKeepsWhatIsSeenInWholePages) {
  for (const std::string window : {"40", "[40, 7]"}) {
    const FieldAttention local = two_heads("{type: local, window: " + window + "}");
    const int64_t T = 300;
    const Tensor x = kit::normal({T, 8}, DType::f64, 1), whole = local(x);
    const auto state = local.mixer->make_state({1, T, DType::f64, Device::cpu});
    int64_t most = 0;
    for (int64_t at = 0; at < T;) {
      const int64_t n = at == 0 ? 130 : 1;  // a prefill that is longer than the window, then tokens
      const Tensor rows = clone(x.slice(at, at + n));
      const Tensor y = local.mixer->forward({Var(rows), Sequences({0, n}, {at}), state.get()}).value();
      EXPECT_LE(kit::largest_difference(y, clone(whole.slice(at, at + n))), 1e-12) << at;
      at += n;
      EXPECT_EQ(state->bytes(), local.mixer->state_bytes({at}, DType::f64));
      most = std::max(most, state->bytes());
    }
    EXPECT_LE(most, (40 + 63) * 2 * 8 * 8);  // keys and values of less than the window and a page
    EXPECT_FALSE(state->truncates());
    EXPECT_THROW(state->truncate(0, 100), Error);  // what token 100 saw is given back
    state->truncate(0, 299);
    EXPECT_EQ(local.mixer->state_bytes({299}, DType::f64), state->bytes());
  }
}

TEST(LocalField, RefusesWindowsThatFitNoHeads) {
  EXPECT_EQ(kit::coded_error_of([] { two_heads("{type: local, window: [1, 2, 3]}"); }),
            "2 local: window has 3 numbers; give one, or one for each of the 2 query heads");
  EXPECT_EQ(kit::coded_error_of([] { two_heads("{type: local, window: 0}"); }),
            "2 local: window must be at least 1, got 0");
}

}  // namespace
}  // namespace lithe

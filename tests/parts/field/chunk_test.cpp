#include "tests/parts/field/sparse_kit.h"

namespace lithe {
namespace {

// oracle: sparse.chunk
TEST(ChunkField, TokensMeetInTheirChunk) {
  EXPECT_EQ(FieldAttention("{type: chunk, size: 4}").count(8), 20);
  EXPECT_EQ(FieldAttention("{type: chunk, size: 4}", false).count(8), 32);
  expect_same_field("{type: chunk, size: 9}", "full", true);
  expect_same_field("{type: chunk, size: 9}", "full", false);
}

// oracle: sparse.chunk
TEST(ChunkField, EachChunkIsATextOfItsOwn) {
  FieldAttention chunk("{type: chunk, size: 4}"), full("full");
  const Tensor x = kit::normal({11, 8}, DType::f64, 1), whole = chunk(x);
  for (int64_t at = 0; at < 11; at += 4) {
    const int64_t end = std::min<int64_t>(at + 4, 11);
    EXPECT_LE(kit::largest_difference(full(clone(x.slice(at, end))), clone(whole.slice(at, end))), 1e-12);
  }
}

TEST(ChunkField, Decodes) { expect_decodes("{type: chunk, size: 20}"); }

// oracle: sparse.chunk
TEST(ChunkField, TheCacheIsClearedAtBoundaries) {
  expect_decodes("{type: chunk, size: 7}");
  FieldAttention chunk("{type: chunk, size: 7}");
  for (const int64_t tokens : {0, 6, 7, 8, 70, 73})
    EXPECT_EQ(chunk.mixer->state_bytes({tokens}, DType::f64), tokens % 7 * 2 * 8 * 8) << tokens;
}

// Spans of a column: each is a text of its own, and a negative number stands alone.
// oracle: sparse.chunk
TEST(ChunkField, SpansComeFromAColumn) {
  const std::vector<int32_t> spans{0, 0, 4, 4, 4, -1, -1, 2};
  const std::vector<std::pair<int64_t, int64_t>> chunks{{0, 2}, {2, 5}, {5, 6}, {6, 7}, {7, 8}};
  Pass pass;
  pass.give("sentences", tensor_of({8}, spans));
  for (const bool causal : {true, false}) {
    FieldAttention chunk("{type: chunk, spans: sentences}", causal), full("full", causal);
    const Tensor x = kit::normal({8, 8}, DType::f64, 1),
                 whole = chunk.mixer->forward({Var(x), Sequences::single(8), nullptr, pass}).value();
    for (const auto& [begin, end] : chunks)
      EXPECT_LE(kit::largest_difference(full(clone(x.slice(begin, end))), clone(whole.slice(begin, end))), 1e-12);
    EXPECT_THROW(chunk(x), Error);  // without the column
  }
}

// Tokens that come one by one, or two at once, see the chunk that the state's numbers say.
// oracle: sparse.chunk
TEST(ChunkField, SpansDecode) {
  const std::vector<int32_t> spans{0, 0, 4, 4, 4, -1, -1, 2};
  FieldAttention chunk("{type: chunk, spans: sentences}");
  Pass all;
  all.give("sentences", tensor_of({8}, spans));
  const Tensor x = kit::normal({8, 8}, DType::f64, 1),
               whole = chunk.mixer->forward({Var(x), Sequences::single(8), nullptr, all}).value();
  const auto state = chunk.mixer->make_state({1, 8, DType::f64, Device::cpu});
  for (int64_t at = 0; at < 8;) {
    const int64_t n = at == 3 ? 2 : 1;
    Pass pass;
    pass.give("sentences", tensor_of({n}, std::span<const int32_t>(spans.data() + at, size_t(n))));
    const Sequences next({0, n}, {at});
    const Tensor y = chunk.mixer->forward({Var(clone(x.slice(at, at + n))), next, state.get(), pass}).value();
    EXPECT_LE(kit::largest_difference(y, clone(whole.slice(at, at + n))), 1e-12) << at;
    at += n;
  }
}

TEST(ChunkField, SpansHaveNoSizeAndNoCrossForm) {
  EXPECT_THROW(FieldAttention("{type: chunk, spans: sentences, size: 4}"), Error);
  EXPECT_THROW(FieldCrossing("{type: chunk, spans: sentences}"), Error);
}

}  // namespace
}  // namespace lithe

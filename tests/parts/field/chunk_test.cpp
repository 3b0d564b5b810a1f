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

}  // namespace
}  // namespace lithe

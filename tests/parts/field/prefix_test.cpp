#include <gtest/gtest.h>

#include "lithe/parts/common/pattern_field.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

// Text, a picture of two rows, one of three, text.
const std::vector<int32_t> kKinds{0, 1, 1, 0, 2, 2, 2, 0};

TEST(Prefix, RowsOfOnePictureSeeEachOther) {
  kit::Bench bench;
  const auto field = bench.make<Field>("prefix", {.causal = true, .num_attention_heads = 2});
  const Sequences rows = Sequences::single(8);
  Pass pass;
  pass.give("modality", tensor_of({8}, kKinds));
  const FieldInput in{.q = {}, .k = {}, .queries = rows, .pass = pass, .x = {}, .keys = {{0, 8, 0}}};
  const kernels::AttentionPattern pattern = field->pattern(in);
  ASSERT_TRUE(pattern.tiles);
  EXPECT_FALSE(pattern.mask.causal);
  const std::vector<int64_t> ends{1, 3, 3, 4, 7, 7, 7, 8};
  for (int64_t q = 0; q < 8; ++q)
    for (int64_t k = 0; k < 8; ++k)
      EXPECT_EQ(pattern.tiles->visits[0]->sees(q, k), k < ends[size_t(q)]) << q << " " << k;
}

TEST(Prefix, IsTheCausalFieldOfText) {
  kit::Bench bench;
  const auto field = bench.make<Field>("prefix", {.causal = true, .num_attention_heads = 2});
  const Sequences rows = Sequences::single(4);
  const FieldInput in{.q = {}, .k = {}, .queries = rows, .pass = Pass::nowhere(), .x = {}, .keys = {{0, 4, 0}}};
  EXPECT_TRUE(field->pattern(in).mask.causal);
  EXPECT_FALSE(field->pattern(in).tiles);
}

}  // namespace
}  // namespace lithe

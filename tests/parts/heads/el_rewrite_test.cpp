#include "tests/parts/heads/attention_bench.h"

namespace lithe {
namespace {

using kit::AttentionBench;

// oracle: infer.el_rewrite
TEST(ElRewrite, IsMha) {
  const Tensor x = kit::normal({5, 6}, DType::f64, 1);
  for (const char* more : {"", "attention_bias: true, output_bias: true", "head_dim: 5", "scale: sqrt_head_dim"})
    for (bool causal : {true, false}) {
      AttentionBench mha("mha", 6, 3, more, false, causal), el("el_rewrite", 6, 3, more, false, causal);
      kit::copy_values(el.bench.parameters(), mha.bench.parameters());
      EXPECT_EQ(kit::close(el(x), mha(x), 128), "") << more;
      EXPECT_EQ(el.parameters(), mha.parameters());
    }
}

TEST(ElRewrite, KeepsHalfTheBytes) {
  EXPECT_EQ(AttentionBench("el_rewrite").mixer->state_bytes({10, 3}, DType::bf16), 13 * 6 * 2);
  EXPECT_EQ(AttentionBench("mha").mixer->state_bytes({10, 3}, DType::bf16), 13 * 6 * 4);
}

TEST(ElRewrite, RefusesRotaryPositions) {
  try {
    AttentionBench("el_rewrite", 6, 3, "", true);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_NE(std::string(error.what()).find("rotary"), std::string::npos);
  }
}

}  // namespace
}  // namespace lithe

#include <gtest/gtest.h>

#include "tests/support/model_kit.h"

namespace lithe {
namespace {

ModelConfig rezero_config(const std::string& more) {
  return kit::model_config(
      "{hidden_size: 8, num_hidden_layers: 5, vocab_size: 11, max_position_embeddings: 9, norm: none, mixer: {type: "
      "attention, num_attention_heads: 2}}",
      more);
}

// oracle: block.norm_variants
TEST(ReZero, StartsAsTheIdentityAtAnyDepth) {
  const Model model(rezero_config("residual: rezero"), kit::kExact),
      none(rezero_config("residual: rezero, num_hidden_layers: 0"), kit::kExact);
  const kit::Batch batch = kit::random_batch({5, 3}, 11, 4);
  EXPECT_EQ(kit::bit_difference(kit::forward(model, batch).value(), kit::forward(none, batch).value()), "");
}

// oracle: block.norm_variants
TEST(ReZero, HasOneParameterASubLayerAndIsPreNormAtOne) {
  Model model(rezero_config("residual: rezero"), kit::kExact), pre(rezero_config("residual: pre"), kit::kExact);
  EXPECT_EQ(model.parameters().count(), pre.parameters().count() + 2 * 5);
  for (Parameter& p : model.parameters().all())
    if (p.name.ends_with("alpha")) set_value(p.master.value(), 0, 1);
  const kit::Batch batch = kit::random_batch({5, 3}, 11, 4);
  EXPECT_EQ(kit::bit_difference(kit::forward(model, batch).value(), kit::forward(pre, batch).value()), "");
}

}  // namespace
}  // namespace lithe

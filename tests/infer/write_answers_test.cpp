#include "lithe/infer/write_answers.h"

#include <gtest/gtest.h>

#include "lithe/data/features.h"
#include "lithe/objective/device_batch.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

// Each a picture of four patches and a text.
ModelInput prompts(const std::vector<std::vector<int32_t>>& texts, const std::vector<int>& pictures) {
  Batch out{.offsets = {0}};
  for (size_t b = 0; b < texts.size(); ++b) {
    out.offsets.push_back(out.rows());
    std::vector<float> numbers;
    for (int i = 0; i < 48; ++i) numbers.push_back(float((i * 37 + pictures[b] * 11) % 17) / 8 - 1);
    add_feature_rows(out, "image", 4, 12, numbers);
    out.tokens.insert(out.tokens.end(), texts[b].begin(), texts[b].end());
    out.offsets.back() = out.rows();
  }
  return to_device(out, Device::cpu).input;
}

TEST(WriteAnswers, DoNotDependOnEachOther) {
  Model model(
      kit::model_config("{architecture: decoder, hidden_size: 16, num_hidden_layers: 2, vocab_size: 11, "
                        "max_position_embeddings: 12, position: rotary, mixer: {type: attention, "
                        "num_attention_heads: 2, field: prefix}, modalities: {image: {type: patches, height: 4, "
                        "patch_size: 2}}}"),
      kit::kExact);
  kit::randomise(model.parameters(), 5);
  const auto both = write_answers(model, prompts({{1, 5, 2}, {1, 7, 8, 2}}, {1, 2}), 2, 6);
  EXPECT_EQ(write_answers(model, prompts({{1, 5, 2}}, {1}), 2, 6), std::vector<std::vector<int32_t>>{both[0]});
  EXPECT_EQ(write_answers(model, prompts({{1, 7, 8, 2}}, {2}), 2, 6), std::vector<std::vector<int32_t>>{both[1]});
  EXPECT_LE(both[0].size(), 5u);  // of twelve positions seven are taken
  EXPECT_LE(both[1].size(), 4u);
  EXPECT_EQ(write_answers(model, prompts({{1}}, {1}), 2, 0), std::vector<std::vector<int32_t>>(1));
}

}  // namespace
}  // namespace lithe

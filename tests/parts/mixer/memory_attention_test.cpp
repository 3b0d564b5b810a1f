#include "tests/parts/memory/memory_kit.h"

namespace lithe {
namespace {

TEST(MemoryAttention, RefusesPositionsThatNeedADistance) {
  const std::string error = kit::coded_error_of([] {
    Model(kit::model_config(
              "{vocab_size: 9, hidden_size: 8, max_position_embeddings: 16, num_hidden_layers: 1, position: alibi, "
              "mixer: {type: memory_attention, num_attention_heads: 2}}"),
          {.device = Device::meta});
  });
  EXPECT_NE(error.find("2 model: memory_attention has pairs without a place"), std::string::npos) << error;
}

TEST(MemoryAttention, RefusesEncoders) {
  const std::string error = kit::coded_error_of([] {
    Model(
        kit::model_config(
            "{architecture: encoder, max_position_embeddings: 16, vocab_size: 9, hidden_size: 8, num_hidden_layers: 1, "
            "mixer: {type: memory_attention, num_attention_heads: 2}, head: mlm}"),
        {.device = Device::meta});
  });
  EXPECT_EQ(error.substr(0, 2), "2 ") << error;
}

TEST(MemoryAttention, TheStateCanOnlyBeForgottenWhole) {
  MemoryAlone memory("{type: snapshot, slots: 2, chunk: 2}");
  const NoGrad no_grad;
  const auto state = memory.mixer->make_state({.sequences = 1, .capacity = 16, .dtype = DType::f64});
  memory.mixer->forward({rows(5), Sequences::single(5), state.get()});
  EXPECT_NE(kit::coded_error_of([&] { state->truncate(0, 3); }).find("1 memory: the memory of 5 tokens cannot go back"),
            std::string::npos);
  state->truncate(0, 0);
  EXPECT_EQ(state->bytes(), 0);
  EXPECT_LT(kit::largest_difference(memory.mixer->forward({rows(4), Sequences::single(4), state.get()}).value(),
                                    memory(rows(4))),
            1e-12);
}

}  // namespace
}  // namespace lithe

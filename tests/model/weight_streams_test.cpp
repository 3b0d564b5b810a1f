#include "lithe/model/initial_weights.h"

#include <gtest/gtest.h>

#include "lithe/model/pending_weights.h"
#include "lithe/model/safetensors.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"
#include "tests/support/process.h"

namespace lithe {
namespace {

constexpr const char* kStreamed =
    "{vocab_size: 29, hidden_size: 16, num_hidden_layers: 3, max_position_embeddings: 32, position: learned, mixer: "
    "{type: attention, num_attention_heads: 2}, ffn: {type: swiglu, intermediate_size: 24}}";

// Parts that write more than the initialiser does, and models whose layers do not stand alone.
const std::vector<std::string> kKinds{
    "tie_word_embeddings: false, init: {type: xavier_uniform}",
    "init: {type: lipschitz}, mixer: {type: attention, num_attention_heads: 2, heads: mhe_mul}",
    "mixer: {type: ssm}",
    "mixer: {type: dense_ssm}",
    "mixer: {type: selective_ssm}",
    "mixer: {type: moving_average}",
    "mixer: {type: attention, num_attention_heads: 2, field: {type: kmeans, clusters: 2}}",
    "share: {layers: all}",
    "embedding_norm: true, residual: post, norm: layer",
    "ffn: {type: moe, num_experts: 3, moe_intermediate_size: 8}",
    "stack: {type: reversible}",
    "architecture: encoder, head: mlm"};

// The same bytes, whatever the model: part by part as whole.
TEST(InitialWeights, AreThoseOfAModelInMemory) {
  const kit::Scratch scratch;
  for (const std::string& kind : kKinds) {
    const ModelConfig config = [&] {
      try {
        return kit::model_config(kStreamed, kind);
      } catch (const Error& error) {
        ADD_FAILURE() << kind << ": " << error.what();
        return kit::model_config(kStreamed);
      }
    }();
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const ModelOptions options{.dtype = dtype, .compute = dtype, .seed = 5, .trainable = true};
      const Path whole = scratch.path() / "whole", parts = scratch.path() / "parts";
      save_weights(Model(config, options), whole);
      save_initial_weights(config, options, parts);
      EXPECT_EQ(read_file(parts), read_file(whole)) << kind << ", " << dtype;
    }
  }
}

TEST(InitialWeights, AreInMemoryALayerAtATime) {
  const ModelConfig config = kit::model_config(
      kStreamed, "num_hidden_layers: 12, hidden_size: 64, ffn: {type: swiglu, intermediate_size: 96}");
  const int64_t bytes = 4 * Model(config, {.device = Device::meta}).parameters().count();
  const kit::Scratch scratch;
  ledger(Device::cpu).reset_peak();
  const int64_t before = ledger(Device::cpu).current();
  save_initial_weights(config, {}, scratch.path() / "model.safetensors");
  EXPECT_LT(ledger(Device::cpu).peak() - before, bytes / 8);
  EXPECT_EQ(ledger(Device::cpu).current(), before);
}

TEST(PendingWeights, ReadWhatTheModelHas) {
  const ModelConfig config = kit::model_config(kStreamed);
  const Model model(config, {.seed = 3}), outline(config, {.device = Device::meta}),
      rounded(config, {.device = Device::meta, .dtype = DType::bf16});
  const kit::Scratch scratch;
  const Path file = scratch.path() / "model.safetensors";
  save_weights(model, file);
  for (const bool as_stored : {false, true}) {
    const auto read = weights_in(file, rounded, "test", as_stored);
    for (const Parameter& p : model.parameters().all()) {
      const DType wanted = as_stored || p.master.shape().rank() < 2 ? DType::f32 : DType::bf16;
      const Tensor numbers = read.at(p.name).read();
      EXPECT_EQ(numbers.dtype(), wanted) << p.name;
      EXPECT_EQ(kit::bit_difference(numbers, convert(p.master.value(), wanted)), "") << p.name;
    }
  }
  const Model other(kit::model_config(kStreamed, "num_hidden_layers: 2"), {.device = Device::meta});
  EXPECT_NE(kit::error_of([&] { weights_in(file, other, "test"); }).find("that this model does not"),
            std::string::npos);
  const Model larger(kit::model_config(kStreamed, "num_hidden_layers: 4"), {.device = Device::meta});
  EXPECT_NE(kit::error_of([&] { weights_in(file, larger, "test"); }).find("has no tensor 'layers.3."),
            std::string::npos);
}

}  // namespace
}  // namespace lithe

#include <gtest/gtest.h>

#include "lithe/ops/linear.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

struct Mlp {
  Mlp(int64_t d, const std::string& options, bool causal = true)
      : mixer(bench.make<Mixer>("mlp", {.hidden_size = d, .max_position_embeddings = 9, .causal = causal}, options)) {
    kit::randomise(bench.parameters(), 2);
  }
  Tensor operator()(const Tensor& x) const {
    return mixer->forward({Var(x), Sequences::single(x.rows()), nullptr}).value();
  }
  kit::Bench bench;
  std::unique_ptr<Mixer> mixer;
};

std::string refusal(int64_t d, const std::string& options) {
  try {
    Mlp(d, options);
  } catch (const Error& error) {
    return cat(int(error.code()), " ", error.what());
  }
  return "accepted";
}

// oracle: decon.mlp
TEST(MlpMixer, IsTheGatedProductOfItsMatrices) {
  Mlp mixer(6, "{attention_bias: true, output_bias: true}");
  const Tensor x = kit::normal({4, 6}, DType::f64, 1);
  const auto map = [&](const std::string& name, const Var& in) {
    return linear(in, Var(mixer.bench["part." + name + ".weight"]), Var(mixer.bench["part." + name + ".bias"]));
  };
  const Var gate = activate(kernels::Activation::silu, map("gate", x)), up = map("up", x);
  Tensor product = empty_like(up.value());
  for (int64_t i = 0; i < product.numel(); ++i)
    set_value(product, i, value_at(gate.value(), i) * value_at(up.value(), i));
  EXPECT_EQ(kit::close(mixer(x), map("output", map("down", product)).value(), 32), "");
}

// oracle: decon.mlp
TEST(MlpMixer, TokensAreIndependentAndMayBePermuted) {
  for (const std::string options : {"{}", "{match: wide, output: none}"}) {
    const Mlp mixer(6, options);
    const Tensor x = kit::normal({5, 6}, DType::f64, 1), y = mixer(x);
    Tensor changed = clone(x);
    for (int64_t c = 0; c < 6; ++c) set_value(changed, 2 * 6 + c, 7);
    EXPECT_EQ(kit::changed_rows(y, mixer(changed)), std::vector<int64_t>{2});
    const std::vector<int64_t> order{3, 0, 4, 1, 2};
    EXPECT_EQ(kit::bit_difference(mixer(kit::rows_of(x, order)), kit::rows_of(y, order)), "");
  }
}

// oracle: decon.mlp
TEST(MlpMixer, HasTheParametersOfAttention) {
  const auto count = [](int64_t d, const std::string& mixer, const std::string& options) {
    kit::Bench bench;
    bench.make<Mixer>(mixer, {.hidden_size = d, .max_position_embeddings = 9}, options);
    return bench.parameters().count();
  };
  for (const int64_t d : {6, 12, 24}) {
    EXPECT_EQ(count(d, "attention", "{num_attention_heads: 3}"), 4 * d * d);
    EXPECT_EQ(count(d, "mlp", "{}"), 4 * d * d);
    EXPECT_EQ(count(d, "mlp", "{match: wide, output: none}"), 4 * d * d);
    EXPECT_EQ(count(d, "attention", "{num_attention_heads: 3, attention_bias: true}"), 4 * d * d + 3 * d);
    EXPECT_EQ(count(d, "mlp", "{attention_bias: true}"), 4 * d * d + 3 * d);
  }
}

// oracle: decon.mlp
TEST(MlpMixer, PerplexityDoesNotDependOnTheContext) {
  // The rows of a model of such layers are functions of their token alone, wherever it stands and whatever came before.
  const Model model(
      kit::model_config("{vocab_size: 9, hidden_size: 12, num_hidden_layers: 2, max_position_embeddings: 20, "
                        "position: rotary, mixer: mlp}"),
      {.dtype = DType::f64, .compute = DType::f64});
  const Tensor text = kit::random_ids(16, 9, 3);
  const Tensor whole = kit::forward(model, text, Sequences::single(16)).value();
  for (const int64_t context : {1, 4, 8}) {
    std::vector<int64_t> offsets{0};
    while (offsets.back() < 16) offsets.push_back(offsets.back() + context);
    EXPECT_EQ(kit::bit_difference(kit::forward(model, text, Sequences(offsets)).value(), whole), "") << context;
  }
}

// oracle: decon.mlp
TEST(MlpMixer, KeepsNothingAndMayForgetAnything) {
  const Mlp mixer(6, "{}");
  const auto state = mixer.mixer->make_state({2, 4, DType::f64, Device::cpu});
  mixer.mixer->forward({Var(kit::normal({3, 6}, DType::f64, 1)), Sequences({0, 2, 3}), state.get()});
  EXPECT_EQ(state->bytes(), 0);
  EXPECT_EQ(mixer.mixer->state_bytes({2, 1}, DType::bf16), 0);
  state->truncate(0, 1);
  EXPECT_THROW(state->truncate(0, 2), Error);
  mixer.mixer->forward({Var(kit::normal({1, 6}, DType::f64, 1)), Sequences({0, 1, 1}, {1, 1}), state.get()});
}

// oracle: decon.mlp
TEST(MlpMixer, ReportsTheIdentityMap) {
  const Mlp mixer(6, "{}");
  const MixerMaps maps = mixer.mixer->maps({Var(kit::normal({3, 6}, DType::f64, 1)), Sequences::single(3), nullptr});
  EXPECT_EQ(maps.heads, 1);
  EXPECT_EQ(kit::values(maps.weights), (std::vector<double>{1, 0, 0, 0, 1, 0, 0, 0, 1}));
  EXPECT_FALSE(maps.logits.defined());
}

// oracle: decon.mlp
TEST(MlpMixer, RefusesWidthsThatAreNotWhole) {
  EXPECT_EQ(
      refusal(896, "{match: wide, output: none}"),
      "2 mlp: match wide needs a width 4/3 hidden_size that is whole: hidden_size 896 must be a multiple of 3, or "
      "use match: qkv");
  EXPECT_EQ(refusal(6, "{match: wide}"),
            "2 mlp: match wide has no output projection: set output: none and output_bias: false, got output dense");
  EXPECT_EQ(refusal(6, "{match: wide, output: none}"), "accepted");
}

}  // namespace
}  // namespace lithe

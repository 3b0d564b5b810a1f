#include "tests/parts/field/sparse_kit.h"

namespace lithe {
namespace {

// Equal logits, so that the weights are the prior's.
std::vector<double> weights(const std::string& field, bool causal, int64_t T) {
  FieldAttention attention(field, causal);
  const Tensor q = attention.bench["part.heads.q.weight"];
  for (int64_t i = 0; i < q.numel(); ++i) set_value(q, i, 0);
  const MixerMaps maps =
      attention.mixer->maps({Var(kit::normal({T, 8}, DType::f64, 1)), Sequences::single(T), nullptr});
  std::vector<double> out;
  for (int64_t i = 0; i < T * T; ++i) out.push_back(value_at(maps.weights, i));
  return out;
}

// oracle: attn.local_prior_add, attn.alibi
TEST(LocalPrior, WorkedNumbers) {
  const auto linear = weights(cat("{type: local_prior, distance: linear, gamma: ", std::log(2.0), "}"), false, 3);
  const double want[] = {4. / 7, 2. / 7, 1. / 7, .25, .5, .25};
  for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(linear[i], want[i], 1e-6) << i;
  const auto gauss = weights("{type: local_prior, sigma: 1}", false, 3);
  EXPECT_NEAR(gauss[0], 0.574097, 1e-6);
  EXPECT_NEAR(gauss[1], 0.348207, 1e-6);
  EXPECT_NEAR(gauss[2], 0.077696, 1e-6);
}

// oracle: attn.local_prior_add, attn.local_prior_mix, attn.local_prior_mul
TEST(LocalPrior, NothingOfItIsPlainAttention) {
  for (const bool causal : {true, false})
    for (const char* options : {"gamma: 0", "use: multiply, gamma: 0", "use: mix, beta: 0"})
      expect_same_field(cat("{type: local_prior, ", options, "}"), "full", causal);
  expect_same_field("{type: local_prior, use: multiply, renormalise: true}", "{type: local_prior}", true);
}

// oracle: attn.local_prior_add
TEST(LocalPrior, AStrongOneLeavesTheTokenItself) {
  expect_same_field("{type: local_prior, gamma: 1.0e6}", "{type: local, window: 1}", false);
  expect_same_field("{type: local_prior, use: multiply, gamma: 1.0e6, renormalise: true}", "{type: local, window: 1}",
                    true);
}

// oracle: attn.local_prior_mix
TEST(LocalPrior, AMixtureIsLinearInItsShareAndTheWholePriorSeesNoContent) {
  const Tensor x = kit::normal({7, 8}, DType::f64, 1);
  const Tensor none = FieldAttention("{type: local_prior, use: mix, beta: 0}")(x),
               half = FieldAttention("{type: local_prior, use: mix, beta: 0.5}")(x),
               all = FieldAttention("{type: local_prior, use: mix, beta: 1}")(x);
  for (int64_t i = 0; i < x.numel(); ++i)
    EXPECT_NEAR(value_at(half, i), (value_at(none, i) + value_at(all, i)) / 2, 1e-12);
  FieldAttention prior("{type: local_prior, use: mix, beta: 1}");
  const Tensor q = prior.bench["part.heads.q.weight"];
  for (int64_t i = 0; i < q.numel(); ++i) set_value(q, i, 2 * value_at(q, i));
  EXPECT_LE(kit::largest_difference(prior(x), all), 1e-12);
}

// Heads of one width take their weights from those of another, and whoever asks what a token receives takes the map
// itself.
TEST(LocalPrior, AMixtureFitsValuesOfAnyWidth) {
  const std::string mixed = "{type: attention, num_attention_heads: 2, field: {type: local_prior, use: mix}}";
  const Model model(
      kit::model_config(cat("{architecture: encoder, head: mlm, hidden_size: 8, num_hidden_layers: 2, vocab_size: 11, "
                            "max_position_embeddings: 9, ffn: {type: relu, intermediate_size: 6}, layers: {a: {mixer: ",
                            mixed,
                            "}, b: {mixer: {type: attention, num_attention_heads: 2, head_dim: 3, map: below}}}, "
                            "layer_types: [a, b]}")),
      kit::kExact);
  Pass pass;
  pass.want({Tap::Kind::received, 0});
  model.run({kit::ids_of({1, 2, 3, 4, 5}), Sequences({0, 3, 5})}, pass);
  const Tensor received = pass.get({Tap::Kind::received, 0}).value();
  EXPECT_NEAR(value_at(received, 0) + value_at(received, 1) + value_at(received, 2), 1, 1e-12);
  EXPECT_NEAR(value_at(received, 3) + value_at(received, 4), 1, 1e-12);
}

// oracle: attn.local_prior_mul
TEST(LocalPrior, MultipliedWeightsSumToLess) {
  FieldAttention attention("{type: local_prior, use: multiply, sigma: 2}");
  const int64_t T = 9;
  const MixerMaps maps =
      attention.mixer->maps({Var(kit::normal({T, 8}, DType::f64, 1)), Sequences::single(T), nullptr});
  const Tensor full = FieldAttention("full")
                          .mixer->maps({Var(kit::normal({T, 8}, DType::f64, 1)), Sequences::single(T), nullptr})
                          .weights;
  for (int64_t i = 0; i < T; ++i)
    for (int64_t j = 0; j <= i; ++j)
      EXPECT_NEAR(value_at(maps.weights, i * T + j),
                  value_at(full, i * T + j) * std::exp(-double((i - j) * (i - j)) / 8), 1e-6);
}

TEST(LocalPrior, Decodes) {
  for (const char* options : {"distance: linear", "width: predicted", "use: multiply", "use: mix, share: gate"})
    expect_decodes(cat("{type: local_prior, ", options, "}"), 90);
}

}  // namespace
}  // namespace lithe

// Next tokens: which models they train, and that the loss is the model's mean over them.
#include <cmath>

#include "tests/parts/objective_kit.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

TEST(Clm, RefusesModelsAndTokenizersThatItCannotTrain) {
  const auto bytes = make_byte_tokenizer();
  const auto bits = kit::words("md5", "bits");
  EXPECT_EQ(kit::refusal("clm", "{}", {*bytes}), "no error");
  kit::expect_refused("clm", "{architecture: encoder}", {*bytes}, "needs architecture decoder");
  kit::expect_refused("clm", "{}", {*bits}, "these tokens have none");
  kit::expect_refused("clm", "{head: tag}", {*bytes}, "needs model.head lm");
}

TEST(Clm, TakesTheRowsOfATextAsTheyAre) {
  const std::shared_ptr<const Tokenizer> bytes = make_byte_tokenizer();
  const Batch plain{.tokens = {1, 2, 3}, .labels = {2, 3, 4}, .offsets = {0, 3}};
  EXPECT_EQ(kit::learning(plain, "clm", bytes)->batch(3, 5), plain);
  EXPECT_EQ(kit::objective("clm")->predicted_rows(8), 0);
  EXPECT_TRUE(kit::objective("clm")->predicts_next());
}

// oracle: train.nll
TEST(Clm, TheLossIsTheSumOfTheNegativeLogLikelihoods) {
  const Model model(kit::model_config("{vocab_size: 7, hidden_size: 8, num_hidden_layers: 1, max_position_embeddings: "
                                      "8, mixer: {type: attention, num_attention_heads: 2}}"),
                    {.dtype = DType::f64, .compute = DType::f64});
  const NoGrad no_grad;
  const std::vector<int32_t> labels{2, -1, 4};
  const Sequences sequences(std::vector<int64_t>{0, 3});
  const Rows rows = kit::run(model, tensor_of({3}, std::vector<int32_t>{1, 2, 3}), sequences);
  const Tensor logits = model.logits(rows).value();
  double expected = 0;
  for (int64_t row = 0; row < 3; ++row) {
    if (labels[size_t(row)] < 0) continue;
    double sum = 0;
    for (int64_t c = 0; c < 7; ++c) sum += std::exp(value_at(logits, row * 7 + c));
    expected += std::log(sum) - value_at(logits, row * 7 + labels[size_t(row)]);
  }
  LossSums sums;
  const Pass pass;
  const ModelInput input{};
  const Var loss = kit::objective("clm")->loss(
      {model, rows, pass, input}, {.labels = tensor_of({3}, labels), .predicted = {}}, {.scale = 0.5, .sums = &sums});
  EXPECT_NEAR(value_at(loss.value(), 0), 0.5 * expected, 1e-12 * expected);
  EXPECT_NEAR(sums.nll, expected, 1e-12 * expected);
  EXPECT_EQ(sums.labels, 2);
}

}  // namespace
}  // namespace lithe

// Queries, keys and attention weights as who learns from them sees them: with gradients, of every sequence.
#include "lithe/objective/objective.h"
#include "lithe/ops/basic.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

Model model_of(const std::string& more = "") {
  return Model(
      kit::model_config("{vocab_size: 11, hidden_size: 8, num_hidden_layers: 2, max_position_embeddings: 16, "
                        "position: rotary, mixer: {type: attention, num_attention_heads: 2, heads: {type: gqa, "
                        "num_key_value_heads: 1}}, ffn: {type: relu, intermediate_size: 6}}",
                        more),
      kit::kTrainable);
}

const kit::Batch& two() {
  static const kit::Batch batch = kit::random_batch({5, 3}, 11, 4);
  return batch;
}

std::vector<Var> taps(const Model& model) {
  Pass pass;
  pass.want(Tap::Kind::queries);
  pass.want({Tap::Kind::keys, 1});
  pass.want({Tap::Kind::map, 1});
  model.run({two().ids, two().sequences}, pass);
  EXPECT_FALSE(pass.get({Tap::Kind::keys, 0}).defined());
  return {pass.get({Tap::Kind::queries, 0}), pass.get({Tap::Kind::queries, 1}), pass.get({Tap::Kind::keys, 1}),
          pass.get({Tap::Kind::map, 1, 0}), pass.get({Tap::Kind::map, 1, 1})};
}

TEST(Taps, HaveShapesAndGradients) {
  for (const bool recompute : {false, true}) {
    Model model = model_of();
    kit::randomise(model.parameters(), 3);
    model.set_recompute(recompute);
    {
      const Tape tape;
      const std::vector<Var> got = taps(model);
      EXPECT_EQ(got[0].shape(), Shape({8, 8}));
      EXPECT_EQ(got[2].shape(), Shape({8, 4}));
      EXPECT_EQ(got[3].shape(), Shape({2 * 5, 5}));
      EXPECT_EQ(got[4].shape(), Shape({2 * 3, 3}));
      for (int64_t row = 0; row < 10; ++row) {
        double sum = 0;
        for (int64_t c = 0; c < 5; ++c) sum += value_at(got[3].value(), row * 5 + c);
        EXPECT_NEAR(sum, 1, 1e-12);
        EXPECT_EQ(value_at(got[3].value(), row * 5 + 4) == 0, row % 5 < 4);
      }
    }
    std::string where;
    // What stands above the taps has no gradient.
    Parameters& all = model.parameters();
    const auto f = [&](const std::vector<Var>&) {
      std::vector<Var> out = taps(model);
      for (const Parameter& p : all.all())
        out.push_back(scale(sum(reshape(p.master, {p.master.shape().numel()})), 0.5));
      return out;
    };
    EXPECT_LT(kit::gradient_error(all, f, {}, &where), 1e-6) << where << " " << recompute;
  }
}

TEST(Taps, WeightsInTrainingAreThoseThatAreLookedAt) {
  Model model = model_of();
  kit::randomise(model.parameters(), 3);
  const kit::Batch alone = kit::alone(two(), 1);
  const Tensor looked = kit::maps(model, alone.ids)[1].weights;
  const Tape tape;
  EXPECT_LT(kit::largest_difference(taps(model)[4].value(), looked), 1e-6);
}

TEST(Taps, WhatNoLayerPutsIsRefused) {
  const Model model = model_of("mixer: mlp");
  Pass pass;
  pass.want(Tap::Kind::queries);
  const ModelInput input{two().ids, two().sequences};
  const Rows rows = model.run(input, pass);
  const Ran ran{model, rows, pass, input};
  EXPECT_EQ(kit::coded_error_of([&] {
              ran.tap({Tap::Kind::queries, 1});
            }),
            "2 objective: reads the queries of layer 2, and that layer gives none: 2 layers, stack plain; name a layer "
            "that has them and runs, or choose another objective");
}

}  // namespace
}  // namespace lithe

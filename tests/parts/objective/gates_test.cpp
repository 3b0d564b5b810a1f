#include "lithe/model/prunable.h"
#include "lithe/ops/hard_concrete.h"
#include "tests/parts/objective_kit.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

const std::string kGatedModel =
    "{vocab_size: 11, hidden_size: 8, num_hidden_layers: 2, max_position_embeddings: 16, position: sinusoidal, mixer: "
    "{type: attention, num_attention_heads: 4}, ffn: {type: relu, intermediate_size: 6}}";

struct Gated {
  explicit Gated(const std::string& options, const std::string& more = "")
      : model(kit::model_config(kGatedModel, more), kit::kTrainable) {
    own.context().trainable = true;
    kit::randomise(model.parameters(), 3);
    objective = own.make<Objective>("gates", {.model = &model}, options, "objective.gates");
  }
  Tensor logits() const {
    const NoGrad none;
    Pass pass;
    return model.logits(model.run({batch.ids, batch.sequences}, pass)).value();
  }
  kit::Batch batch = kit::random_batch({5, 3}, 11, 4);
  Model model;
  kit::Bench own;
  std::unique_ptr<Objective> objective;
};

// oracle: prune.gates
TEST(Gates, AGateOfZeroIsAUnitTakenOut) {
  for (const char* more : {"", "mixer: {type: attention, num_attention_heads: 4, heads: mqa}",
                           "mixer: {type: attention, num_attention_heads: 4, heads: mhe_mul}"}) {
    SCOPED_TRACE(more);
    Gated gated("{start: 20}", more), masked("{start: 20}", more);
    Parameter& p = *gated.own.parameters().find("objective.gates.layers.1.mixer.heads.log_alpha");
    set_value(p.master.value(), 2, -4);  // log alpha -20
    mask(masked.model, {{{"layers.1.mixer", PruneUnit::heads}, {0, 1, 3}}});
    EXPECT_EQ(kit::close(gated.logits(), masked.logits(), 1e4), "");
  }
}

TEST(Gates, OpenGatesChangeNothingAndAreDeterministicWithoutATape) {
  const Gated gated("{start: 20, units: [heads, ffn, sub_layers, layers]}");
  Model plain(gated.model.config(), kit::kExact);
  kit::randomise(plain.parameters(), 3);
  const NoGrad none;
  Pass pass;
  EXPECT_EQ(
      kit::close(gated.logits(), plain.logits(plain.run({gated.batch.ids, gated.batch.sequences}, pass)).value(), 1e3),
      "");
}

TEST(Gates, ThePenaltyIsTheSumOfTheProbabilities) {
  const Gated gated("{start: 0, penalty: 0.5}");
  Pass pass;
  const ModelInput input{gated.batch.ids, gated.batch.sequences};
  const Rows rows = gated.model.run(input, pass);
  LossSums sums;
  const Targets targets{.labels = kit::labels_for(gated.model, gated.batch)};
  const double loss = value_at(
      gated.objective->loss({gated.model, rows, pass, input}, targets, {.scale = 0.25, .sums = &sums}).value(), 0);
  EXPECT_NEAR(loss, 0.25 * double(sums.labels) * 0.5 * 2 * (4 + 6) * HardConcrete().probability(0), 1e-9);
}

TEST(Gates, LearnWithTheModel) {
  Gated gated("{start: 0.5, rate: 1}");
  const auto f = [&](const std::vector<Var>&) {
    Pass pass;
    const ModelInput input{gated.batch.ids, gated.batch.sequences};
    const Rows rows = gated.model.run(input, pass);
    return std::vector{
        gated.model.loss_of(rows, {}, {.labels = kit::labels_for(gated.model, gated.batch), .scale = 0.125})};
  };
  std::string where;
  EXPECT_LT(kit::gradient_error(gated.own.parameters(), f, {}, &where), 1e-5) << where;
  EXPECT_LT(kit::gradient_error(gated.model.parameters(), f, {}, &where), 1e-5) << where;
}

}  // namespace
}  // namespace lithe

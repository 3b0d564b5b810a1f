// Causal language modelling: every row predicts the token after it [TB Eq 6.12].
#include "lithe/base/error.h"
#include "lithe/objective/objective.h"

namespace lithe {
namespace {

class Clm final : public Objective {
 public:
  Clm(const Scope&, const NoOptions&, const Args&) {}
  bool predicts_next() const override { return true; }
  bool predicts_vocabulary() const override { return true; }

  void prepare(const LessonFacts& facts, ModelConfig& model) const override {
    check_usage(model.architecture == "decoder", "train",
                "objective clm predicts the next token and needs architecture decoder, not ", model.architecture,
                "; encoders learn by objective mlm or shuffle_random");
    check_usage(facts.tokenizer.width() == 1, "train",
                "objective clm predicts ids, but these tokens have none; choose another data.tokenizer");
    check_usage(model.head.type == "lm" || model.head.type == "mlm", "train", "objective clm needs model.head lm, not ",
                model.head.type);
  }
};

}  // namespace

void register_objective_clm(Registry& registry) {
  registry.add<Objective, Clm, NoOptions>(
      "clm", {.spec = "train.nll", .summary = "predict the next token of a text", .source = "TB Eq 6.12, 6.1.7"});
}

}  // namespace lithe

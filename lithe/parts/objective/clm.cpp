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
    check_usage(model.architecture == Architecture::decoder, "train",
                "objective clm predicts the next token and needs architecture decoder, not ", model.architecture,
                "; encoders learn by objective mlm or shuffle_random");
    check_usage(facts.tokenizer.width() == 1, "train",
                "objective clm predicts ids, but these tokens have none; choose another data.tokenizer");
    check_usage(model.head.type == "lm" || model.head.type == "mlm" || model.head.type == "hash_codes", "train",
                "objective clm needs model.head lm or hash_codes, not ", model.head.type);
    set_stop_token(facts.tokenizer, model.head);
  }

 private:
  // A head that learns where texts stop does so by the tokenizer's end of text, unless it is told another token.
  static void set_stop_token(const Tokenizer& tokenizer, PartChoice& head) {
    const Node *stops = head.options.find("early_stop"), *token = head.options.find("stop_token");
    if (!stops || stops->text() != "true" || (token && token->text() != "-1")) return;
    check_usage(tokenizer.specials().eos.has_value(), "train",
                "model.head early_stop learns where texts end, and this tokenizer has no end-of-text token; give "
                "model.head a stop_token, or data.tokenizer one");
    head.options.set("stop_token", Node::scalar(cat(*tokenizer.specials().eos)));
  }
};

}  // namespace

void register_objective_clm(Registry& registry) {
  registry.add<Objective, Clm, NoOptions>(
      "clm", {.spec = "train.nll", .summary = "predict the next token of a text", .source = "TB Eq 6.12, 6.1.7"});
}

}  // namespace lithe

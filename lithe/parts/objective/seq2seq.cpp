// Sequence to sequence: every row of a translation predicts the token after it, having read the source [TB Eq 6.12].
#include "lithe/base/error.h"
#include "lithe/objective/objective.h"

namespace lithe {
namespace {

class Seq2Seq final : public Objective {
 public:
  Seq2Seq(const Scope&, const NoOptions&, const Args&) {}
  Lessons learns_from() const override { return Lessons::translation; }
  bool predicts_vocabulary() const override { return true; }

  void prepare(const LessonFacts&, ModelConfig& model) const override {
    check_usage(model.architecture == Architecture::encoder_decoder, "train",
                "objective seq2seq needs model.architecture encoder_decoder, not ", model.architecture);
    check_usage(model.head.type == "lm" || model.head.type == "mlm" || model.head.type == "hash_codes", "train",
                "objective seq2seq needs model.head lm or hash_codes, not ", model.head.type);
  }
};

}  // namespace

void register_objective_seq2seq(Registry& registry) {
  registry.add<Objective, Seq2Seq, NoOptions>(
      "seq2seq",
      {.spec = "arch.encdec", .summary = "predict the translations of section translation", .source = "TB Eq 6.12"});
}

}  // namespace lithe

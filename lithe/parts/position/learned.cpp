// Learned absolute positions: one trained row a position, added to the rows (BERT, GPT-2).
#include "lithe/nn/registry.h"
#include "lithe/ops/embedding.h"

namespace lithe {
namespace {

class Learned final : public Position {
 public:
  Learned(const Scope& scope, const NoOptions&, const Args& args)
      : table_(scope.parameter("weight", {args.max_position_embeddings, args.hidden_size}, InitRole::embedding)) {}
  Var add_to(const Var& x, const Sequences& sequences) const override {
    return add_rows(x, table_->var(), sequences.positions());
  }
  bool adds() const override { return true; }
  int64_t limit() const override { return table_->master.dim(0); }

 private:
  Parameter* table_;
};

}  // namespace

void register_position_learned(Registry& registry) {
  registry.add<Position, Learned, NoOptions>("learned", {.summary = "one learned row per position, added to the rows",
                                                         .source = "Devlin et al. 2019; Radford et al. 2019"});
}

}  // namespace lithe

// Learned absolute positions: one trained row a position, added to the rows (BERT, GPT-2); RoBERTa counts
// positions from 2 on.
#include "lithe/nn/registry.h"
#include "lithe/ops/embedding.h"

namespace lithe {
namespace {

struct LearnedConfig {
  int64_t offset = 0;
  void fields(Fields& f) {
    f("offset", offset, "number of the first position in the table; rows before it are not used (BART, RoBERTa: 2)",
      between(0, 1 << 16));
  }
};

class Learned final : public Position {
 public:
  Learned(const Scope& scope, const LearnedConfig& config, const Args& args)
      : offset_(config.offset),
        table_(scope.parameter(
            "weight", {Axis::positions(args.max_position_embeddings + offset_), Axis::hidden(args.hidden_size)},
            InitRole::embedding)) {}
  Var add_to(const Var& x, const Sequences& sequences) const override {
    if (!offset_) return add_rows(x, table_->var(), sequences.positions());
    const Tensor& from = sequences.positions();
    const Tensor positions = empty_like(from);
    if (!from.is_meta())
      for (int64_t i = 0; i < from.numel(); ++i)
        positions.data<int32_t>()[i] = from.data<int32_t>()[i] + int32_t(offset_);
    return add_rows(x, table_->var(), positions);
  }
  bool adds() const override { return true; }
  int64_t limit() const override { return table_->master.dim(0) - offset_; }

 private:
  int64_t offset_;
  Parameter* table_;
};

}  // namespace

void register_position_learned(Registry& registry) {
  registry.add<Position, Learned, LearnedConfig>("learned", {.summary = "learned absolute positions, added to the rows",
                                                             .source = "Devlin et al. 2019; Radford et al. 2019",
                                                             .samples = {"{offset: 2}"}});
}

}  // namespace lithe

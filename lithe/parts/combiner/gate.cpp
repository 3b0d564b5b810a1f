// A gate between two encoders, channel by channel [TB Eq 6.59]: g = sigmoid([H_s; H_t] W + b), g H_s + (1 - g) H_t.
#include "lithe/nn/registry.h"
#include "lithe/ops/pointwise.h"
#include "lithe/parts/common/aligned_rows.h"

namespace lithe {
namespace {

class GateCombiner final : public Combiner {
 public:
  GateCombiner(const Scope& scope, const RowAlignment& config, const Args& args)
      : align_(config), width_(args.hidden_size) {
    check_usage(args.encoders == 2, "combiner", "gate chooses between two encoders, and ", args.encoders,
                " are combined; take one out of model.encoders, or combine by sum, pool or concat_len");
    const Axis d = Axis::hidden(width_);
    further_ = Linear(scope / "further", d, d, true);
    text_ = Linear(scope / "text", d, d, false);
  }
  int64_t width() const override { return width_; }
  bool row_a_token(bool shortened) const override { return align_.row_a_token(shortened); }
  bool aligns() const override { return true; }
  Rows forward(const std::vector<Rows>& rows, const Pass&) const override {
    std::vector<Rows> all = align_.aligned(rows);
    const Var z = add(further_(all[0].x), text_(all[1].x));
    Rows out = all[1];
    // Both shares by themselves, so that a gate that is closed leaves nothing of the other.
    out.x = add(mul(pointwise(kernels::Pointwise::sigmoid, z), all[0].x),
                mul(pointwise(kernels::Pointwise::sigmoid, scale(z, -1)), all[1].x));
    return out;
  }

 private:
  RowAlignment align_;
  int64_t width_;
  Linear further_, text_;  // the two halves of W
};

}  // namespace

void register_combiner_gate(Registry& registry) {
  registry.add<Combiner, GateCombiner, RowAlignment>("gate", {.spec = "syn.combine",
                                                              .summary = "a learned gate between two encoders",
                                                              .source = "TB Eq 6.59",
                                                              .causal = false,
                                                              .samples = {"{align: words}"}});
}

}  // namespace lithe

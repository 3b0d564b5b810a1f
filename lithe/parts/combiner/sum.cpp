// The rows of all encoders added up [TB Eq 6.59].
#include "lithe/nn/registry.h"
#include "lithe/parts/common/aligned_rows.h"

namespace lithe {
namespace {

class SumCombiner final : public Combiner {
 public:
  SumCombiner(const Scope&, const RowAlignment& config, const Args& args) : align_(config), width_(args.hidden_size) {}
  int64_t width() const override { return width_; }
  bool row_a_token(bool shortened) const override { return align_.row_a_token(shortened); }
  bool aligns() const override { return true; }
  Rows forward(const std::vector<Rows>& rows, const Pass&) const override {
    std::vector<Rows> all = align_.aligned(rows);
    Rows out = std::move(all.back());
    for (size_t i = 0; i + 1 < all.size(); ++i) out.x = add(all[i].x, out.x);
    return out;
  }

 private:
  RowAlignment align_;
  int64_t width_;
};

}  // namespace

void register_combiner_sum(Registry& registry) {
  registry.add<Combiner, SumCombiner, RowAlignment>("sum", {.spec = "syn.combine",
                                                            .summary = "rows of encoders of one length, added",
                                                            .source = "TB Eq 6.59",
                                                            .standard = true,
                                                            .causal = false,
                                                            .samples = {"{align: words}"}});
}

}  // namespace lithe

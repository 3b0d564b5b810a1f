// A label for every token: dropout, then a linear map to num_labels classes [TB 6.5.2; TH 2.3.6 for three].
#include "lithe/nn/registry.h"
#include "lithe/ops/linear.h"

namespace lithe {
namespace {

struct TagConfig {
  double dropout = 0;
  void fields(Fields& f) { f("dropout", dropout, "dropout probability in the head", between(0, 0.99)); }
};

class Tag final : public Head {
 public:
  Tag(const Scope& scope, const TagConfig& config, const Args& args)
      : classes_(args.num_labels),
        dropout_(scope, config.dropout),
        out_(scope / "out", Axis::hidden(args.hidden_size), Axis::classes(args.num_labels), true) {
    check_usage(classes_ >= 1, "tag", "model.num_labels must be at least 1, got ", classes_);
  }

  LabelCount count(const Sequences& sequences) const override { return {sequences.rows(), classes_}; }
  Var logits(const Rows& rows) const override { return out_(dropout_(rows.x)); }
  Var loss(const Rows& rows, const LossArgs& a) const override {
    return cross_entropy(logits(rows), a.labels, a.smoothing, a.scale, a.sums, a.row_nll);
  }

 private:
  int64_t classes_;
  Dropout dropout_;
  Linear out_;
};

}  // namespace

void register_head_tag(Registry& registry) {
  registry.add<Head, Tag, TagConfig>(
      "tag", {.spec = "app.classify", .summary = "a label for every token", .source = "TB 6.5.2; TH 2.3.6"});
}

}  // namespace lithe

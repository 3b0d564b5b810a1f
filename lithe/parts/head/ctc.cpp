// Labels of a whole sequence whose places are not known, as of speech: a linear map of each row to num_labels classes
// and a blank, and the loss of all ways to write the labels into the rows [TB 6.5.3; Graves et al. 2006].
#include "lithe/ops/ctc.h"
#include "lithe/nn/registry.h"
#include "lithe/ops/linear.h"

namespace lithe {
namespace {

struct CtcConfig {
  double dropout = 0;
  bool zero_infinity = false;
  void fields(Fields& f) {
    f("dropout", dropout, "dropout probability in the head", between(0, 0.99));
    f("zero_infinity", zero_infinity,
      "a sequence with fewer rows than its labels need has a loss of 0; false: it is an error");
  }
};

class Ctc final : public Head {
 public:
  Ctc(const Scope& scope, const CtcConfig& config, const Args& args)
      : classes_(args.num_labels),
        zero_infinity_(config.zero_infinity),
        dropout_(scope, config.dropout),
        out_(scope / "out", Axis::hidden(args.hidden_size), Axis::classes(args.num_labels + 1), true) {
    check_usage(classes_ >= 1, "ctc", "model.num_labels must be at least 1, got ", classes_);
  }

  bool by_row() const override { return false; }
  /// At most as many labels as rows, in sequences of their own.
  LabelCount count(const Sequences& sequences) const override {
    return {sequences.rows(), classes_, /*own_lengths=*/true};
  }
  /// [N, num_labels + 1], the blank last.
  Var logits(const Rows& rows) const override { return out_(dropout_(rows.x)); }
  Var loss(const Rows& rows, const LossArgs& a) const override {
    check_usage(a.smoothing == 0, "ctc", "label_smoothing ", a.smoothing,
                " spreads over the classes of a row, whose label ctc does not know; leave it out");
    return ctc_loss(logits(rows), rows.sequences, a.labels, a.label_sequences, a.scale, zero_infinity_, a.sums,
                    a.row_nll);
  }

 private:
  int64_t classes_;
  bool zero_infinity_;
  Dropout dropout_;
  Linear out_;
};

}  // namespace

void register_head_ctc(Registry& registry) {
  registry.add<Head, Ctc, CtcConfig>("ctc", {.spec = "app.ctc",
                                             .summary = "label sequences without alignment (CTC)",
                                             .source = "TB 6.5.3",
                                             .samples = {"{zero_infinity: true}"}});
}

}  // namespace lithe

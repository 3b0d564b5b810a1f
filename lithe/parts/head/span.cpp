// Where an answer begins and ends: [dense d -> d, tanh,] then two logits a row, each softmaxed over the rows of a
// sequence [Devlin et al. 2019]. Biases of the logits change no answer: softmax does not see what all rows share. They
// are there for the logits of imported models.
#include <algorithm>

#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/linear.h"

namespace lithe {
namespace {

struct SpanHeadConfig {
  bool dense = true, bias = false;
  void fields(Fields& f) {
    f("dense", dense, "a dense layer with tanh before the logits; BERT has none");
    f("bias", bias, "a bias on each of the two logits, as BERT's files have; it does not change the answers");
  }
};

class Span final : public Head {
 public:
  Span(const Scope& scope, const SpanHeadConfig& config, const Args& args)
      : start_(scope / "start", Axis::hidden(args.hidden_size), 1, config.bias),
        end_(scope / "end", Axis::hidden(args.hidden_size), 1, config.bias) {
    if (config.dense)
      dense_ = Linear(scope / "dense", Axis::hidden(args.hidden_size), Axis::hidden(args.hidden_size), true);
  }

  /// The rows of the beginnings in their sequences, then those of the ends.
  LabelCount count(const Sequences& sequences) const override {
    int64_t shortest = sequences.rows();
    for (int64_t b = 0; b < sequences.count(); ++b) shortest = std::min(shortest, sequences.length(b));
    return {2 * sequences.count(), shortest};
  }
  /// [N, 2]
  Var logits(const Rows& rows) const override {
    const Var &x = rows.x, h = hidden(x),
              both = concatenate_rows({reshape(start_(h), {1, x.rows()}), reshape(end_(h), {1, x.rows()})});
    const Tensor out = empty({x.rows(), 2}, x.dtype(), x.device());
    if (!out.is_meta())
      for (int64_t n = 0; n < x.rows(); ++n)
        for (int64_t side = 0; side < 2; ++side)
          set_value(out, 2 * n + side, value_at(both.value(), side * x.rows() + n));
    return record("columns", {both}, out, [both = both.ref()](const Tensor& dy, Grads& g) {
      const Tensor d = empty({2, dy.rows()}, dy.dtype(), dy.device());
      for (int64_t n = 0; n < dy.rows() && !d.is_meta(); ++n)
        for (int64_t side = 0; side < 2; ++side) set_value(d, side * dy.rows() + n, value_at(dy, 2 * n + side));
      g.give(both, d);
    });
  }
  Var loss(const Rows& all, const LossArgs& a) const override {
    const int64_t count = all.sequences.count();
    check(a.labels.numel() == 2 * count, "span", "labels must be i32 [", 2 * count, "], two a sequence, got ",
          a.labels.dtype(), a.labels.shape());
    LossSums total;
    Var loss;
    const Var h = hidden(all.x);
    for (int64_t side = 0; side < 2; ++side) {
      const Var logits = (side == 0 ? start_ : end_)(h);
      for (int64_t b = 0; b < count; ++b) {
        const int64_t length = all.sequences.length(b), label = side * count + b;
        check(length > 0, "span", "sequence ", b, " is empty, so no row of it can be an answer's");
        const Var rows = reshape(slice_rows(logits, all.sequences.offset(b), all.sequences.offset(b + 1)), {1, length});
        LossSums sums;
        const Var one = cross_entropy(rows, a.labels.slice(label, label + 1), a.smoothing, a.scale, &sums,
                                      a.row_nll.defined() ? a.row_nll.slice(label, label + 1) : Tensor());
        loss = loss.defined() ? add(loss, one) : one;
        total += sums;
      }
    }
    if (a.sums) *a.sums = total;
    return loss;
  }

 private:
  Linear dense_, start_, end_;

  Var hidden(const Var& x) const { return dense_.weight ? activate(kernels::Activation::tanh, dense_(x)) : x; }
};

}  // namespace

void register_head_span(Registry& registry) {
  registry.add<Head, Span, SpanHeadConfig>(
      "span", {.summary = "start and end of an answer in a sequence", .source = "Devlin et al. 2019"});
}

}  // namespace lithe

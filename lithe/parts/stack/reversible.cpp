// Reversible residuals: y1 = x1 + F(norm(x2)), y2 = x2 + G(norm(y1)). The backward pass finds x1 and x2 again from y1
// and y2, so that no layer keeps its activations [TB 6.4.4; Gomez et al. 2017, Kitaev et al. 2020].
#include "lithe/ops/reversible.h"
#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"

namespace lithe {
namespace {

struct ReversibleConfig {
  std::string streams = "duplicate";
  void fields(Fields& f) {
    f("streams", streams,
      "duplicate: both streams start as the embedded rows, and the stack returns their mean; split: each stream has "
      "half of the channels, and sub-layers have half of hidden_size",
      one_of({"duplicate", "split"}));
  }
};

class Reversible final : public Stack {
 public:
  bool forgets() const override { return true; }
  Reversible(const Scope& scope, const ReversibleConfig& config, const Args& args)
      : split_(config.streams == "split"), width_(args.hidden_size), compute_(args.compute) {
    check_usage(!split_ || width_ % 2 == 0, "model", "a stack split into two streams needs an even hidden_size, got ",
                width_, "; change it, or set streams: duplicate");
    if (split_) scope.couples({Dimension::hidden});  // which stream a channel is of
  }
  int64_t layer_width(int64_t hidden_size) const override { return split_ ? hidden_size / 2 : hidden_size; }
  bool wires() const override { return true; }

  Rows forward(const Layers& layers, const Rows& x, const Pass& pass) const override {
    std::vector<Pass> notes;
    std::vector<ReversibleStep> steps;
    for (int64_t i = 0; i < layers.count(); ++i)
      for (int64_t sub = 0; sub < layers.sub_layers(i); ++sub) {
        // The first run notes its losses and taps here, to be taken from; a second one notes its own.
        const Pass first = pass.apart(i);
        notes.push_back(first);
        steps.push_back([this, &layers, i, sub, sequences = x.sequences, pass, first](const Var& rows) {
          const Pass mine = first.has_notes() ? pass.apart(i) : first;
          std::vector<Var> out{layers.change(i, sub, {cast(rows, compute_), sequences}, mine)};
          for (const Var& noted : mine.noted()) out.push_back(noted);
          return out;
        });
      }
    const Streams start = begin(x.x);
    // Sub-layers that read the embedding read it as the stream that they read starts.
    if (split_ && pass.embedded().defined()) {
      const Var read = cast(start.read, compute_);
      pass.set_embedded(reshape(read, read.shape()));
    }
    std::vector<std::vector<Var>> noted;
    // What a state has read it cannot read again.
    const Streams y = pass.state() ? run_steps(steps, start, &noted) : reversible(steps, start, &noted);
    for (size_t i = 0; i < notes.size(); ++i) pass.take(notes[i], noted[i], 0);
    return {end(y), x.sequences};
  }

 private:
  bool split_;
  int64_t width_;
  DType compute_;

  // The rows of [N, 2W] as [2N, W] and back: first the left halves, then the right ones.
  static std::vector<int64_t> halves_first(int64_t rows) {
    std::vector<int64_t> from;
    for (int64_t half : {0, 1})
      for (int64_t n = 0; n < rows; ++n) from.push_back(2 * n + half);
    return from;
  }
  static std::vector<int64_t> halves_beside(int64_t rows) {
    std::vector<int64_t> from;
    for (int64_t n = 0; n < rows; ++n) from.insert(from.end(), {n, rows + n});
    return from;
  }

  // Streams are in f32 where the rows are bf16, so that going back loses little.
  Streams begin(const Var& rows) const {
    const Var wide = cast(rows, compute_ == DType::bf16 ? DType::f32 : compute_);
    if (!split_) return {wide, wide};
    const int64_t n = rows.rows();
    const Var halves = pick_rows(reshape(wide, {2 * n, width_ / 2}), halves_first(n));
    return {slice_rows(halves, 0, n), slice_rows(halves, n, 2 * n)};
  }
  Var end(const Streams& x) const {
    if (!split_) return cast(add(x.other, x.read, 0.5, 0.5), compute_);
    const int64_t n = x.read.rows();
    return cast(reshape(pick_rows(concatenate_rows({x.other, x.read}), halves_beside(n)), {n, width_}), compute_);
  }
};

}  // namespace

void register_stack_reversible(Registry& registry) {
  registry.add<Stack, Reversible, ReversibleConfig>(
      "reversible", {.spec = "share.reversible",
                     .summary = "reversible layers: two streams, each adding F(norm(.)) of the other; activation "
                                "memory does not grow with depth",
                     .source = "TB 6.4.4"});
  registry.moved("residual", "reversible", "model.stack: {type: reversible, streams: duplicate|split}");
}

}  // namespace lithe

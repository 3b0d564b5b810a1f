// Summaries of the rows so far: running means, and recurrences that learn (spec mem.recursive). What avg_pool,
// recursive and snapshot are made of.
#pragma once

#include "lithe/nn/registry.h"
#include "lithe/ops/diagonal_recurrence.h"
#include "lithe/ops/linear.h"
#include "lithe/ops/recurrent.h"
#include "lithe/parts/common/gates.h"
#include "lithe/parts/common/memory_state.h"

namespace lithe {

struct SummaryConfig {
  std::string update = "mean";
  double decay = 0.9;
  void fields(Fields& f) {
    f("update", update,
      "how a new row updates the summary: mean of all rows so far, ema (decay times the old summary, 1 - decay times "
      "the row), rnn (tanh), gru, lstm",
      one_of({"mean", "ema", "rnn", "gru", "lstm"}));
    f("decay", decay, "ema: decay a of the summary per row", between(0, 0.999999));
  }
};

/// One summary of rows [N, C]; keys and values have one each.
class Summary {
 public:
  Summary(const Scope& scope, const SummaryConfig& config, const Axis& cols) : config_(config), cols_(cols.size()) {
    if (!learns()) return;
    const Axis gates = Axis(kernels::gates_of(kind())) * cols;
    rows_ = Linear(scope / "rows", cols, gates, true);
    recurrent_ = (scope / "recurrent").parameter("weight", {cols, gates}, InitRole::matrix);
  }
  /// Numbers that are kept of it, in f32 at least.
  int64_t state() const { return learns() ? recurrent_state(kind(), cols_) : cols_; }
  /// The summary that a kept one is: its first C numbers, [1, C] in `dtype`.
  Tensor of(const Tensor& kept, DType dtype) const {
    return convert(kept.reshape({state()}).slice(0, cols_), dtype).reshape({1, cols_});
  }

  /// The summary after each row: sequence b goes on from states[b] [state()], of before[b] rows, and brings it forward.
  Var run(const Var& x, const Sequences& sequences, const std::vector<int64_t>& before,
          const std::vector<Tensor>& states) const {
    if (learns()) return recurrent(kind(), rows_(x), recurrent_->var(), {}, sequences, states);
    const DType wide = wide_of(x.dtype());
    const Tensor keep = empty(x.shape(), wide, x.device()), take = empty(x.shape(), wide, x.device());
    if (!keep.is_meta())
      for (int64_t b = 0; b < sequences.count(); ++b)
        for (int64_t i = sequences.offset(b); i < sequences.offset(b + 1); ++i) {
          const auto n = double(before[size_t(b)] + i - sequences.offset(b) + 1);
          const double stays = config_.update == "mean" ? (n - 1) / n : config_.decay;
          for (int64_t c = 0; c < cols_; ++c)
            set_value(keep, i * cols_ + c, stays), set_value(take, i * cols_ + c, 1 - stays);
        }
    return cast(diagonal_recurrence(mul(cast(x, wide), take), keep, {}, sequences, false, states), x.dtype());
  }
  /// What is kept of it, [state()], as a copy that run() may change.
  Tensor copied(const Tensor& kept) const {
    const MemoryScope scope(MemoryClass::decode);
    return clone(kept).reshape({state()});
  }

 private:
  SummaryConfig config_;
  int64_t cols_;
  Linear rows_;
  Parameter* recurrent_ = nullptr;

  bool learns() const { return config_.update != "mean" && config_.update != "ema"; }
  kernels::RecurrentCell kind() const {
    return config_.update == "gru"    ? kernels::RecurrentCell::gru
           : config_.update == "lstm" ? kernels::RecurrentCell::lstm
                                      : kernels::RecurrentCell::elman;
  }
};

/// One pair that all past tokens are summed up in: what avg_pool and recursive are.
class SummaryMemory : public Memory {
 public:
  std::vector<Piece> kept(int64_t) const override { return {{{1, k_.state()}, true}, {{1, v_.state()}, true}}; }
  Reading read(const Stretch& in, Kept& kept) const override {
    Reading out;
    out.k = run(k_, in.k, in.before, kept[0]);
    out.v = run(v_, in.v, in.before, kept[1]);
    out.see = [seen = in.seen, before = in.before](int64_t, int64_t i, std::vector<Range>& ranges) {
      if (const int64_t s = seen[size_t(i)]; s > 0) ranges.push_back({s - before, s - before + 1});
    };
    return out;
  }
  bool beside_own() const override { return include_self_; }

 protected:
  SummaryMemory(const Scope& scope, const SummaryConfig& config, const Args& args, bool include_self)
      : k_(scope / "k", config, args.keys()), v_(scope / "v", config, args.values()), include_self_(include_self) {}

 private:
  Summary k_, v_;
  bool include_self_;

  // Pair s is the summary of `before` + s tokens.
  static Var run(const Summary& by, const Var& x, int64_t before, Tensor& kept) {
    const Tensor first = by.of(kept, x.dtype());
    if (x.rows() == 0) return first;
    const Tensor state = by.copied(kept);
    const Var rows = by.run(x, Sequences::single(x.rows(), x.device()), {before}, {state});
    kept = state.reshape({1, by.state()});
    return concatenate_rows({first, rows});
  }
};

}  // namespace lithe

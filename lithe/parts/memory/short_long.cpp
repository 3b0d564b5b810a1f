// A window of the last tokens beside a long memory of those that left it [TB 6.4.2(2)]: in one softmax, or each in its
// own with a share that each head learns.
#include <algorithm>

#include "lithe/nn/registry.h"
#include "lithe/parts/common/memory_state.h"

namespace lithe {
namespace {

struct ShortLongConfig {
  int64_t window = 64;
  std::string combine = "joint";
  PartChoice long_memory{"snapshot", {}};
  void fields(Fields& f) {
    f("window", window, "window size in tokens, the query's own included", at_least(1));
    f("combine", combine,
      "joint: one softmax over window and long memory; gated: one softmax for each, mixed by a learned share per head",
      one_of({"joint", "gated"}));
    f.part("long", "memory", long_memory, "memory for the tokens that leave the window");
  }
};

class ShortLong final : public Memory {
 public:
  ShortLong(const Scope& scope, const ShortLongConfig& config, const Args& args)
      : before_(config.window - 1),
        args_(args),
        long_(Registry::instance().make<Memory>(config.long_memory, scope / "long", args)) {
    if (config.combine == "gated") gate_ = scope.parameter("gate", {args.query_heads()}, InitRole::zeros);
  }
  // The window's keys and values, and lengths of keys where the long memory reads them; then what that keeps.
  std::vector<Piece> kept(int64_t tokens) const override {
    const int64_t n = std::min(tokens, before_);
    std::vector<Piece> out{{{n, args_.key_cols}}, {{n, args_.value_cols}}};
    if (reads_lengths()) out.push_back({{n, args_.kv_heads}, true});
    for (const Piece& piece : long_->kept(left(tokens))) out.push_back(piece);
    return out;
  }
  bool reads_lengths() const override { return long_->reads_lengths(); }
  Reading read(const Stretch& in, Kept& kept) const override {
    const Var k = joined(kept[0], in.k), v = joined(kept[1], in.v);
    const int64_t after = in.before + in.k.rows(), leave = left(after) - left(in.before),
                  first = in.before - kept[0].dim(0);  // token of row 0
    const Tensor lengths = reads_lengths() ? joined(kept[2], in.lengths).value() : Tensor();
    Stretch beyond{.q = in.q,
                   .k = slice_rows(k, 0, leave),
                   .v = slice_rows(v, 0, leave),
                   .before = left(in.before),
                   .seen = {},
                   .lengths = lengths ? lengths.slice(0, leave) : Tensor(),
                   .scale = in.scale,
                   .own = false};
    for (const int64_t s : in.seen) beyond.seen.push_back(left(s));
    Kept far(kept.begin() + (reads_lengths() ? 3 : 2), kept.end());
    Reading out = long_->read(beyond, far);
    const int64_t pairs = out.k.defined() ? out.k.rows() : 0;
    const auto both = [&](const Var& a, const Var& b) {
      return pairs == 0 ? b : b.rows() == 0 ? a : concatenate_rows({a, b});
    };
    out.k = both(out.k, k);
    out.v = both(out.v, v);
    if (out.bias.defined() && k.rows())
      out.bias = both(out.bias, Var(zeros({k.rows(), args_.heads}, out.bias.dtype(), in.k.device())));
    out.see = [far_see = out.see, pairs, first, seen = in.seen, window = before_](int64_t head, int64_t i,
                                                                                  std::vector<Range>& ranges) {
      far_see(head, i, ranges);
      const int64_t s = seen[size_t(i)];
      ranges.push_back({pairs + std::max<int64_t>(0, s - window) - first, pairs + s - first});
    };
    if (gate_) {
      out.apart = pairs;
      out.gate = gate_->var();
    }
    const int64_t rows = k.rows(), stay = std::min(after, before_);
    kept = {kept_rows({k.value().slice(rows - stay, rows)}, k.cols(), k.dtype(), k.device()),
            kept_rows({v.value().slice(rows - stay, rows)}, v.cols(), v.dtype(), v.device())};
    if (lengths)
      kept.push_back(kept_rows({lengths.slice(rows - stay, rows)}, args_.kv_heads, lengths.dtype(), lengths.device()));
    kept.insert(kept.end(), far.begin(), far.end());
    return out;
  }

 private:
  int64_t before_;  // tokens of the window before the own one
  Args args_;
  std::unique_ptr<Memory> long_;
  Parameter* gate_ = nullptr;

  // Of the first `tokens` tokens, those that the window of the next one has left behind. A long memory that includes
  // the query's own token has it from there.
  int64_t left(int64_t tokens) const { return std::max<int64_t>(0, tokens - before_); }
};

}  // namespace

void register_memory_short_long(Registry& registry) {
  registry.add<Memory, ShortLong, ShortLongConfig>(
      "short_long",
      {.spec = "mem.short_long",
       .summary = "a window of recent tokens, and a long memory of older ones",
       .source = "TB 6.4.2(2)",
       .bidirectional = false,
       .samples = {"{window: 2, long: {type: snapshot, slots: 2, chunk: 2, log_count: true}}",
                   "{window: 3, combine: gated, long: avg_pool}", "{window: 3, long: {type: retrieval, nearest: 2}}",
                   "{window: 3, combine: gated, long: {type: priority_queue, slots: 2, score: norm}}",
                   "{window: 3, combine: gated, long: {type: continuous, basis: 2, refit: 2, reading: gaussian}}"}});
}

}  // namespace lithe

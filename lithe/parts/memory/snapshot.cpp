// A pair for every chunk of the past [TB 6.4.2(2)]: chunks that are complete are summed up, the tokens of the open one
// are seen themselves. What overflows is dropped, oldest first, as in a compressive memory.
#include <cmath>

#include "lithe/parts/common/summary.h"

namespace lithe {
namespace {

struct SnapshotConfig : SummaryConfig {
  int64_t slots = 16, chunk = 64;
  bool log_count = false;
  void fields(Fields& f) {
    f("slots", slots, "chunks that are remembered (kappa), the last ones", at_least(1));
    f("chunk", chunk, "tokens of a chunk (n_c)", at_least(1));
    f("log_count", log_count,
      "log of the chunk is added to the logits of its pair, which then counts as its tokens do");
    SummaryConfig::fields(f);
  }
};

class Snapshot final : public Memory {
 public:
  Snapshot(const Scope& scope, const SnapshotConfig& config, const Args& args)
      : config_(config), args_(args), k_(scope / "k", config, args.keys()), v_(scope / "v", config, args.values()) {}

  // Snapshots, then the open chunk, of keys and of values.
  std::vector<Piece> kept(int64_t tokens) const override {
    const int64_t done = std::min(config_.slots, tokens / config_.chunk), open = tokens % config_.chunk;
    return {{{done, args_.key_cols}}, {{open, args_.key_cols}}, {{done, args_.value_cols}}, {{open, args_.value_cols}}};
  }
  Reading read(const Stretch& in, Kept& kept) const override {
    const int64_t n = config_.chunk, before = in.before, after = before + in.k.rows(), old = before / n,
                  done = after / n, have = kept[0].dim(0), open = before % n;
    Reading out;
    out.k = run(k_, in.k, kept[0], kept[1], old, done);
    out.v = run(v_, in.v, kept[2], kept[3], old, done);
    // Pairs: snapshots of chunks [old - have, done), then tokens from that of the open chunk on.
    const int64_t first = old - have, raw = have + done - old;
    out.see = [=, slots = config_.slots, seen = in.seen](int64_t, int64_t i, std::vector<Range>& ranges) {
      const int64_t s = seen[size_t(i)], chunks = s / n;
      ranges.push_back({std::max<int64_t>(chunks - slots, first) - first, chunks - first});
      ranges.push_back({raw + open + chunks * n - before, raw + open + s - before});
    };
    if (config_.log_count) {
      const int64_t pairs = out.k.rows();
      const Tensor bias = zeros({pairs, args_.heads}, wide_of(in.k.dtype()), in.k.device());
      for (int64_t j = 0; j < raw * args_.heads && !bias.is_meta(); ++j) set_value(bias, j, std::log(double(n)));
      out.bias = bias;
    }
    return out;
  }

 private:
  SnapshotConfig config_;
  Args args_;
  Summary k_, v_;

  Var run(const Summary& by, const Var& x, Tensor& snapshots, Tensor& open, int64_t old, int64_t done) const {
    const int64_t n = config_.chunk, cols = x.cols();
    const Var tokens = joined(open, x);
    Var all = snapshots, fresh;
    if (done > old) {
      std::vector<int64_t> offsets{0};
      std::vector<Tensor> states;
      for (int64_t c = old; c < done; ++c) {
        offsets.push_back(offsets.back() + n);
        states.push_back(zeros({by.state()}, wide_of(x.dtype()), x.device()));
      }
      const Sequences chunks(offsets, {}, x.device());
      const Var each =
          by.run(slice_rows(tokens, 0, offsets.back()), chunks, std::vector<int64_t>(size_t(done - old), 0), states);
      fresh = pick_rows(each, chunks.last_rows());
      all = joined(snapshots, fresh);
    }
    const Var read = all.rows() == 0 ? tokens : tokens.rows() == 0 ? all : concatenate_rows({all, tokens});
    const int64_t used = (done - old) * n, count = snapshots.dim(0) + done - old;
    if (done > old) snapshots = kept_rows(snapshots, fresh.value(), std::max<int64_t>(0, count - config_.slots), count);
    open = kept_rows({tokens.value().slice(used, tokens.rows())}, cols, x.dtype(), x.device());
    return read;
  }
};

}  // namespace

void register_memory_snapshot(Registry& registry) {
  registry.add<Memory, Snapshot, SnapshotConfig>(
      "snapshot", {.spec = "mem.snapshot",
                   .summary = "a pair for each of the last chunks, and the tokens of the open one",
                   .source = "TB 6.4.2(2)",
                   .bidirectional = false,
                   .samples = {"{slots: 2, chunk: 2}", "{slots: 2, chunk: 3, log_count: true, update: gru}"}});
}

}  // namespace lithe

// A pair for every chunk of the past [TB 6.4.2(2)]: chunks that are complete are summed up, the tokens of the open one
// are seen themselves. What overflows is dropped, oldest first, as in a compressive memory, or joins the oldest pair.
#include <cmath>

#include "lithe/parts/common/summary.h"

namespace lithe {
namespace {

struct SnapshotConfig : SummaryConfig {
  int64_t slots = 16, chunk = 64;
  std::string overflow = "drop";
  bool log_count = false;
  void fields(Fields& f) {
    f("slots", slots, "number of chunks to keep (kappa), the latest ones", at_least(1));
    f("chunk", chunk, "chunk size in tokens (n_c)", at_least(1));
    f("overflow", overflow,
      "what happens to the oldest chunk if there are more than `slots`: drop; merge: the first slot is the mean of all "
      "chunks that left",
      one_of({"drop", "merge"}));
    f("log_count", log_count,
      "add log(chunk) to the logits of a chunk's pair, so that it counts as much as its tokens");
    SummaryConfig::fields(f);
  }
};

class Snapshot final : public Memory {
 public:
  Snapshot(const Scope& scope, const SnapshotConfig& config, const Args& args)
      : config_(config),
        args_(args),
        merges_(config.overflow == "merge"),
        k_(scope / "k", config, args.keys()),
        v_(scope / "v", config, args.values()),
        mean_k_(scope, {}, args.keys()),
        mean_v_(scope, {}, args.values()) {}

  // Snapshots, then the open chunk, of keys and of values; then what merged.
  std::vector<Piece> kept(int64_t tokens) const override {
    const int64_t done = snapshots(tokens / config_.chunk), open = tokens % config_.chunk,
                  merged = merges_ && tokens / config_.chunk > config_.slots;
    std::vector<Piece> out{
        {{done, args_.key_cols}}, {{open, args_.key_cols}}, {{done, args_.value_cols}}, {{open, args_.value_cols}}};
    if (merges_) out.insert(out.end(), {{{merged, args_.key_cols}, true}, {{merged, args_.value_cols}, true}});
    return out;
  }
  Reading read(const Stretch& in, Kept& kept) const override {
    const int64_t n = config_.chunk, before = in.before, after = before + in.k.rows(), open = before % n;
    Span at{.old = before / n, .done = after / n, .first = before / n - kept[0].dim(0), .slots = config_.slots};
    at.merges = merges_;
    Reading out;
    Tensor none;
    out.k = run(k_, mean_k_, in.k, kept[0], kept[1], merges_ ? kept[4] : none, at);
    out.v = run(v_, mean_v_, in.v, kept[2], kept[3], merges_ ? kept[5] : none, at);
    // Pairs: snapshots of chunks [first, done), what merged, then tokens from that of the open chunk on.
    const int64_t raw = at.done - at.first, pairs = raw + at.merged();
    out.see = [=, slots = config_.slots, merges = merges_, seen = in.seen](int64_t, int64_t i,
                                                                           std::vector<Range>& ranges) {
      const int64_t s = seen[size_t(i)], chunks = s / n, left = chunks - slots;  // chunks that left their slots
      const bool merged = merges && left > 0;
      if (merged) ranges.push_back({raw + at.place_of(left), raw + at.place_of(left) + 1});
      ranges.push_back({std::max<int64_t>(left + merged, at.first) - at.first, chunks - at.first});
      ranges.push_back({pairs + open + chunks * n - before, pairs + open + s - before});
    };
    if (config_.log_count) {
      const Tensor bias = zeros({out.k.rows(), args_.heads}, wide_of(in.k.dtype()), in.k.device());
      for (int64_t j = 0; j < pairs * args_.heads && !bias.is_meta(); ++j) {
        const int64_t pair = j / args_.heads, chunks = pair < raw ? 1 : at.chunk_of(pair - raw) + 1;
        set_value(bias, j, std::log(double(n * chunks)));
      }
      out.bias = bias;
    }
    return out;
  }

 private:
  SnapshotConfig config_;
  Args args_;
  bool merges_;
  Summary k_, v_, mean_k_, mean_v_;

  // Chunks that were complete before a stretch and are after it, and the first whose snapshot is kept. M_j, the mean of
  // snapshots 0 ... j, takes a slot once chunk j + slots is complete.
  struct Span {
    int64_t old, done, first, slots;
    bool merges = false;
    bool kept_mean() const { return merges && old > slots; }
    int64_t new_means() const { return merges && done > slots ? done - slots - first + 1 : 0; }
    int64_t merged() const { return kept_mean() + new_means(); }
    int64_t place_of(int64_t j) const { return j - first + kept_mean(); }
    int64_t chunk_of(int64_t place) const { return place + first - kept_mean(); }
  };
  // That are kept of so many chunks: one slot is for what merged.
  int64_t snapshots(int64_t chunks) const {
    return merges_ && chunks > config_.slots ? config_.slots - 1 : std::min(config_.slots, chunks);
  }

  Var run(const Summary& by, const Summary& mean, const Var& x, Tensor& snapshots, Tensor& open, Tensor& merged,
          const Span& at) const {
    const int64_t n = config_.chunk, cols = x.cols(), old = at.old, done = at.done;
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
    std::vector<Var> read;
    const auto add = [&read](const Var& rows) {
      if (rows.rows()) read.push_back(rows);
    };
    add(all);
    if (at.kept_mean()) add(mean.of(merged, x.dtype()));
    if (const int64_t means = at.new_means(); means > 0) {
      const auto first_mean = [&] {
        const MemoryScope kept(MemoryClass::decode);
        return zeros({mean.state()}, wide_of(x.dtype()), x.device());
      };
      const Tensor state = at.kept_mean() ? mean.copied(merged) : first_mean();
      add(mean.run(slice_rows(all, 0, means), Sequences::single(means, x.device()), {at.first}, {state}));
      merged = state.reshape({1, mean.state()});
    }
    add(tokens);
    const int64_t used = (done - old) * n, count = snapshots.dim(0) + done - old;
    if (done > old)
      snapshots = kept_rows(snapshots, fresh.value(), std::max<int64_t>(0, count - this->snapshots(done)), count);
    open = kept_rows({tokens.value().slice(used, tokens.rows())}, cols, x.dtype(), x.device());
    return read.empty() ? tokens : read.size() == 1 ? read[0] : concatenate_rows(read);
  }
};

}  // namespace

void register_memory_snapshot(Registry& registry) {
  registry.add<Memory, Snapshot, SnapshotConfig>(
      "snapshot", {.spec = "mem.snapshot",
                   .summary = "one key-value pair for each complete chunk, and the single tokens of the open chunk",
                   .source = "TB 6.4.2(2)",
                   .bidirectional = false,
                   .samples = {"{slots: 2, chunk: 2}", "{slots: 2, chunk: 3, log_count: true, update: gru}",
                               "{slots: 2, chunk: 2, overflow: merge, log_count: true}"}});
}

}  // namespace lithe

// The most valuable pairs of the past [TB 6.4.2(2)]: each head keeps so many; where one more comes, the least valuable
// goes. Value is what a small network says of the key, the key's length, or the attention that the pair has had; with
// `sinks` and `recent`, which never go, that is eviction of heavy-hitter caches [Zhang et al. 2023].
#include <algorithm>
#include <cmath>

#include "lithe/nn/registry.h"
#include "lithe/ops/heads.h"
#include "lithe/ops/linear.h"
#include "lithe/ops/pointwise.h"
#include "lithe/parts/common/memory_state.h"

namespace lithe {
namespace {

struct PriorityQueueConfig {
  int64_t slots = 256, score_size = 16, sinks = 0, recent = 0;
  std::string score = "net";
  bool soft_bias = true;
  void fields(Fields& f) {
    f("slots", slots, "key-value pairs to keep per head (kappa), the query's own pair not counted", at_least(1));
    f("score", score,
      "value of a pair: net (sigmoid of a small network of the key), norm (length of the key before rotation), usage "
      "(sum of the attention it has received, as H2O)",
      one_of({"net", "norm", "usage"}));
    f("score_size", score_size, "net: hidden units of the network (d_s)", at_least(1).of({Dimension::ffn}));
    f("soft_bias", soft_bias, "net: add log of the score to the pair's logits; false: the network is not trained");
    f("sinks", sinks, "number of first tokens that always stay (attention sinks)", at_least(0));
    f("recent", recent, "number of latest tokens that always stay", at_least(0));
  }
};

// spec: infer.kv_evict | memory | heavy hitters by accumulated attention, beside sinks and a recent window | TH ch. 1
class PriorityQueue final : public Memory {
 public:
  PriorityQueue(const Scope& scope, const PriorityQueueConfig& config, const Args& args)
      : config_(config), args_(args), head_dim_(args.key_cols / args.kv_heads) {
    check_usage(config.slots > config.sinks + config.recent, "priority_queue", "slots ", config.slots,
                " must be above sinks + recent = ", config.sinks + config.recent, ", of which none may go");
    if (config.score != "net") return;
    up_ = Linear(scope / "score" / "up", Axis::head_width(head_dim_), Axis::ffn(config.score_size), true);
    down_ = Linear(scope / "score" / "down", Axis::ffn(config.score_size), 1, true);
  }

  // Of each key head the pairs in the order in which they came, keys, values, scores.
  std::vector<Piece> kept(int64_t tokens) const override {
    const int64_t n = std::min(tokens, config_.slots);
    return {{{n, args_.key_cols}}, {{n, args_.value_cols}}, {{n, args_.kv_heads}, true}};
  }

  bool reads_lengths() const override { return config_.score == "norm"; }
  Reading read(const Stretch& in, Kept& kept) const override {
    const int64_t have = kept[0].dim(0), heads = args_.kv_heads, total = have + in.k.rows();
    const DType wide = wide_of(in.k.dtype());
    const Var fresh = scores(in);  // [P, kv_heads]
    const Tensor score = kept_rows({kept[2], fresh.value()}, heads, wide, in.k.device());
    Reading out;
    out.k = joined(kept[0], in.k);
    out.v = joined(kept[1], in.v);
    out.by_head = true;
    if (config_.score == "net" && config_.soft_bias)
      out.bias = pointwise_log(repeat_heads(joined(kept[2], fresh), heads, args_.heads));
    std::vector<std::vector<int64_t>> last;
    last.resize(size_t(heads));
    const auto seen = std::make_shared<std::vector<std::vector<std::vector<int64_t>>>>(size_t(heads));
    if (!in.k.value().is_meta())
      for (int64_t head = 0; head < heads; ++head)
        last[size_t(head)] = run(in, out.k.value(), score, head, have, (*seen)[size_t(head)]);
    const int64_t group = args_.heads / heads, n = std::min(in.before + in.k.rows(), config_.slots);
    out.see = [seen, group, total](int64_t head, int64_t i, std::vector<Range>& ranges) {
      const auto& of = (*seen)[size_t(head / group)];
      if (of.empty()) return ranges.push_back({0, total});  // on meta
      for (const int64_t j : of[size_t(i)]) ranges.push_back({j, j + 1});
    };
    const Tensor k = out.k.value(), v = out.v.value();
    kept = {gathered(k, last, n), gathered(v, last, n), gathered(score, last, n)};
    return out;
  }

 private:
  PriorityQueueConfig config_;
  Args args_;
  int64_t head_dim_;
  Linear up_, down_;

  static Var pointwise_log(const Var& x) {
    const Tensor in = x.value(), y = empty(in.shape(), in.dtype(), in.device());
    for (int64_t i = 0; i < y.numel() && !y.is_meta(); ++i) set_value(y, i, std::log(value_at(in, i)));
    return record("log", {x}, y, [in, x = x.ref()](const Tensor& dy, Grads& g) {
      const auto dx = g.into(x);
      for (int64_t i = 0; i < dy.numel() && !dy.is_meta() && dx; ++i)
        set_value(dx.to, i, (dx.accumulate ? value_at(dx.to, i) : 0) + value_at(dy, i) / value_at(in, i));
    });
  }

  // What a pair is worth when it comes.
  Var scores(const Stretch& in) const {
    const Var& k = in.k;
    if (reads_lengths()) return in.lengths;
    const int64_t rows = k.rows(), heads = args_.kv_heads;
    const DType wide = wide_of(k.dtype());
    if (config_.score == "net") {
      const Var flat = reshape(k, {rows * heads, head_dim_});
      const Var y = down_(activate(kernels::Activation::gelu, up_(flat)));
      return reshape(pointwise(kernels::Pointwise::sigmoid, cast(y, wide)), {rows, heads});
    }
    return zeros({rows, heads}, wide, k.device());
  }

  // The pairs of a head that each query sees, and those at the end, in the order in which they came.
  std::vector<int64_t> run(const Stretch& in, const Tensor& k, const Tensor& score, int64_t head, int64_t have,
                           std::vector<std::vector<int64_t>>& seen) const {
    std::vector<int64_t> order;
    for (int64_t j = 0; j < have; ++j) order.push_back(j);
    int64_t entered = 0;
    const auto enter = [&] {
      order.push_back(have + entered++);
      if (int64_t(order.size()) <= config_.slots) return;
      auto least = order.begin() + config_.sinks;
      for (auto at = least; at != order.end() - config_.recent; ++at)
        if (value(score, *at, head) < value(score, *least, head)) least = at;
      order.erase(least);
    };
    for (size_t i = 0; i < in.seen.size(); ++i) {
      while (in.before + entered < in.seen[i]) enter();
      seen.push_back(order);
      if (config_.score == "usage") use(in, k, score, head, int64_t(i), order, have + entered);
    }
    while (entered < in.k.rows()) enter();
    return order;
  }
  double value(const Tensor& score, int64_t pair, int64_t head) const {
    return value_at(score, pair * args_.kv_heads + head);
  }

  // Adds the attention that the queries of a group give to the pairs they see, their own among them.
  void use(const Stretch& in, const Tensor& k, const Tensor& score, int64_t head, int64_t query,
           const std::vector<int64_t>& order, int64_t own) const {
    std::vector<int64_t> pairs = order;
    if (in.own) pairs.push_back(own);
    const int64_t group = args_.heads / args_.kv_heads;
    std::vector<double> weights(pairs.size());
    for (int64_t h = head * group; h < (head + 1) * group; ++h) {
      double most = -INFINITY, sum = 0;
      for (size_t n = 0; n < pairs.size(); ++n) {
        double dot = 0;
        for (int64_t c = 0; c < head_dim_; ++c)
          dot += value_at(in.q.value(), (query * args_.heads + h) * head_dim_ + c) *
                 value_at(k, (pairs[n] * args_.kv_heads + head) * head_dim_ + c);
        most = std::max(most, weights[n] = in.scale * dot);
      }
      for (double& w : weights) sum += w = std::exp(w - most);
      for (size_t n = 0; n < pairs.size(); ++n)
        set_value(score, pairs[n] * args_.kv_heads + head, value(score, pairs[n], head) + weights[n] / sum);
    }
  }

  // Column block `head` of row r is that of row last[head][r].
  Tensor gathered(const Tensor& x, const std::vector<std::vector<int64_t>>& last, int64_t n) const {
    const MemoryScope scope(MemoryClass::decode);
    const Tensor out = empty({n, x.cols()}, x.dtype(), x.device());
    if (out.is_meta()) return out;
    const int64_t cols = x.cols() / args_.kv_heads;
    for (int64_t r = 0; r < n; ++r)
      for (int64_t head = 0; head < args_.kv_heads; ++head)
        for (int64_t c = 0; c < cols; ++c)
          set_value(out, r * x.cols() + head * cols + c,
                    value_at(x, last[size_t(head)][size_t(r)] * x.cols() + head * cols + c));
    return out;
  }
};

}  // namespace

void register_memory_priority_queue(Registry& registry) {
  registry.add<Memory, PriorityQueue, PriorityQueueConfig>(
      "priority_queue", {.spec = "mem.priority_queue",
                         .summary = "a KV cache with eviction: the most valuable pairs of the past, by a network, key "
                                    "length or received attention",
                         .source = "TB 6.4.2(2); Zhang et al. 2023",
                         .bidirectional = false,
                         .samples = {"{slots: 4, score_size: 3}", "{slots: 3, score: norm}",
                                     "{slots: 5, score: usage, sinks: 1, recent: 2}"}});
}

}  // namespace lithe

// Multi-head-embedding attention: one seed query, key and value per token; a head is the seed combined with
// the head's own embedding [TH 3.3.2-3.3.4, Eq 3.4-3.6]. The common ground of mhe_add and mhe_mul.
#pragma once

#include <algorithm>

#include "lithe/nn/slots.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/heads.h"
#include "lithe/ops/linear.h"

namespace lithe {

struct MultiHeadEmbeddingConfig {
  std::string rope_order = "after";
  double head_embedding_std = 0.02;
  void fields(Fields& f) {
    f("rope_order", rope_order,
      "order of rotary positions and head embeddings: after: rotate the heads, with the embedding added; before: "
      "rotate the seeds first",
      one_of({"after", "before"}));
    f("head_embedding_std", head_embedding_std,
      "initial standard deviation of the head embeddings (0.02 in the papers): how different the heads are at first",
      at_least(0));
  }
};

/// The cache keeps the seeds' keys and values only, and forms those of the heads when they are read. Where positions do
/// not turn the finished heads and nobody else looks at them, attention reads the seeds directly (multi-query,
/// folded()), because softmax and the sum over values commute with the embeddings:
///   add: q_i.(k + e^K) = q_i.k + a constant per query, which softmax ignores; sum a (v + e^V) = sum a v + e^V
///   mul: q_i.(k (1+e^K)) = (q_i (1+e^K)).k;                                  sum a v (1+e^V) = (sum a v) (1+e^V)
/// Where rotary positions turn the finished heads, whole sequences are attended to by the heads' keys and values,
/// formed when read; decoding reads two turned rows a token as one key of 2 d_h channels (as_kept()). With Z the change
/// of sign of the second channel of each pair that turns, and e1, e2 the pair's numbers of e^K:
///   mul: R(k (1+e^K)) = (1 + (e1+e2)/2) R k + (e1-e2)/2 R Z k, whose factors are the same in both channels and so
///        commute with R: keys are [R k ; R Z k]
///   add: q.R(k + e^K) = q.R k + u.R(1,0 in each pair), u = [q1 e1 + q2 e2 ; q2 e1 - q1 e2]: keys are [R k ; R(1,0)]
class MultiHeadEmbedding : public Heads {
 public:
  enum class Join { add, mul };
  MultiHeadEmbedding(const Scope& scope, const MultiHeadEmbeddingConfig& config, const Args& args, Join join)
      : q_(projection(scope / "q", args, InitRole::query_key)),
        k_(projection(scope / "k", args, InitRole::query_key)),
        v_(projection(scope / "v", args, InitRole::matrix)),
        args_(args),
        join_(join),
        turns_heads_(args.turns && config.rope_order == "after") {
    const int64_t n = args.num_attention_heads * args.head_dim;
    const InitConfig init{.std = config.head_embedding_std};
    const auto embedding = [&](const char* of) {
      return (scope / of).parameter("head_embedding", {context()}, InitRole::embedding, {.init = &init});
    };
    eq_ = embedding("q"), ek_ = embedding("k"), ev_ = embedding("v");
    const MemoryScope memory(MemoryClass::weights);
    ones_ = empty({n}, eq_->master.dtype(), scope.context().device);
    for (int64_t i = 0; i < n && !ones_.is_meta(); ++i) set_value(ones_, i, 1);
    if (turns_heads_ && !args.partners.empty()) two_rows_ = std::make_unique<TwoRows>(*this);
    if (!turns_heads_ && !(args.capped && join == Join::add)) seeds_ = std::make_unique<Seeds>(*this);
  }

  Var queries(const Input& in, const Turn& turn) const override {
    return turns_heads_ ? turn(joined(q_(in.x), eq_)) : joined(turn(q_(in.x)), eq_);
  }
  KeyValue keep(const Input& in, const Turn& turn) const override {
    return {turns_heads_ ? k_(in.x) : turn(k_(in.x)), v_(in.x)};
  }
  KeyValue expand(const KeyValue& kept, const Turn& turn) const override {
    const Var k = joined(kept.k, ek_);
    return {turns_heads_ ? turn(k) : k, joined(kept.v, ev_)};
  }
  bool expands() const override { return true; }
  const Heads* folded() const override { return seeds_.get(); }
  const Heads* as_kept() const override { return two_rows_ ? two_rows_.get() : folded(); }
  int64_t kept_columns() const override { return args_.head_dim; }
  int64_t query_heads() const override { return args_.num_attention_heads; }
  int64_t kv_heads() const override { return args_.num_attention_heads; }
  int64_t key_dim() const override { return args_.head_dim; }
  int64_t value_dim() const override { return args_.head_dim; }
  /// All heads read the one seed's key and value.
  Axis context() const final { return Axis::query_heads(args_.num_attention_heads, 1, args_.head_dim); }

 private:
  // Keys and values of the seeds, read by all heads.
  class Seeds final : public Heads {
   public:
    explicit Seeds(const MultiHeadEmbedding& of) : of_(of) {}
    Var queries(const Input& in, const Turn& turn) const override {
      const Var q = of_.queries(in, turn);
      return of_.join_ == Join::mul ? row_affine(q, of_.one_plus(of_.ek_), {}) : q;
    }
    KeyValue keep(const Input& in, const Turn& turn) const override { return of_.keep(in, turn); }
    Var finish(const Var& context) const override { return of_.join_values(context); }
    int64_t kept_columns() const override { return of_.args_.head_dim; }
    int64_t query_heads() const override { return of_.query_heads(); }
    int64_t kv_heads() const override { return 1; }
    int64_t key_dim() const override { return of_.key_dim(); }
    int64_t value_dim() const override { return of_.value_dim(); }
    Axis context() const override { return of_.context(); }

   private:
    const MultiHeadEmbedding& of_;
  };
  // Keys of two turned rows, read by all heads.
  class TwoRows final : public Heads {
   public:
    explicit TwoRows(const MultiHeadEmbedding& of) : of_(of), adds_(of.join_ == Join::add) {
      const std::vector<int64_t>& partner = of.args_.partners;
      const auto d = int64_t(partner.size()), h = of.args_.num_attention_heads;
      check(d == of.args_.head_dim, "multi-head embedding", "positions pair ", d, " channels of ", of.args_.head_dim);
      const MemoryScope memory(MemoryClass::weights);
      const auto constant = [&](const Shape& shape) { return zeros(shape, of.ones_.dtype(), of.ones_.device()); };
      signs_ = constant({2 * d}), origin_ = constant({2 * d}), seed_ = constant({h * 2 * d});
      direct_ = constant({d, 2 * d}), crossed_ = constant({d, 2 * d}), swap_ = constant({d, d});
      if (signs_.is_meta()) return;
      const auto put = [](const Tensor& x, int64_t row, int64_t col, double value) {
        set_value(x, row * x.cols() + col, value_at(x, row * x.cols() + col) + value);
      };
      for (int64_t i = 0; i < h; ++i)
        for (int64_t c = 0; c < d; ++c) set_value(seed_, i * 2 * d + c, 1);
      for (int64_t c = 0; c < d; ++c) {
        const int64_t p = partner[size_t(c)];
        const double sign = p < c ? -1 : 1;
        set_value(signs_, c, 1);
        put(swap_, p, c, 1);
        if (adds_) {
          set_value(origin_, d + c, sign > 0 ? 1 : 0);
          put(direct_, std::min(c, p), d + c, 1);
          if (p != c) put(crossed_, std::max(c, p), d + c, sign);
        } else {
          set_value(signs_, d + c, sign);
          put(direct_, c, c, 0.5), put(direct_, p, c, 0.5);
          put(direct_, c, d + c, 0.5 * sign), put(direct_, p, d + c, -0.5 * sign);
        }
      }
    }
    Var queries(const Input& in, const Turn& turn) const override {
      const int64_t h = query_heads(), d = of_.args_.head_dim;
      const Var q = turn(of_.joined(of_.q_(in.x), of_.eq_));
      const auto twice = [&](const Var& x, const Var& factors) {
        return row_affine(repeat_heads(x, h, 2 * h), factors, {});
      };
      const Var rows = twice(q, add(factors(direct_), Var(seed_)));
      if (!adds_) return rows;
      const Var swapped = linear(reshape(q, {q.rows() * h, d}), cast(Var(swap_), q.dtype()));
      return add(rows, twice(reshape(swapped, q.value().shape()), factors(crossed_)));
    }
    KeyValue keep(const Input& in, const Turn& turn) const override {
      const Var k = spread_heads(of_.k_(in.x), 2, Var(signs_), adds_ ? Var(origin_) : Var());
      return {turn(k), of_.v_(in.x)};
    }
    Var finish(const Var& context) const override { return of_.join_values(context); }
    int64_t kept_columns() const override { return 2 * of_.args_.head_dim; }
    int64_t kept_value_columns() const override { return of_.args_.head_dim; }
    int64_t query_heads() const override { return of_.query_heads(); }
    int64_t kv_heads() const override { return 1; }
    int64_t key_dim() const override { return 2 * of_.args_.head_dim; }
    int64_t value_dim() const override { return of_.args_.head_dim; }
    Axis context() const override { return of_.context(); }

   private:
    const MultiHeadEmbedding& of_;
    bool adds_;
    Tensor signs_, origin_;           // [2 d_h]: the rows of a key are k * signs + origin, turned
    Tensor seed_;                     // [heads 2 d_h]: the first row has the queries whatever e^K
    Tensor direct_, crossed_, swap_;  // of e^K and of pairs

    // What multiplies the queries, by e^K [heads d_h] -> [heads 2 d_h].
    Var factors(const Tensor& by) const {
      const int64_t h = query_heads(), d = of_.args_.head_dim;
      return reshape(linear(reshape(of_.ek_->var(), {h, d}), Var(by)), {h * 2 * d});
    }
  };

  Linear q_, k_, v_;
  Args args_;
  Join join_;
  bool turns_heads_;  // positions turn the finished heads
  Parameter *eq_ = nullptr, *ek_ = nullptr, *ev_ = nullptr;
  Tensor ones_;
  std::unique_ptr<TwoRows> two_rows_;
  std::unique_ptr<Seeds> seeds_;

  static Linear projection(const Scope& scope, const Args& args, InitRole role) {
    return {scope, Axis::hidden(args.hidden_size), Axis::head_width(args.head_dim), args.bias, role};
  }
  Var join_values(const Var& context) const {
    return join_ == Join::mul ? row_affine(context, one_plus(ev_), {}) : row_affine(context, {}, ev_->var());
  }
  Var one_plus(const Parameter* e) const { return add(e->var(), Var(ones_)); }
  Var joined(const Var& seed, const Parameter* e) const {
    const int64_t h = args_.num_attention_heads;
    return join_ == Join::mul ? spread_heads(seed, h, one_plus(e)) : spread_heads(seed, h, {}, e->var());
  }
};

}  // namespace lithe

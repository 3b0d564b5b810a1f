// Multi-head-embedding attention: one seed query, key and value per token; a head is the seed combined with
// the head's own embedding [TH 3.3.2-3.3.4, Eq 3.4-3.6]. The common ground of mhe_add and mhe_mul.
#pragma once

#include "lithe/nn/slots.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/heads.h"

namespace lithe {

struct MultiHeadEmbeddingConfig {
  std::string rope_order = "after";
  double head_embedding_std = 0.02;
  void fields(Fields& f) {
    f("rope_order", rope_order, "rotary positions turn heads after the embedding joined the seed, or the seeds before",
      one_of({"after", "before"}));
    f("head_embedding_std", head_embedding_std,
      "standard deviation that head embeddings start with (0.02 in the sources): how unlike the heads begin",
      at_least(0));
  }
};

/// The cache keeps the seeds' keys and values only. Where positions do not turn the finished heads, attention
/// reads the seeds directly (multi-query), because softmax and the sum over values commute with the embeddings:
///   add: q_i.(k + e^K) = q_i.k + a constant per query, which softmax ignores; sum a (v + e^V) = sum a v + e^V
///   mul: q_i.(k (1+e^K)) = (q_i (1+e^K)).k;                                  sum a v (1+e^V) = (sum a v) (1+e^V)
/// Otherwise the heads' keys and values are formed when read.
class MultiHeadEmbedding : public Heads {
 public:
  enum class Join { add, mul };
  MultiHeadEmbedding(const Scope& scope, const MultiHeadEmbeddingConfig& config, const Args& args, Join join)
      : q_(scope / "q", args.hidden_size, args.head_dim, args.bias, InitRole::query_key),
        k_(scope / "k", args.hidden_size, args.head_dim, args.bias, InitRole::query_key),
        v_(scope / "v", args.hidden_size, args.head_dim, args.bias),
        args_(args),
        join_(join),
        expands_(args.turns && config.rope_order == "after") {
    const int64_t n = args.num_attention_heads * args.head_dim;
    const InitConfig init{.std = config.head_embedding_std};
    const auto embedding = [&](const char* of) {
      return (scope / of).parameter("head_embedding", {n}, InitRole::embedding, &init);
    };
    eq_ = embedding("q"), ek_ = embedding("k"), ev_ = embedding("v");
    const MemoryScope memory(MemoryClass::weights);
    ones_ = empty({n}, eq_->master.dtype(), scope.context().device);
    for (int64_t i = 0; i < n && !ones_.is_meta(); ++i) set_value(ones_, i, 1);
  }

  Var queries(const Input& in, const Turn& turn) const override {
    if (expands_) return turn(joined(q_(in.x), eq_));
    const Var q = joined(turn(q_(in.x)), eq_);
    return join_ == Join::mul ? row_affine(q, one_plus(ek_), {}) : q;
  }
  KeyValue keep(const Input& in, const Turn& turn) const override {
    return {expands_ ? k_(in.x) : turn(k_(in.x)), v_(in.x)};
  }
  KeyValue expand(const KeyValue& kept, const Turn& turn) const override {
    return {turn(joined(kept.k, ek_)), joined(kept.v, ev_)};
  }
  bool expands() const override { return expands_; }
  Var finish(const Var& context) const override {
    if (expands_) return context;
    return join_ == Join::mul ? row_affine(context, one_plus(ev_), {}) : row_affine(context, {}, ev_->var());
  }
  int64_t kept_columns() const override { return args_.head_dim; }
  int64_t query_heads() const override { return args_.num_attention_heads; }
  int64_t kv_heads() const override { return expands_ ? args_.num_attention_heads : 1; }
  int64_t context_size() const override { return args_.num_attention_heads * args_.head_dim; }

 private:
  Linear q_, k_, v_;
  Args args_;
  Join join_;
  bool expands_;
  Parameter *eq_ = nullptr, *ek_ = nullptr, *ev_ = nullptr;
  Tensor ones_;

  Var one_plus(const Parameter* e) const { return add(e->var(), Var(ones_)); }
  Var joined(const Var& seed, const Parameter* e) const {
    const int64_t h = args_.num_attention_heads;
    return join_ == Join::mul ? spread_heads(seed, h, one_plus(e)) : spread_heads(seed, h, {}, e->var());
  }
};

}  // namespace lithe

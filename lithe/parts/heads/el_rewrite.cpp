// Multi-head attention, rewritten so that the cache keeps the hidden rows alone: scores (X W_i^q W_i^kT) X^T, and the
// weighted rows meet W_i^v after the sum [MP related work, EL-attention]. The same function and the same parameters as
// mha, half its cache, h times its attention FLOPs: for decoding. Keys and values are formed where somebody looks at
// them.
#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/heads.h"

namespace lithe {
namespace {

class ElRewrite final : public Heads {
 public:
  ElRewrite(const Scope& scope, const NoOptions&, const Args& args)
      : args_(args),
        q_(scope / "q", Axis::hidden(args.hidden_size), context(), args.bias, InitRole::query_key),
        k_(scope / "k", Axis::hidden(args.hidden_size), context(), args.bias, InitRole::query_key),
        v_(scope / "v", Axis::hidden(args.hidden_size), context(), args.bias),
        rewritten_(*this) {
    check_usage(!args.turns, "el_rewrite",
                "rotary positions rotate keys by their place, so that they cannot move to the queries; use heads mha, "
                "without --el-rewrite");
  }
  Var queries(const Input& in, const Turn&) const override { return q_(in.x); }
  KeyValue keep(const Input& in, const Turn&) const override { return {in.x, in.x}; }
  KeyValue expand(const KeyValue& kept, const Turn&) const override { return {k_(kept.k), v_(kept.v)}; }
  bool expands() const override { return true; }
  // A bias on keys adds one number to all logits of a query, which the softmax takes away, but no cap does.
  const Heads* folded() const override { return args_.capped && args_.bias ? nullptr : &rewritten_; }
  bool shares() const override { return true; }
  int64_t kept_columns() const override { return args_.hidden_size; }
  int64_t query_heads() const override { return args_.num_attention_heads; }
  int64_t kv_heads() const override { return args_.num_attention_heads; }
  int64_t key_dim() const override { return args_.head_dim; }
  int64_t value_dim() const override { return args_.head_dim; }
  Axis context() const override {
    return Axis::query_heads(args_.num_attention_heads, args_.num_attention_heads, args_.head_dim);
  }

 private:
  // Rows are keys and values.
  class Rewritten final : public Heads {
   public:
    explicit Rewritten(const ElRewrite& of) : of_(of) {}
    Var queries(const Input& in, const Turn&) const override {
      return head_linear(of_.q_(in.x), of_.k_.weight->var(), query_heads(), true);
    }
    KeyValue keep(const Input& in, const Turn&) const override { return {in.x, in.x}; }
    bool shares() const override { return true; }
    int64_t kept_columns() const override { return of_.args_.hidden_size; }
    int64_t query_heads() const override { return of_.query_heads(); }
    int64_t kv_heads() const override { return 1; }
    int64_t key_dim() const override { return of_.args_.hidden_size; }
    int64_t value_dim() const override { return of_.args_.hidden_size; }
    // Weights sum to one, so that a bias on values is added once.
    Var finish(const Var& context) const override {
      const Var out = head_linear(context, of_.v_.weight->var(), query_heads(), false);
      return of_.v_.bias ? row_affine(out, {}, of_.v_.bias->var()) : out;
    }
    Axis context() const override { return of_.context(); }

   private:
    const ElRewrite& of_;
  };

  Args args_;
  Linear q_, k_, v_;
  Rewritten rewritten_;
};

}  // namespace

void register_heads_el_rewrite(Registry& registry) {
  registry.add<Heads, ElRewrite, NoOptions>(
      "el_rewrite", {.spec = "infer.el_rewrite",
                     .summary = "mha's function and parameters with the hidden rows as cache: half the bytes",
                     .source = "MP related work"});
}

}  // namespace lithe

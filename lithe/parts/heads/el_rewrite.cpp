// Multi-head attention, rewritten so that the cache keeps the hidden rows alone: scores (X W_i^q W_i^kT) X^T, and the
// weighted rows meet W_i^v after the sum [MP related work, EL-attention]. The same function and the same parameters as
// mha, half its cache, h times its attention FLOPs: for decoding.
#include <cmath>

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
        v_(scope / "v", Axis::hidden(args.hidden_size), context(), args.bias) {
    scope.couples({Dimension::head_width});  // queries are divided by the root of it
    check_usage(!args.turns, "el_rewrite",
                "rotary positions rotate keys by their place, so that they cannot move to the queries; use heads mha, "
                "without --el-rewrite");
  }
  // A bias on keys adds one number to all logits of a query, which the softmax takes away. The core divides by the root
  // of the rows' width, attention means that of the heads.
  Var queries(const Input& in, const Turn&) const override {
    return scale(head_linear(q_(in.x), k_.weight->var(), args_.num_attention_heads, true),
                 std::sqrt(double(args_.hidden_size) / double(args_.head_dim)));
  }
  KeyValue keep(const Input& in, const Turn&) const override { return {in.x, in.x}; }
  bool shares() const override { return true; }
  int64_t kept_columns() const override { return args_.hidden_size; }
  int64_t query_heads() const override { return args_.num_attention_heads; }
  int64_t kv_heads() const override { return 1; }
  // Weights sum to one, so that a bias on values is added once.
  Var finish(const Var& context) const override {
    const Var out = head_linear(context, v_.weight->var(), args_.num_attention_heads, false);
    return v_.bias ? row_affine(out, {}, v_.bias->var()) : out;
  }
  Axis context() const override {
    return Axis::query_heads(args_.num_attention_heads, args_.num_attention_heads, args_.head_dim);
  }

 private:
  Args args_;
  Linear q_, k_, v_;
};

}  // namespace

void register_heads_el_rewrite(Registry& registry) {
  registry.add<Heads, ElRewrite, NoOptions>(
      "el_rewrite", {.spec = "infer.el_rewrite",
                     .summary = "mha's function and parameters with the hidden rows as cache: half the bytes",
                     .source = "MP related work"});
}

}  // namespace lithe

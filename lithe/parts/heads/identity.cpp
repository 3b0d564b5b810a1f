// Attention without projections: queries, keys and values are the rows themselves, c_i = sum_j softmax_j(h_i . h_j /
// sqrt(d)) h_j for one head [TB Eq 6.17-6.18]; with more heads each sees its own channels.
#include "lithe/nn/registry.h"

namespace lithe {
namespace {

// spec: lowdim.subspace | heads | with several heads: rows are split into segments, each attends alone | TB 6.4.3(2)
class Identity final : public Heads {
 public:
  Identity(const Scope& scope, const NoOptions&, const Args& args) : args_(args) {
    scope.couples({Dimension::head_width});  // which channel of the rows it is
    const int64_t width = args.num_attention_heads * args.head_dim;
    check_usage(width == args.hidden_size, "heads", "part identity needs num_attention_heads * head_dim = hidden_size ",
                args.hidden_size, ", got ", width);
    check_usage(!args.bias, "heads", "part identity has no projections to put attention_bias on");
  }
  Var queries(const Input& in, const Turn& turn) const override { return turn(in.x); }
  KeyValue keep(const Input& in, const Turn&) const override { return {in.x, in.x}; }
  // Turned keys differ from the values: they are formed when read, so that one row a token is kept.
  KeyValue expand(const KeyValue& kept, const Turn& turn) const override { return {turn(kept.k), kept.v}; }
  bool expands() const override { return args_.turns; }
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
  Args args_;
};

}  // namespace

void register_heads_identity(Registry& registry) {
  registry.add<Heads, Identity, NoOptions>(
      "identity",
      {.spec = "attn.dot_single", .summary = "queries, keys and values are the rows", .source = "TB Eq 6.17-6.18"});
}

}  // namespace lithe

// EL-ATT: no key and value projections; head i reads columns i d_h to (i+1) d_h of the hidden rows as its
// keys and values [TH 3.4.1].
#include "lithe/nn/registry.h"

namespace lithe {
namespace {

class ElAtt final : public Heads {
 public:
  ElAtt(const Scope& scope, const NoOptions&, const Args& args)
      : q_(scope / "q", Axis::hidden(args.hidden_size),
           Axis::query_heads(args.num_attention_heads, args.num_attention_heads, args.head_dim), args.bias,
           InitRole::query_key),
        args_(args) {
    check_usage(args.num_attention_heads * args.head_dim == args.hidden_size, "el_att",
                "slices the hidden rows into heads, so num_attention_heads * head_dim must be hidden_size ",
                args.hidden_size, ", got ", args.num_attention_heads, " * ", args.head_dim);
    scope.couples({Dimension::head_width});  // which channel of the rows it is
  }
  Var queries(const Input& in, const Turn& turn) const override { return turn(q_(in.x)); }
  KeyValue keep(const Input& in, const Turn&) const override { return {in.x, in.x}; }
  // Turned keys differ from the values: they turn when read, so that one row a token is kept.
  KeyValue expand(const KeyValue& kept, const Turn& turn) const override { return {turn(kept.k), kept.v}; }
  bool expands() const override { return args_.turns; }
  bool turns_kept() const override { return true; }
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
  Linear q_;
  Args args_;
};

}  // namespace

void register_heads_el_att(Registry& registry) {
  registry.add<Heads, ElAtt, NoOptions>("el_att", {.spec = "mixer.el_att",
                                                   .summary = "hidden rows are keys and values; queries are projected",
                                                   .source = "TH 3.4.1"});
}

}  // namespace lithe

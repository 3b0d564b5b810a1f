// Shared key and value projection: each head's keys are its values, K_i = V_i = X W_i [TH 3.4.1].
#include "lithe/nn/registry.h"

namespace lithe {
namespace {

class Skv final : public Heads {
 public:
  Skv(const Scope& scope, const NoOptions&, const Args& args)
      : q_(scope / "q", args.hidden_size, args.num_attention_heads * args.head_dim, args.bias, InitRole::query_key),
        kv_(scope / "kv", args.hidden_size, args.num_attention_heads * args.head_dim, args.bias),
        args_(args) {}
  Var queries(const Rows& in, const Turn& turn) const override { return turn(q_(in.x)); }
  KeyValue keep(const Rows& in, const Turn&) const override {
    const Var kv = kv_(in.x);
    return {kv, kv};
  }
  // Turned keys differ from the values: they are formed when read, so that one row a token is kept.
  KeyValue expand(const KeyValue& kept, const Turn& turn) const override { return {turn(kept.k), kept.v}; }
  bool expands() const override { return args_.turns; }
  bool shares() const override { return true; }
  int64_t kept_columns() const override { return args_.num_attention_heads * args_.head_dim; }
  int64_t query_heads() const override { return args_.num_attention_heads; }
  int64_t kv_heads() const override { return args_.num_attention_heads; }
  int64_t context_size() const override { return args_.num_attention_heads * args_.head_dim; }

 private:
  Linear q_, kv_;
  Args args_;
};

}  // namespace

void register_heads_skv(Registry& registry) {
  registry.add<Heads, Skv, NoOptions>(
      "skv",
      {.spec = "mixer.skv", .summary = "one projection for keys and values; half the cache", .source = "TH 3.4.1"});
}

}  // namespace lithe

// Shared key and value projection: each head's keys are its values, K_i = V_i = X W_i [TH 3.4.1]; or, with tie qk, keys
// are the queries at length 1, which is what Reformer shares.
#include <cmath>

#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/norm.h"

namespace lithe {
namespace {

struct SkvConfig {
  std::string tie = "kv";
  void fields(Fields& f) {
    f("tie", tie,
      "what shares one projection: kv: keys and values; qk: queries and keys (scaled to length 1), as in Reformer",
      one_of({"kv", "qk"}));
  }
};

class Skv final : public Heads {
 public:
  Skv(const Scope& scope, const SkvConfig& config, const Args& args)
      : args_(args), keys_are_values_(config.tie == "kv") {
    const Axis rows = Axis::hidden(args.hidden_size), width = context();
    q_ = Linear(scope / (keys_are_values_ ? "q" : "qk"), rows, width, args.bias, InitRole::query_key);
    v_ = Linear(scope / (keys_are_values_ ? "kv" : "v"), rows, width, args.bias);
    if (keys_are_values_) return;
    const MemoryScope memory(MemoryClass::weights);
    // Wide as all vectors are, also where the matrices are bf16.
    unit_ = empty({args.head_dim}, wide_of(q_.weight->master.dtype()), scope.context().device);
    for (int64_t c = 0; c < args.head_dim && !unit_.is_meta(); ++c)
      set_value(unit_, c, 1 / std::sqrt(double(args.head_dim)));
  }
  Var queries(const Input& in, const Turn& turn) const override { return turn(q_(in.x)); }
  KeyValue keep(const Input& in, const Turn& turn) const override {
    const Var v = v_(in.x);
    if (keys_are_values_) return {v, v};
    // A turn keeps lengths: turned queries of length 1.
    const Var q = q_(in.x);
    const Var heads = reshape(q, {q.rows() * args_.num_attention_heads, args_.head_dim});
    return {turn(reshape(normalise(kernels::NormKind::rms, heads, Var(unit_), {}, 1e-12), q.shape())), v};
  }
  // Turned keys differ from the values: they turn when read, so that one row a token is kept.
  KeyValue expand(const KeyValue& kept, const Turn& turn) const override { return {turn(kept.k), kept.v}; }
  bool expands() const override { return args_.turns && keys_are_values_; }
  bool turns_kept() const override { return true; }
  bool shares() const override { return keys_are_values_; }
  int64_t kept_columns() const override { return args_.num_attention_heads * args_.head_dim; }
  int64_t query_heads() const override { return args_.num_attention_heads; }
  int64_t kv_heads() const override { return args_.num_attention_heads; }
  int64_t key_dim() const override { return args_.head_dim; }
  int64_t value_dim() const override { return args_.head_dim; }
  Axis context() const override {
    return Axis::query_heads(args_.num_attention_heads, args_.num_attention_heads, args_.head_dim);
  }

 private:
  Linear q_, v_;
  Args args_;
  bool keys_are_values_;
  Tensor unit_;  // [head_dim]: RMS 1 to length 1
};

}  // namespace

void register_heads_skv(Registry& registry) {
  registry.add<Heads, Skv, SkvConfig>("skv", {.spec = "mixer.skv",
                                              .summary = "one projection for keys and values; half the cache",
                                              .source = "TH 3.4.1",
                                              .samples = {"{tie: qk}"}});
}

}  // namespace lithe

// Heads made by three linear maps: the common ground of mha, gqa and mqa.
#pragma once

#include "lithe/nn/slots.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/clamp.h"
#include "lithe/ops/norm.h"

namespace lithe {

/// What recipes say of a mixer with heads.
struct HeadSizes {
  int64_t num_attention_heads = 8, head_dim = 0;
  bool attention_bias = false, output_bias = false;
  void sizes(Fields& f) {
    f("num_attention_heads", num_attention_heads, "query heads h",
      at_least(1).of({Dimension::key_heads, Dimension::queries}));
    f("head_dim", head_dim, "channels d_h per head; 0: hidden_size / num_attention_heads",
      at_least(0).of({Dimension::head_width}));
  }
  void biases(Fields& f) {
    f("attention_bias", attention_bias, "biases on queries, keys and values");
    f("output_bias", output_bias, "bias on the output projection");
  }
  /// For `mixer`, which errors name.
  Heads::Args args(const char* mixer, int64_t hidden_size) const {
    check_usage(head_dim || hidden_size % num_attention_heads == 0, mixer, "hidden_size ", hidden_size,
                " must be a multiple of num_attention_heads ", num_attention_heads, ", or give head_dim");
    return {.hidden_size = hidden_size,
            .num_attention_heads = num_attention_heads,
            .head_dim = head_dim ? head_dim : hidden_size / num_attention_heads,
            .bias = attention_bias};
  }
};

/// Queries, keys and values within bounds; then queries and keys with a root mean square of 1, times a weight, before
/// they turn.
struct QueryKeyNorm {
  std::string qk_norm = "none";
  double qk_norm_eps = 1e-6, clip_qkv = 0;
  bool qk_norm_unit_offset = false, key_bias = true;
  void fields(Fields& f) {
    f("qk_norm", qk_norm, "RMS norm of queries and keys: over each head, over the whole row, or none",
      one_of({"none", "head", "row"}));
    f("clip_qkv", clip_qkv, "clip queries, keys and values to [-c, c] with this c, as in OLMo; 0: off", at_least(0));
    f("qk_norm_eps", qk_norm_eps, "qk_norm: epsilon, added in the denominator", at_least(0));
    f("qk_norm_unit_offset", qk_norm_unit_offset, "qk_norm: the factor is 1 + weight, as in Gemma");
    f("key_bias", key_bias,
      "if the mixer has attention_bias: keys have a bias, too. It adds the same number to all logits of a query, which "
      "changes no weight without rotary positions; Whisper has none");
  }
};

/// q = x W_q, k = m W_k, v = m W_v with W_q [d, h d_h] and W_k, W_v [d, h_kv d_h].
class ProjectedHeads : public Heads {
 public:
  ProjectedHeads(const Scope& scope, const Args& args, int64_t kv_heads, const QueryKeyNorm& norm = {})
      : q_(scope / "q", Axis::hidden(args.hidden_size), queries_of(args, kv_heads), args.bias, InitRole::query_key),
        k_(scope / "k", Axis::hidden(args.hidden_size), keys_of(args, kv_heads), args.bias && norm.key_bias,
           InitRole::query_key),
        v_(scope / "v", Axis::hidden(args.hidden_size), keys_of(args, kv_heads), args.bias),
        args_(args),
        kv_heads_(kv_heads),
        norm_(norm) {
    if (norm.qk_norm == "none") return;
    const bool row = norm.qk_norm == "row";
    const InitRole role = norm.qk_norm_unit_offset ? InitRole::zeros : InitRole::ones;
    const Axis head = Axis::head_width(args.head_dim);
    q_norm_ = (scope / "q_norm").parameter("weight", {row ? queries_of(args, kv_heads) : head}, role);
    k_norm_ = (scope / "k_norm").parameter("weight", {row ? keys_of(args, kv_heads) : head}, role);
    scope.couples({Dimension::head_width});
    if (row) scope.couples({Dimension::key_heads, Dimension::queries});
  }
  Var queries(const Input& in, const Turn& turn) const override { return turn(normed(clipped(q_(in.x)), q_norm_)); }
  KeyValue keep(const Input& in, const Turn& turn) const override {
    return {turn(normed(clipped(k_(in.x)), k_norm_)), clipped(v_(in.x))};
  }
  QueryKeyValue read(const Input& in, const Turn& turn) const override {
    if (training()) return Heads::read(in, turn);  // which frees each before the next is made
    const std::vector<Var> made = apply_each({&q_, &k_, &v_}, in.x);
    return {turn(normed(clipped(made[0]), q_norm_)), {turn(normed(clipped(made[1]), k_norm_)), clipped(made[2])}};
  }
  int64_t kept_columns() const override { return kv_heads_ * args_.head_dim; }
  int64_t query_heads() const override { return args_.num_attention_heads; }
  int64_t kv_heads() const override { return kv_heads_; }
  int64_t key_dim() const override { return args_.head_dim; }
  int64_t value_dim() const override { return args_.head_dim; }
  Axis context() const override { return queries_of(args_, kv_heads_); }

 protected:
  Linear q_, k_, v_;

 private:
  Args args_;
  int64_t kv_heads_;
  QueryKeyNorm norm_;
  Parameter *q_norm_ = nullptr, *k_norm_ = nullptr;

  static Axis queries_of(const Args& args, int64_t kv_heads) {
    return Axis::query_heads(args.num_attention_heads, kv_heads, args.head_dim);
  }
  static Axis keys_of(const Args& args, int64_t kv_heads) { return Axis::key_heads(kv_heads, args.head_dim); }
  Var clipped(const Var& x) const { return norm_.clip_qkv == 0 ? x : clamp(x, norm_.clip_qkv); }
  Var normed(const Var& x, const Parameter* weight) const {
    if (!weight) return x;
    const int64_t c = weight->master.dim(0);
    const Var y = normalise(kernels::NormKind::rms, reshape(x, {x.rows() * (x.cols() / c), c}),
                            norm_.qk_norm_unit_offset ? plus_one(weight->var()) : weight->var(), {}, norm_.qk_norm_eps);
    return reshape(y, {x.rows(), x.cols()});
  }
};

}  // namespace lithe

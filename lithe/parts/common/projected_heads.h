// Heads made by three linear maps: the common ground of mha, gqa and mqa.
#pragma once

#include "lithe/nn/slots.h"

namespace lithe {

/// What recipes say of a mixer with heads.
struct HeadSizes {
  int64_t num_attention_heads = 8, head_dim = 0;
  bool attention_bias = false, output_bias = false;
  void sizes(Fields& f) {
    f("num_attention_heads", num_attention_heads, "query heads h", at_least(1));
    f("head_dim", head_dim, "channels of a head d_h; 0: hidden_size / num_attention_heads", at_least(0));
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

/// q = x W_q, k = m W_k, v = m W_v with W_q [d, h d_h] and W_k, W_v [d, h_kv d_h].
class ProjectedHeads : public Heads {
 public:
  ProjectedHeads(const Scope& scope, const Args& args, int64_t kv_heads)
      : q_(scope / "q", args.hidden_size, args.num_attention_heads * args.head_dim, args.bias, InitRole::query_key),
        k_(scope / "k", args.hidden_size, kv_heads * args.head_dim, args.bias, InitRole::query_key),
        v_(scope / "v", args.hidden_size, kv_heads * args.head_dim, args.bias),
        args_(args),
        kv_heads_(kv_heads) {}
  Var queries(const Input& in, const Turn& turn) const override { return turn(q_(in.x)); }
  KeyValue keep(const Input& in, const Turn& turn) const override { return {turn(k_(in.x)), v_(in.x)}; }
  QueryKeyValue read(const Input& in, const Turn& turn) const override {
    if (training()) return Heads::read(in, turn);  // which frees each before the next is made
    const std::vector<Var> made = apply_each({&q_, &k_, &v_}, in.x);
    return {turn(made[0]), {turn(made[1]), made[2]}};
  }
  int64_t kept_columns() const override { return kv_heads_ * args_.head_dim; }
  int64_t query_heads() const override { return args_.num_attention_heads; }
  int64_t kv_heads() const override { return kv_heads_; }
  int64_t context_size() const override { return args_.num_attention_heads * args_.head_dim; }

 protected:
  Linear q_, k_, v_;

 private:
  Args args_;
  int64_t kv_heads_;
};

}  // namespace lithe

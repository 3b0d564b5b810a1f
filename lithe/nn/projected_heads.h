// Heads made by three linear maps: the common ground of mha, gqa and mqa.
#pragma once

#include "lithe/nn/slots.h"

namespace lithe {

/// q = x W_q, k = m W_k, v = m W_v with W_q [d, h d_h] and W_k, W_v [d, h_kv d_h].
class ProjectedHeads : public Heads {
 public:
  ProjectedHeads(const Scope& scope, const Args& args, int64_t kv_heads)
      : q_(scope / "q", args.hidden_size, args.num_attention_heads * args.head_dim, args.bias, InitRole::query_key),
        k_(scope / "k", args.hidden_size, kv_heads * args.head_dim, args.bias, InitRole::query_key),
        v_(scope / "v", args.hidden_size, kv_heads * args.head_dim, args.bias),
        args_(args),
        kv_heads_(kv_heads) {}
  Var queries(const Rows& in, const Turn& turn) const override { return turn(q_(in.x)); }
  KeyValue keep(const Rows& in, const Turn& turn) const override { return {turn(k_(in.x)), v_(in.x)}; }
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

// Attention of some rows to others, without positions and fields: attend(A W_q, B W_k, B W_v) W_c.
#pragma once

#include "lithe/nn/slots.h"
#include "lithe/ops/attention.h"
#include "lithe/ops/basic.h"

namespace lithe {

class RowsAttention {
 public:
  RowsAttention(const Scope& scope, const char* part, int64_t heads, int64_t hidden_size) : heads_(heads), part_(part) {
    check_usage(hidden_size % heads == 0, part, "hidden_size ", hidden_size,
                " must be a multiple of num_attention_heads ", heads);
    const Axis d = Axis::hidden(hidden_size), of_heads = Axis::query_heads(heads, heads, hidden_size / heads),
               of_keys = Axis::key_heads(heads, hidden_size / heads);
    q_ = Linear(scope / "q", d, of_heads, false, InitRole::query_key);
    k_ = Linear(scope / "k", d, of_keys, false, InitRole::query_key);
    v_ = Linear(scope / "v", d, of_keys, false);
    out_ = Linear(scope / "out", of_heads, d, false, InitRole::residual_output);
    scope.couples({Dimension::head_width});
  }
  /// A W_q.
  Var queries(const Var& rows) const { return q_(rows); }
  /// Queries of sequence b meet the rows of sequence b. `log_presence`: Rows::log_presence of these.
  Var forward(const Var& queries, const Sequences& of_queries, const Rows& rows) const {
    AttendOptions options{.heads = heads_, .kv_heads = heads_};
    if (rows.log_presence.defined()) options.bias = presence_bias(rows.log_presence, heads_);
    return out_(attend(queries, k_(rows.x), v_(rows.x), of_queries, rows.sequences, options));
  }

 private:
  int64_t heads_;
  const char* part_;
  Linear q_, k_, v_, out_;
};

}  // namespace lithe

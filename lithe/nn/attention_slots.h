// The slots inside attention: positions, heads, fields and outputs.
#pragma once

#include <algorithm>
#include <functional>

#include "lithe/nn/module.h"
#include "lithe/nn/part.h"
#include "lithe/nn/pass.h"
#include "lithe/ops/attention.h"

namespace lithe {

/// What fields and positions may look at when they say which pairs meet and what is added to their logits: rows x [N,
/// D], their queries [N, heads*d_h] and keys [S, kv_heads*d_h] (undefined while a state keeps the keys, unless the
/// field or the position reads_keys()), turned. The queries of sequence b meet keys[b].count keys, the rows of k behind
/// those of the sequences before: the first keys[b].sinks of them stand at the start of the text, the others `first`
/// positions further than their number. Where a state keeps the field's labels of keys, they are here, [S, count], and
/// k need not be.
struct FieldInput {
  Var q, k;
  const Sequences& queries;
  const Pass& pass;
  Var x;
  struct Keys {
    int64_t first = 0, count = 0, sinks = 0;
  };
  std::vector<Keys> keys;
  double scale = 0;  // of the logits
  Tensor labels = {};
};

/// What a LogitBias of a position or a field has: which of its tables, and how it is used. Two go together where no
/// table is of both.
struct BiasForm {
  bool table = false, rows = false, columns = false, rates = false;
  bool prior = false;   // it multiplies or mixes with weights (LogitBias::Use), beside which nothing else can be
  bool values = false;  // there are DistanceValues
  bool pairs = false;   // numbers of pairs (LogitBias::pairs)
};

/// What positions do: add to rows, turn queries and keys, or add to logits. All default to nothing.
class Position : public Part {
 public:
  static constexpr const char* slot = "position";
  struct Args {
    int64_t hidden_size = 0, max_position_embeddings = 0;
    int64_t num_attention_heads = 0;  // of all mixers that have heads; 0: they differ, or there are none
    bool causal = true;
  };
  virtual Var add_to(const Var& x, const Sequences&) const { return x; }
  /// add_to() changes rows: such a position is the model's, not a layer's.
  virtual bool adds() const { return false; }
  /// x [N, heads*head_dim] -> the same, turned.
  virtual Var turn(const Var& x, const Sequences&, int64_t head_dim) const {
    (void)head_dim;
    return x;
  }
  /// turn() changes queries and keys, so that keys differ from values.
  virtual bool turns() const { return false; }
  /// Where turn() rotates pairs of channels: of each channel of a head the one that it turns with, itself where it
  /// stays. Empty: turn() does otherwise, or nothing.
  virtual std::vector<int64_t> partners(int64_t head_dim) const {
    (void)head_dim;
    return {};
  }
  /// turn() of keys as attention does it while it reads them; none where it cannot.
  virtual std::shared_ptr<const kernels::KeyTurn> key_turn(int64_t head_dim) const {
    (void)head_dim;
    return nullptr;
  }
  /// What is added to the logits of `heads` query heads; none by default.
  virtual LogitBias bias(const FieldInput& in, int64_t heads) const {
    (void)in, (void)heads;
    return {};
  }
  /// What is added to values by their distance; nothing by default.
  virtual DistanceValues values() const { return {}; }
  /// bias() or values() gives something. Mixers without logits refuse such a position.
  virtual bool biases() const { return false; }
  /// What they give.
  virtual BiasForm bias_form() const { return {}; }
  /// bias() looks at keys. While a state keeps them, they are gathered for it at each step.
  virtual bool reads_keys() const { return false; }
  /// bias() or values() look at the queries, keys or values of each head: Heads::folded() will not do.
  virtual bool reads_heads() const { return reads_keys(); }
  /// Fails (usage) when turn() cannot work on heads of this many channels; mixers ask when they are built.
  virtual void check_head_dim(int64_t) const {}
  /// Heads as attention reads them: channels of queries and keys, and of values.
  struct HeadSizes {
    int64_t heads = 1, key_dim = 0, value_dim = 0;
  };
  /// Fails (usage) when bias() or values() are not for such heads; mixers ask when they are built.
  virtual void check_heads(const HeadSizes&) const {}
  /// Positions at or beyond this have no meaning; 0: unlimited.
  virtual int64_t limit() const { return 0; }
};

/// Rows to per-head queries, keys and values.
class Heads : public Part {
 public:
  static constexpr const char* slot = "heads";
  struct Args {
    int64_t hidden_size = 0, num_attention_heads = 1, head_dim = 0;
    bool bias = false;
    bool turns = false;                  // positions turn queries and keys
    bool capped = false;                 // logits are capped: what is added to all those of a query counts
    std::vector<int64_t> partners = {};  // Position::partners()
  };
  struct KeyValue {
    Var k, v;  // [S, kv_heads*head_dim], [S, kv_heads*value_dim]; may be one Var
  };
  /// What heads are made of: rows [N, D], and each token's own embedding, wired as x is (x where these heads do not
  /// read it).
  struct Input {
    Var x, embedded;
  };
  /// Turns rows [N, n*head_dim] by their positions; the identity without rotary positions.
  using Turn = std::function<Var(const Var&)>;

  /// [N, query_heads*head_dim], turned.
  virtual Var queries(const Input& in, const Turn& turn) const = 0;
  /// What a decode cache keeps of the rows, turned unless expand() does it.
  virtual KeyValue keep(const Input& in, const Turn& turn) const = 0;
  struct QueryKeyValue {
    Var q;
    KeyValue kept;
  };
  /// queries() and keep() of the same rows.
  virtual QueryKeyValue read(const Input& in, const Turn& turn) const { return {queries(in, turn), keep(in, turn)}; }
  /// Reads Input::embedded (spec decon.staticembqk).
  virtual bool reads_embedding() const { return false; }
  /// What attention reads of kept rows; only called when expands().
  virtual KeyValue expand(const KeyValue& kept, const Turn& turn) const {
    (void)turn;
    return kept;
  }
  virtual bool expands() const { return false; }
  /// expand() turns the kept keys and does no more.
  virtual bool turns_kept() const { return false; }
  /// The same attention by heads that put a part of their maps before the softmax, into queries, and after it, into its
  /// results: right where weights sum to 1 and nobody else looks at queries, keys or values. Logits are scaled by
  /// key_dim() of these, however many channels their own queries have. They live as long as these; none by default.
  virtual const Heads* folded() const { return nullptr; }
  /// The same for decoding alone: heads that read what they keep as it is, where expand() would form much anew at every
  /// step.
  virtual const Heads* as_kept() const { return folded(); }
  /// k and v of keep() are the same rows, so that a cache keeps one of them.
  virtual bool shares() const { return false; }
  /// Columns of each of keep()'s tensors; of its values where they differ.
  virtual int64_t kept_columns() const = 0;
  virtual int64_t kept_value_columns() const { return kept_columns(); }
  /// Heads that attention runs with, after expand().
  virtual int64_t query_heads() const = 0;
  virtual int64_t kv_heads() const = 0;
  /// Channels of one head's queries and keys, and of its values, after expand().
  virtual int64_t key_dim() const = 0;
  virtual int64_t value_dim() const = 0;
  /// After the weighted sum of values, before the output projection: [N, query_heads*value_dim] -> [N, context_size].
  virtual Var finish(const Var& context) const { return context; }
  /// The columns of what finish() makes.
  virtual Axis context() const = 0;
  int64_t context_size() const { return context().size(); }
  /// The query heads as an axis.
  Axis query_axis() const {
    const Axis of = context().without(Dimension::head_width);
    return of.size() == query_heads() ? of : Axis::query_heads(query_heads(), kv_heads());
  }
};

/// Which pairs of tokens may meet.
class Field : public Part {
 public:
  static constexpr const char* slot = "field";
  struct Args {
    bool causal = true;
    int64_t num_attention_heads = 1;
    bool cross = false;  // keys are of another text, whose places are counted like those of the queries
    int64_t hidden_size = 0, kv_heads = 1;
    int64_t key_dim = 0, value_dim = 0;  // channels of a head's queries and keys, and of its values
    Axis query_heads = {};               // num_attention_heads of them
  };
  /// A closed form for all heads or for each, or tiles by head and sequence, which may depend on queries and keys.
  virtual kernels::AttentionPattern pattern(const FieldInput& in) const = 0;
  /// What is added to the logits of `heads` query heads, or multiplies or mixes with their weights; nothing by default.
  virtual LogitBias bias(const FieldInput& in, int64_t heads) const {
    (void)in, (void)heads;
    return {};
  }
  /// bias() gives something, of this form.
  virtual bool biases() const { return false; }
  virtual BiasForm bias_form() const { return {}; }
  /// pattern() is one mask of all heads, whatever the text: what explicit maps take (attention_dropout).
  virtual bool one_mask() const { return false; }
  /// pattern() or bias() look at keys. While a state keeps them, they are gathered for it at each step, unless it keeps
  /// labels of them.
  virtual bool reads_keys() const { return false; }
  /// pattern() or bias() look at the queries, keys or values of each head, or weights do not sum to 1: Heads::folded()
  /// will not do.
  virtual bool reads_heads() const { return reads_keys(); }
  /// What pattern() and bias() ask of a key by itself (its cluster, its score), so many numbers of a type: a state
  /// whose rows are of type `cache` keeps them beside the keys, and a field that has labels needs no keys then. By
  /// default it has none.
  struct KeyLabels {
    int64_t count = 0;
    DType dtype = DType::f64;
  };
  virtual KeyLabels key_labels(DType cache) const {
    (void)cache;
    return {};
  }
  /// Labels [S, count] of keys [S, kv_heads*d_h]. Those of a key depend on it alone, to the bit.
  virtual Tensor label(const Tensor& keys) const {
    (void)keys;
    return {};
  }
  /// Labels are of the row that a key is made from and of the input's columns there, label_rows(), in place of the key
  /// itself. A state keeps them, in training, too, and where it continues a text, FieldInput::labels are those of all
  /// its keys.
  virtual bool labels_rows() const { return false; }
  /// Labels [N, count] of the rows x [N, D] that the pass runs, where labels_rows().
  virtual Tensor label_rows(const Pass& pass, const Var& x) const {
    (void)pass, (void)x;
    return {};
  }
  /// No query sees a key this far before it or farther, so that older rows may leave a cache; 0: every key may be seen.
  virtual int64_t reach() const { return 0; }
  /// But for the first so many tokens, which every query may see.
  virtual int64_t sinks() const { return 0; }
  /// Of a field with a reach: the first token, sinks aside, that queries behind `tokens` tokens may see.
  virtual int64_t first_seen(int64_t tokens) const { return std::max<int64_t>(0, tokens + 1 - reach()); }
  /// Later queries of a head see at most so many of the keys so far, those that stays() names, so that the others may
  /// leave a cache; 0: every key may be seen.
  virtual int64_t most_kept() const { return 0; }
  /// Of keys with these labels [n, count], those of a head side by side, the ones that later queries of `head` may see:
  /// the min(n, most_kept()) rows, ascending. Not called on meta.
  virtual std::vector<int64_t> stays(const Tensor& labels, int64_t head) const {
    (void)labels, (void)head;
    return {};
  }
};

/// Concatenated heads [N, heads*head_dim] to rows [N, hidden].
class Output : public Part {
 public:
  static constexpr const char* slot = "output";
  struct Args {
    Axis context;
    int64_t hidden_size = 0;
    bool bias = false;
  };
  virtual Var forward(const Var& context) const = 0;
};

}  // namespace lithe

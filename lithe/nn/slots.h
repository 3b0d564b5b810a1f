// The interfaces of the slots that a Transformer is assembled from (DESIGN 2). A part implements one of
// them in lithe/parts/<slot>/<name>.cpp and is reached by name through the Registry.
#pragma once

#include "lithe/nn/module.h"
#include "lithe/ops/attention.h"
#include "lithe/ops/loss.h"
#include "lithe/ops/sequences.h"

namespace lithe {

class Part {
 public:
  virtual ~Part() = default;
};

/// Tokens to rows.
class Embedding : public Part {
 public:
  static constexpr const char* slot = "embedding";
  struct Args {
    int64_t vocab_size = 0, hidden_size = 0;
  };
  /// ids i32 [N] -> rows [N, hidden_size] in the compute dtype.
  virtual Var forward(const Tensor& ids) const = 0;
  /// The table [vocab, hidden] that a tied head shares; null when there is none.
  virtual Parameter* table() const { return nullptr; }
};

/// What positions do: add to rows, or turn queries and keys. Both default to nothing.
class Position : public Part {
 public:
  static constexpr const char* slot = "position";
  struct Args {
    int64_t hidden_size = 0, max_position_embeddings = 0;
  };
  virtual Var add_to(const Var& x, const Sequences&) const { return x; }
  /// x [N, heads*head_dim] -> the same, turned.
  virtual Var turn(const Var& x, const Sequences&, int64_t head_dim) const {
    (void)head_dim;
    return x;
  }
  /// turn() changes queries and keys, so that keys differ from values.
  virtual bool turns() const { return false; }
  /// Fails (usage) when turn() cannot work on heads of this many channels; mixers ask when they are built.
  virtual void check_head_dim(int64_t) const {}
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
    bool turns = false;  // positions turn queries and keys
  };
  struct KeyValue {
    Var k, v;  // [S, kv_heads*head_dim], [S, kv_heads*value_dim]; may be one Var
  };
  /// Turns rows [N, n*head_dim] by their positions; the identity without rotary positions.
  using Turn = std::function<Var(const Var&)>;

  /// [N, query_heads*head_dim], turned.
  virtual Var queries(const Var& x, const Turn& turn) const = 0;
  /// What a decode cache keeps of the rows of `memory` (x itself in self-attention), turned unless expand() does it.
  virtual KeyValue keep(const Var& memory, const Turn& turn) const = 0;
  /// What attention reads of kept rows; only called when expands().
  virtual KeyValue expand(const KeyValue& kept, const Turn& turn) const {
    (void)turn;
    return kept;
  }
  virtual bool expands() const { return false; }
  /// k and v of keep() are the same rows, so that a cache keeps one of them.
  virtual bool shares() const { return false; }
  /// Columns of each of keep()'s tensors.
  virtual int64_t kept_columns() const = 0;
  /// Heads that attention runs with, after expand().
  virtual int64_t query_heads() const = 0;
  virtual int64_t kv_heads() const = 0;
  /// After the weighted sum of values, before the output projection: [N, query_heads*value_dim] -> [N, context_size].
  virtual Var finish(const Var& context) const { return context; }
  virtual int64_t context_size() const = 0;
};

/// Which pairs of tokens may meet.
class Field : public Part {
 public:
  static constexpr const char* slot = "field";
  struct Args {
    bool causal = true;
  };
  virtual kernels::AttentionMask mask() const = 0;
};

/// Concatenated heads [N, heads*head_dim] to rows [N, hidden].
class Output : public Part {
 public:
  static constexpr const char* slot = "output";
  struct Args {
    int64_t context_size = 0, hidden_size = 0;
    bool bias = false;
  };
  virtual Var forward(const Var& context) const = 0;
};

/// What a mixer remembers of the tokens before, for decoding.
class MixerState {
 public:
  virtual ~MixerState() = default;
  /// Bytes in use for `tokens` tokens in every sequence, as the cost model states them.
  virtual int64_t bytes() const = 0;
  /// Sequence i continues what was sequence from[i]; sequences not named are dropped.
  virtual void reorder(const std::vector<int64_t>& from) = 0;
  /// Forgets all but the first `tokens` tokens of sequence b. Fails where a state cannot.
  virtual void truncate(int64_t sequence, int64_t tokens) = 0;
};

/// Rows to rows across tokens.
class Mixer : public Part {
 public:
  static constexpr const char* slot = "mixer";
  struct Args {
    int64_t hidden_size = 0, max_position_embeddings = 0;
    bool causal = true;
    const Position* position = nullptr;  // null: none
  };
  /// Without a state the rows are whole sequences; with one they continue them, and it is brought forward.
  virtual Var forward(const Var& x, const Sequences& sequences, MixerState* state) const = 0;
  /// A state for `sequences` sequences of at most `capacity` tokens.
  virtual std::unique_ptr<MixerState> make_state(int64_t sequences, int64_t capacity, DType dtype,
                                                 Device device) const = 0;
  /// Scalars that a state keeps per sequence after `tokens` tokens (spec 0.3).
  virtual int64_t state_scalars(int64_t tokens) const = 0;
};

/// Rows to rows, per token.
class Ffn : public Part {
 public:
  static constexpr const char* slot = "ffn";
  struct Args {
    int64_t hidden_size = 0;
  };
  virtual Var forward(const Var& x) const = 0;
};

/// Rows to normalised rows.
class Norm : public Part {
 public:
  static constexpr const char* slot = "norm";
  struct Args {
    int64_t hidden_size = 0;
  };
  virtual Var forward(const Var& x) const = 0;
};

/// How a sub-layer F is wired with its norm and dropout.
class Residual : public Part {
 public:
  static constexpr const char* slot = "residual";
  struct Args {
    const Norm* norm = nullptr;
    const Dropout* dropout = nullptr;  // on F's result
  };
  using SubLayer = std::function<Var(const Var&)>;
  virtual Var forward(const Var& x, const SubLayer& f) const = 0;
  /// The stack ends with one more norm.
  virtual bool final_norm() const = 0;
};

/// Rows to predictions.
class Head : public Part {
 public:
  static constexpr const char* slot = "head";
  struct Args {
    int64_t vocab_size = 0, hidden_size = 0;
    Parameter* tied = nullptr;  // the embedding's table [vocab, hidden], or null
  };
  /// [N, hidden] -> [N, vocab].
  virtual Var logits(const Var& x) const = 0;
  /// scale * sum of cross-entropies, without storing the logits (see linear_cross_entropy).
  virtual Var loss(const Var& x, const Tensor& labels, double smoothing, double scale, LossSums* sums,
                   Tensor row_nll) const = 0;
};

}  // namespace lithe

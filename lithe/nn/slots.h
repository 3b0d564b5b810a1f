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

/// Tokens to rows. A token is `token_width` ints: one is an id; more are a code, whose first int names a special token
/// (0 to 4, the rest zeros) or is 5 for an ordinary one, which the rest, the payload, describes.
class Embedding : public Part {
 public:
  static constexpr const char* slot = "embedding";
  struct Args {
    int64_t vocab_size = 0, hidden_size = 0, token_width = 1;
  };
  /// tokens i32 [N] or [N, token_width] -> rows [N, hidden_size] in the compute dtype.
  virtual Var forward(const Tensor& tokens) const = 0;
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

/// Rows that queries and keys are made of in place of x (spec decon.staticembqk, decon.rndembqk, decon.fixedseqqk).
struct Companion {
  enum class Kind {
    none,
    embedding,  // each token's own embedding, normed as this layer's x is: [N, D], one row a row of x
    reference,  // this layer's x of one reference sequence, shared by all sequences: [R, D], row r is position r
  };
  Kind kind = Kind::none;
  // The reference sequence, which runs through the model beside the text with the same weights:
  std::vector<int64_t> ids;  // these tokens; empty: rows of normal noise
  double std = 0.02;
  int64_t seed = 0;
  bool text = false;  // tokens; when `ids` is empty they are drawn by `seed`
  bool operator==(const Companion&) const = default;
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
  /// What heads are made of: rows [N, D], and the companion rows (x where these heads ask for none).
  struct Rows {
    Var x, companion;
  };
  /// Turns rows [N, n*head_dim] by their positions; the identity without rotary positions.
  using Turn = std::function<Var(const Var&)>;

  /// [N, query_heads*head_dim], turned.
  virtual Var queries(const Rows& in, const Turn& turn) const = 0;
  /// What a decode cache keeps of the rows, turned unless expand() does it.
  virtual KeyValue keep(const Rows& in, const Turn& turn) const = 0;
  struct QueryKeyValue {
    Var q;
    KeyValue kept;
  };
  /// queries() and keep() of the same rows.
  virtual QueryKeyValue read(const Rows& in, const Turn& turn) const { return {queries(in, turn), keep(in, turn)}; }
  /// The companion rows that these heads read.
  virtual Companion companion() const { return {}; }
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

/// What cross-attention reads: rows [S, D] of an encoder, its sequence b for sequence b of the decoder.
struct Memory {
  Var rows;
  Sequences sequences;
};

/// What a mixer reads.
struct MixerInput {
  Var x;  // [N, D]
  const Sequences& sequences;
  MixerState* state = nullptr;     // null: the rows are whole sequences; else they continue them
  Var companion;                   // the rows that Mixer::companion() asks for
  const Memory* memory = nullptr;  // for cross forms without a state; a state has it from read_memory()
};

/// How the rows of one sequence meet, head after head: for looking at (`lithe inspect`).
struct MixerMaps {
  int64_t heads = 0;  // 0: the mixer has no such weights
  Tensor weights;     // f32 [heads*T, T]: row (h, i) has what token i takes from each token
  Tensor logits;      // the same before the softmax, scaled, -inf where hidden; none where there is no softmax
};

/// The maps of softmax attention with these queries and keys [T, heads*d_h], scale 0: 1/sqrt(d_h).
MixerMaps softmax_maps(const Var& q, const Var& k, int64_t heads, double scale, const kernels::AttentionMask& mask);
/// The same from products of queries and keys f32 or f64 [heads*T, T], before scaling.
MixerMaps softmax_maps(const Tensor& products, int64_t heads, double scale, const kernels::AttentionMask& mask);

/// Rows to rows across tokens.
class Mixer : public Part {
 public:
  static constexpr const char* slot = "mixer";
  struct Args {
    int64_t hidden_size = 0, max_position_embeddings = 0;
    bool causal = true;
    const Position* position = nullptr;  // null: none
    bool cross = false;                  // keys and values are of MixerInput::memory, all of which every row sees
  };
  /// [N, D] -> [N, D]; a state is brought forward. Without the companion that it asks for, x stands in for it.
  virtual Var forward(const MixerInput& in) const = 0;
  virtual Companion companion() const { return {}; }
  /// Sequences longer than this cannot be mixed; 0: unlimited.
  virtual int64_t limit() const { return 0; }
  /// A state for `sequences` sequences of at most `capacity` tokens.
  virtual std::unique_ptr<MixerState> make_state(int64_t sequences, int64_t capacity, DType dtype,
                                                 Device device) const = 0;
  /// The state keeps rows of each token, which may be stored in another type than that of the rows (f32, bf16, i8).
  virtual bool keeps_rows() const { return false; }
  /// What MixerState::bytes() says when sequence b has tokens[b] tokens, with rows of `dtype` (spec 0.3).
  virtual int64_t state_bytes(const std::vector<int64_t>& tokens, DType dtype) const = 0;
  /// Cross forms: gives a new state what it keeps of the memory. Its `tokens` are the memory's.
  virtual void read_memory(MixerState& state, const Memory& memory) const {
    (void)state, (void)memory;
    fail("mixer", "has no cross form");
  }
  /// The maps of one sequence, without a state.
  virtual MixerMaps maps(const MixerInput& in) const {
    (void)in;
    return {};
  }
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
  /// How many streams of rows run through the stack, and how they start and end.
  enum class Streams {
    one,
    duplicate,  // two, each the embedded rows; their mean leaves the stack
    split,      // two, each half of the channels, which sub-layers then have; both together leave the stack
  };
  virtual Streams streams() const { return Streams::one; }
  /// One stream: x after the sub-layer. Two: what it adds to the other stream than x (ops/reversible.h).
  virtual Var forward(const Var& x, const SubLayer& f) const = 0;
  /// What F reads of x.
  virtual Var input(const Var& x) const { return x; }
  /// The stack ends with one more norm.
  virtual bool final_norm() const = 0;
};

/// What a head's loss is of.
struct LossArgs {
  const Sequences& sequences;
  Tensor labels;                    // i32 [LabelCount::labels], negative: none; f32 for a regression
  double smoothing = 0, scale = 1;  // the loss is scale * sum over the labels
  LossSums* sums = nullptr;         // optional
  Tensor row_nll;                   // optional: negative log-likelihood of each label
};

/// Rows to predictions.
class Head : public Part {
 public:
  static constexpr const char* slot = "head";
  struct Args {
    int64_t vocab_size = 0, hidden_size = 0, num_labels = 0;
    Parameter* tied = nullptr;  // the embedding's table [vocab, hidden], or null
    bool causal = true;         // a row has seen only the tokens up to its own
  };
  /// Labels that a batch has, and the number that all of them must be below (0: they are real numbers).
  struct LabelCount {
    int64_t labels = 0, classes = 0;
  };
  virtual LabelCount count(const Sequences& sequences) const = 0;
  /// [N, hidden] -> predictions, [N, classes] or [B, classes].
  virtual Var logits(const Var& x, const Sequences& sequences) const = 0;
  virtual Var loss(const Var& x, const LossArgs& args) const = 0;
};

}  // namespace lithe

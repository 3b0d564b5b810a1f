// Sub-layers: rows to rows, across tokens (mixers) or token by token (ffns).
#pragma once

#include <functional>

#include "lithe/nn/part.h"
#include "lithe/nn/pass.h"
#include "lithe/nn/state.h"
#include "lithe/ops/attention.h"

namespace lithe {

class Position;
class SharedMap;

/// A sequence that runs through the model beside the text with the same weights, for sub-layers that read it in place
/// of x (spec decon.rndembqk, decon.fixedseqqk). One serves all layers.
struct Reference {
  std::vector<int64_t> ids;  // its tokens; empty: rows of normal noise, or tokens drawn by `seed`
  double std = 0.02;         // of the noise
  int64_t seed = 0;
  bool text = false;  // tokens, not noise
  bool operator==(const Reference&) const = default;
};

/// What a sub-layer reads.
struct SubLayerInput {
  Var x;  // [N, D]
  const Sequences& sequences;
  State* state = nullptr;  // null: the rows are whole sequences; else they continue them
  const Pass& pass = Pass::nowhere();
  const Rows* source = nullptr;  // cross forms without a state: rows [S, D], its sequence b for sequence b of x; what
                                 // was embedded is wired as x is
  /// What the wiring would give this sub-layer of other rows of the stack: normed as x is. Empty: those rows.
  std::function<Var(const Var&)> wired = {};
  int64_t stage = 0;      // of Residual::stages(): keys random numbers
  Var log_presence = {};  // Rows::log_presence of x
};

/// How the rows of one sequence meet, head after head: for looking at (`lithe inspect`).
struct MixerMaps {
  int64_t heads = 0;  // 0: the mixer has no such weights
  Tensor weights;     // f32 [heads*T, T]: row (h, i) has what token i takes from each token
  Tensor logits;      // the same before the softmax, scaled, -inf where hidden; none where there is no softmax
};

class SubLayer : public Part {
 public:
  /// [N, D] -> [N, D]; a state is brought forward.
  virtual Var forward(const SubLayerInput& in) const = 0;
  /// Brings the state forward over rows that this sub-layer is not run for, as forward() would.
  virtual void skip(const SubLayerInput& in) const { forward(in); }
  /// Null: nothing is kept between calls.
  virtual std::unique_ptr<State> make_state(const StateShape& shape) const = 0;
  /// The state keeps rows of each token, which may be stored in another type than that of the rows (f32, bf16, i8).
  virtual bool keeps_rows() const { return false; }
  /// What State::bytes() says when sequence b has tokens[b] tokens, with rows of `dtype`.
  virtual int64_t state_bytes(const std::vector<int64_t>& tokens, DType dtype) const = 0;
  /// Sequences longer than this cannot be read; 0: unlimited.
  virtual int64_t limit() const { return 0; }
  /// Mixers: reads SubLayerInput::log_presence. Others take every row as wholly there.
  virtual bool reads_presence() const { return false; }
  /// Reads Pass::embedded().
  virtual bool reads_embedding() const { return false; }
  /// Reads Pass::reference(), of this sequence.
  virtual std::optional<Reference> reference() const { return std::nullopt; }
  /// Cross forms: gives a new state what it keeps of the source, as SubLayerInput::source is.
  virtual void read_source(State& state, const Rows& source) const;
  /// A mixer that may lend its attention map, or takes another's (nn/sharing.h); null: neither.
  virtual SharedMap* shared_map() { return nullptr; }
  /// The maps of one sequence, without a state.
  virtual MixerMaps maps(const SubLayerInput& in) const {
    (void)in;
    return {};
  }
  /// Cross forms: sources longer than this cannot be read; 0: unlimited.
  virtual int64_t source_limit() const { return 0; }
};

/// Rows to rows across tokens.
class Mixer : public SubLayer {
 public:
  static constexpr const char* slot = "mixer";
  struct Args {
    int64_t hidden_size = 0, max_position_embeddings = 0;
    bool causal = true;
    const Position* position = nullptr;  // null: none
    bool cross = false;                  // keys and values are of SubLayerInput::source, all of which every row sees
  };
};

/// Rows to rows, per token unless the part says otherwise.
class Ffn : public SubLayer {
 public:
  static constexpr const char* slot = "ffn";
  struct Args {
    int64_t hidden_size = 0;
  };
  std::unique_ptr<State> make_state(const StateShape&) const override { return nullptr; }
  int64_t state_bytes(const std::vector<int64_t>&, DType) const override { return 0; }
};

/// The maps of softmax attention of one sequence to itself, with queries and keys [T, heads*d_h], one key head a query
/// head.
MixerMaps softmax_maps(const Var& q, const Var& k, const AttendOptions& options);
/// The same from products of queries and keys f32 or f64 [heads*T, T], before scaling; options.scale is given.
MixerMaps softmax_maps(const Tensor& products, const AttendOptions& options);

}  // namespace lithe

// Embedded tokens through a stack of layers: what an encoder and a decoder have in common.
#pragma once

#include "lithe/model/config.h"
#include "lithe/model/decode_state.h"
#include "lithe/nn/registry.h"
#include "lithe/ops/reversible.h"

namespace lithe {

// spec: arch.encoder | architecture | blocks in which every token sees all of its sequence | TB Eq 6.1-6.6, 6.16
class Backbone {
 public:
  /// Parameters stand under `scope`. With architecture encoder tokens see their whole sequence, else those before them;
  /// with encoder_decoder each layer also reads a memory (cross-attention).
  Backbone(const ModelConfig& config, const Scope& scope, const Embedding& embedding);
  Backbone(const Backbone&) = delete;

  /// Layers whose activations are recomputed in the backward pass instead of kept. Two streams never keep them.
  void set_recompute(bool on) { recompute_ = on; }
  /// Layers, from 0, that forward leaves out: whole, or their mixers alone. States made before must not be used after.
  void skip(const std::vector<int64_t>& layers, bool mixers_only);
  /// How the tokens of one sequence (ids i32 [T], or codes) meet, layer after layer.
  std::vector<MixerMaps> maps(const Tensor& ids, const Memory* memory) const;

  /// ids i32 [N], or codes i32 [N, token_width] -> the last layer's rows [N, D], normed where the wiring ends so. With
  /// a state the rows continue its sequences. `memory`: what cross-attention reads, where there is no state.
  Var forward(const Tensor& ids, const Sequences& sequences, DecodeState* state, const Memory* memory) const;

  /// `cache`: see Model::make_state.
  std::unique_ptr<DecodeState> make_state(int64_t sequences, int64_t capacity, std::optional<DType> cache) const;
  /// Gives a new state what the layers keep of the memory.
  void read_memory(DecodeState& state, const Memory& memory) const;
  /// Bytes of decode state when sequence b has tokens[b] tokens and a memory of memory_tokens[b], by the parts'
  /// formulas.
  int64_t state_bytes(const std::vector<int64_t>& tokens, const std::vector<int64_t>& memory_tokens,
                      std::optional<DType> cache) const;
  /// The longest sequence the parts allow; 0: unlimited.
  int64_t position_limit() const;

 private:
  enum class Sub { mixer, cross, ffn };
  struct Block {
    std::string name;
    std::unique_ptr<Norm> mixer_norm, cross_norm, ffn_norm;
    std::unique_ptr<Mixer> mixer, cross;  // cross: null without a memory
    std::unique_ptr<Ffn> ffn;
    Dropout mixer_dropout, cross_dropout, ffn_dropout;
    std::unique_ptr<Residual> mixer_residual, cross_residual, ffn_residual;
    Companion::Kind companion = Companion::Kind::none;
    bool skip_mixer = false, skip_ffn = false;
    bool skips(Sub sub) const { return sub == Sub::ffn ? skip_ffn : skip_mixer; }
    std::vector<Sub> subs() const {
      return cross ? std::vector<Sub>{Sub::mixer, Sub::cross, Sub::ffn} : std::vector<Sub>{Sub::mixer, Sub::ffn};
    }
  };
  ModelConfig config_;
  DType compute_;
  Device device_;
  Residual::Streams streams_;
  int64_t width_ = 0;  // of a stream
  const Embedding* embedding_;
  std::unique_ptr<Position> position_;
  std::unique_ptr<Norm> embedding_norm_;  // null: none
  Dropout embedding_dropout_;
  std::vector<Block> blocks_;
  std::unique_ptr<Norm> final_norm_;
  std::string final_norm_name_;
  bool recompute_ = false;
  bool wants_embedding_ = false;
  Companion reference_;     // the reference sequence; kind none: no layer asks for one
  Tensor reference_start_;  // its tokens i32 [max_position_embeddings], or its rows

  Block make_block(const Scope& scope, const PartChoice& mixer) const;
  Var embed(const Tensor& ids, const Sequences& sequences) const;
  /// One stream has all rows in `read`; two are in f32 where the rows are bf16, so that going back loses little.
  Streams begin(const Var& rows) const;
  Var end(const Streams& x) const;
  Var read_of(const Streams& x) const;
  Streams run_block(const Block& block, Streams x, const MixerInput& in, MixerState* cross) const;
  Streams run_reversible(Streams x, const Sequences& sequences, const Var& embedded, const std::vector<Var>& reference,
                         const Memory* memory) const;
  Var run_sub_layer(const Block& block, Sub sub, const Var& x, const MixerInput& in, MixerState* cross) const;
  Var companion_of(const Block& block, const Var& embedded, const Var& reference) const;
  DType state_type(const Mixer& mixer, std::optional<DType> cache) const;
  void set_up_companions();
  Tensor reference_start(int64_t rows) const;
  std::vector<Var> reference_rows(int64_t count) const;
};

}  // namespace lithe

// A language model assembled from parts, its decode state, and its files.
#pragma once

#include "lithe/model/config.h"
#include "lithe/nn/registry.h"

namespace lithe {

/// What a model keeps between decoding steps: one MixerState a layer, and the tokens each sequence has.
class DecodeState {
 public:
  DecodeState(std::vector<std::unique_ptr<MixerState>> layers, int64_t sequences, int64_t capacity)
      : layers_(std::move(layers)), lengths_(size_t(sequences), 0), capacity_(capacity) {}
  int64_t sequences() const { return int64_t(lengths_.size()); }
  int64_t length(int64_t b) const { return lengths_[size_t(b)]; }
  int64_t capacity() const { return capacity_; }
  MixerState* layer(int64_t i) const { return layers_[size_t(i)].get(); }
  /// Bytes in use, all layers and sequences.
  int64_t bytes() const;
  /// Sequence i continues what was sequence from[i]; others are dropped.
  void reorder(const std::vector<int64_t>& from);
  void truncate(int64_t sequence, int64_t tokens);
  /// For the model: `counts[b]` tokens were added.
  void advance(const Sequences& added);
  /// For the model: what each layer reads of the reference sequence (Companion), as far as it reaches; none where not
  /// asked.
  std::vector<Var> reference;

 private:
  std::vector<std::unique_ptr<MixerState>> layers_;
  std::vector<int64_t> lengths_;
  int64_t capacity_;
};

// spec: arch.encoder | architecture | blocks in which every token sees all of its sequence | TB Eq 6.1-6.6, 6.16
struct ModelOptions {
  Device device = Device::cpu;
  DType dtype = DType::f32;    // parameters
  DType compute = DType::f32;  // rows
  uint64_t seed = 1;
  bool trainable = false;
  const std::set<std::string>* integers = nullptr;  // parameters that load_weights() gives integer weights
};

// spec: arch.decoder_only | architecture | embedding, causal blocks, head | TB 6.1.1, Eq 6.200-6.201
class Model {
 public:
  Model(const ModelConfig& config, const ModelOptions& options);

  const ModelConfig& config() const { return config_; }
  Parameters& parameters() { return parameters_; }
  const Parameters& parameters() const { return parameters_; }
  DType compute_dtype() const { return context_.compute; }
  Device device() const { return context_.device; }
  /// Layers whose activations are recomputed in the backward pass instead of kept.
  void set_recompute(bool on) { recompute_ = on; }

  /// Layers, from 0, that forward leaves out: whole, or their mixers alone. States made before must not be used after.
  void skip(const std::vector<int64_t>& layers, bool mixers_only);
  /// How the tokens of one sequence (ids i32 [T], or codes) meet, layer after layer.
  std::vector<MixerMaps> maps(const Tensor& ids) const;

  /// ids i32 [N], or codes i32 [N, token_width] -> the last layer's rows [N, D], normed where the wiring ends so. With
  /// a state the rows continue its sequences: `lengths[b]` new tokens for sequence b.
  Var forward(const Tensor& ids, const Sequences& sequences, DecodeState* state = nullptr) const;
  /// Rows -> the head's predictions; without sequences the rows are of one.
  Var logits(const Var& rows, const Sequences& sequences) const;
  Var logits(const Var& rows) const { return logits(rows, Sequences::single(rows.rows(), device())); }
  /// The head's loss: scale * the sum over `labels`, as many as label_count() says. `predicted`, when not empty: only
  /// these rows are predicted, label i is of row predicted[i].
  Var loss(const Tensor& ids, const Tensor& labels, const Sequences& sequences, double smoothing, double scale,
           LossSums* sums = nullptr, Tensor row_nll = {}, const std::vector<int64_t>& predicted = {}) const;
  /// The same of rows that forward() gave.
  Var loss_of(const Var& rows, const std::vector<int64_t>& predicted, LossArgs args) const;
  /// Fails (usage) unless every row predicts the token after it, without having seen it: what generation and perplexity
  /// need.
  void check_predicts_next(const char* operation) const;
  Head::LabelCount label_count(const Sequences& sequences) const { return head_->count(sequences); }

  /// A state for `sequences` sequences of at most `capacity` tokens. Layers that keep rows of past tokens keep them in
  /// `cache` (f32, bf16, i8) where it is given, else in the compute dtype. Fails (usage) where it is given and none
  /// does.
  std::unique_ptr<DecodeState> make_state(int64_t sequences, int64_t capacity, std::optional<DType> cache = {}) const;
  /// The sequences that `counts` new tokens per sequence make after `state`.
  Sequences continue_sequences(const DecodeState& state, const std::vector<int64_t>& counts) const;
  /// Bytes of decode state when sequence b has tokens[b] tokens, by the parts' formulas.
  int64_t state_bytes(const std::vector<int64_t>& tokens, std::optional<DType> cache = {}) const;
  /// The longest sequence the parts allow; 0: unlimited.
  int64_t position_limit() const;

 private:
  struct Block {
    std::string name;
    std::unique_ptr<Norm> mixer_norm, ffn_norm;
    std::unique_ptr<Mixer> mixer;
    std::unique_ptr<Ffn> ffn;
    Dropout mixer_dropout, ffn_dropout;
    std::unique_ptr<Residual> mixer_residual, ffn_residual;
    Companion::Kind companion = Companion::Kind::none;
    bool skip_mixer = false, skip_ffn = false;
  };
  ModelConfig config_;
  Parameters parameters_;
  BuildContext context_;
  std::unique_ptr<Embedding> embedding_;
  std::unique_ptr<Position> position_;
  std::unique_ptr<Norm> embedding_norm_;  // null: none
  Dropout embedding_dropout_;
  std::vector<Block> blocks_;
  std::unique_ptr<Norm> final_norm_;
  std::unique_ptr<Head> head_;
  bool recompute_ = false;
  bool wants_embedding_ = false;
  Companion reference_;     // the reference sequence; kind none: no layer asks for one
  Tensor reference_start_;  // its tokens i32 [max_position_embeddings], or its rows

  Var embed(const Tensor& ids, const Sequences& sequences) const;
  Var run_block(const Block& block, const Var& x, const MixerInput& in) const;
  DType state_type(const Block& block, std::optional<DType> cache) const;
  Var companion_of(const Block& block, const Var& embedded, const Var& reference) const;
  void set_up_companions();
  Tensor reference_start(int64_t rows) const;
  std::vector<Var> reference_rows(int64_t count) const;
};

// spec: arch.encoder_only | architecture | encoder and a head over its rows | TB 6.1.1, 6.5
/// Weights as a safetensors file / from one. Loading checks that names and shapes match exactly. A file of `lithe
/// quantize` loads into a model that was made for its integer_weights() (model/quantized_weights.h).
void save_weights(const Model& model, const Path& file);
void load_weights(Model& model, const Path& file);
/// All but the head's, which stay as they are: for fine-tuning. Those must all be there.
void load_backbone(Model& model, const Path& file);

/// Writes config.json / reads it.
void save_config(const ModelConfig& config, const Path& file);
ModelConfig load_config(const Path& file);

}  // namespace lithe

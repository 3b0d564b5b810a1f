// A model assembled from parts, and its files.
#pragma once

#include "lithe/model/backbone.h"

namespace lithe {

struct ModelOptions {
  Device device = Device::cpu;
  DType dtype = DType::f32;    // parameters
  DType compute = DType::f32;  // rows
  uint64_t seed = 1;
  bool trainable = false;
  const std::set<std::string>* integers = nullptr;      // parameters that load_weights() gives integer weights
  const std::map<std::string, bool>* packed = nullptr;  // parameters packed for inference: packed_products()
  std::vector<std::string> frozen = {};                 // shell patterns of parameters that are not trained
  bool initialised = true;  // false where load_weights() follows, which fills every parameter or throws
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
  void set_recompute(bool on);

  /// Layers, from 0, of the decoder (or the one stack) that forward leaves out: whole, or their mixers alone. States
  /// made before must not be used after.
  void skip(const std::vector<int64_t>& layers, bool mixers_only) { decoder_->skip(layers, mixers_only); }
  /// encoder_decoder: source tokens i32 [M] -> what the decoder reads of them, by another pass than that of run().
  Rows encode(const Tensor& source, const Sequences& sequences, const Pass& pass = Pass()) const;
  /// ids i32 [N], or codes i32 [N, token_width] -> the last layer's rows, normed where the wiring ends so; fewer than N
  /// where layers shorten sequences. With a state the rows continue its sequences: `lengths[b]` new tokens for sequence
  /// b; under a tape the state must be differentiable. `source`: what an encoder_decoder without a state reads, one a
  /// sequence. `pass`: what the batch has beside its tokens, and receives auxiliary losses and taps.
  Rows run(const Tensor& ids, const Sequences& sequences, const Pass& pass, DecodeState* state = nullptr,
           const Rows* source = nullptr) const;
  /// The rows of run() alone.
  Var forward(const Tensor& ids, const Sequences& sequences, DecodeState* state = nullptr,
              const Rows* source = nullptr) const {
    return run(ids, sequences, Pass(), state, source).x;
  }
  /// Rows -> the head's predictions; without sequences the rows are of one.
  Var logits(const Var& rows, const Sequences& sequences) const;
  /// The same of rows that run() gave, each by the head of the exit that it left by: of the rows `wanted`, or of all
  /// (or of the sequences, where the head predicts for those).
  Var logits(const Rows& rows, const std::vector<int64_t>& wanted) const;
  Var logits(const Var& rows) const { return logits(rows, Sequences::single(rows.rows(), device())); }
  /// The head's loss: scale * the sum over `labels`, as many as label_count() says. `predicted`, when not empty: only
  /// these rows are predicted, label i is of row predicted[i].
  Var loss(const Tensor& ids, const Tensor& labels, const Sequences& sequences, double smoothing, double scale,
           LossSums* sums = nullptr, Tensor row_nll = {}, const std::vector<int64_t>& predicted = {}) const;
  /// The same of rows that forward() gave.
  Var loss_of(const Var& rows, const std::vector<int64_t>& predicted, LossArgs args) const;
  /// Where rows may leave the (decoder's) stack, the lowest first. A pass that is to have their losses wants them
  /// before it runs; afterwards it has the rows that leave there, normed as those of run() are.
  const std::vector<StackExit>& exits() const { return exits_; }
  void want_exits(Pass& pass) const;
  Rows exit_rows(const Pass& pass, int64_t exit, const Sequences& sequences) const;
  /// The loss of rows that leave there, by the head of that exit.
  Var loss_of_exit(int64_t exit, const Var& rows, const std::vector<int64_t>& predicted, const LossArgs& args) const;
  /// StoppingHead::stop_logits of rows that run() gave; undefined where the head does not know where texts end.
  Var stop_logits(const Var& rows) const;
  /// Fails (usage) unless every row predicts the token after it, without having seen it: what generation and perplexity
  /// need.
  void check_predicts_next(const char* operation) const;
  Head::LabelCount label_count(const Sequences& sequences) const { return head_->count(sequences); }
  /// A loss with the auxiliary losses of a pass added, `scale` times.
  static Var with_losses(const Var& loss, const Pass& pass, double scale = 1);

  /// A state for `sequences` sequences of at most `capacity` tokens. Layers that keep rows of past tokens keep them in
  /// `cache` (f32, bf16, i8) where it is given, else in the compute dtype. Fails (usage) where it is given and none
  /// does.
  std::unique_ptr<DecodeState> make_state(int64_t sequences, int64_t capacity, std::optional<DType> cache = {}) const {
    return decoder_->make_state(sequences, capacity, cache);
  }
  /// The same for passes that all rows leave below layer `layers` (ExitRule): those from there on keep nothing.
  std::unique_ptr<DecodeState> make_short_state(int64_t sequences, int64_t capacity, std::optional<DType> cache,
                                                int64_t layers) const {
    return decoder_->make_state(sequences, capacity, cache, layers);
  }
  /// encoder_decoder: encodes the sources, one a sequence of a new state, and keeps in it what the decoder reads.
  void read_source(DecodeState& state, const Tensor& source, const Sequences& sequences) const;
  /// The sequences that `counts` new tokens per sequence make after `state`.
  Sequences continue_sequences(const DecodeState& state, const std::vector<int64_t>& counts) const;
  /// Bytes of decode state when sequence b has tokens[b] tokens, and a source of source_tokens[b], by the parts'
  /// formulas.
  int64_t state_bytes(const std::vector<int64_t>& tokens, const std::vector<int64_t>& source_tokens = {},
                      std::optional<DType> cache = {}) const {
    return decoder_->state_bytes(tokens, source_tokens, cache);
  }
  /// The longest sequence the parts allow; 0: unlimited.
  int64_t position_limit() const { return decoder_->position_limit(); }
  /// The longest source; 0: unlimited.
  int64_t source_limit() const { return encoder_ ? encoder_->position_limit() : 0; }

 private:
  ModelConfig config_;
  Parameters parameters_;
  BuildContext context_, source_context_;  // source: of the encoder's side, whose depth and init may be others
  std::unique_ptr<Embedding> embedding_, source_embedding_;  // source: null when shared, or without an encoder
  std::unique_ptr<Backbone> encoder_, decoder_;              // encoder: of encoder_decoder; the one stack is decoder_
  std::unique_ptr<Head> head_;
  std::vector<StackExit> exits_;
  std::vector<std::unique_ptr<Head>> exit_heads_;  // one an exit; null: head_

  const Head& head_of(int64_t exit) const {
    return exit < 0 || !exit_heads_[size_t(exit)] ? *head_ : *exit_heads_[size_t(exit)];
  }
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

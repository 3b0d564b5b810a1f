// A model assembled from parts, and its files.
#pragma once

#include "lithe/model/backbone.h"
#include "lithe/model/division.h"
#include "lithe/nn/combiner.h"

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
  /// Where a Layout is in use that divides models, this rank's share of it.
  Model(const ModelConfig& config, const ModelOptions& options);

  const ModelConfig& config() const { return config_; }
  Parameters& parameters() { return parameters_; }
  const Parameters& parameters() const { return parameters_; }
  DType compute_dtype() const { return context_.compute; }
  Device device() const { return context_.device; }
  /// How it is divided among ranks; null: it is whole.
  const Division* division() const { return division_.get(); }
  /// Layers whose activations are recomputed in the backward pass instead of kept.
  void set_recompute(bool on);

  /// Layers, from 0, of the decoder (or the one stack) that forward leaves out: whole, or their mixers alone. States
  /// made before must not be used after.
  void skip(const std::vector<int64_t>& layers, bool mixers_only) { decoder_->skip(layers, mixers_only); }
  /// What the model makes of its input: the last layer's rows, normed where the wiring ends so; other rows than the
  /// input's where layers shorten sequences. With a state the rows continue its sequences (continue_sequences); under a
  /// tape it must be differentiable. The pass receives auxiliary losses, statistics and taps; what encoders leave is of
  /// Pass::of_source(), but for their losses and statistics, which are the pass's, too ("encoder." before the name).
  /// A source that the pass has already (Pass::set_source, as encode() gives it) is not read again. Further encoders of
  /// an encoder (model.combine) that are given no source read its own input.
  /// Fails (usage) where a part needs a column or a source that the input does not have.
  Rows run(const ModelInput& input, Pass& pass, DecodeState* state = nullptr) const;
  /// Columns that parts cannot do without, each once: of the model's own tokens, or of an encoder's.
  std::vector<std::string> reads_columns(const std::string& source = "") const;
  /// Embeddings of tokens of other kinds that stand among the model's own, or an encoder's.
  const std::map<std::string, std::unique_ptr<Embedding>>& modalities(const std::string& source = "") const {
    return source.empty() ? decoder_->modalities() : encoders_.at(source).stack->modalities();
  }
  /// encoder_decoder: what the encoder `name` makes of a source.
  Rows encode(const ModelInput& source, Pass& pass, const std::string& name = kSource) const;
  /// The head's predictions of rows that run() gave, each by the head of the exit that it left by: of the rows
  /// `wanted`, or of all (or of the sequences, where the head predicts for those).
  Var logits(const Rows& rows, const std::vector<int64_t>& wanted = {}) const;
  /// The head's loss of rows that run() gave: args.scale * the sum over the labels, as many as label_count() says.
  /// `predicted`, when not empty: only these rows are predicted, label i is of row predicted[i].
  Var loss_of(const Rows& rows, const std::vector<int64_t>& predicted, const LossArgs& args) const;
  /// Where rows may leave the (decoder's) stack, the lowest first. A pass that is to have their losses wants them
  /// before it runs; afterwards it has the rows that leave there, normed as those of run() are.
  const std::vector<StackExit>& exits() const { return exits_; }
  void want_exits(Pass& pass) const;
  Rows exit_rows(const Pass& pass, int64_t exit, const Sequences& sequences) const;
  /// The loss of rows that leave there, by the head of that exit.
  Var loss_of_exit(int64_t exit, const Rows& rows, const std::vector<int64_t>& predicted, const LossArgs& args) const;
  /// Head::parse of rows that run() gave.
  std::vector<Head::Parse> parse(const Rows& rows, const std::vector<std::vector<int64_t>>& words,
                                 bool projective) const {
    return head_->parse(rows, words, projective);
  }
  /// Head::stop_logits of rows that run() gave; undefined where the head does not know where texts end.
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
  /// encoder_decoder: encodes the sources (ModelInput::sources), and keeps in a new state what the decoder reads; those
  /// that are combined all at once.
  void read_sources(DecodeState& state, const std::map<std::string, ModelInput>& sources) const;
  /// The sequences that `counts` new tokens per sequence make after `state`.
  Sequences continue_sequences(const DecodeState& state, const std::vector<int64_t>& counts) const;
  /// Bytes of decode state when sequence b has tokens[b] tokens, and sources of source_tokens[b], by the parts'
  /// formulas.
  int64_t state_bytes(const std::vector<int64_t>& tokens, const std::vector<int64_t>& source_tokens = {},
                      std::optional<DType> cache = {}) const {
    return decoder_->state_bytes(tokens, source_tokens, cache);
  }
  /// The longest sequence the parts allow; 0: unlimited.
  int64_t position_limit() const { return decoder_->position_limit(); }
  /// Layers, of that source's encoder or else of the one stack or the decoder, whose compressor looks at the attention
  /// of the layer below.
  const std::vector<int64_t>& reads_below(const std::string& source = "") const {
    return source.empty() ? decoder_->reads_below() : encoders_.at(source).stack->reads_below();
  }
  /// The longest source; 0: unlimited.
  int64_t source_limit(const std::string& name = kSource) const {
    const auto encoder = encoders_.find(name);
    return encoder == encoders_.end() ? 0 : encoder->second.stack->position_limit();
  }
  /// The longest source that its encoder reads, and whose rows cross-attention can read; 0: unlimited.
  int64_t read_source_limit(const std::string& name = kSource) const;
  /// The rows of all encoders must be as many (Combiner::aligns).
  bool aligns_sources() const { return combiner_ && combiner_->aligns(); }

 private:
  void make_encoder(const std::string& name);
  void make_combiner(const Scope& root);
  int64_t width() const { return combiner_ ? combiner_->width() : config_.hidden_size; }  // of what run() gives
  bool row_a_token() const;
  Var own_logits(const Rows& rows, const std::vector<int64_t>& wanted) const;
  Var logits_of_last_stage(const Rows& rows, const std::vector<int64_t>& wanted) const;
  bool sends_rows() const { return division_ && !division_->last_stage(); }  // its rows go on elsewhere
  Scope at_end(const Scope& scope) const { return sends_rows() ? division_->elsewhere(scope) : scope; }
  std::map<std::string, Rows> encode_all(const ModelInput& input, Pass& pass) const;
  Rows combined(std::map<std::string, Rows> further, const Rows& text, const Pass& pass) const;
  void check_sources(const std::map<std::string, ModelInput>& sources) const;
  ModelConfig config_;
  Parameters parameters_;
  std::unique_ptr<Division> division_;
  struct Encoder {
    BuildContext context;                  // whose depth and init may be other than the decoder's
    std::unique_ptr<Embedding> embedding;  // null when shared
    std::unique_ptr<Backbone> stack;
  };
  BuildContext context_;
  std::unique_ptr<Embedding> embedding_;
  std::map<std::string, Encoder> encoders_;  // that read sources
  std::unique_ptr<Combiner> combiner_;       // of these, and in an encoder of its own rows; null: none
  std::unique_ptr<Backbone> decoder_;        // or the one stack
  std::unique_ptr<Head> head_;
  std::vector<StackExit> exits_;
  std::vector<std::unique_ptr<Head>> exit_heads_;  // one an exit; null: head_

  const Head& head_of(int64_t exit) const {
    return exit < 0 || !exit_heads_[size_t(exit)] ? *head_ : *exit_heads_[size_t(exit)];
  }
};

// spec: arch.encoder_only | architecture | encoder and a head over its rows | TB 6.1.1, 6.5
/// Where a model's integer weights are: in the file that is meant (save_weights() has no form for them and fails), or
/// in another, so that they are neither written nor read.
enum class IntegersIn { file, another_file };

/// Weights as a safetensors file / from one. Loading checks that names and shapes match exactly. A file of `lithe
/// quantize` loads into a model that was made for its integer_weights() (model/quantized_weights.h).
void save_weights(const Model& model, const Path& file, IntegersIn integers = IntegersIn::file);
void load_weights(Model& model, const Path& file, IntegersIn integers = IntegersIn::file);
/// All but the head's, which stay as they are: for fine-tuning. Those must all be there. `head_where_alike`: the
/// head's, too, where the file's has the same tensors.
void load_backbone(Model& model, const Path& file, bool head_where_alike = false);
/// The parameters whose names begin with `part` and a dot, from a weights file that has them under the same names, or,
/// where it has none of them, without that beginning ("encoder.layers.0..." from "layers.0..."). Fails where it lacks
/// one, or has it in another shape.
void load_part(Model& model, const std::string& part, const Path& file);

/// Writes config.json / reads it.
void save_config(const ModelConfig& config, const Path& file);
ModelConfig load_config(const Path& file);

}  // namespace lithe

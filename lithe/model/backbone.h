// Embedded tokens through a stack of layers: what an encoder and a decoder have in common.
#pragma once

#include "lithe/model/config.h"
#include "lithe/model/decode_state.h"
#include "lithe/model/division.h"
#include "lithe/nn/registry.h"

namespace lithe {

/// The column (Part::reads_columns) that every model gives itself: its tokens.
inline constexpr const char* kTokenColumn = "tokens";

// spec: arch.encoder | architecture | blocks in which every token sees all of its sequence | TB Eq 6.1-6.6, 6.16
class Backbone final : public Layers, public ExitHeads {
 public:
  /// Parameters stand under `scope`. With architecture encoder tokens see their whole sequence, else those before them;
  /// with encoder_decoder each layer also reads a source (cross-attention).
  Backbone(const ModelConfig& config, const Scope& scope, const Embedding& embedding);
  Backbone(const Backbone&) = delete;

  /// Layers whose activations are recomputed in the backward pass instead of kept.
  void set_recompute(bool on) { recompute_ = on; }
  /// Layers, from 0, that forward leaves out: whole, or their mixers alone. States made before must not be used after.
  void skip(const std::vector<int64_t>& layers, bool mixers_only);

  /// The last layer's rows, normed where the wiring ends so. With a state the rows continue its sequences; under a tape
  /// it must be differentiable. Without one the pass has what cross-attention reads (Pass::set_source).
  Rows forward(const ModelInput& input, const Pass& pass, DecodeState* state = nullptr) const;

  /// `cache`: see Model::make_state.
  std::unique_ptr<DecodeState> make_state(int64_t sequences, int64_t capacity, std::optional<DType> cache) const {
    return make_state(sequences, capacity, cache, count());
  }
  /// Layers from `layers` on keep nothing.
  std::unique_ptr<DecodeState> make_state(int64_t sequences, int64_t capacity, std::optional<DType> cache,
                                          int64_t layers) const;
  /// Where rows may leave the stack; `predict` is what the head of an exit says of normed rows.
  std::vector<StackExit> exits() const { return stack_->exits(); }
  void set_predict(std::function<Var(int64_t exit, const Rows& x)> predict) { predict_ = std::move(predict); }
  /// Rows as they leave the stack, normed where the wiring ends so.
  Var end_rows(const Var& x) const;
  /// Gives a new state what the layers keep of that source.
  void read_source(DecodeState& state, const std::string& name, const Rows& source) const;
  /// Bytes of decode state when sequence b has tokens[b] tokens and a source of source_tokens[b], by the parts'
  /// formulas.
  int64_t state_bytes(const std::vector<int64_t>& tokens, const std::vector<int64_t>& source_tokens,
                      std::optional<DType> cache) const;
  /// Some cross-attention reads Rows::embedded of that source; an encoder that is asked for it gives it.
  bool reads_source_embedding(const std::string& name) const { return reads_source_embedding_.count(name) > 0; }
  void give_embedding() { gives_embedding_ = true; }
  /// The longest sequence the parts allow; 0: unlimited.
  int64_t position_limit() const;
  /// Columns that parts need, each once.
  std::vector<std::string> reads_columns() const;
  /// Embeddings of tokens of other kinds, by name.
  const std::map<std::string, std::unique_ptr<Embedding>>& modalities() const { return modalities_; }
  /// Layers whose compressor looks at the attention of the one below.
  const std::vector<int64_t>& reads_below() const { return reads_below_; }
  /// The rows that come out may be fewer than the tokens: a compressor takes some, and no expander gives them back, or
  /// the stack drops them.
  bool shortens() const { return !shortener_.empty(); }
  /// What makes fewer rows, as errors name it; empty: nothing.
  const std::string& shortener() const { return shortener_; }
  bool drops_in_stack() const { return stack_->drops(); }
  /// The part that leaves as many rows as their contents say; empty: how many there are is known beforehand.
  const std::string& dropper() const { return dropper_; }
  /// The longest source of that name that cross-attention reads; 0: unlimited.
  int64_t source_limit(const std::string& name) const;

 private:
  /// A sub-layer in its place, with its wiring.
  struct Place {
    SubLayerConfig::Kind kind;
    std::string name;  // "layers.0.mixer"
    double scale = 1;  // 0: left out
    std::unique_ptr<Norm> norm;
    Dropout dropout;
    std::unique_ptr<SubLayer> part;
    std::unique_ptr<Residual> residual;
    std::string source;                                 // that it reads; empty: none
    bool keeps_target = true;                           // its state is of the tokens that it was run for
    std::optional<std::pair<int64_t, int64_t>> map_of;  // layer and sub-layer whose attention map it takes
  };
  struct Layer {
    std::string name;
    std::unique_ptr<Position> position;      // null: the model's
    std::unique_ptr<Compressor> compressor;  // null: none
    std::unique_ptr<Expander> expander;      // null: none
    std::vector<std::unique_ptr<Place>> places;
  };
  ModelConfig config_;
  DType compute_;
  Device device_;
  const Embedding* embedding_;
  Position::Args position_args_;
  std::unique_ptr<Position> position_;
  std::unique_ptr<Norm> embedding_norm_;  // null: none
  Dropout embedding_dropout_;
  std::unique_ptr<Stack> stack_;
  std::vector<Layer> layers_;
  std::unique_ptr<Norm> final_norm_;
  std::string final_norm_name_;
  bool recompute_ = false;
  bool embeds_around_ = false;  // the embedding reads the tokens around each one, and asks where sequences begin
  bool reads_embedding_ = false, gives_embedding_ = false;
  std::string shortener_, dropper_;
  std::set<std::string> reads_source_embedding_;
  std::vector<int64_t> reads_below_;  // layers whose compressor looks at the one below
  std::map<std::string, std::unique_ptr<Embedding>> modalities_;
  std::set<std::string> placed_;  // modalities whose rows position_ leaves alone (PlacedEmbedding)
  std::vector<std::pair<std::string, std::string>> columns_;  // that parts need: name, and the part
  std::optional<Reference> reference_;                        // that some layers read
  std::vector<int64_t> reference_readers_;
  Tensor reference_start_;  // its tokens i32 [max_position_embeddings], or its rows
  std::function<Var(int64_t exit, const Rows& x)> predict_;
  const Division* division_ = nullptr;  // null: all layers are here
  std::pair<int64_t, int64_t> stage_;   // the layers that are

  // Layers
  int64_t count() const override { return int64_t(layers_.size()); }
  Rows run(int64_t layer, const Rows& x, const Pass& pass, const std::vector<double>& gains) const override;
  Rows run_here(int64_t layer, const Rows& x, const Pass& pass, const std::vector<double>& gains) const;
  void skip(int64_t layer, const Rows& x, const Pass& pass) const override;
  int64_t sub_layers(int64_t layer) const override { return int64_t(layers_[size_t(layer)].places.size()); }
  Var change(int64_t layer, int64_t sub_layer, const Rows& x, const Pass& pass) const override;

  const ExitHeads* exit_heads() const override { return this; }

  // ExitHeads
  Var predict(int64_t exit, const Rows& x) const override;
  bool causal() const override { return !sees_ahead(config_.architecture); }

  static Position::Args position_args(const ModelConfig& config, const std::vector<LayerConfig>& layers);
  /// `owner`: where the parameters of its group stand; `scope` where it shares none.
  Layer make_layer(const Scope& scope, const Scope& owner, const LayerConfig& config) const;
  std::unique_ptr<Place> make_place(const Scope& scope, const Scope& owner, const LayerConfig& layer,
                                    const SubLayerConfig& sub, const Position& position) const;
  void check_alike(const std::vector<LayerConfig>& layers) const;
  void tie_maps();
  void check_lengths();
  void check_compressors();
  void gather_columns();
  void check_token_readers() const;
  void check_input(const ModelInput& input) const;
  Var with_guests(const Var& rows, const ModelInput& input, const Pass& pass, bool placed) const;
  bool is_placed(const std::string& modality) const { return placed_.count(modality) > 0; }
  Sequences counted_places(const ModelInput& input) const;
  Var embed(const ModelInput& input, const Pass& pass) const;
  Rows run_layer(int64_t layer, const Rows& x, const Pass& pass, const std::vector<double>& gains) const;
  template <class Wire>
  Var run_place(int64_t layer, int64_t sub_layer, double gain, const Rows& x, const Pass& pass, Wire wire) const;
  void skip_place(int64_t layer, int64_t sub_layer, const Rows& x, const Pass& pass) const;
  void skip_stages(int64_t layer, int64_t sub_layer, int64_t first, const Rows& x, const Pass& pass) const;
  static Rows source_of(const Place& place, Rows source);
  DType state_type(const Place& place, std::optional<DType> cache) const;
  void set_up_reference();
  void check_columns_of_reference() const;
  Tensor reference_start(int64_t rows) const;
  std::vector<Var> reference_rows(int64_t count) const;
};

}  // namespace lithe

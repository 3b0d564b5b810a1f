// Recipe section `model`: which parts make the model, and its sizes. Keys follow Hugging Face.
#pragma once

#include "lithe/base/fields.h"
#include "lithe/model/architecture.h"
#include "lithe/model/layer_config.h"
#include "lithe/model/share.h"
#include "lithe/nn/init.h"

namespace lithe {

struct ModelConfig {
  Architecture architecture = Architecture::decoder;
  int64_t vocab_size = 0;   // 0: the tokenizer's
  int64_t token_width = 0;  // ints a token (Embedding); 0: the tokenizer's, 1 where there is none
  int64_t hidden_size = 256, num_hidden_layers = 4, max_position_embeddings = 0;  // 0: data.sequence_length
  PartChoice embedding = standard("embedding"), position = standard("position"), mixer = standard("mixer"),
             ffn = standard("ffn"), norm = standard("norm"), residual = standard("residual"), stack = standard("stack"),
             head = standard("head");
  Node layers;                           // hybrids: name -> what a layer has that the keys above do not say
  Node mixers;                           // name -> mixer: layers that differ in nothing else
  std::vector<std::string> layer_types;  // one of these names a layer
  std::string layer_pattern;             // which layers are `standard`, the others `replaced`
  ShareConfig share;                     // which layers have their parameters in common
  Node encoder;                          // encoder_decoder: keys of this section that differ in the encoder
  Node encoders;                         // further encoders by name, each such keys
  Node combine;                          // how the encoders become one (slot combiner); empty: each is read by itself
  Node modalities;                       // name -> embedding of tokens of another kind (ModelInput::modalities)
  Node cross_attention;                  // encoder_decoder: a mixer; empty: the layer's own in its cross form
  bool share_encoder_decoder_embeddings = true;
  int64_t num_labels = 0;  // 0: the task's
  std::vector<std::string> label_names;
  bool tie_word_embeddings = true, embedding_norm = false;
  double hidden_dropout = 0;
  InitConfig init;
  Node quantization_config;  // of a config.json by `lithe quantize`: what was done; null: nothing. No recipe key

  void fields(Fields& f);
  /// What a slot has where nothing names a part (PartInfo::standard).
  static PartChoice standard(const char* slot);
  /// The name of layer `index` in `layers` or `mixers`, by layer_types or layer_pattern; empty: none is given.
  std::string layer_name(int64_t index) const;
  LayerConfig layer(int64_t index) const;
  /// The configuration of an encoder, this one with the keys of `encoder`, or of one of `encoders`.
  ModelConfig encoder_config(const std::string& name = kSource) const;
  /// Names of the encoders that read a source: of an encoder_decoder kSource first, then those of `encoders`. An
  /// encoder has the latter alone, where it combines them with itself.
  std::vector<std::string> source_names() const;
  /// `combine`, read; none: nothing is combined.
  std::optional<PartChoice> combiner() const;
  /// Layers follow each other in one stack, and each has parameters of its own: only a mixer may read another's.
  bool is_one_plain_stack() const;
  /// Layers, from 0, that `text` names: numbers from 1 ("1,3,5"), or names of layers ("replaced").
  std::vector<int64_t> layers_named(const std::string& text) const;
  /// Fills in what is 0 and a recipe need not say.
  void complete(int64_t vocabulary, int64_t width, int64_t positions);
  /// Gives the mixers that read a fixed sequence and have none the first max_position_embeddings of `ids`.
  void set_reference_ids(const std::vector<int64_t>& ids);
  /// Gives mixers with heads `from` heads `to`; fails (usage) when no mixer has them.
  void replace_heads(const std::string& from, const std::string& to);
  /// Some mixer reads a fixed sequence and has none.
  bool lacks_reference_ids() const;
  /// Checks what one field alone cannot show. vocab_size and max_position_embeddings must be known by now.
  void validate() const;
};

/// Every mixer that the configuration gives: the model's, those of `mixers` and those of `layers`, their sub-layers
/// included. `change` gets the part with its type, options read, and says whether it changed something; true when it
/// ever did.
bool change_mixers(ModelConfig& config, const std::function<bool(PartChoice&)>& change);

/// From a recipe's `model` section or a config.json.
ModelConfig read_model_config(const Node& node, const std::string& section = "model");

}  // namespace lithe

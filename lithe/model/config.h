// Recipe section `model`: which parts make the model, and its sizes. Keys follow Hugging Face.
#pragma once

#include "lithe/base/fields.h"
#include "lithe/nn/init.h"

namespace lithe {

struct ModelConfig {
  std::string architecture = "decoder";
  int64_t vocab_size = 0;                                                         // 0: the tokenizer's
  int64_t hidden_size = 256, num_hidden_layers = 4, max_position_embeddings = 0;  // 0: data.sequence_length
  PartChoice embedding{"lookup", {}}, position{"rotary", {}}, mixer{"attention", {}}, ffn{"swiglu", {}},
      norm{"rms", {}}, residual{"pre", {}}, head{"lm", {}};
  Node mixers;                           // hybrids: name -> mixer
  std::vector<std::string> layer_types;  // one name of `mixers` a layer
  bool tie_word_embeddings = true;
  double hidden_dropout = 0;
  InitConfig init;

  void fields(Fields& f);
  /// The mixer of a layer: `mixer`, or the one that layer_types names.
  PartChoice mixer_of(int64_t layer) const;
  /// Checks what one field alone cannot show. vocab_size and max_position_embeddings must be known by now.
  void validate() const;
};

/// From a recipe's `model` section or a config.json.
ModelConfig read_model_config(const Node& node, const std::string& section = "model");

}  // namespace lithe

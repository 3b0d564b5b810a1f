#include "lithe/model/config.h"

#include <algorithm>

#include "lithe/nn/registry.h"

namespace lithe {

void ModelConfig::fields(Fields& f) {
  Registry::instance();  // parts below are resolved through it
  f("architecture", architecture, "decoder: a causal language model", one_of({"decoder"}));
  f("vocab_size", vocab_size, "vocabulary entries V; 0: the tokenizer's", at_least(0));
  f("hidden_size", hidden_size, "model width D", between(1, 1 << 20));
  f("num_hidden_layers", num_hidden_layers, "layers L", between(0, 10000));
  f("max_position_embeddings", max_position_embeddings, "longest sequence in tokens; 0: data.sequence_length",
    at_least(0));
  f.part("embedding", "embedding", embedding, "tokens to rows");
  f.part("position", "position", position, "what positions add or turn");
  f.part("mixer", "mixer", mixer, "rows to rows across tokens, in every layer unless layer_types says otherwise");
  f.free("mixers", mixers, "hybrids: mixers under names of your own, which layer_types uses");
  f("layer_types", layer_types, "hybrids: one name of `mixers` a layer");
  f.part("ffn", "ffn", ffn, "rows to rows, per token");
  f.part("norm", "norm", norm, "normalisation of rows");
  f.part("residual", "residual", residual, "how sub-layers are wired");
  f.part("head", "head", head, "rows to predictions");
  f("tie_word_embeddings", tie_word_embeddings, "the head uses the embedding's table");
  f("hidden_dropout", hidden_dropout, "dropout after the embedding and each sub-layer, while training",
    between(0, 0.99));
  f.section("init", init, "how parameters start");
}

PartChoice ModelConfig::mixer_of(int64_t layer) const {
  if (layer_types.empty()) return mixer;
  const std::string& name = layer_types[size_t(layer)];
  const Node* node = mixers.find(name);
  std::vector<std::string> names;
  for (const auto& [key, value] : mixers.entries()) names.push_back(key);
  const std::string near = nearest(name, names);
  check_usage(node, "recipe", "layer_types names '", name, "', which model.mixers does not define",
              near.empty() ? "" : "; did you mean '" + near + "'?");
  struct One {
    PartChoice choice{"attention", {}};
    const char* name;
    void fields(Fields& f) { f.part(name, "mixer", choice, ""); }
  } one;
  one.name = name.c_str();
  Node wrapped = Node::map(node->mark());
  wrapped.set(name, *node);
  read_fields(wrapped, "model.mixers", [&](Fields& f) { one.fields(f); });
  return one.choice;
}

void ModelConfig::validate() const {
  check_usage(vocab_size >= 1, "model", "vocab_size must be at least 1, got ", vocab_size);
  check_usage(max_position_embeddings >= 1, "model", "max_position_embeddings must be at least 1, got ",
              max_position_embeddings);
  check_usage(layer_types.empty() || int64_t(layer_types.size()) == num_hidden_layers, "model", "layer_types has ",
              layer_types.size(), " names, num_hidden_layers is ", num_hidden_layers, "; give one name a layer");
  for (int64_t layer = 0; layer < num_hidden_layers; ++layer) mixer_of(layer);
  for (const auto& [name, value] : mixers.entries())
    check_usage(std::find(layer_types.begin(), layer_types.end(), name) != layer_types.end(), "model",
                "mixers defines '", name, "', which layer_types does not use; remove it or name it there");
}

ModelConfig read_model_config(const Node& node, const std::string& section) {
  ModelConfig config;
  read_fields(node, section, [&](Fields& f) { config.fields(f); });
  return config;
}

}  // namespace lithe

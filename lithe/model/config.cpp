#include "lithe/model/config.h"

#include <algorithm>
#include <functional>
#include <set>

#include "lithe/base/did_you_mean.h"
#include "lithe/model/layer_pattern.h"
#include "lithe/model/tags.h"
#include "lithe/nn/registry.h"

namespace lithe {

const std::vector<std::string>& architecture_names() {
  static const std::vector<std::string> names = {"decoder", "encoder", "encoder_decoder"};
  return names;
}

const std::string& name_of(Architecture architecture) { return architecture_names().at(size_t(architecture)); }

PartChoice ModelConfig::standard(const char* slot) { return Registry::instance().standard(slot); }

void ModelConfig::fields(Fields& f) {
  Registry::instance();  // parts below are resolved through it
  std::string name = name_of(architecture);
  f("architecture", name,
    "decoder: a causal language model; encoder: every token sees all of its sequence; encoder_decoder: a decoder that "
    "reads what an encoder made of another text (translation)",
    one_of(architecture_names()));
  architecture = Architecture(std::ranges::find(architecture_names(), name) - architecture_names().begin());
  f("vocab_size", vocab_size, "vocabulary entries V; 0: the tokenizer's", at_least(0).of({Dimension::vocabulary}));
  f("token_width", token_width,
    "integers per token: 1 is a token id, more are a code without a vocabulary (hashes, features); 0: the tokenizer's",
    between(0, 1 << 16));
  f("hidden_size", hidden_size, "model width D", between(1, 1 << 20).of({Dimension::hidden}));
  f("num_hidden_layers", num_hidden_layers, "layers L", between(0, 10000));
  f("max_position_embeddings", max_position_embeddings, "longest sequence in tokens; 0: data.sequence_length",
    at_least(0).of({Dimension::positions}));
  f.part("embedding", "embedding", embedding, "maps each token to a row (a vector of hidden_size numbers)");
  f.part("position", "position", position,
         "positional encoding: added to the rows, added to attention logits, or a rotation of queries and keys");
  f.part("mixer", "mixer", mixer,
         "token mixing (attention or what replaces it), in every layer unless layer_types says otherwise");
  f.free("layers", layers,
         "hybrids: kinds of layers under names of your own, for layer_types; each may have keys mixer, ffn, norm, "
         "residual, position, compressor, expander and sub_layers; keys that it does not have are the model's");
  f.free("mixers", mixers, "hybrids: short form of `layers` for kinds that differ only in their mixer: {name: mixer}");
  f("layer_types", layer_types, "hybrids: for each layer, the name of its kind in `layers` or `mixers`");
  std::vector<std::string> patterns = layer_pattern_names();
  patterns.insert(patterns.begin(), "");
  f("layer_pattern", layer_pattern,
    "hybrids: which layers are of the kind `standard` (in `layers` or `mixers`); all others are `replaced`. hybrid, "
    "even: even layers are standard; odd: odd ones; top, middle, bottom: this part is replaced; 25%: every fourth is "
    "standard; first, last, bilateral (both): these are standard; uniform: none",
    one_of(patterns));
  f.section("share", share, "layers that share their parameters (weight tying between layers)");
  f.free("encoder", encoder, "encoder_decoder: keys of section model that have other values in the encoder");
  f.free("encoders", encoders,
         "encoder_decoder, and encoder with combine: further encoders under names of your own, each with the keys of "
         "section model that differ (the encoders do not take the decoder's layers, mixers and layer_types). Layers "
         "read them by sub_layers: [mixer, cross, {cross: {type: attention}, source: name}, ffn]");
  f.free("combine", combine,
         "joins the rows of all encoders into one sequence, for the decoder's cross-attention or for the head of an "
         "encoder: a part of slot combiner, as {type: gate}; empty: layers read each encoder by its name");
  f.free("modalities", modalities,
         "embeddings for tokens of another kind (images, sounds) in the same sequence as the text: {name: embedding}, "
         "as {image: {type: features, num_features: 48}}");
  f.free("cross_attention", cross_attention,
         "encoder_decoder: the mixer for cross-attention; empty: the layer's own mixer");
  f("share_encoder_decoder_embeddings", share_encoder_decoder_embeddings,
    "encoder_decoder: source and target have one vocabulary and one embedding table");
  f.part("ffn", "ffn", ffn, "feed-forward network, for each token by itself");
  f.part("norm", "norm", norm, "normalisation of rows");
  f.part("residual", "residual", residual,
         "how the result of a sub-layer joins its input, and where the norm is (pre-norm, post-norm)");
  f.part("stack", "stack", stack, "how the layers are run: one after another, or with skips, exits or fusion");
  f.part("head", "head", head, "maps rows to predictions");
  f("num_labels", num_labels,
    "classes of the heads tag, classify, ctc and biaffine; 0: the number that the task or the objective needs",
    at_least(0).of({Dimension::classes}));
  f("label_names", label_names, "names of the classes, in order; training on a task sets them");
  f("tie_word_embeddings", tie_word_embeddings, "the head uses the embedding table as its weight");
  f("embedding_norm", embedding_norm, "a norm after the embedding, as in BERT");
  f("hidden_dropout", hidden_dropout, "dropout probability after the embedding and after each sub-layer, in training",
    between(0, 0.99));
  f.section("init", init, "initialisation of the parameters");
}

std::vector<std::string> ModelConfig::source_names() const {
  std::vector<std::string> out;
  if (reads_source(architecture)) out.push_back(kSource);
  for (const auto& [name, keys] : encoders.entries()) out.push_back(name);
  return out;
}

bool ModelConfig::is_one_plain_stack() const { return stack.type == "plain" && !share.any() && source_names().empty(); }

std::optional<PartChoice> ModelConfig::combiner() const {
  if (is_empty(combine)) return std::nullopt;
  return read_part(combine, "combine", "combiner", "model", standard("combiner"));
}

namespace {

// Some layer lists a cross-attention among its sub-layers.
bool read_sources(const Node& layers) {
  for (const auto& [name, layer] : layers.entries())
    if (const Node* subs = layer.find("sub_layers"); subs && subs->is_list())
      for (const Node& item : subs->items())
        if (item.is_map() ? item.find("cross") != nullptr : item.text() == "cross") return true;
  return false;
}

}  // namespace

ModelConfig ModelConfig::encoder_config(const std::string& name) const {
  const bool main = name == kSource;
  const Node& encoder = main ? this->encoder : *encoders.find(name);
  const std::string where = main ? "model.encoder" : "model.encoders." + name;
  ModelConfig same = *this;
  Node node = write_fields([&](Fields& f) { same.fields(f); });
  static const std::vector<std::string> of_both = {"architecture",
                                                   "hidden_size",
                                                   "encoder",
                                                   "encoders",
                                                   "combine",
                                                   "cross_attention",
                                                   "share_encoder_decoder_embeddings",
                                                   "head",
                                                   "num_labels",
                                                   "label_names",
                                                   "tie_word_embeddings"};
  node.erase("modalities");  // those of the decoder, whose layers read the encoders where there are several
  if (!is_empty(encoders) || read_sources(layers))  // layers of the decoder alone
    for (const char* key : {"layers", "mixers", "layer_types", "layer_pattern"}) node.erase(key);
  check_usage(is_empty(encoder) || encoder.is_map(), "recipe", to_string(encoder.mark()), ": ", where,
              " must hold keys of section model");
  if (encoder.is_map())
    for (const auto& [key, value] : encoder.entries()) {
      check_usage(std::find(of_both.begin(), of_both.end(), key) == of_both.end(), "recipe", to_string(value.mark()),
                  ": '", key, "' is the whole model's; give it in section model, not in ", where);
      node.set(key, value);
      // Which mixer a layer has is said in one way: the decoder's other ways do not hold here.
      if (key == "mixer")
        for (const char* other : {"layers", "mixers", "layer_types", "layer_pattern"})
          if (!encoder.find(other)) node.erase(other);
    }
  for (const char* key : {"encoder", "encoders", "combine", "cross_attention"}) node.erase(key);
  ModelConfig config = read_model_config(node, where);
  config.architecture = Architecture::encoder;
  return config;
}

std::string ModelConfig::layer_name(int64_t index) const {
  if (!layer_pattern.empty())
    return standard_layers(layer_pattern, num_hidden_layers)[size_t(index)] ? "standard" : "replaced";
  return layer_types.empty() ? "" : layer_types[size_t(index)];
}

namespace {

// Names of `layers` and `mixers`.
std::vector<std::string> names_of(const ModelConfig& config) {
  std::vector<std::string> names;
  for (const Node* section : {&config.layers, &config.mixers})
    for (const auto& [name, value] : section->entries()) names.push_back(name);
  return names;
}

// Before a layer is looked at: its name may be one of too many.
void check_layer_types(const ModelConfig& c) {
  check_usage(c.layer_types.empty() || int64_t(c.layer_types.size()) == c.num_hidden_layers, "model",
              "layer_types has ", c.layer_types.size(), " names, num_hidden_layers is ", c.num_hidden_layers,
              "; give one name a layer");
}

}  // namespace

LayerConfig ModelConfig::layer(int64_t index) const {
  check_layer_types(*this);
  LayerDefaults defaults{mixer,
                         ffn,
                         norm,
                         residual,
                         cross_attention,
                         reads_source(architecture) ? source_names() : std::vector<std::string>()};
  const std::string name = layer_name(index);
  if (name.empty()) return read_layer({}, "model", defaults);
  if (const Node* node = layers.find(name)) return read_layer(*node, "model.layers." + name, defaults);
  const Node* node = mixers.find(name);
  check_usage(node, "recipe", layer_pattern.empty() ? "layer_types" : "layer_pattern " + layer_pattern, " names '",
              name, "', which model.layers does not define",
              did_you_mean(name, names_of(*this)).empty()
                  ? "; define it like model.layers: {" + name + ": {mixer: {type: attention}}}"
                  : did_you_mean(name, names_of(*this)));
  defaults.mixer = read_part(*node, name, "mixer", "model.mixers", ModelConfig::standard("mixer"));
  return read_layer({}, "model", defaults);
}

std::vector<int64_t> ModelConfig::layers_named(const std::string& text) const {
  std::vector<int64_t> out;
  const std::vector<std::string> names = names_of(*this);
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string word = text.substr(at, comma - at);
    at = comma + 1;
    if (!word.empty() && word.find_first_not_of("0123456789") == std::string::npos && word.size() < 10) {
      const int64_t layer = std::stoll(word);
      check_usage(layer >= 1 && layer <= num_hidden_layers, "layers", "there is no layer ", layer,
                  "; the model has layers 1 to ", num_hidden_layers);
      out.push_back(layer - 1);
      continue;
    }
    const size_t before = out.size();
    for (int64_t layer = 0; layer < num_hidden_layers; ++layer)
      if (!word.empty() && layer_name(layer) == word) out.push_back(layer);
    check_usage(out.size() > before, "layers", "'", word, "' is neither a layer number (1 to ", num_hidden_layers,
                ") nor a name of layers of this model",
                names.empty() ? ", which is no hybrid" : ", which has " + join(names));
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

namespace {

constexpr const char* kReferenceIds = "reference_ids";

bool lacks_ids(const Node& options) {
  const Node* ids = options.find(kReferenceIds);
  return ids && ids->items().empty();
}

}  // namespace

bool change_mixers(ModelConfig& config, const std::function<bool(PartChoice&)>& change) {
  bool any = change(config.mixer);
  const auto node_of = [](const PartChoice& part) {
    Node node = part.options.is_null() ? Node::map() : part.options;
    node.set("type", Node::scalar(part.type));
    return node;
  };
  const auto changed = [&](const Node& before, const std::string& name, const std::string& section) {
    PartChoice part = read_part(before, name, "mixer", section, ModelConfig::standard("mixer"));
    const bool now = change(part);
    any = any || now;
    return now ? node_of(part) : before;
  };
  for (const auto& [name, value] : std::vector(config.mixers.entries()))
    config.mixers.set(name, changed(value, name, "model.mixers"));
  for (const auto& [name, value] : std::vector(config.layers.entries())) {
    Node layer = value;
    if (const Node* mixer = layer.find("mixer")) layer.set("mixer", changed(*mixer, "mixer", "model.layers." + name));
    if (const Node* subs = layer.find("sub_layers")) {
      Node list = Node::list({}, subs->mark());
      for (Node item : subs->items()) {
        if (const Node* mixer = item.find("mixer"))
          if (mixer->is_map()) item.set("mixer", changed(*mixer, "mixer", "model.layers." + name));
        list.push(item);
      }
      layer.set("sub_layers", list);
    }
    config.layers.set(name, layer);
  }
  return any;
}

void ModelConfig::replace_heads(const std::string& from, const std::string& to) {
  const bool any = change_mixers(*this, [&](PartChoice& part) {
    const Node* heads = part.options.find("heads");
    if (!heads || (heads->is_map() ? heads->find("type")->text() : heads->text()) != from) return false;
    const Node* norm = heads->find("qk_norm");
    check_usage(!norm || norm->text() == "none", "model", "heads ", from, " have qk_norm ", norm ? norm->text() : "",
                ", which ", to, " has not");
    const Node* clip = heads->find("clip_qkv");
    check_usage(!clip || clip->text() == "0", "model", "heads ", from, " have clip_qkv ", clip ? clip->text() : "",
                ", which ", to, " has not");
    part.options.set("heads", Node::scalar(to));
    return true;
  });
  check_usage(any, "model", "no mixer has heads ", from, ", which ", to, " would replace");
}

void ModelConfig::complete(int64_t vocabulary, int64_t width, int64_t positions) {
  if (!vocab_size) vocab_size = vocabulary;
  if (!token_width) token_width = width;
  if (!max_position_embeddings) max_position_embeddings = positions;
}

bool ModelConfig::lacks_reference_ids() const {
  for (int64_t index = 0; index < num_hidden_layers; ++index)
    for (const SubLayerConfig& sub : layer(index).sub_layers)
      if (lacks_ids(sub.part.options)) return true;
  return false;
}

void ModelConfig::set_reference_ids(const std::vector<int64_t>& ids) {
  check_usage(int64_t(ids.size()) >= max_position_embeddings, "model", "a fixed sequence must have ",
              max_position_embeddings, " tokens (max_position_embeddings), the text has ", ids.size());
  Node list = Node::list();
  for (int64_t i = 0; i < max_position_embeddings; ++i) list.push(Node::scalar(cat(ids[size_t(i)])));
  change_mixers(*this, [&](PartChoice& part) {
    const bool lacks = lacks_ids(part.options);
    if (lacks) part.options.set(kReferenceIds, list);
    return lacks;
  });
}

void ModelConfig::validate() const {
  check_usage(vocab_size >= 1, "model", "vocab_size must be at least 1, got ", vocab_size);
  check_usage(max_position_embeddings >= 1, "model", "max_position_embeddings must be at least 1, got ",
              max_position_embeddings);
  check_usage(is_empty(encoders) || encoders.is_map(), "recipe", to_string(encoders.mark()),
              ": model.encoders must hold encoders by name, as {syntax: {num_hidden_layers: 2}}");
  check_usage(!encoders.find(kSource), "model", "encoders has '", kSource, "', the name of model.encoder; rename it");
  const bool combines = combiner().has_value();
  check_usage(!combines || !is_empty(encoders), "model",
              "combine is of several encoders, and model.encoders has none; add one there, or leave combine out");
  const bool reads = reads_source(architecture) || (architecture == Architecture::encoder && combines);
  if (reads)
    for (const std::string& name : source_names()) try {
        encoder_config(name).validate();
      } catch (const Error& error) {
        throw Error(name == kSource ? "model.encoder" : "model.encoders." + name, error.what(), error.code());
      }
  if (reads_source(architecture)) {
    const ModelConfig source = encoder_config();
    check_usage(!share_encoder_decoder_embeddings || source.vocab_size == vocab_size, "model",
                "share_encoder_decoder_embeddings needs one vocabulary, the source's has ", source.vocab_size,
                " entries, the target's ", vocab_size, "; set it to false");
    check_usage(!share_encoder_decoder_embeddings || (source.embedding.type == embedding.type &&
                                                      to_yaml(source.embedding.options) == to_yaml(embedding.options)),
                "model", "share_encoder_decoder_embeddings needs one embedding, model.encoder has another (",
                source.embedding.type, "); set it to false");
    check_usage(token_width <= 1, "model", "an encoder_decoder predicts ids, but a token is ", token_width,
                " ints here; choose another tokenizer than a vocabulary-free one");
  } else {
    check_usage(is_empty(encoder) && (reads || is_empty(encoders)) && is_empty(cross_attention), "model",
                !is_empty(encoder)              ? "encoder"
                : !reads && !is_empty(encoders) ? "encoders"
                                                : "cross_attention",
                " is for architecture encoder_decoder, not ", architecture, "; leave it out",
                architecture == Architecture::encoder && !is_empty(encoders) && !reads
                    ? ", or say by model.combine how they become one"
                    : "");
  }
  check_usage(is_empty(modalities) || modalities.is_map(), "recipe", to_string(modalities.mark()),
              ": model.modalities must hold embeddings by name, as {image: {type: features, num_features: 48}}");
  check_layer_types(*this);
  share.validate(num_hidden_layers);
  check_usage(layer_types.empty() || layer_pattern.empty(), "model", "give layer_types or layer_pattern, not both");
  std::vector<std::string> used;
  std::set<std::string> read;
  for (int64_t index = 0; index < num_hidden_layers; ++index) {
    for (const SubLayerConfig& sub : layer(index).sub_layers)
      if (sub.kind == SubLayerConfig::Kind::cross) read.insert(sub.source);
    used.push_back(layer_name(index));
  }
  for (const auto& [name, keys] : encoders.entries())
    check_usage(
        combines || read.count(name), "model", "encoders has '", name,
        "', which no layer reads; give model.layers one with sub_layers: [mixer, {cross: {type: attention}, source: ",
        name, "}, ffn], combine it with the source (model.combine), or leave it out");
  if (!layer_pattern.empty()) used.insert(used.end(), {"standard", "replaced"});  // a short stack may lack one
  for (const auto& [section, node] : {std::pair<const char*, const Node&>("layers", layers), {"mixers", mixers}})
    for (const auto& [name, value] : node.entries()) {
      check_usage(std::find(used.begin(), used.end(), name) != used.end(), "model", section, " defines '", name,
                  "', which ", layer_pattern.empty() ? "layer_types" : "layer_pattern ", layer_pattern,
                  layer_pattern.empty() ? " does not use; remove it, name it there, or give layer_pattern"
                                        : " does not use; it reads standard and replaced: remove the others");
      check_usage(&node == &layers || !layers.find(name), "model", "layers and mixers both define '", name,
                  "'; keep the one in layers");
    }
  check_shared_tags(*this);
}

ModelConfig read_model_config(const Node& node, const std::string& section) {
  ModelConfig config;
  read_fields(node, section, [&](Fields& f) { config.fields(f); });
  return config;
}

}  // namespace lithe

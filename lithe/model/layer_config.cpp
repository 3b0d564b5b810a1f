#include "lithe/model/layer_config.h"

#include <algorithm>
#include <map>

#include "lithe/base/error.h"
#include "lithe/nn/registry.h"

namespace lithe {
namespace {

const std::map<std::string, SubLayerConfig::Kind> kKinds{
    {"mixer", SubLayerConfig::Kind::mixer}, {"cross", SubLayerConfig::Kind::cross}, {"ffn", SubLayerConfig::Kind::ffn}};

// The keys of a layer.
struct Section {
  PartChoice mixer, ffn, norm, residual;
  Node position, compressor, expander, sub_layers;
  void fields(Fields& f) {
    f.part("mixer", "mixer", mixer, "rows to rows across tokens");
    f.part("ffn", "ffn", ffn, "feed-forward network, for each token by itself");
    f.part("norm", "norm", norm, "normalisation of rows");
    f.part("residual", "residual", residual,
           "how the result of a sub-layer joins its input, and where the norm is (pre-norm, post-norm)");
    f.free("position", position, "how positions enter in this layer, by rotating queries and keys or adding to logits");
    f.free("compressor", compressor, "shortens the sequences that enter the layer");
    f.free("expander", expander, "gives the sequences that enter the layer the rows that a compressor below took");
    f.free("sub_layers", sub_layers,
           "sub-layers in order: mixer, ffn, {ffn: {type: gelu}, scale: 0.5}, or {cross: {type: attention}, "
           "source: name} of one of model.encoders; residual: part in an item wires it in its own way, as {cross: "
           "{type: attention}, residual: rezero} behind a gate that starts at 0");
  }
};

// One sub-layer by default, or from an item of sub_layers.
struct Item {
  const Section& layer;
  const LayerDefaults& defaults;
  const std::string& where;

  SubLayerConfig of(SubLayerConfig::Kind kind) const {
    SubLayerConfig out{.kind = kind};
    switch (kind) {
      case SubLayerConfig::Kind::mixer: out.part = layer.mixer; break;
      case SubLayerConfig::Kind::ffn: out.part = layer.ffn; break;
      case SubLayerConfig::Kind::cross:
        out.part = is_empty(defaults.cross) ? layer.mixer
                                            : read_part(defaults.cross, "cross_attention", "mixer", "model",
                                                        Registry::instance().standard("mixer"));
    }
    return out;
  }

  SubLayerConfig::Kind kind_of(const std::string& word, const Node& at) const {
    const auto found = kKinds.find(word);
    check_usage(found != kKinds.end(), "recipe", to_string(at.mark()), ": '", word, "' in ", where,
                ".sub_layers is no sub-layer; write mixer, ffn, ", !defaults.sources.empty() ? "cross, " : "",
                "or {ffn: part, scale: 0.5}");
    check_usage(found->second != SubLayerConfig::Kind::cross || !defaults.sources.empty(), "recipe",
                to_string(at.mark()), ": ", where, ".sub_layers has cross, which reads a source: only the decoder of ",
                "architecture encoder_decoder has one");
    return found->second;
  }

  SubLayerConfig read(const Node& item) const {
    if (item.is_scalar()) return of(kind_of(item.text(), item));
    std::optional<SubLayerConfig> out;
    double scale = 1;
    const Node *source = nullptr, *residual = nullptr;
    for (const auto& [key, value] : item.entries()) {
      if (key == "source") {
        source = &value;
        continue;
      }
      if (key == "residual") {
        residual = &value;
        continue;
      }
      if (key == "scale") {
        struct One {
          double scale = 1;
          void fields(Fields& f) { f("scale", scale, "", between(-1e6, 1e6)); }
        } one;
        Node wrapped = Node::map(item.mark());
        wrapped.set(key, value);
        read_fields(wrapped, where + ".sub_layers", [&](Fields& f) { one.fields(f); });
        scale = one.scale;
        continue;
      }
      const SubLayerConfig::Kind kind = kind_of(key, value);
      check_usage(!out, "recipe", to_string(item.mark()), ": an item of ", where,
                  ".sub_layers names two sub-layers; give each an item of its own");
      out = of(kind);
      if (!is_empty(value))
        out->part = read_part(value, key, out->kind == SubLayerConfig::Kind::ffn ? "ffn" : "mixer",
                              where + ".sub_layers", out->part);
    }
    check_usage(out.has_value(), "recipe", to_string(item.mark()), ": an item of ", where,
                ".sub_layers must be mixer, ffn, or {ffn: part, scale: 0.5}");
    out->scale = scale;
    if (residual) out->residual = read_part(*residual, "residual", "residual", where + ".sub_layers", layer.residual);
    if (source) {
      check_usage(out->kind == SubLayerConfig::Kind::cross, "recipe", to_string(source->mark()), ": source in ", where,
                  ".sub_layers says what cross reads; leave it out here");
      out->source = source->text();
      check_usage(std::find(defaults.sources.begin(), defaults.sources.end(), out->source) != defaults.sources.end(),
                  "recipe", to_string(source->mark()), ": ", where, ".sub_layers reads the encoder '", out->source,
                  "', the model has ", join(defaults.sources), "; define it in model.encoders");
    }
    return *out;
  }
};

}  // namespace

bool is_empty(const Node& node) { return node.is_null() || (node.is_map() && node.entries().empty()); }

PartChoice read_part(const Node& node, const std::string& name, const char* slot, const std::string& section,
                     PartChoice otherwise) {
  Node wrapped = Node::map(node.mark());
  wrapped.set(name, node);
  read_fields(wrapped, section, [&](Fields& f) { f.part(name.c_str(), slot, otherwise, ""); });
  return otherwise;
}

const PartChoice* LayerConfig::mixer() const {
  for (const SubLayerConfig& sub : sub_layers)
    if (sub.kind == SubLayerConfig::Kind::mixer) return &sub.part;
  return nullptr;
}

LayerConfig read_layer(const Node& node, const std::string& where, const LayerDefaults& defaults) {
  Section section{defaults.mixer, defaults.ffn, defaults.norm, defaults.residual, {}, {}, {}, {}};
  if (!is_empty(node)) read_fields(node, where, [&](Fields& f) { section.fields(f); });
  LayerConfig out{.sub_layers = {},
                  .norm = section.norm,
                  .residual = section.residual,
                  .position = {},
                  .compressor = {},
                  .expander = {}};
  if (!is_empty(section.position)) out.position = read_part(section.position, "position", "position", where, {});
  if (!is_empty(section.compressor))
    out.compressor = read_part(section.compressor, "compressor", "compressor", where, {});
  if (!is_empty(section.expander)) out.expander = read_part(section.expander, "expander", "expander", where, {});
  check_usage(!out.compressor || !out.expander, "recipe", where,
              " has a compressor and an expander; give the expander to a layer above");
  const Item item{section, defaults, where};
  if (section.sub_layers.is_null()) {
    out.sub_layers.push_back(item.of(SubLayerConfig::Kind::mixer));
    if (!defaults.sources.empty()) out.sub_layers.push_back(item.of(SubLayerConfig::Kind::cross));
    out.sub_layers.push_back(item.of(SubLayerConfig::Kind::ffn));
  } else {
    check_usage(section.sub_layers.is_list() && !section.sub_layers.items().empty(), "recipe",
                to_string(section.sub_layers.mark()), ": ", where, ".sub_layers must list what the layer runs, as in ",
                "[mixer, ffn]");
    for (const Node& each : section.sub_layers.items()) out.sub_layers.push_back(item.read(each));
  }
  std::map<SubLayerConfig::Kind, int> seen;
  for (SubLayerConfig& sub : out.sub_layers) {
    const int count = ++seen[sub.kind];
    for (const auto& [word, kind] : kKinds)
      if (kind == sub.kind) sub.name = count == 1 ? word : cat(word, "_", count);
  }
  return out;
}

}  // namespace lithe

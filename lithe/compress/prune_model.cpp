// The smaller model: its configuration, and the values of what stays (prune_model.h).
#include <algorithm>
#include <numeric>

#include "lithe/compress/prune_model.h"
#include "lithe/ops/basic.h"

namespace lithe {
namespace {

Node node_of_part(const PartChoice& part) {
  Node node = part.options.is_map() ? part.options : Node::map();
  node.set("type", Node::scalar(part.type, {}, true));
  return node;
}

// Options of a part that count what some of its axes do. `counts` are those of the part now, `kept` those that stay.
struct Resized {
  std::map<Dimension, int64_t> counts, kept;

  int64_t product(const std::vector<Dimension>& of, const std::map<Dimension, int64_t>& from) const {
    int64_t out = 1;
    for (const Dimension d : of) {
      const auto found = from.find(d);
      out *= found == from.end() ? 1 : std::max<int64_t>(found->second, 1);
    }
    return out;
  }
  bool changes(const std::vector<Dimension>& of) const {
    return std::ranges::any_of(of, [&](Dimension d) { return counts.count(d) && counts.at(d) != kept.at(d); });
  }
  bool any() const { return counts != kept; }

  void options(Node& node, const std::vector<FieldDoc>& docs) const {
    for (const FieldDoc& doc : docs) {
      const Node* given = node.find(doc.path);
      if (!given) continue;
      constexpr const char* kPart = "part of slot ";
      if (doc.type.starts_with(kPart)) {
        Node part = given->is_scalar() ? Node::map() : *given;
        const std::string type = given->is_scalar()               ? given->text()
                                 : given->find("type") != nullptr ? given->find("type")->text()
                                                                  : doc.default_value;
        const Registry::Entry& entry =
            Registry::instance().get(doc.type.substr(std::string(kPart).size()), type, given->mark());
        part.erase("type");
        Node resolved = entry.resolve(part, type);
        options(resolved, entry.describe());
        resolved.set("type", Node::scalar(type, given->mark(), true));
        node.set(doc.path, resolved);
        continue;
      }
      if (!given->is_scalar() || given->text().empty() || doc.sizes.empty() || !doc.per.empty()) continue;
      if (std::ranges::any_of(doc.sizes, [&](Dimension d) { return !counts.count(d); })) continue;
      // A 0 follows from numbers that may be others now.
      const bool follows = given->text() == "0";
      if (!changes(doc.sizes) && !follows) continue;
      node.set(doc.path, Node::scalar(std::to_string(product(doc.sizes, kept)), given->mark()));
    }
  }
};

// Counts of every dimension in the parameters under a path.
std::map<Dimension, int64_t> counts_under(const Model& model, const std::string& path) {
  std::map<Dimension, int64_t> out;
  for (const Parameter& p : model.parameters().all()) {
    if (!p.name.starts_with(path + ".")) continue;
    for (const Axis& axis : p.axes)
      for (const Axis::Factor& f : axis.factors())
        if (f.of != Dimension::none && f.of != Dimension::vocabulary && f.of != Dimension::positions)
          out[f.of] = std::max(out[f.of], f.count);
  }
  out.erase(Dimension::hidden);
  return out;
}

const std::vector<int64_t>* kept_of(const PruneKept& kept, const std::string& path, PruneUnit unit) {
  const auto found = kept.find({path, unit});
  return found == kept.end() ? nullptr : &found->second;
}

PartChoice smaller_part(const Model& model, const SubLayerConfig& sub, const std::string& at, const PruneKept& kept,
                        bool hidden) {
  Resized resized{counts_under(model, at), {}};
  resized.kept = resized.counts;
  if (const auto* heads = kept_of(kept, at, PruneUnit::heads)) {
    const Dimension of = resized.counts[Dimension::key_heads] > 1 ? Dimension::key_heads : Dimension::queries;
    resized.kept[of] = int64_t(heads->size());
  }
  if (const auto* units = kept_of(kept, at, PruneUnit::ffn)) resized.kept[Dimension::ffn] = int64_t(units->size());
  if (const auto* experts = kept_of(kept, at, PruneUnit::experts))
    resized.kept[Dimension::experts] = int64_t(experts->size());
  if (!resized.any() && !hidden) return sub.part;
  const char* slot = sub.kind == SubLayerConfig::Kind::ffn ? Ffn::slot : Mixer::slot;
  const Registry::Entry& entry = Registry::instance().get(slot, sub.part.type, {});
  Node options = entry.resolve(sub.part.options, at);
  resized.options(options, entry.describe());
  // As many experts as there are at most.
  if (const Node* chosen = options.find("num_experts_per_tok");
      chosen && resized.kept.count(Dimension::experts) && chosen->is_scalar() &&
      std::stoll(chosen->text()) > resized.kept[Dimension::experts])
    options.set("num_experts_per_tok", Node::scalar(std::to_string(resized.kept[Dimension::experts])));
  return {sub.part.type, entry.resolve(options, at)};
}

// A layer as a section of model.layers.
Node node_of_layer(const LayerConfig& layer) {
  Node out = Node::map(), subs = Node::list();
  out.set("norm", node_of_part(layer.norm));
  out.set("residual", node_of_part(layer.residual));
  if (layer.position) out.set("position", node_of_part(*layer.position));
  if (layer.compressor) out.set("compressor", node_of_part(*layer.compressor));
  if (layer.expander) out.set("expander", node_of_part(*layer.expander));
  for (const SubLayerConfig& sub : layer.sub_layers) {
    Node item = Node::map();
    item.set(sub.kind == SubLayerConfig::Kind::ffn     ? "ffn"
             : sub.kind == SubLayerConfig::Kind::cross ? "cross"
                                                       : "mixer",
             node_of_part(sub.part));
    if (sub.scale != 1) item.set("scale", Node::scalar(cat(sub.scale)));
    if (sub.kind == SubLayerConfig::Kind::cross && sub.source != kSource) item.set("source", Node::scalar(sub.source));
    subs.push(item);
  }
  out.set("sub_layers", subs);
  return out;
}

// mixer, (cross,) ffn and nothing of its own: a stack of such layers needs no names.
bool is_plain(const LayerConfig& layer, bool reads) {
  if (layer.position || layer.compressor || layer.expander) return false;
  using Kind = SubLayerConfig::Kind;
  const std::vector<Kind> usual =
      reads ? std::vector<Kind>{Kind::mixer, Kind::cross, Kind::ffn} : std::vector<Kind>{Kind::mixer, Kind::ffn};
  if (layer.sub_layers.size() != usual.size()) return false;
  for (size_t i = 0; i < usual.size(); ++i)
    if (layer.sub_layers[i].kind != usual[i] || layer.sub_layers[i].scale != 1) return false;
  return true;
}

// Where the layers and sub-layers of the smaller model come from.
struct LayerPlan {
  LayerConfig config;
  int64_t from = 0;                // layer
  std::vector<std::string> names;  // of its sub-layers before
};

std::vector<LayerPlan> plan_layers(const Model& model, const ModelConfig& stack, const std::string& before,
                                   const PruneKept& kept) {
  const bool hidden = kept_of(kept, "hidden", PruneUnit::hidden) != nullptr;
  std::vector<int64_t> layers(static_cast<size_t>(stack.num_hidden_layers));
  std::iota(layers.begin(), layers.end(), 0);
  if (const auto* some = kept_of(kept, before + "layers", PruneUnit::layers)) layers = *some;
  std::vector<LayerPlan> out;
  for (const int64_t l : layers) {
    LayerPlan plan{stack.layer(l), l, {}};
    std::vector<SubLayerConfig> subs;
    const std::string path = cat(before, "layers.", l);
    const auto* some = kept_of(kept, path, PruneUnit::sub_layers);
    for (size_t s = 0; s < plan.config.sub_layers.size(); ++s) {
      SubLayerConfig sub = plan.config.sub_layers[s];
      const std::string at = path + "." + sub.name;
      if (some && std::ranges::find(*some, int64_t(s)) == some->end()) continue;
      const auto emptied = [&](PruneUnit unit) {
        const auto* units = kept_of(kept, at, unit);
        return units && units->empty();
      };
      if (emptied(PruneUnit::heads) || emptied(PruneUnit::ffn) || emptied(PruneUnit::experts)) continue;
      sub.part = smaller_part(model, sub, at, kept, hidden);
      plan.names.push_back(sub.name);
      subs.push_back(sub);
    }
    plan.config.sub_layers = subs;
    if (!subs.empty()) out.push_back(plan);  // a layer without any passes its rows on
  }
  check_usage(!out.empty(), "prune", "no layer would be left; keep more");
  return out;
}

// Writes the layers of a stack into a section of keys of `model`.
void write_layers(Node& section, const std::vector<LayerPlan>& plans, bool reads, bool encoder) {
  std::vector<std::string> texts;
  bool same = true, plain = true;
  for (const LayerPlan& plan : plans) {
    texts.push_back(to_yaml(node_of_layer(plan.config)));
    same = same && texts.back() == texts.front();
    plain = plain && is_plain(plan.config, reads);
  }
  section.set("num_hidden_layers", Node::scalar(std::to_string(plans.size())));
  for (const char* key : {"layers", "mixers"}) section.set(key, Node::map());
  section.set("layer_pattern", Node::scalar("", {}, true));
  section.set("layer_types", Node::list());
  if (same && plain) {
    const LayerConfig& first = plans.front().config;
    section.set("mixer", node_of_part(first.sub_layers.front().part));
    section.set("ffn", node_of_part(first.sub_layers.back().part));
    section.set("norm", node_of_part(first.norm));
    section.set("residual", node_of_part(first.residual));
    if (reads) section.set("cross_attention", node_of_part(first.sub_layers[1].part));
    if (!encoder)
      for (const char* key : {"layers", "mixers", "layer_pattern", "layer_types"}) section.erase(key);
    return;
  }
  std::map<std::string, std::string> names;
  Node layers = Node::map(), types = Node::list();
  for (size_t i = 0; i < plans.size(); ++i) {
    const auto [at, first] = names.emplace(texts[i], cat("pruned_", names.size() + 1));
    if (first) layers.set(at->second, node_of_layer(plans[i].config));
    types.push(Node::scalar(at->second));
  }
  section.set("layers", layers);
  section.set("layer_types", types);
}

ModelConfig config_of(const Model& model, const PruneKept& kept, std::map<std::string, std::vector<LayerPlan>>& plans) {
  ModelConfig same = model.config();
  const bool reads = reads_source(same.architecture);
  Node node = write_fields([&](Fields& f) { same.fields(f); });
  const std::string main = reads ? "decoder." : "";
  plans[main] = plan_layers(model, same, main, kept);
  if (reads) {
    const ModelConfig encoder = same.encoder_config();
    plans["encoder."] = plan_layers(model, encoder, "encoder.", kept);
    Node section = same.encoder.is_map() ? same.encoder : Node::map();
    write_layers(section, plans["encoder."], false, true);
    node.set("encoder", section);
  }
  write_layers(node, plans[main], reads, false);
  if (const auto* channels = kept_of(kept, "hidden", PruneUnit::hidden))
    node.set("hidden_size", Node::scalar(std::to_string(channels->size())));
  ModelConfig out = read_model_config(node, "model");
  out.validate();
  return out;
}

// "layers.1.mixer.heads.q.weight" of the smaller model as the name that it has in the larger one.
struct SourceNames {
  const std::map<std::string, std::vector<LayerPlan>>& plans;
  const PruneKept& kept;

  std::string of(const std::string& name) const {
    for (const auto& [before, layers] : plans) {
      const std::string start = before + "layers.";
      if (!name.starts_with(start)) continue;
      const size_t dot = name.find('.', start.size());
      const LayerPlan& plan = layers[size_t(std::stoll(name.substr(start.size(), dot - start.size())))];
      std::string rest = name.substr(dot + 1);
      for (size_t s = 0; s < plan.names.size(); ++s) {
        const std::string counted = renumbered(plan, s);
        if (rest == counted || rest.starts_with(counted + ".") || rest.starts_with(counted + "_norm")) {
          rest = plan.names[s] + rest.substr(counted.size());
          break;
        }
      }
      return expert(cat(start, plan.from, ".", rest));
    }
    return name;
  }

 private:
  // What the sub-layer is called in the smaller layer: the second of a kind that loses its first is the first.
  static std::string renumbered(const LayerPlan& plan, size_t s) {
    int count = 0;
    for (size_t i = 0; i <= s; ++i) count += plan.config.sub_layers[i].kind == plan.config.sub_layers[s].kind;
    const char* word = plan.config.sub_layers[s].kind == SubLayerConfig::Kind::ffn     ? "ffn"
                       : plan.config.sub_layers[s].kind == SubLayerConfig::Kind::cross ? "cross"
                                                                                       : "mixer";
    return count == 1 ? word : cat(word, "_", count);
  }
  std::string expert(const std::string& name) const {
    for (const auto& [key, indices] : kept) {
      if (key.second != PruneUnit::experts) continue;
      const std::string start = key.first + ".experts.";
      if (!name.starts_with(start)) continue;
      const size_t dot = name.find('.', start.size());
      const auto i = size_t(std::stoll(name.substr(start.size(), dot - start.size())));
      return start + std::to_string(indices[i]) + name.substr(dot);
    }
    return name;
  }
};

}  // namespace

ModelConfig pruned_config(const Model& model, const PruneKept& kept) {
  std::map<std::string, std::vector<LayerPlan>> plans;
  return config_of(model, kept, plans);
}

// spec: prune.structured | compression | heads, units, experts, channels and layers deleted | TB 6.4.7(2)
std::unique_ptr<Model> prune(const Model& model, const PruneKept& kept) {
  for (const auto& [key, indices] : kept) {
    const auto under = [&path = key.first](const Parameter& p) { return p.name.starts_with(path + "."); };
    check_usage(key.second == PruneUnit::hidden || std::ranges::any_of(model.parameters().all(), under), "prune",
                "the model has no '", key.first, "'; name a part as its tensors are named");
  }
  std::map<std::string, std::vector<LayerPlan>> plans;
  const ModelConfig config = config_of(model, kept, plans);
  const SourceNames sources{plans, kept};
  const bool meta = model.device() == Device::meta;
  auto out = std::make_unique<Model>(config, ModelOptions{.device = model.device(),
                                                          .dtype = wide_of(model.compute_dtype()),
                                                          .compute = wide_of(model.compute_dtype())});
  std::map<std::string, const Parameter*> from;
  for (const Parameter& p : model.parameters().all()) from[p.name] = &p;
  for (Parameter& p : out->parameters().all()) {
    const std::string name = sources.of(p.name);
    const auto found = from.find(name);
    check_usage(found != from.end(), "prune", "tensor '", p.name, "' of the smaller model has no source '", name,
                "': the part does not shrink so; leave it out of --units");
    Selection selection;
    for (const auto& [key, indices] : kept) {
      const auto& [path, unit] = key;
      if (unit == PruneUnit::hidden) selection[Dimension::hidden] = {model.config().hidden_size, indices};
      if (!name.starts_with(path + ".")) continue;
      const auto counts = counts_under(model, path);
      const auto take = [&, &chosen = indices](Dimension of) { selection[of] = {counts.at(of), chosen}; };
      if (unit == PruneUnit::ffn) take(Dimension::ffn);
      if (unit == PruneUnit::experts) take(Dimension::experts);
      if (unit == PruneUnit::heads)
        take(counts.count(Dimension::key_heads) && counts.at(Dimension::key_heads) > 1 ? Dimension::key_heads
                                                                                       : Dimension::queries);
    }
    const Slice slice = Slice::of(found->second->axes, selection);
    check_usage(slice.shape() == p.master.shape(), "prune", "tensor '", p.name, "' would be ", slice.shape(),
                ", and the smaller model needs ", p.master.shape(),
                ": the part does not shrink so; leave it out of --units");
    if (meta) continue;
    const Tensor numbers = found->second->numbers();
    p.assign(convert(slice.taken(numbers), p.master.dtype()));
  }
  out->parameters().refresh_views();
  return out;
}

}  // namespace lithe

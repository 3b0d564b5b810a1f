#include "lithe/model/prunable.h"

#include <algorithm>

#include "lithe/base/part_options.h"
#include "lithe/ops/basic.h"

namespace lithe {
namespace {

constexpr std::pair<PruneUnit, const char*> kPruneUnits[] = {
    {PruneUnit::heads, "heads"},           {PruneUnit::ffn, "ffn"},
    {PruneUnit::experts, "experts"},       {PruneUnit::hidden, "hidden"},
    {PruneUnit::sub_layers, "sub_layers"}, {PruneUnit::layers, "layers"}};

bool stands_under(const std::string& name, const std::string& path) {
  return path.empty() || (name.starts_with(path) && name.size() > path.size() && name[path.size()] == '.');
}

// A stack of layers: the decoder's (or the one there is) and the encoder's.
struct PruneStack {
  std::string before;  // of the names: "", or "decoder." and "encoder."
  ModelConfig config;
  std::vector<int64_t> reads_below;  // Model::reads_below
};
std::vector<PruneStack> stacks_of(const Model& model) {
  const ModelConfig& config = model.config();
  if (!reads_source(config.architecture)) return {{"", config, model.reads_below()}};
  return {{"decoder.", config, model.reads_below()},
          {"encoder.", config.encoder_config(), model.reads_below(config.source_names().front())}};
}

// Layers that stay: those that shorten or expand the rows, and those whose attention a compressor looks at.
std::set<int64_t> fixed_layers(const PruneStack& stack) {
  std::set<int64_t> out;
  for (int64_t l = 0; l < stack.config.num_hidden_layers; ++l)
    if (const LayerConfig layer = stack.config.layer(l); layer.compressor || layer.expander) out.insert(l);
  for (const int64_t l : stack.reads_below) out.insert(l - 1);
  return out;
}

// Mixers that stay, of a layer whose attention a compressor looks at.
std::set<int64_t> fixed_sub_layers(const PruneStack& stack, int64_t layer) {
  std::set<int64_t> out;
  const std::vector<SubLayerConfig> subs = stack.config.layer(layer).sub_layers;
  for (size_t s = 0; s < subs.size(); ++s)
    if (subs[s].kind == SubLayerConfig::Kind::mixer &&
        std::ranges::find(stack.reads_below, layer + 1) != stack.reads_below.end())
      out.insert(int64_t(s));
  return out;
}

std::string path_of_layer(const std::string& before, int64_t layer) { return cat(before, "layers.", layer); }

bool couples(const Model& model, const std::string& path, Dimension of) {
  return std::ranges::any_of(model.parameters().couplings(), [&](const Coupling& c) {
    return c.of == of && (c.path == path || stands_under(c.path, path));
  });
}

// The factor of a parameter's axes in a part that counts `of`: as many in all that have it, else 0.
int64_t count_in(const Model& model, const std::string& path, Dimension of) {
  int64_t count = 0;
  for (const Parameter& p : model.parameters().all()) {
    if (!stands_under(p.name, path)) continue;
    const int64_t here = count_of(p.axes, of);
    if (here > count) count = here;
  }
  return count;
}

bool joins_in(const Model& model, const std::string& path, Dimension of) {
  return std::ranges::any_of(model.parameters().all(), [&](const Parameter& p) {
    return stands_under(p.name, path) && p.joins && (of == Dimension::none || count_of(p.axes, of));
  });
}

}  // namespace

const char* name_of(PruneUnit unit) {
  for (const auto& [of, name] : kPruneUnits)
    if (of == unit) return name;
  return "";
}

PruneUnit prune_unit_named(const std::string& name) {
  for (const auto& [of, known] : kPruneUnits)
    if (name == known) return of;
  fail_usage("prune", "'", name, "' is nothing that can be taken out; choose among ", join(prune_unit_names()));
}

std::vector<std::string> prune_unit_names() {
  std::vector<std::string> out;
  for (const auto& [of, name] : kPruneUnits) out.emplace_back(name);
  return out;
}

std::vector<PruneGroup> prune_groups(const Model& model, const std::set<PruneUnit>& units,
                                     std::vector<std::string>& left) {
  const ModelConfig& config = model.config();
  check_usage(config.share.layers == "none", "prune", "layers share their parameters (share.layers ",
              config.share.layers,
              "), so that taking from one takes from all; `lithe convert --densify` gives each its own");
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const PartChoice* mixer = config.layer(i).mixer();
    check_usage(!mixer || !shared_by_layers(*mixer), "prune",
                "layers share maps of their mixers (share: layers), which "
                "the first of them has, so that it cannot go; choose another share");
  }
  check_usage(is_empty(config.encoders), "prune", "a model with several encoders (model.encoders) is not pruned yet");
  std::vector<PruneGroup> out;
  const auto add = [&](PruneUnit unit, const std::string& path, Dimension of, int64_t count,
                       const std::set<int64_t>& fixed = {}) {
    if (!units.count(unit) || count <= 1) return;
    if (!fixed.empty())
      left.push_back(cat(path, ": ", fixed.size(), " of its ", count, " ", name_of(unit),
                         " have or feed a compressor or an expander, so that they stay"));
    if (count > std::max<int64_t>(1, int64_t(fixed.size()))) out.push_back({unit, path, of, count, fixed});
  };
  if (units.count(PruneUnit::hidden)) add(PruneUnit::hidden, "", Dimension::hidden, config.hidden_size);
  for (const PruneStack& stack : stacks_of(model)) {
    for (int64_t l = 0; l < stack.config.num_hidden_layers; ++l) {
      const std::string path = path_of_layer(stack.before, l);
      for (const SubLayerConfig& sub : stack.config.layer(l).sub_layers) {
        const std::string at = path + "." + sub.name;
        if (sub.kind == SubLayerConfig::Kind::ffn) {
          if (units.count(PruneUnit::experts))
            add(PruneUnit::experts, at, Dimension::experts, count_in(model, at, Dimension::experts));
          if (units.count(PruneUnit::ffn) && joins_in(model, at, Dimension::ffn))
            add(PruneUnit::ffn, at, Dimension::ffn, count_in(model, at, Dimension::ffn));
          continue;
        }
        if (!units.count(PruneUnit::heads)) continue;
        const int64_t groups = count_in(model, at, Dimension::key_heads),
                      queries = count_in(model, at, Dimension::queries);
        const Dimension of = groups > 1 ? Dimension::key_heads : Dimension::queries;
        if (groups <= 1 && queries <= 1) continue;
        if (couples(model, at, of))
          left.push_back(at +
                         ": its heads depend on each other (a Hadamard output, a norm over all of them), so that "
                         "they stay; `lithe convert --densify` makes them independent");
        else if (!joins_in(model, at, of))
          left.push_back(at + ": no output matrix has its heads, so that they stay");
        else
          add(PruneUnit::heads, at, of, std::max(groups > 1 ? groups : queries, int64_t(0)));
      }
    }
    if (units.count(PruneUnit::layers))
      add(PruneUnit::layers, stack.before + "layers", Dimension::none, stack.config.num_hidden_layers,
          fixed_layers(stack));
    if (units.count(PruneUnit::sub_layers))
      for (int64_t l = 0; l < stack.config.num_hidden_layers; ++l)
        add(PruneUnit::sub_layers, path_of_layer(stack.before, l), Dimension::none,
            int64_t(stack.config.layer(l).sub_layers.size()), fixed_sub_layers(stack, l));
  }
  check_usage(!out.empty(), "prune", "the model has none of the units that --units names", left.empty() ? "" : ": ",
              left.empty() ? "" : left.front(), "; choose other --units");
  return out;
}

std::optional<Slice> elements_of(const Parameter& p, const PruneGroup& group, int64_t index) {
  const auto whole = [&] { return Slice::of(p.axes, {}); };
  switch (group.unit) {
    case PruneUnit::layers: {
      const std::string path = cat(group.path, ".", index);
      return stands_under(p.name, path) ? std::optional(whole()) : std::nullopt;
    }
    case PruneUnit::sub_layers: return std::nullopt;  // by name: see joining()
    case PruneUnit::experts:
      if (!stands_under(p.name, group.path)) return std::nullopt;
      if (stands_under(p.name, cat(group.path, ".experts.", index))) return whole();
      [[fallthrough]];
    default:
      if (!stands_under(p.name, group.path) || count_of(p.axes, group.of) != group.count) return std::nullopt;
      return Slice::of(p.axes, {{group.of, {group.count, {index}}}});
  }
}

std::vector<Parameter*> joining(Model& model, const PruneGroup& group, int64_t unit) {
  std::vector<Parameter*> out;
  for (Parameter& p : model.parameters().all()) {
    if (!p.joins) continue;
    if (group.unit == PruneUnit::sub_layers) {
      const bool encoder = group.path.starts_with("encoder.");
      const ModelConfig config = encoder ? model.config().encoder_config() : model.config();
      const int64_t layer = std::stoll(group.path.substr(group.path.rfind('.') + 1));
      const std::string at = group.path + "." + config.layer(layer).sub_layers[size_t(unit)].name;
      if (stands_under(p.name, at)) out.push_back(&p);
    } else if (group.unit == PruneUnit::layers || group.unit == PruneUnit::experts) {
      const std::string at =
          group.unit == PruneUnit::layers ? cat(group.path, ".", unit) : cat(group.path, ".experts.", unit);
      if (stands_under(p.name, at)) out.push_back(&p);
    } else if (stands_under(p.name, group.path) && count_of(p.axes, group.of) == group.count) {
      out.push_back(&p);
    }
  }
  return out;
}

void mask(Model& model, const PruneKept& kept) {
  for (const auto& [key, indices] : kept) {
    std::vector<std::string> left;
    for (const PruneGroup& group : prune_groups(model, {key.second}, left)) {
      if (group.name() != key.first) continue;
      for (int64_t i = 0; i < group.count; ++i) {
        if (std::ranges::find(indices, i) != indices.end()) continue;
        for (Parameter* p : joining(model, group, i)) {
          const auto of_unit = elements_of(*p, group, i);
          const Slice slice = of_unit ? *of_unit : Slice::of(p->axes, {});
          const Tensor numbers = p->numbers();
          slice.put(numbers, zeros(slice.shape(), numbers.dtype()));
          p->assign(numbers);
        }
      }
    }
  }
  model.parameters().refresh_views();
}

}  // namespace lithe

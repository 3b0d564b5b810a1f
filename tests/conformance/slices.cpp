// A smaller model, each of whose parameters is a slice of a larger model's, is the larger one with everything else at
// zero, unless a part says that it couples a dimension (Scope::couples).
#include <algorithm>
#include <cmath>

#include "tests/conformance/checks.h"

namespace lithe::conformance {
namespace {

// Nothing in it couples channels or heads but what a case puts in. The first one that a part takes.
constexpr const char* kPlain[] = {"{hidden_size: 16, ", "{hidden_size: 24, "};
constexpr const char* kRest =
    " num_hidden_layers: 2, vocab_size: 12, num_labels: 4, max_position_embeddings: 12, position: "
    "none, norm: none, mixer: {type: attention, num_attention_heads: 4, head_dim: 4}, ffn: "
    "{type: relu, intermediate_size: 12}, tie_word_embeddings: false}";

using Sizes = std::map<Dimension, int64_t>;

// The tree of a configuration in full: every part with all its options.
Node tree_of(ModelConfig config) {
  return write_fields([&](Fields& f) { config.fields(f); });
}

// Calls change(option, what it sizes) on the integers of a tree, those of parts within parts included.
void each_size(Node& node, const std::vector<FieldDoc>& docs,
               const std::function<void(Node& value, const FieldDoc& doc)>& change) {
  const std::string part = "part of slot ";
  for (const FieldDoc& doc : docs) {
    const Node* found = node.find(doc.path);
    if (!found) continue;
    Node value = *found;
    if (doc.type.starts_with(part) && value.find("type"))
      each_size(value,
                Registry::instance().get(doc.type.substr(part.size()), value.find("type")->text(), {}).describe(),
                change);
    else if (!doc.sizes.empty())
      change(value, doc);
    node.set(doc.path, value);
  }
}

std::vector<FieldDoc> model_docs() {
  return describe_fields([](Fields& f) { ModelConfig().fields(f); });
}

// What would follow from another width is given, so that one of them can change alone.
ModelConfig explicit_sizes(const ModelConfig& config) {
  Node node = tree_of(config);
  each_size(node, model_docs(), [](Node& value, const FieldDoc& doc) {
    const auto sizes = [&](Dimension of) { return std::ranges::find(doc.sizes, of) != doc.sizes.end(); };
    const bool heads = doc.path == "num_attention_heads";
    if (value.text() != "0" && !heads) return;
    const int64_t given = heads                         ? 4
                          : sizes(Dimension::experts)   ? 48
                          : sizes(Dimension::ffn)       ? 12
                          : sizes(Dimension::key_heads) ? 2
                          : doc.path == "head_dim"      ? 4
                                                        : 0;
    value = Node::scalar(std::to_string(given));
  });
  return read_model_config(node);
}

struct Ratio {
  int64_t to = 1, from = 1;
  void times(const Ratio& r) { to *= r.to, from *= r.from; }
};

// No part refuses it.
bool builds(const ModelConfig& config) {
  try {
    Model(config, kit::kMeta);
    return true;
  } catch (const Error& error) {
    if (error.code() != ExitCode::usage) throw;
    return false;
  }
}

// The configuration with a part of some dimensions; none where an option of several is no whole number then, or a part
// refuses it.
std::optional<ModelConfig> smaller(const ModelConfig& config, const std::set<Dimension>& of, Ratio ratio) {
  Node node = tree_of(config);
  bool whole = true;
  each_size(node, model_docs(), [&](Node& value, const FieldDoc& doc) {
    Ratio all;
    for (const Dimension d : doc.sizes)
      if (of.count(d)) all.times(ratio);
    for (const Dimension d : doc.per)
      if (of.count(d)) all.times({ratio.from, ratio.to});
    const int64_t number = std::stoll(value.text()), scaled = number * all.to / all.from;
    whole = whole && (doc.sizes.size() == 1 || number * all.to % all.from == 0);
    value = Node::scalar(std::to_string(number > 0 ? std::max<int64_t>(1, scaled) : number));
  });
  if (!whole) return std::nullopt;
  try {
    const ModelConfig out = read_model_config(node);
    if (builds(out)) return out;
  } catch (const Error&) {  // of the keys
  }
  return std::nullopt;
}

// What becomes of each dimension between two models: some of it. None where something grows.
std::optional<Selection> difference_of(const Model& large, const Model& small) {
  Selection out;
  for (const Parameter& p : small.parameters().all()) {
    const Parameter* whole = const_cast<Model&>(large).parameters().find(p.name);  // NOLINT: only read
    if (!whole || whole->axes.size() != p.axes.size()) return std::nullopt;
    for (size_t a = 0; a < p.axes.size(); ++a) {
      const auto &from = whole->axes[a].factors(), &to = p.axes[a].factors();
      if (from.size() != to.size()) return std::nullopt;
      for (size_t f = 0; f < from.size(); ++f) {
        if (from[f] == to[f]) continue;
        if (from[f].of != to[f].of || from[f].of == Dimension::none || to[f].count > from[f].count) return std::nullopt;
        Kept& kept = out[from[f].of];
        if (kept.count >= from[f].count) continue;
        kept = {.count = from[f].count, .indices = {}};
        for (int64_t i = 0; i < to[f].count; ++i) kept.indices.push_back(i);
      }
    }
  }
  return out;
}

struct Sliced {
  ModelConfig config;
  Selection kept;
};

// A smaller configuration in which there is less of a dimension, alone or with one that goes with it where the channels
// of heads are those of the rows.
std::optional<Sliced> slice(const ModelConfig& config, const Model& large, Dimension of, int64_t count) {
  std::vector<Ratio> ratios{{1, 2}};
  for (int64_t to = count - 1; to > 0; --to) ratios.push_back({to, count});
  for (const Ratio ratio : ratios)
    for (const Dimension other : {of, Dimension::hidden, Dimension::key_heads, Dimension::head_width}) {
      const std::set<Dimension> with{of, other};
      if (of != Dimension::hidden && other != of && other != Dimension::hidden) continue;
      const auto less = smaller(config, with, ratio);
      if (!less) continue;
      const auto kept = difference_of(large, Model(*less, kit::kMeta));
      if (kept && kept->count(of)) return Sliced{*less, *kept};
    }
  return std::nullopt;
}

// Not the first ones, where all axes agree on what there is and nothing else says which they are.
bool take_the_last(const Model& large, Selection& kept) {
  if (kept.size() != 1) return false;
  auto& [of, only] = *kept.begin();
  if (of == Dimension::taps || of == Dimension::positions || of == Dimension::vocabulary) return false;
  for (const Parameter& p : large.parameters().all())
    for (const Axis& axis : p.axes)
      for (const Axis::Factor& f : axis.factors())
        if (f.of == of && f.count != only.count) return false;
  for (int64_t& i : only.indices) i += only.count - int64_t(only.indices.size());
  return true;
}

bool coupled(const Model& model, const Selection& kept) {
  return std::ranges::any_of(model.parameters().couplings(), [&](const Coupling& c) { return kept.count(c.of) > 0; });
}

std::string compare_slices(const ModelConfig& config, Dimension of, const Sliced& sliced) {
  Model large(config, kit::kTrainable), small(sliced.config, kit::kTrainable);
  kit::randomise(large.parameters(), 5);
  Selection kept = sliced.kept;
  const bool last = take_the_last(large, kept);
  for (Parameter& p : small.parameters().all()) {
    const Parameter& whole = *large.parameters().find(p.name);
    const Slice slice = last ? Slice::of(whole.axes, kept) : Slice::first(whole.axes, p.axes);
    const Tensor part = slice.taken(whole.master.value());
    if (part.shape() != p.master.shape()) return cat(p.name, " is ", p.master.shape(), ", its slice ", part.shape());
    p.assign(part);
    slice.mask(whole.master.value());
  }
  const kit::Batch batch = kit::random_batch({5, 1, 4}, sliced.config, 7);
  const std::vector<double> want = kit::run_training(large, batch).at("logits"),
                            got = kit::run_training(small, batch).at("logits");
  double size = 1;
  for (const double x : got) {
    if (!std::isfinite(x)) return "a slice's logits are not finite";
    size = std::max(size, std::abs(x));
  }
  if (coupled(large, kept)) return "";
  if (kept.count(Dimension::none)) return "a number of a part's own follows it; say which dimension that is";
  // Of a vocabulary or of classes the larger model has logits that the smaller one has not.
  const auto columns = kept.find(of);
  const bool of_logits = want.size() != got.size();
  const int64_t cols = of_logits ? int64_t(columns->second.indices.size()) : 1,
                all = of_logits ? columns->second.count : 1;
  if (int64_t(want.size()) * cols != int64_t(got.size()) * all)
    return cat(got.size(), " logits of a slice, ", want.size(), " of the whole");
  for (size_t i = 0; i < got.size(); ++i) {
    const int64_t at = of_logits ? int64_t(i) / cols * all + columns->second.indices[i % size_t(cols)] : int64_t(i);
    if (std::abs(got[i] - want[size_t(at)]) > 1e-9 * size)
      return cat("logit ", i, " of the slice is ", got[i], ", of the masked model ", want[size_t(at)]);
  }
  return "";
}

// What axes count, of which there is more than one.
Sizes declared(const Model& model) {
  Sizes out;
  for (const Parameter& p : model.parameters().all())
    for (const Axis& axis : p.axes)
      for (const Axis::Factor& f : axis.factors())
        if (f.of != Dimension::none && f.count > 1) out[f.of] = std::max(out[f.of], f.count);
  return out;
}

// Where attention has logits scaled by the root of its heads' width: by a constant, so that the width is not coupled.
ModelConfig scaled_by(Dimension of, ModelConfig config) {
  if (of == Dimension::head_width && config.mixer.options.find("query_pre_attn_scalar"))
    config.mixer.options.set("query_pre_attn_scalar", Node::scalar("9"));
  return config;
}

}  // namespace

std::string check_slices(const PartCase& part) {
  if (part.info().recurs) return "";  // stands in model.cross_attention alone, whose options are not sized here
  std::vector<ModelConfig> configs;
  for (const char* plain : kPlain) {
    ModelConfig config = config_in(std::string(plain) + kRest, part);
    if (part.info().causal) configs.push_back(explicit_sizes(config));
    config.architecture = Architecture::encoder, config.head = {"classify", {}};
    configs.push_back(explicit_sizes(config));
  }
  for (const ModelConfig& config : configs) {
    if (!builds(config) && &config != &configs.back()) continue;
    const Model large(config, kit::kMeta);
    for (const auto& [of, count] : declared(large)) {
      const ModelConfig whole = scaled_by(of, config);
      const auto sliced = slice(whole, large, of, count);
      if (!sliced && coupled(Model(whole, kit::kMeta), {{of, {}}})) continue;
      if (!sliced) return cat("no configuration has a part of its ", count, " ", to_string(of));
      if (const std::string why = compare_slices(whole, of, *sliced); !why.empty())
        return cat("of ", to_string(of), ": ", why);
    }
    break;
  }
  return "";
}

}  // namespace lithe::conformance

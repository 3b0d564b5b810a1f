#include "lithe/model/grow.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "lithe/model/adapter_layout.h"
#include "lithe/model/layer_of.h"
#include "lithe/ops/basic.h"

namespace lithe {
namespace {

const Parameter& source_of(const Model& from, const std::string& name, const char* operation) {
  Parameter* p = const_cast<Model&>(from).parameters().find(name);  // NOLINT: only read
  check_usage(p, operation, "the smaller model has no parameter '", name, "' to grow from");
  return *p;
}

// Options of a configuration that size something wider, times a factor.
class Wider {
 public:
  Wider(int64_t factor, int64_t hidden_size) : factor_(factor), hidden_size_(hidden_size) {}

  /// Of the model, or of a section of it that gives layers parts of their own, under the names of slots.
  void section(Node& node, const std::vector<FieldDoc>& docs) const {
    if (node.is_list()) {
      Node items = Node::list({}, node.mark());
      for (Node item : node.items()) section(item, docs), items.push(item);
      node = items;
    }
    if (!node.is_map()) return;
    for (const auto& [key, value] : std::vector(node.entries())) {
      const auto doc = std::ranges::find(docs, key, &FieldDoc::path);
      Node changed = value;
      if (doc == docs.end() && !Registry::instance().slot(key).empty())
        part(changed, key, "");
      else if (doc != docs.end() && doc->type.starts_with(kPart))
        part(changed, doc->type.substr(std::string(kPart).size()), doc->default_value);
      else if (doc != docs.end() && value.is_scalar())
        scale(changed, *doc);
      else
        section(changed, docs);
      node.set(key, changed);
    }
  }
  /// Parts of one slot under names.
  void parts(Node& node, const std::string& slot) const {
    for (const auto& [name, value] : std::vector(node.entries())) {
      Node changed = value;
      part(changed, slot, "");
      node.set(name, changed);
    }
  }

 private:
  static constexpr const char* kPart = "part of slot ";
  int64_t factor_, hidden_size_;

  void scale(Node& node, const FieldDoc& doc) const {
    if (!node.is_scalar() || node.text().empty() || doc.sizes.empty()) return;
    const auto widens = [](Dimension of) {
      return of == Dimension::hidden || of == Dimension::key_heads || of == Dimension::queries || of == Dimension::ffn;
    };
    if (!std::ranges::any_of(doc.sizes, widens) || std::ranges::any_of(doc.per, widens)) return;
    node = Node::scalar(std::to_string(std::stoll(node.text()) * factor_), node.mark());
  }
  void part(Node& node, const std::string& slot, const std::string& otherwise) const {
    if (node.is_null()) return;
    const bool named = node.is_scalar();  // the type alone
    const Node* given = named ? &node : node.find("type");
    const std::string type = given ? given->text() : otherwise;
    check_usage(!type.empty(), "grow", to_string(node.mark()), ": a part of slot ", slot, " without a type");
    const Registry::Entry& entry = Registry::instance().get(slot, type, node.mark());
    Node options = named ? Node::map() : node;
    options.erase("type");
    Node wide = entry.resolve(options, slot + " " + type);
    give_sizes(wide, entry);
    section(wide, entry.describe());
    wide.set("type", Node::scalar(type, node.mark(), true));
    node = wide;
  }
  // A 0 says "by hidden_size" and stays, but where that is rounded and does not grow by a whole factor.
  void give_sizes(Node& options, const Registry::Entry& entry) const {
    if (entry.slot != Ffn::slot) return;
    for (const FieldDoc& doc : entry.describe()) {
      const Node* given = doc.sizes.empty() ? nullptr : options.find(doc.path);
      if (!given || given->text() != "0") continue;
      const int64_t size = size_of(entry, options, doc.sizes, hidden_size_);
      if (size_of(entry, options, doc.sizes, hidden_size_ * factor_) != size * factor_)
        options.set(doc.path, Node::scalar(std::to_string(size), given->mark()));
    }
  }
  // What an option that sizes these dimensions is in a part built alone.
  static int64_t size_of(const Registry::Entry& entry, const Node& options, const std::vector<Dimension>& sizes,
                         int64_t hidden_size) {
    Parameters parameters;
    BuildContext context{.parameters = &parameters, .device = Device::meta, .init = {}};
    const auto part =
        Registry::instance().make<Ffn>({entry.name, options}, Scope(context), {.hidden_size = hidden_size});
    int64_t size = 1;
    for (const Dimension of : sizes)
      for (const Parameter& p : parameters.all())
        if (const int64_t count = count_of(p.axes, of)) {
          size *= count;
          break;
        }
    return size;
  }
};

Node node_of(const ModelConfig& config) {
  ModelConfig same = config;
  return write_fields([&](Fields& f) { same.fields(f); });
}

}  // namespace

ModelConfig deepened(const ModelConfig& config, int64_t layers) {
  const int64_t before = config.num_hidden_layers;
  check_usage(before >= 1 && layers > before && layers % before == 0, "grow", "the model has ", before,
              " layers; give a multiple of that, not ", layers);
  check_usage(config.layer_pattern.empty(), "grow", "layer_pattern ", config.layer_pattern,
              " names layers by the depth, so copies would be other layers; only models without one grow deeper");
  check_usage(!reads_source(config.architecture) && is_empty(config.encoders), "grow",
              "an encoder-decoder, and an encoder beside others, has two stacks; only models of one grow deeper");
  const std::string& sharing = config.share.layers;
  check_usage(sharing == "none" || sharing == "all" || sharing == "cycle", "grow", "share.layers ", sharing,
              " gives copies other groups; only models that share nothing, all, or in cycles grow deeper");
  ModelConfig out = config;
  out.num_hidden_layers = layers;
  for (int64_t i = before; i < layers && !config.layer_types.empty(); ++i)
    out.layer_types.push_back(config.layer_types[size_t(i % before)]);
  return out;
}

ModelConfig widened(const ModelConfig& config, int64_t factor) {
  check_usage(factor >= 1, "grow", "the width grows by a whole factor, at least 1, not ", factor);
  check_usage(!reads_source(config.architecture) && is_empty(config.encoders), "grow",
              "an encoder-decoder, and an encoder beside others, has two stacks; only models of one grow wider");
  Node node = node_of(config);
  const Wider wider(factor, config.hidden_size);
  Node mixers = config.mixers;
  wider.parts(mixers, Mixer::slot);
  wider.section(node, describe_fields([](Fields& f) { ModelConfig().fields(f); }));
  if (!mixers.is_null()) node.set("mixers", mixers);
  if (factor > 1) node.set("tie_word_embeddings", Node::scalar("false"));
  return read_model_config(node, "model");
}

std::string shallow_name(const std::string& name, int64_t layers) {
  const std::string begin = "layers.";
  const int64_t layer = layer_of(name);
  return layer < 0 ? name : cat(begin, layer % layers, name.substr(name.find('.', begin.size())));
}

// spec: grow.depth_stack | growth | layers are copied on top of themselves | TB 6.3.2(2), E18
void grow_depth(const Model& from, Model& to, bool zero_residual) {
  const int64_t before = from.config().num_hidden_layers;
  for (Parameter& p : to.parameters().all()) {
    const Tensor x = source_of(from, shallow_name(p.name, before), "grow").numbers();
    check_usage(x.shape() == p.master.shape(), "grow", "'", p.name, "' is ", x.shape(), " in the model and ",
                p.master.shape(), " with more layers (a part that looks at all layers); it cannot grow deeper");
    const bool zero = zero_residual && p.joins && layer_of(p.name) >= before;
    p.assign(zero ? zeros(x.shape(), x.dtype(), x.device()) : x);
  }
  to.parameters().refresh_views();
}

// spec: grow.width_tile | growth | k x k tiles of each matrix, divided by the copies of its inputs | TB Eq 6.111, E22
void grow_width(const Model& from, Model& to, double noise, uint64_t seed) {
  for (Parameter& p : to.parameters().all()) {
    const bool untied =
        from.config().tie_word_embeddings && !to.config().tie_word_embeddings && p.name == "head.weight";
    const Parameter& source = source_of(from, untied ? "embedding.weight" : p.name, "grow");
    const Axes axes = untied ? Axes(source.axes.rbegin(), source.axes.rend()) : source.axes;
    Tensor numbers = source.numbers();
    if (untied) numbers = turned_matrix(numbers, 1, numbers.dtype());
    const Tensor x = Slice::tiled(axes, p.axes).taken(numbers), y = p.numbers();
    const double scale = axes.size() == 2 ? double(axes[0].size()) / double(p.axes[0].size()) : 1;
    const RandomKey key{.seed = seed, .purpose = purpose_of("grow." + p.name)};
    for (int64_t i = 0; i < y.numel(); ++i) {
      const double value = value_at(x, i) * scale;
      set_value(y, i, noise == 0 ? value : value * (1 + noise * random_normal(key, uint64_t(i))));
    }
    if (p.rest.defined()) p.assign(y);
  }
  to.parameters().refresh_views();
}

namespace {

// Columns of a made-up treebank for models that read some: a word a token, the head of word w is word w / 2.
std::map<std::string, Tensor> made_up_columns(const Model& model, int64_t n) {
  std::map<std::string, Tensor> out;
  for (const std::string& name : model.reads_columns()) {
    const bool parser = name == "head_probabilities";
    const Tensor column = empty(parser ? Shape{n, 2} : Shape{n}, DType::i32);
    for (int64_t i = 0; i < n; ++i) {
      int32_t* to = column.data<int32_t>() + i * (parser ? 2 : 1);
      const auto head = int32_t((i + 1) / 2);
      *to = name == "word" ? int32_t(i) : name == "span" ? head : int32_t(i % 2);  // else a tag, or none
      if (parser || name == "head") *to = head;
      if (name == "depth") *to = int32_t(3 + i % 2);
      if (name == "common") *to = int32_t(i + 1 < n);
      if (parser) to[1] = std::bit_cast<int32_t>(1.0f);
    }
    out[name] = column;
  }
  return out;
}

}  // namespace

double difference_of_predictions(const Model& a, const Model& b) {
  const NoGrad no_grad;
  constexpr int64_t kTokens = 64;  // more than attention fields show a query by default
  const int64_t limit = a.position_limit(), most = std::min(a.config().max_position_embeddings, kTokens),
                n = limit ? std::min(limit, most) : most, width = std::max<int64_t>(a.config().token_width, 1);
  check_usage(width == 1, "grow", "models of codes in place of ids cannot be compared here");
  const Tensor ids = empty({n}, DType::i32);
  for (int64_t i = 0; i < n; ++i)
    set_value(ids, i,
              std::floor(random_uniform({.seed = 1, .purpose = purpose_of("grow")}, uint64_t(i)) *
                         double(a.config().vocab_size)));
  const Sequences one = Sequences::single(n);
  const auto run = [&](const Model& m) {
    Pass pass;
    return m.logits(m.run({.tokens = ids, .sequences = one, .columns = made_up_columns(m, n)}, pass)).value();
  };
  const Tensor x = run(a), y = run(b);
  double apart = 0, largest = 0;
  for (int64_t i = 0; i < x.numel(); ++i) {
    apart = std::max(apart, std::abs(value_at(x, i) - value_at(y, i)));
    largest = std::max(largest, std::abs(value_at(x, i)));
  }
  return largest > 0 ? apart / largest : apart;
}

}  // namespace lithe

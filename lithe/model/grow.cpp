#include "lithe/model/grow.h"

#include <cmath>
#include <set>

#include "lithe/ops/basic.h"

namespace lithe {
namespace {

constexpr const char* kLayers = "layers.";

// "layers.12.ffn.up.weight" as 12 and ".ffn.up.weight"; none for other names.
std::optional<std::pair<int64_t, std::string>> in_layer(const std::string& name) {
  const size_t begin = std::string(kLayers).size();
  if (!name.starts_with(kLayers)) return std::nullopt;
  const size_t dot = name.find('.', begin);
  return std::pair{std::stoll(name.substr(begin, dot - begin)), name.substr(dot)};
}

// Names of the matrices of a layer whose results are added to the rows, and of their biases: those that the initialiser
// makes smaller by depth.
std::set<std::string> residual_outputs(const ModelConfig& config) {
  ModelConfig small = config;
  small.init = {};
  small.init.std = 1;
  const Model scaled(small, {});
  small.init.scale_residual_outputs = false;
  Model other(small, {});
  std::set<std::string> out;
  for (const Parameter& p : scaled.parameters().all()) {
    const Tensor x = p.master.value(), y = other.parameters().find(p.name)->master.value();
    if (!p.decay || !in_layer(p.name) || x.numel() == 0 || value_at(x, 0) == value_at(y, 0)) continue;
    out.insert(p.name);
    if (p.name.ends_with(".weight")) out.insert(p.name.substr(0, p.name.size() - 6) + "bias");
  }
  return out;
}

const Parameter& source_of(const Model& from, const std::string& name, const char* operation) {
  Parameter* p = const_cast<Model&>(from).parameters().find(name);  // NOLINT: only read
  check_usage(p, operation, "the smaller model has no parameter '", name, "' to grow from");
  return *p;
}

// Every integer under these keys, wherever it stands, times `factor`; 0 says "by hidden_size" and stays, but where that
// is a rounded third, which does not grow by a whole factor.
void multiply(Node& node, int64_t factor, int64_t hidden_size) {
  static const std::set<std::string> keys{"hidden_size", "num_attention_heads", "num_key_value_heads",
                                          "intermediate_size", "moe_intermediate_size"};
  if (!node.is_map()) return;
  const Node *type = node.find("type"), *width = node.find("intermediate_size");
  if (type && width && width->text() == "0" && (type->text() == "swiglu" || type->text() == "geglu"))
    node.set("intermediate_size", Node::scalar(std::to_string(8 * hidden_size / 3), width->mark()));
  for (const auto& [key, value] : std::vector(node.entries())) {
    Node changed = value;
    if (keys.count(key) && value.is_scalar()) {
      changed = Node::scalar(std::to_string(std::stoll(value.text()) * factor), value.mark());
    } else if (value.is_map()) {
      multiply(changed, factor, hidden_size);
    } else if (value.is_list()) {
      changed = Node::list({}, value.mark());
      for (Node item : value.items()) {
        multiply(item, factor, hidden_size);
        changed.push(item);
      }
    }
    node.set(key, changed);
  }
}

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
  check_usage(!reads_source(config.architecture), "grow",
              "an encoder-decoder has two stacks; only models of one grow deeper");
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
  check_usage(!reads_source(config.architecture), "grow",
              "an encoder-decoder has two stacks; only models of one grow wider");
  Node node = node_of(config);
  multiply(node, factor, config.hidden_size);
  if (factor > 1) node.set("tie_word_embeddings", Node::scalar("false"));
  return read_model_config(node, "model");
}

std::string shallow_name(const std::string& name, int64_t layers) {
  const auto place = in_layer(name);
  return place ? cat(kLayers, place->first % layers, place->second) : name;
}

// spec: grow.depth_stack | growth | layers are copied on top of themselves | TB 6.3.2(2), E18
void grow_depth(const Model& from, Model& to, bool zero_residual) {
  const int64_t before = from.config().num_hidden_layers;
  const std::set<std::string> outputs = zero_residual ? residual_outputs(to.config()) : std::set<std::string>{};
  for (Parameter& p : to.parameters().all()) {
    const auto place = in_layer(p.name);
    const Tensor x = source_of(from, shallow_name(p.name, before), "grow").numbers();
    check_usage(x.shape() == p.master.shape(), "grow", "'", p.name, "' is ", x.shape(), " in the model and ",
                p.master.shape(), " with more layers (a part that looks at all layers); it cannot grow deeper");
    const bool zero = place && place->first >= before && outputs.count(p.name);
    p.assign(zero ? zeros(x.shape(), x.dtype(), x.device()) : x);
  }
  to.parameters().refresh_shadows();
}

// spec: grow.width_tile | growth | k x k tiles of each matrix, divided by the copies of its inputs | TB Eq 6.111, E22
void grow_width(const Model& from, Model& to, double noise, uint64_t seed) {
  for (Parameter& p : to.parameters().all()) {
    const bool untied =
        from.config().tie_word_embeddings && !to.config().tie_word_embeddings && p.name == "head.weight";
    const Tensor x = source_of(from, untied ? "embedding.weight" : p.name, "grow").numbers(), y = p.numbers();
    const Shape shape = untied ? Shape{x.dim(1), x.dim(0)} : x.shape();
    check_usage(shape.rank() == y.shape().rank() && shape.rank() <= 2, "grow", "'", p.name, "' is ", shape,
                " and cannot become ", y.shape());
    const int64_t rows = x.shape().rank() == 2 ? shape[0] : 1, cols = shape[shape.rank() - 1], new_rows = y.rows(),
                  new_cols = y.cols();
    check_usage(new_rows % rows == 0 && new_cols % cols == 0, "grow", "'", p.name, "' of ", shape, " does not tile to ",
                y.shape(), "; its part cannot grow wider");
    const bool matrix = x.shape().rank() == 2;
    const double scale = matrix ? double(rows) / double(new_rows) : 1;
    const RandomKey key{.seed = seed, .purpose = purpose_of("grow." + p.name)};
    for (int64_t i = 0; i < y.numel(); ++i) {
      const int64_t r = i / new_cols % rows, c = i % new_cols % cols;
      const double value = value_at(x, untied ? c * rows + r : r * cols + c) * scale;
      set_value(y, i, noise == 0 ? value : value * (1 + noise * random_normal(key, uint64_t(i))));
    }
    if (p.rest.defined()) p.assign(y);
  }
  to.parameters().refresh_shadows();
}

double difference_of_predictions(const Model& a, const Model& b) {
  const NoGrad no_grad;
  const int64_t limit = a.position_limit(), n = limit ? std::min<int64_t>(limit, 16) : 16,
                width = std::max<int64_t>(a.config().token_width, 1);
  check_usage(width == 1, "grow", "models of codes in place of ids cannot be compared here");
  const Tensor ids = empty({n}, DType::i32);
  for (int64_t i = 0; i < n; ++i)
    set_value(ids, i,
              std::floor(random_uniform({.seed = 1, .purpose = purpose_of("grow")}, uint64_t(i)) *
                         double(a.config().vocab_size)));
  const Sequences one = Sequences::single(n);
  const auto run = [&](const Model& m) {
    Pass pass;
    return m.logits(m.run({ids, one}, pass)).value();
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

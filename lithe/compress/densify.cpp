#include "lithe/compress/densify.h"

#include <algorithm>
#include <cmath>

#include "lithe/base/part_options.h"
#include "lithe/model/quantized_weights.h"
#include "lithe/ops/basic.h"

namespace lithe {
namespace {

// y = x W + b.
struct Affine {
  Tensor w, b;  // f64 [in, out], [out]
};

// Of a map that is affine; its values on the rows of the identity and on zero.
Affine affine_of(int64_t in, const std::function<Var(const Var&)>& map) {
  const Tensor rows = zeros({in + 1, in}, DType::f64);
  for (int64_t i = 0; i < in; ++i) set_value(rows, i * in + i, 1);
  const Tensor y = map(Var(rows)).value();
  const int64_t out = y.cols();
  Affine made{empty({in, out}, DType::f64), clone(y.slice(in, in + 1)).reshape({out})};
  for (int64_t i = 0; i < in; ++i)
    for (int64_t c = 0; c < out; ++c) set_value(made.w, i * out + c, value_at(y, i * out + c) - value_at(made.b, c));
  return made;
}

bool any_nonzero(const Tensor& x) {
  for (int64_t i = 0; i < x.numel(); ++i)
    if (value_at(x, i) != 0) return true;
  return false;
}

// Parts of one attention built alone, with the model's numbers.
struct Pieces {
  std::unique_ptr<Position> position;
  std::unique_ptr<Heads> heads;
  std::unique_ptr<Field> field;
  // One key that serves all heads does so in standard form, too, where nobody looks at those of each.
  const Heads& read() const {
    const Heads* folded = heads->folded();
    const bool fits = folded && folded->key_dim() == heads->key_dim() && folded->value_dim() == heads->value_dim();
    return fits && !position->reads_heads() && !field->reads_heads() ? *folded : *heads;
  }
  std::unique_ptr<Output> output;
};

class Builder {
 public:
  Builder(const ModelConfig& config, const std::map<std::string, Tensor>* values) : config_(config), values_(values) {
    context_.parameters = &parameters_;
    context_.device = values ? Device::cpu : Device::meta;
    context_.dtype = context_.compute = DType::f64;
    context_.layers = config.num_hidden_layers;
    context_.trainable = false;
  }
  Pieces attention(const PartChoice& mixer, const PartChoice& position, const std::string& path, bool cross) {
    const Registry& registry = Registry::instance();
    const Scope scope(context_, path);
    const int64_t d = config_.hidden_size, h = option_integer(mixer, "num_attention_heads"),
                  given = option_integer(mixer, "head_dim");
    Pieces out;
    out.position = registry.make<Position>(position, Scope(context_, path + ".position"),
                                           {.hidden_size = d,
                                            .max_position_embeddings = config_.max_position_embeddings,
                                            .num_attention_heads = h,
                                            .causal = !sees_ahead(config_.architecture)});
    out.heads = registry.make<Heads>(inner_part(mixer, "heads"), scope / "heads",
                                     {.hidden_size = d,
                                      .num_attention_heads = h,
                                      .head_dim = given ? given : d / h,
                                      .bias = option(mixer, "attention_bias") == "true",
                                      .turns = !cross && out.position->turns()});
    out.field = registry.make<Field>(inner_part(mixer, "field"), scope / "field",
                                     {.causal = !cross && !sees_ahead(config_.architecture),
                                      .num_attention_heads = out.heads->query_heads(),
                                      .cross = cross,
                                      .hidden_size = d,
                                      .kv_heads = out.heads->kv_heads(),
                                      .key_dim = out.heads->key_dim(),
                                      .value_dim = out.heads->value_dim(),
                                      .query_heads = out.heads->query_axis()});
    out.output = registry.make<Output>(
        inner_part(mixer, "output"), scope / "output",
        {.context = out.heads->context(), .hidden_size = d, .bias = option(mixer, "output_bias") == "true"});
    if (values_)
      for (Parameter& p : parameters_.all())
        if (const auto found = values_->find(p.name); found != values_->end())
          copy_into(p.master.value(), convert(found->second, DType::f64));
    return out;
  }

 private:
  const ModelConfig& config_;
  const std::map<std::string, Tensor>* values_;
  Parameters parameters_;
  BuildContext context_;
};

bool is_plain(const PartChoice& mixer) {
  const std::string heads = option(mixer, "heads");
  return (heads == "mha" || heads == "gqa" || heads == "mqa") && option(mixer, "output") == "dense";
}

// The weights of one attention in standard form.
struct Folded {
  Affine q, k, v, output;
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
};

Folded fold(const Pieces& p, int64_t hidden, const std::string& path) {
  const Heads& heads = p.read();
  check_usage(!heads.reads_embedding(), "densify", path, ": heads read the embedding, which no plain projection does");
  const Heads::Turn still = [](const Var& x) { return x; };
  const auto key_values = [&](const Var& x) {
    const Heads::KeyValue kept = heads.keep({x, x}, still);
    return heads.expands() ? heads.expand(kept, still) : kept;
  };
  Folded out;
  out.heads = heads.query_heads();
  out.kv_heads = heads.kv_heads();
  out.q = affine_of(hidden, [&](const Var& x) { return heads.queries({x, x}, still); });
  out.k = affine_of(hidden, [&](const Var& x) { return key_values(x).k; });
  out.v = affine_of(hidden, [&](const Var& x) { return key_values(x).v; });
  out.head_dim = out.q.w.cols() / out.heads;
  check_usage(out.v.w.cols() == out.kv_heads * out.head_dim && out.k.w.cols() == out.v.w.cols(), "densify", path,
              ": values of another width than keys have no standard form");
  out.output = affine_of(out.heads * out.head_dim, [&](const Var& x) { return p.output->forward(heads.finish(x)); });
  return out;
}

struct Place {
  std::string path;
  PartChoice mixer, position;
  bool cross;
};

std::vector<Place> attentions(const ModelConfig& config) {
  std::vector<Place> out;
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const LayerConfig layer = config.layer(i);
    for (const SubLayerConfig& sub : layer.sub_layers)
      if (sub.kind != SubLayerConfig::Kind::ffn)
        out.push_back({cat("layers.", i, ".", sub.name), sub.part, layer.position.value_or(config.position),
                       sub.kind == SubLayerConfig::Kind::cross});
  }
  return out;
}

void set_flag(PartChoice& part, const char* key, bool value) {
  part.options.set(key, Node::scalar(value ? "true" : "false"));
}

Tensor random_ids(int64_t count, int64_t vocabulary) {
  const Tensor ids = empty({count}, DType::i32);
  for (int64_t i = 0; i < count; ++i)
    set_value(ids, i,
              double(int64_t(random_uniform({.seed = 5, .purpose = purpose_of("densify")}, uint64_t(i)) *
                             double(vocabulary))));
  return ids;
}

// Of logits on random tokens, relative to the largest.
// Of the logits of both in f64. One model is in memory at a time.
double difference(const Densified& a, const Densified& b) {
  const NoGrad no_grad;
  const int64_t most = std::min<int64_t>(24, a.config.max_position_embeddings);
  const Sequences sequences({0, most, most + (most + 1) / 2});
  const Tensor ids = random_ids(sequences.rows(), a.config.vocab_size);
  const auto run = [&](const Densified& of) {
    const auto model = exact_model(of.config, of.parameters);
    Pass pass;
    return model->logits(model->run({ids, sequences}, pass)).value();
  };
  const Tensor x = run(a), y = run(b);
  double most_apart = 0, size = 0;
  for (int64_t i = 0; i < x.numel(); ++i) {
    most_apart = std::max(most_apart, std::abs(value_at(x, i) - value_at(y, i)));
    size = std::max(size, std::abs(value_at(x, i)));
  }
  return size ? most_apart / size : most_apart;
}

void refuse(const ModelConfig& config) {
  check_usage(!reads_source(config.architecture) && is_empty(config.encoders), "densify",
              "models of several encoders, or of an encoder and a decoder, are not folded");
  check_holds_numbers(config, "densify", "the model");
  check_usage(config.token_width <= 1, "densify", "embedding ", config.embedding.type, " reads codes of ",
              config.token_width, " ints, hashes of words, which have no vocabulary to make a table of");
  for (const Place& place : attentions(config)) {
    check_usage(place.mixer.type == "attention", "densify", place.path, ": mixer ", place.mixer.type,
                " is no attention and has no standard form");
    const std::string map = option(place.mixer, "map");
    check_usage(map.empty() || map == "own", "densify", place.path,
                ": attention that takes the map of a layer below (map: ", map, ") has no standard form");
  }
}

}  // namespace

std::unique_ptr<Model> exact_model(const ModelConfig& config, const std::map<std::string, Tensor>& parameters) {
  auto model =
      std::make_unique<Model>(config, ModelOptions{.dtype = DType::f64, .compute = DType::f64, .initialised = false});
  for (Parameter& p : model->parameters().all()) {
    const auto found = parameters.find(p.name);
    check(found != parameters.end() && found->second.shape() == p.master.shape(), "convert", "parameter '", p.name,
          "' ", p.master.shape(), " is not among the weights");
    copy_into(p.master.value(), convert(found->second, DType::f64));
  }
  return model;
}

namespace {

// Heads that are mha but for what the cache keeps, with its parameters.
void name_rewritten(Densified& out) {
  bool any = false;
  for (const Place& place : attentions(out.config)) {
    if (option(place.mixer, "heads") != "el_rewrite") continue;
    any = true;
    if (option(place.mixer, "output") == "dense") out.folded.push_back(place.path + ": heads el_rewrite -> mha");
  }
  if (any) out.config.replace_heads("el_rewrite", "mha");
}

// Layers that share their parameters become layers with copies of their own.
void unroll(Densified& out) {
  const ShareConfig share = out.config.share;
  if (!share.any()) return;
  out.config.share = {};
  const int64_t count = out.config.num_hidden_layers;
  const std::string layers = "layers.";
  const Model apart(out.config, {.device = Device::meta});
  for (const Parameter& p : apart.parameters().all()) {
    if (out.parameters.count(p.name)) continue;
    const size_t dot = p.name.find('.', layers.size());
    const int64_t layer = std::stoll(p.name.substr(layers.size(), dot - layers.size()));
    const auto owner = out.parameters.find(cat(layers, share.owner(layer, count), p.name.substr(dot)));
    check(owner != out.parameters.end(), "densify", "'", p.name, "' is not among the weights, nor what it shares");
    out.parameters[p.name] = clone(owner->second);
  }
  for (int64_t i = 0; i < count; ++i)
    if (const int64_t owner = share.owner(i, count); owner != i)
      out.folded.push_back(cat("layers.", i, ": shares the ", share.parts == "layer" ? "parameters" : share.parts,
                               " of layers.", owner, " -> its own"));
}

}  // namespace

Densified densify(const ModelConfig& given, const std::map<std::string, Tensor>& stored) {
  refuse(given);
  const NoGrad no_grad;
  Densified out{.config = given, .parameters = stored, .folded = {}};
  for (const auto& [name, tensor] : stored) out.parameters_before += tensor.numel();
  unroll(out);
  name_rewritten(out);
  const ModelConfig config = out.config;
  const std::map<std::string, Tensor> parameters = out.parameters;

  // What every mixer of the configuration becomes. A bias that one layer needs all of them have.
  std::map<std::string, Folded> folded;
  bool bias = false, output_bias = false;
  for (const Place& place : attentions(config)) {
    if (is_plain(place.mixer)) continue;
    Builder builder(config, &parameters);
    Folded made =
        fold(builder.attention(place.mixer, place.position, place.path, place.cross), config.hidden_size, place.path);
    bias = bias || any_nonzero(made.q.b) || any_nonzero(made.k.b) || any_nonzero(made.v.b);
    output_bias = output_bias || any_nonzero(made.output.b);
    out.folded.push_back(cat(place.path, ": heads ", option(place.mixer, "heads"), ", output ",
                             option(place.mixer, "output"), " -> ", made.kv_heads == made.heads ? "mha" : "gqa",
                             ", dense"));
    folded.emplace(place.path, std::move(made));
  }
  for (const Place& place : attentions(config)) {
    bias = bias || option(place.mixer, "attention_bias") == "true";
    output_bias = output_bias || option(place.mixer, "output_bias") == "true";
  }
  // Architectures that have a bias behind attention have biases before it, too: these are 0.
  if (!out.folded.empty()) bias = bias || output_bias;
  change_mixers(out.config, [&](PartChoice& mixer) {
    if (mixer.type != "attention") return false;  // that no layer has
    if (!is_plain(mixer)) {
      Builder sizes(config, nullptr);
      const Pieces pieces = sizes.attention(mixer, config.position, "sizes", false);
      const int64_t h = pieces.read().query_heads(), kv = pieces.read().kv_heads(),
                    given = option_integer(mixer, "head_dim"),
                    c = given ? given : config.hidden_size / option_integer(mixer, "num_attention_heads");
      mixer.options.set("num_attention_heads", Node::scalar(cat(h)));
      mixer.options.set("head_dim", Node::scalar(cat(h * c == config.hidden_size ? 0 : c)));
      Node heads = Node::map();
      heads.set("type", Node::scalar(kv == h ? "mha" : "gqa"));
      if (kv != h) heads.set("num_key_value_heads", Node::scalar(cat(kv)));
      mixer.options.set("heads", heads);
      mixer.options.set("output", Node::scalar("dense"));
    }
    set_flag(mixer, "attention_bias", bias);
    set_flag(mixer, "output_bias", output_bias);
    return true;
  });

  for (const Place& place : attentions(config)) {
    const auto found = folded.find(place.path);
    const auto put = [&](const std::string& name, const Tensor& x) { out.parameters[place.path + name] = x; };
    if (found == folded.end()) {  // plain already: biases that others need are 0 here
      const auto zero = [&](const char* map, bool wanted) {
        const std::string weight = place.path + map + ".weight", name = place.path + map + ".bias";
        if (wanted && !out.parameters.count(name))
          out.parameters[name] = zeros({parameters.at(weight).cols()}, parameters.at(weight).dtype());
      };
      for (const char* map : {".heads.q", ".heads.k", ".heads.v"}) zero(map, bias);
      zero(".output", output_bias);
      continue;
    }
    for (auto it = out.parameters.begin(); it != out.parameters.end();)
      it = it->first.starts_with(place.path + ".heads.") || it->first.starts_with(place.path + ".output.")
               ? out.parameters.erase(it)
               : std::next(it);
    const Folded& f = found->second;
    const std::pair<const char*, const Affine*> maps[] = {{".heads.q", &f.q}, {".heads.k", &f.k}, {".heads.v", &f.v}};
    for (const auto& [name, map] : maps) {
      put(cat(name, ".weight"), map->w);
      if (bias) put(cat(name, ".bias"), map->b);
    }
    put(".output.weight", f.output.w);
    if (output_bias) put(".output.bias", f.output.b);
  }
  ModelConfig written = out.config;
  out.config = read_model_config(write_fields([&](Fields& f) { written.fields(f); }));  // with every default
  out.config.validate();
  check_usage(config.embedding.type == "lookup", "densify", "embedding ", config.embedding.type, " is not folded");
  out.largest_difference = difference({.config = given, .parameters = stored, .folded = {}}, out);
  const double tolerance = 1e-9;  // of rounding in f64
  check_usage(out.largest_difference <= tolerance, "densify", "logits would differ by ", out.largest_difference,
              " of the largest: these parts do not fold exactly",
              out.folded.empty() ? "" : "; " + out.folded[0].substr(0, out.folded[0].find(" -> ")),
              " (head embeddings after the rotation, rope_order: before, have no standard form)");
  for (auto& [name, tensor] : out.parameters) {
    if (tensor.dtype() == DType::f64 && (!parameters.count(name) || parameters.at(name).dtype() != DType::f64))
      tensor = convert(tensor, DType::f32);
    out.parameters_after += tensor.numel();
  }
  return out;
}

}  // namespace lithe

#include "lithe/compress/exchange.h"

#include <cmath>
#include <optional>
#include <set>

#include "lithe/base/part_options.h"
#include "lithe/compress/exchange_fit.h"
#include "lithe/kernels/gemm/gemm.h"
#include "lithe/kernels/hadamard/hadamard.h"
#include "lithe/model/initial_weights.h"
#include "lithe/model/layer_of.h"
#include "lithe/model/quantized_weights.h"
#include "lithe/model/safetensors_writer.h"
#include "lithe/ops/hadamard.h"
#include "lithe/parts/common/key_value_heads.h"

namespace lithe {
namespace {

// The part that `assignment` gives a type: "model.mixer.output" of model.mixer.output.type=hadamard and of
// model.mixer.output=hadamard; empty when it gives something else.
std::string part_given(const std::string& assignment) {
  const std::string path = assignment.substr(0, assignment.find('='));
  if (path.ends_with(".type")) return path.substr(0, path.size() - 5);
  const std::string key = path.substr(path.rfind('.') + 1);
  for (const char* part :
       {"mixer", "heads", "output", "field", "norm", "ffn", "residual", "position", "embedding", "stack", "head"})
    if (key == part) return path;
  return "";
}

ModelConfig overridden(const ModelConfig& config, const std::vector<std::string>& overrides) {
  ModelConfig copy = config;
  Node root = Node::map();
  root.set("model", write_fields([&](Fields& f) { copy.fields(f); }));
  for (const std::string& assignment : overrides) {
    check_usage(assignment.starts_with("model.") && assignment.find('=') != std::string::npos, "convert", "--set ",
                assignment, " must be model.KEY=VALUE, a key of section model");
    // Another type has other options: those of the old one go.
    if (const std::string part = part_given(assignment); !part.empty()) {
      const Node value = parse_yaml(assignment.substr(assignment.find('=') + 1), "--set " + assignment);
      const Node* type = value.is_map() ? value.find("type") : &value;
      check_usage(type && type->is_scalar(), "convert", "--set ", assignment, " must name a type");
      apply_override(root, part + "={type: " + type->text() + "}");
      if (!value.is_map()) continue;
    }
    apply_override(root, assignment);
  }
  ModelConfig out = read_model_config(*root.find("model"));
  out.validate();
  return out;
}

using AxesByName = std::map<std::string, Axes>;

AxesByName axes_of(const Model& model) {
  AxesByName out;
  for (const Parameter& p : model.parameters().all()) out[p.name] = p.axes;
  return out;
}

// One of each group of heads that become one of `to`, the i-th; each again where there are fewer than `to`.
Slice group_member(const Axes& axes, Dimension heads, int64_t from, int64_t to, int64_t i) {
  Kept kept{.count = from, .indices = {}};
  for (int64_t head = 0; head < to; ++head) kept.indices.push_back(head * from / to + i);
  return Slice::of(axes, {{heads, kept}});
}

// `to` of these heads in place of `from`: the mean of those that become one, or each as often as others share it.
Tensor regrouped(const Tensor& x, const Axes& axes, Dimension heads, int64_t from, int64_t to) {
  const int64_t each = std::max<int64_t>(1, from / to);
  Tensor out;
  std::vector<double> sum;
  for (int64_t i = 0; i < each; ++i) {
    const Tensor part = group_member(axes, heads, from, to, i).taken(x);
    if (i == 0) out = empty(part.shape(), DType::f32), sum.assign(size_t(part.numel()), 0);
    for (size_t k = 0; k < sum.size(); ++k) sum[k] += value_at(part, int64_t(k));
  }
  for (size_t k = 0; k < sum.size(); ++k) set_value(out, int64_t(k), sum[k] / double(each));
  return out;
}

class Exchange {
 public:
  Exchange(const ModelConfig& old, const std::map<std::string, PendingTensor>& weights,
           const std::vector<std::string>& overrides, uint64_t seed)
      : old_(old), weights_(weights) {
    out_.config = overridden(old, overrides);
    out_.seed = seed;
    const Model made(out_.config, {.device = Device::meta});
    for (const Parameter& p : made.parameters().all()) shapes_[p.name] = p.master.shape();
    after_ = axes_of(made);
    before_ = axes_of(Model(old, {.device = Device::meta}));
  }

  Exchanged run(const Tensor& ids) {
    const int64_t layers = std::min(out_.config.num_hidden_layers, old_.num_hidden_layers);
    for (int64_t i = 0; i < layers; ++i) attention(i);
    if (ids) {
      text_ = mixer_inputs(old_, weights_, ids);
      each_initial_weight(out_.config, {.seed = out_.seed}, [&](const std::vector<Parameter*>& made) {
        std::set<int64_t> done;
        for (const Parameter* p : made)
          if (of_mixer(p->name)) fresh_[p->name] = p->master.value();
        for (const Parameter* p : made)
          if (const int64_t i = layer_of(p->name); i >= 0 && i < layers && done.insert(i).second) fit_to_text(i);
        std::erase_if(fresh_, [](const auto& entry) { return !entry.first.starts_with("position."); });
      });
    }
    for (const auto& [name, shape] : shapes_) {
      if (const auto how = fitted_.find(name); how != fitted_.end()) {
        out_.fitted.push_back(how->second);
        out_.parameters_fitted += shape.numel();
      } else if (keeps(name)) {
        out_.parameters[name] = weights_.at(name);
        out_.kept.push_back(name);
        out_.parameters_kept += shape.numel();
      } else {
        out_.initialised.push_back(cat(name, " ", shape));
        out_.parameters_initialised += shape.numel();
      }
    }
    for (const auto& [name, value] : weights_)
      if (!shapes_.count(name) || (!keeps(name) && !fitted_.count(name)))
        out_.left.push_back(cat(name, " ", value.shape));
    return std::move(out_);
  }

 private:
  const ModelConfig& old_;
  const std::map<std::string, PendingTensor>& weights_;
  std::map<std::string, Shape> shapes_;  // of the new model
  Weights fresh_;                        // initial values: of the layer that is fitted, and of the position's
  AxesByName before_, after_;
  Exchanged out_;
  std::map<std::string, std::string> fitted_;  // and how
  std::optional<MixerInputs> text_;
  mutable std::map<std::string, Tensor> matrices_;

  bool keeps(const std::string& name) const {
    const auto before = weights_.find(name);
    const auto now = shapes_.find(name);
    return before != weights_.end() && now != shapes_.end() && before->second.shape == now->second;
  }
  // That the mixer of a layer is made with: its own parameters and its position's.
  static bool of_mixer(const std::string& name) {
    return name.starts_with("position.") || name.find(".mixer.") != std::string::npos ||
           name.find(".position.") != std::string::npos;
  }

  // A later fit of a parameter takes the place of an earlier one.
  void put(const std::string& name, const PendingTensor& value, const std::string& how) {
    const auto want = shapes_.find(name);
    if (want == shapes_.end() || want->second != value.shape) return;
    out_.parameters[name] = value;
    fitted_[name] = cat(name, " ", value.shape, ": ", how);
  }
  void put(const std::string& name, const Tensor& value, const std::string& how) { put(name, pending(value), how); }
  // Undefined: the model had none.
  Tensor old(const std::string& name) const {
    const auto found = weights_.find(name);
    return found == weights_.end() ? Tensor() : found->second.read();
  }

  void attention(int64_t layer) {
    const LayerConfig before = old_.layer(layer), after = out_.config.layer(layer);
    if (!before.mixer() || !after.mixer() || before.mixer()->type != "attention" || after.mixer()->type != "attention")
      return;
    const std::string path = cat("layers.", layer, ".mixer.");
    heads(*before.mixer(), *after.mixer(), path + "heads.");
    output(*before.mixer(), *after.mixer(), path + "output.");
  }

  void heads(const PartChoice& before, const PartChoice& after, const std::string& path) {
    const int64_t from = key_heads(before_, path), to = key_heads(after_, path),
                  h = option_integer(before, "num_attention_heads");
    const bool same_queries = h == option_integer(after, "num_attention_heads");
    if (from && to && from != to && same_queries) {
      for (const auto& [name, axes] : before_) {
        if (!name.starts_with(path) || count_of(axes, Dimension::key_heads) != from ||
            count_of(axes, Dimension::queries))
          continue;
        const PendingTensor source = weights_.at(name);
        if (from % to != 0 && to % from != 0) continue;
        const PendingTensor fitted{
            group_member(axes, Dimension::key_heads, from, to, 0).shape(), DType::f32,
            [source, axes = axes, from, to] { return regrouped(source.read(), axes, Dimension::key_heads, from, to); }};
        if (from % to == 0) put(name, fitted, cat("mean of ", from / to, " heads each"));
        if (to % from == 0) put(name, fitted, cat("each head ", to / from, " times"));
      }
      return;
    }
    const std::string type = option(after, "heads");
    if (from && (type == "mhe_mul" || type == "mhe_add") && same_queries) seeds(type == "mhe_mul", from, h, path);
  }

  // That values are made for, each by columns of its own; 0: they are made otherwise.
  static int64_t key_heads(const AxesByName& of, const std::string& path) {
    const auto found = of.find(path + "v.weight");
    return found == of.end() ? 0 : count_of(found->second, Dimension::key_heads);
  }
  // One head in place of all.
  static Tensor mean_head(const Tensor& x, const Axes& axes) {
    const int64_t rows = x.shape().rank() == 1 ? 1 : x.dim(0), width = count_of(axes, Dimension::head_width);
    const Axes flat{rows, Axis::key_heads(x.cols() / width, width)};
    const Tensor mean = regrouped(x.reshape({rows, x.cols()}), flat, Dimension::key_heads, x.cols() / width, 1);
    return x.shape().rank() == 1 ? mean.reshape({width}) : mean;
  }

  // Head i of a seed is seed (1 + e_i) or seed + e_i. The seed is the mean of the heads; of a product e_i + 1 is,
  // channel by channel, the multiple of the seed's column that is nearest to the head's own.
  void seeds(bool product, int64_t key_heads, int64_t h, const std::string& path) {
    for (const char* map : {"q", "k", "v"}) {
      const Tensor w = old(cat(path, map, ".weight"));
      if (!w) continue;
      const int64_t from = *map == 'q' ? h : key_heads, d = w.cols() / from, rows = w.dim(0);
      const Tensor seed = mean_head(w, before_.at(cat(path, map, ".weight"))), embedding = empty({h * d}, DType::f32);
      for (int64_t head = 0; head < h; ++head)
        for (int64_t c = 0; c < d; ++c) {
          double with = 0, size = 0;
          for (int64_t r = 0; r < rows && product; ++r) {
            const double s = value_at(seed, r * d + c);
            with += s * value_at(w, r * w.cols() + head / (h / from) * d + c);
            size += s * s;
          }
          set_value(embedding, head * d + c, product && size > 0 ? with / size - 1 : 0);
        }
      put(cat(path, map, ".weight"), seed, cat("mean of ", from, " heads"));
      const std::string name = cat(path, map, ".head_embedding");
      if (product) put(name, embedding, "nearest multiples of the seed's columns");
      const std::string bias = cat(path, map, ".bias");
      if (const Tensor b = old(bias)) put(bias, mean_head(b, before_.at(bias)), "mean");
    }
  }

  void output(const PartChoice& before, const PartChoice& after, const std::string& path) {
    const std::string from = option(before, "output"), to = option(after, "output");
    if (from != "dense" || to != "hadamard" || option(after, "output.transform") == "pad") return;
    const Tensor w = old(path + "weight"), b = old(path + "bias");
    if (!w || w.dim(0) != w.cols()) return;
    const int64_t d = w.cols();
    const Tensor h = matrix_of(after, d);
    const Tensor alpha = empty({d}, DType::f32);
    for (int64_t c = 0; c < d; ++c) {
      double with = 0, size = 0;
      for (int64_t r = 0; r < d; ++r) {
        with += value_at(h, r * d + c) * value_at(w, r * d + c);
        size += value_at(h, r * d + c) * value_at(h, r * d + c);
      }
      set_value(alpha, c, with / size);
    }
    put(path + "alpha", alpha, "least squares to the matrix's columns");
    put(path + "beta", b ? convert(b, DType::f32) : zeros({d}, DType::f32), b ? "the bias" : "no bias was there");
  }

  // The matrix [d, d] of a Hadamard output's transform, in f64; layers alike have one.
  Tensor matrix_of(const PartChoice& mixer, int64_t d) const {
    Tensor& h = matrices_[cat(d, " ", option(mixer, "output.transform"), " ", option(mixer, "output.scale"))];
    if (h) return h;
    const Tensor one = zeros({d, d}, DType::f64);
    for (int64_t i = 0; i < d; ++i) set_value(one, i * d + i, 1);
    return h = transformed(mixer, one);
  }

  // What a Hadamard output scales and shifts.
  static Tensor transformed(const PartChoice& mixer, const Tensor& x) {
    const int64_t d = x.cols(), order = option(mixer, "output.transform") == "pad" ? kernels::hadamard_padded(d) : d;
    const std::string scaling = option(mixer, "output.scale");
    const double scale = scaling == "inverse" ? 1 / double(order) : scaling == "one" ? 1 : 1 / std::sqrt(double(order));
    const NoGrad no_grad;
    return hadamard(Var(x), {}, {}, order, scale).value();
  }

  // What the mixer of a layer needs, of the old model.
  Weights of_layer(int64_t layer) const {
    Weights out;
    for (const auto& [name, value] : weights_)
      if (of_mixer(name) && (layer_of(name) == layer || layer_of(name) < 0)) out[name] = value.read();
    return out;
  }
  // And of the new one, as far as it is known by now.
  Weights current(const Weights& before) const {
    Weights out = fresh_;
    for (auto& [name, value] : out)
      if (const auto now = out_.parameters.find(name); now != out_.parameters.end())
        value = now->second.read();
      else if (keeps(name))
        value = before.count(name) ? before.at(name) : weights_.at(name).read();
    return out;
  }

  void fit_to_text(int64_t layer) {
    const LayerConfig before = old_.layer(layer), after = out_.config.layer(layer);
    if (!before.mixer() || !after.mixer() || before.mixer()->type != "attention" || after.mixer()->type != "attention")
      return;
    // Another field or position keeps every weight as it is.
    const auto told = [](const PartChoice& mixer) {
      std::string out;
      for (const char* key : {"heads", "output", "num_attention_heads", "head_dim", "attention_bias", "output_bias"})
        if (const Node* node = mixer.options.find(key)) out += to_yaml(*node) + "\n";
      return out;
    };
    const Tensor& rows = text_->rows[size_t(layer)];
    if (!rows || told(*before.mixer()) == told(*after.mixer())) return;
    const std::string path = cat("layers.", layer, ".mixer.");
    fit_seeds(*before.mixer(), *after.mixer(), path + "heads.", rows);
    const Weights before_fit = of_layer(layer);
    const auto wanted = mixed(old_, before_fit, layer, rows, text_->sequences, false);
    const Weights now = current(before_fit);
    const auto context = wanted ? mixed(out_.config, now, layer, rows, text_->sequences, true) : std::nullopt;
    if (!context) return;
    const std::string to = option(*after.mixer(), "output");
    const auto how = [&](const LinearFit& fit) {
      return cat("least squares to the old output on ", rows.rows(), " tokens, which leaves ",
                 std::lround(1000 * fit.left) / 10.0, " % of its squares");
    };
    if (to == "hadamard") {
      LinearFit fit = fit_channels(transformed(*after.mixer(), *context), *wanted);
      if (const auto [values, through] = values_for(layer, *after.mixer(), path + "heads.v.weight", *wanted, now);
          values && through.left < fit.left) {
        fit = through;
        put(path + "heads.v.weight", *values, how(fit));
      }
      put(path + "output.alpha", fit.weight, how(fit));
      put(path + "output.beta", fit.bias, how(fit));
    } else if (to == "dense") {
      const bool bias = shapes_.count(path + "output.bias") > 0;
      const LinearFit fit = fit_linear(*context, *wanted, old(path + "output.weight"), bias);
      put(path + "output.weight", fit.weight, how(fit));
      if (bias) put(path + "output.bias", fit.bias, how(fit));
    }
  }

  // Values whose heads a Hadamard output mixes to what the old layer made, as its matrix no longer can; and the
  // output's fit to them.
  std::pair<std::optional<Tensor>, LinearFit> values_for(int64_t layer, const PartChoice& after,
                                                         const std::string& name, const Tensor& wanted,
                                                         Weights weights) const {
    if (!after_.count(name)) return {};
    const int64_t kv_heads = count_of(after_.at(name), Dimension::key_heads), d = wanted.cols();
    if (!kv_heads || option(after, "output.transform") == "pad" || option_number(after, "heads.clip_qkv") != 0)
      return {};
    const Tensor& rows = text_->rows[size_t(layer)];
    const Tensor through = empty({wanted.rows(), d}, DType::f32);
    const Tensor h = convert(matrix_of(after, d), DType::f32);  // its rows are orthogonal, of one length
    double length = 0;
    for (int64_t c = 0; c < d; ++c) length += value_at(h, c) * value_at(h, c);
    for (int64_t i = 0; i < d * d; ++i) set_value(h, i, value_at(h, i) / length);
    kernels::gemm({.a = wanted, .b = h, .c = through, .transpose_b = true});
    const auto values = fit_values(out_.config, weights, layer, rows, text_->sequences, name, kv_heads, through);
    if (!values) return {};
    weights[name] = *values;
    const auto context = mixed(out_.config, weights, layer, rows, text_->sequences, true);
    return {values, fit_channels(transformed(after, *context), wanted)};
  }

  // As seeds(), to the queries, keys and values of the text: a product by the best common direction of the heads,
  // channel by channel, a sum by the heads' means.
  void fit_seeds(const PartChoice& before, const PartChoice& after, const std::string& path, const Tensor& rows) {
    const std::string type = option(after, "heads");
    const int64_t from = key_heads(before_, path), h = option_integer(before, "num_attention_heads");
    if (!from || (type != "mhe_mul" && type != "mhe_add") || h != option_integer(after, "num_attention_heads") ||
        option(before, "heads.qk_norm") != "none" || option_number(before, "heads.clip_qkv") != 0)
      return;
    for (const char* map : {"q", "k", "v"}) {
      const Tensor w = old(cat(path, map, ".weight")), b = old(cat(path, map, ".bias"));
      if (!w) continue;
      const bool bias = b && shapes_.count(cat(path, map, ".bias"));
      const auto heads_each = [&](const Tensor& x, const std::string& name) {
        return *map == 'q' ? convert(x, DType::f32) : regrouped(x, before_.at(name), Dimension::key_heads, from, h);
      };
      const Tensor all = heads_each(w, cat(path, map, ".weight"));
      Tensor shifts;
      if (b) shifts = heads_each(b, cat(path, map, ".bias"));
      const int64_t d = all.cols() / h;
      const Tensor heads = heads_of(rows, all, type == "mhe_mul" && !bias ? Tensor() : shifts);
      const std::string how = cat("least squares to the old heads on ", rows.rows(), " tokens"),
                        embedding = cat(path, map, ".head_embedding");
      if (type == "mhe_add") {
        const Tensor e = zeros({h * d}, DType::f32);
        const std::vector<double> mean = column_means(heads);
        std::vector<double> common(size_t(d), 0);
        // Of the seed: with no bias of its own, the mean of the heads less that of their biases.
        for (int64_t i = 0; i < h * d; ++i)
          common[size_t(i % d)] += (mean[size_t(i)] - (b && !bias ? value_at(shifts, i) : 0)) / double(h);
        for (int64_t i = 0; i < h * d; ++i) set_value(e, i, mean[size_t(i)] - common[size_t(i % d)]);
        put(embedding, e, how);
        continue;
      }
      const SeedFit fit = fit_seed(heads, h);
      const auto combined = [&](const Tensor& x, const Shape& shape) {
        const Tensor seed = zeros(shape, DType::f32);
        for (int64_t i = 0; i < x.numel(); ++i) {
          const int64_t to = i / (h * d) * d + i % d;
          set_value(seed, to, value_at(seed, to) + value_at(x, i) * fit.combination[size_t(i % (h * d))]);
        }
        return seed;
      };
      const Tensor e = empty({h * d}, DType::f32);
      for (int64_t i = 0; i < h * d; ++i) set_value(e, i, fit.factors[size_t(i)] - 1);
      put(cat(path, map, ".weight"), combined(all, {all.dim(0), d}), how);
      if (bias) put(cat(path, map, ".bias"), combined(shifts, {d}), how);
      put(embedding, e, how);
    }
  }

  static Tensor heads_of(const Tensor& rows, const Tensor& w, const Tensor& b) {
    const Tensor out = empty({rows.rows(), w.cols()}, DType::f32);
    kernels::gemm({.a = rows, .b = w, .c = out, .bias = b});
    return out;
  }
};

}  // namespace

Exchanged exchange_parts(const ModelConfig& config, const std::map<std::string, PendingTensor>& parameters,
                         const std::vector<std::string>& overrides, uint64_t seed, const Tensor& ids) {
  check_holds_numbers(config, "convert", "the model");
  return Exchange(config, parameters, overrides, seed).run(ids);
}

void write_exchanged(const Exchanged& e, const Path& file) {
  std::map<std::string, SafetensorsWriter::Entry> entries;
  for (const Model made(e.config, {.device = Device::meta}); const Parameter& p : made.parameters().all()) {
    const auto found = e.parameters.find(p.name);
    entries[p.name] = {p.master.shape(), found == e.parameters.end() ? DType::f32 : found->second.dtype};
  }
  SafetensorsWriter out(file, entries, {{"format", "lithe"}});
  for (const auto& [name, parameter] : e.parameters) out.put(name, parameter.read());
  if (!e.initialised.empty())
    each_initial_weight(e.config, {.seed = e.seed}, [&](const std::vector<Parameter*>& made) {
      for (const Parameter* p : made)
        if (!e.parameters.count(p->name)) out.put(p->name, p->master.value());
    });
  out.commit();
}

}  // namespace lithe

#include "lithe/compress/exchange_fit.h"

#include <cmath>
#include <span>

#include "lithe/base/part_options.h"
#include "lithe/kernels/gemm/gemm.h"
#include "lithe/nn/registry.h"
#include "lithe/tensor/linear_algebra.h"

namespace lithe {
namespace {

Tensor read(const Tensor& x) { return x; }
Tensor read(const PendingTensor& x) { return x.read(); }

// False where one is missing or has another shape.
template <class Weight>
bool fill(Parameters& parameters, const std::map<std::string, Weight>& weights) {
  for (Parameter& p : parameters.all()) {
    const auto found = weights.find(p.name);
    const Tensor value = found == weights.end() ? Tensor() : read(found->second);
    if (!value || value.shape() != p.master.shape()) return false;
    copy_into(p.master.value(), convert(value, DType::f32));
  }
  return true;
}

Tensor minus(const Tensor& x, const std::vector<double>& mean) {
  const Tensor out = x.dtype() == DType::f64 ? clone(x) : convert(x, DType::f64);
  auto* at = out.data<double>();
  for (int64_t i = 0; i < out.numel(); ++i) at[i] -= mean[size_t(i % out.cols())];
  return out;
}

double squares(const Tensor& x) {
  double sum = 0;
  for (int64_t i = 0; i < x.numel(); ++i) sum += x.data<double>()[i] * x.data<double>()[i];
  return sum;
}

std::span<double> numbers_of(const Tensor& x) { return {x.data<double>(), size_t(x.numel())}; }

Tensor product(const Tensor& a, const Tensor& b, bool transpose_a) {
  const Tensor c = empty({transpose_a ? a.cols() : a.rows(), b.cols()}, DType::f64);
  kernels::gemm({.a = a, .b = b, .c = c, .transpose_a = transpose_a});
  return c;
}

}  // namespace

std::vector<double> column_means(const Tensor& x) {
  std::vector<double> mean(size_t(x.cols()), 0);
  for (int64_t i = 0; i < x.numel(); ++i) mean[size_t(i % x.cols())] += value_at(x, i);
  for (double& m : mean) m /= double(std::max<int64_t>(1, x.rows()));
  return mean;
}

MixerInputs mixer_inputs(const ModelConfig& config, const std::map<std::string, PendingTensor>& weights,
                         const Tensor& ids) {
  const NoGrad no_grad;
  Model model(config, {.initialised = false});
  check(fill(model.parameters(), weights), "convert", "the weights are not those of config.json");
  const int64_t limit = std::max<int64_t>(1, config.max_position_embeddings), count = ids.dim(0);
  MixerInputs out;
  std::vector<std::vector<Tensor>> parts(size_t(config.num_hidden_layers));
  std::vector<int64_t> offsets{0};
  for (int64_t begin = 0; begin < count; begin += limit) {
    const int64_t end = std::min(count, begin + limit);
    offsets.push_back(end);
    Pass pass;
    pass.want(Tap::Kind::input);
    model.run({ids.slice(begin, end), Sequences::single(end - begin)}, pass);
    for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
      const Var rows = pass.get({Tap::Kind::input, i});
      parts[size_t(i)].push_back(rows.defined() && rows.rows() == end - begin ? rows.value() : Tensor());
    }
  }
  out.sequences = Sequences(offsets);
  for (const auto& pieces : parts) {
    bool whole = true;
    for (const Tensor& piece : pieces) whole = whole && piece;
    out.rows.emplace_back();
    if (!whole) continue;
    out.rows.back() = empty({count, pieces[0].cols()}, pieces[0].dtype());
    for (size_t b = 0; b < pieces.size(); ++b) copy_into(out.rows.back().slice(offsets[b], offsets[b + 1]), pieces[b]);
  }
  return out;
}

std::optional<Tensor> mixed(const ModelConfig& config, const Weights& weights, int64_t layer, const Tensor& rows,
                            const Sequences& sequences, bool context) {
  const LayerConfig of = config.layer(layer);
  if (!of.mixer() || reads_source(config.architecture) || config.share.any()) return {};
  PartChoice choice = *of.mixer();
  const std::string map = option(choice, "map");
  if (!map.empty() && map != "own") return {};
  if (context) choice.options.set("output", parse_yaml("{type: none}", "output"));
  const NoGrad no_grad;
  Parameters parameters;
  BuildContext build{.parameters = &parameters, .init = config.init, .layers = config.num_hidden_layers};
  build.trainable = false;
  const Scope root(build), at = (root / "layers" / std::to_string(layer)).in_layer(layer);
  const Node* heads = choice.options.find("num_attention_heads");
  const auto position = Registry::instance().make<Position>(
      of.position.value_or(config.position), of.position ? at / "position" : root / "position",
      {.hidden_size = config.hidden_size,
       .max_position_embeddings = config.max_position_embeddings,
       .num_attention_heads = heads ? std::stoll(heads->text()) : 0,
       .causal = !sees_ahead(config.architecture)});
  std::unique_ptr<Mixer> mixer;
  try {
    mixer = Registry::instance().make<Mixer>(choice, at / "mixer",
                                             {.hidden_size = config.hidden_size,
                                              .max_position_embeddings = config.max_position_embeddings,
                                              .causal = !sees_ahead(config.architecture),
                                              .position = position.get()});
  } catch (const Error&) {
    if (context) return {};  // heads * head_dim is not the rows' width
    throw;
  }
  if (mixer->reads_embedding() || mixer->reference() || !fill(parameters, weights)) return {};
  const Tensor out = empty({rows.rows(), config.hidden_size}, DType::f32);
  for (int64_t b = 0; b < sequences.count(); ++b) {
    const int64_t begin = sequences.offset(b), end = sequences.offset(b + 1);
    const Sequences one = Sequences::single(end - begin);
    copy_into(out.slice(begin, end), mixer->forward({.x = rows.slice(begin, end), .sequences = one}).value());
  }
  return out;
}

LinearFit fit_linear(const Tensor& x, const Tensor& y, const Tensor& near, bool bias) {
  const int64_t channels = x.cols();
  const std::vector<double> y_mean = column_means(y);
  std::vector<double> at_x(size_t(channels), 0), at_y(size_t(y.cols()), 0);
  if (bias) at_x = column_means(x), at_y = y_mean;
  const Tensor a = minus(x, at_x), left = minus(y, at_y);
  const Tensor w = near ? convert(near, DType::f64) : zeros({channels, y.cols()}, DType::f64);
  const Tensor start = product(a, w, false);
  for (int64_t i = 0; i < left.numel(); ++i) left.data<double>()[i] -= start.data<double>()[i];
  const Tensor normal = product(a, a, true), change = product(a, left, true);
  double size = 0;
  for (int64_t c = 0; c < channels; ++c) size += normal.data<double>()[c * channels + c];
  constexpr double kDrawn = 0.01;
  for (int64_t c = 0; c < channels; ++c)
    normal.data<double>()[c * channels + c] += kDrawn * size / double(channels) + 1e-30;
  const double pivot = solve_positive(numbers_of(normal), numbers_of(change), normal.cols());
  check(pivot > 0, "convert", "the fit's equations are singular; give more text");
  const Tensor made = product(a, change, false);
  for (int64_t i = 0; i < left.numel(); ++i) left.data<double>()[i] -= made.data<double>()[i];
  LinearFit fit{.weight = empty(w.shape(), DType::f32), .bias = {}, .left = 0};
  for (int64_t i = 0; i < w.numel(); ++i) set_value(fit.weight, i, value_at(w, i) + value_at(change, i));
  if (bias) {
    fit.bias = empty({y.cols()}, DType::f32);
    for (int64_t c = 0; c < y.cols(); ++c) {
      double shift = at_y[size_t(c)];
      for (int64_t r = 0; r < channels; ++r) shift -= at_x[size_t(r)] * value_at(fit.weight, r * y.cols() + c);
      set_value(fit.bias, c, shift);
    }
  }
  const double all = squares(minus(y, y_mean));
  fit.left = all > 0 ? squares(left) / all : 0;
  return fit;
}

LinearFit fit_channels(const Tensor& x, const Tensor& y) {
  const int64_t d = y.cols(), rows = y.rows();
  const std::vector<double> x_mean = column_means(x), y_mean = column_means(y);
  std::vector<double> with(size_t(d), 0), size(size_t(d), 0);
  double all = 0;
  for (int64_t i = 0; i < rows * d; ++i) {
    const auto c = size_t(i % d);
    const double u = value_at(x, i) - x_mean[c], v = value_at(y, i) - y_mean[c];
    with[c] += u * v, size[c] += u * u, all += v * v;
  }
  LinearFit fit{.weight = empty({d}, DType::f32), .bias = empty({d}, DType::f32), .left = all};
  for (int64_t c = 0; c < d; ++c) {
    const auto at = size_t(c);
    const double alpha = size[at] > 0 ? with[at] / size[at] : 0;
    fit.left -= alpha * with[at];
    set_value(fit.weight, c, alpha);
    set_value(fit.bias, c, y_mean[at] - alpha * x_mean[at]);
  }
  fit.left = all > 0 ? fit.left / all : 0;
  return fit;
}

std::optional<Tensor> fit_values(const ModelConfig& config, Weights weights, int64_t layer, const Tensor& rows,
                                 const Sequences& sequences, const std::string& name, int64_t kv_heads,
                                 const Tensor& wanted) {
  const Tensor old = weights.at(name);
  const int64_t n = rows.rows(), width = old.dim(0), d = old.cols() / kv_heads, heads = wanted.cols() / d,
                group = heads / kv_heads;
  // Sums of the rows themselves, head by head: d channels at a time stand in the place of the values.
  std::vector<Tensor> sums;
  for (int64_t h = 0; h < heads; ++h) sums.push_back(zeros({n, width}, DType::f32));
  for (int64_t begin = 0; begin < width; begin += d) {
    const int64_t count = std::min(d, width - begin);
    const Tensor pick = zeros(old.shape(), DType::f32);
    for (int64_t c = 0; c < count; ++c)
      for (int64_t g = 0; g < kv_heads; ++g) set_value(pick, (begin + c) * old.cols() + g * d + c, 1);
    weights[name] = pick;
    const auto context = mixed(config, weights, layer, rows, sequences, true);
    if (!context) return {};
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i < n; ++i)
        std::copy_n(context->data<float>() + i * heads * d + h * d, count,
                    sums[size_t(h)].data<float>() + i * width + begin);
  }
  const Tensor fitted = empty(old.shape(), DType::f32);
  for (int64_t g = 0; g < kv_heads; ++g) {
    const Tensor x = empty({group * n, width}, DType::f32), y = empty({group * n, d}, DType::f32),
                 near = empty({width, d}, DType::f32);
    for (int64_t i = 0; i < group; ++i) {
      const int64_t head = g * group + i;
      const Tensor &sum = sums[size_t(head)], part = empty({n, d}, DType::f32);
      for (int64_t r = 0; r < n * d; ++r) set_value(part, r, value_at(wanted, r / d * heads * d + head * d + r % d));
      copy_into(x.slice(i * n, (i + 1) * n), convert(minus(sum, column_means(sum)), DType::f32));
      copy_into(y.slice(i * n, (i + 1) * n), convert(minus(part, column_means(part)), DType::f32));
    }
    for (int64_t r = 0; r < width * d; ++r) set_value(near, r, value_at(old, r / d * old.cols() + g * d + r % d));
    const LinearFit fit = fit_linear(x, y, near, false);
    for (int64_t r = 0; r < width * d; ++r)
      set_value(fitted, r / d * old.cols() + g * d + r % d, value_at(fit.weight, r));
  }
  return fitted;
}

SeedFit fit_seed(const Tensor& heads, int64_t count) {
  const int64_t d = heads.cols() / count;
  const auto h = size_t(count);
  SeedFit fit{std::vector<double>(h * size_t(d)), std::vector<double>(h * size_t(d))};
  std::vector<double> gram(h * h), v(h), next(h);
  for (int64_t c = 0; c < d; ++c) {
    std::fill(gram.begin(), gram.end(), 0.0);
    for (int64_t n = 0; n < heads.rows(); ++n)
      for (size_t i = 0; i < h; ++i)
        for (size_t j = 0; j < h; ++j)
          gram[i * h + j] += value_at(heads, n * heads.cols() + int64_t(i) * d + c) *
                             value_at(heads, n * heads.cols() + int64_t(j) * d + c);
    // The direction of the largest sum of squares, by powers of the matrix; it begins at that of the largest head.
    size_t largest = 0;
    for (size_t i = 1; i < h; ++i)
      if (gram[i * h + i] > gram[largest * h + largest]) largest = i;
    for (size_t i = 0; i < h; ++i) v[i] = gram[largest * h + i];
    constexpr int kSteps = 500;
    for (int step = 0; step < kSteps; ++step) {
      double norm = 0, sum = 0;
      for (const double e : v) norm += e * e, sum += e;
      norm = std::sqrt(norm) * (sum < 0 ? -1 : 1);
      for (double& e : v) e = norm == 0 ? 1 / std::sqrt(double(h)) : e / norm;
      if (norm == 0 || step + 1 == kSteps) break;
      for (size_t i = 0; i < h; ++i) {
        next[i] = 0;
        for (size_t j = 0; j < h; ++j) next[i] += gram[i * h + j] * v[j];
      }
      v = next;
    }
    // Factors of mean square 1.
    const double root = std::sqrt(double(h));
    for (size_t i = 0; i < h; ++i) {
      fit.combination[i * size_t(d) + size_t(c)] = v[i] / root;
      fit.factors[i * size_t(d) + size_t(c)] = v[i] * root;
    }
  }
  return fit;
}

}  // namespace lithe

#include "lithe/probe/predictor.h"

#include <algorithm>
#include <cmath>

#include "lithe/nn/module.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/linear.h"
#include "lithe/ops/loss.h"
#include "lithe/ops/pool.h"
#include "lithe/ops/weighted_sum.h"
#include "lithe/probe/fit.h"
#include "lithe/tensor/linear_algebra.h"

namespace lithe::probe {
namespace {

constexpr int64_t kPredicted = 4096;  // instances at once

bool pools_attentively(const PredictorConfig& config) { return pooling_of(config) == "attention"; }

int64_t pooled_width(const PredictorConfig& config, int64_t width, bool pairs) {
  return width * (pooling_of(config) == "endpoint" ? 2 : 1) * (pairs ? 2 : 1);
}

// Rows of a span as one, width or twice that.
void pool_span(const WordRows& rows, int64_t layer, const Span& span, const std::string& how, float* out) {
  const int64_t d = rows.width();
  if (how == "endpoint") {
    std::copy_n(rows.row(layer, span.begin), d, out);
    std::copy_n(rows.row(layer, span.end - 1), d, out + d);
    return;
  }
  std::copy_n(rows.row(layer, span.begin), d, out);
  for (int64_t w = span.begin + 1; w < span.end; ++w) {
    const float* x = rows.row(layer, w);
    if (how == "max")
      for (int64_t c = 0; c < d; ++c) out[c] = std::max(out[c], x[c]);
    else
      for (int64_t c = 0; c < d; ++c) out[c] += x[c];
  }
  if (how == "mean" && span.size() > 1)
    for (int64_t c = 0; c < d; ++c) out[c] /= float(span.size());
}

std::vector<int64_t> all_of(const Dataset& data) {
  std::vector<int64_t> out(data.instances.size());
  for (size_t i = 0; i < out.size(); ++i) out[i] = int64_t(i);
  return out;
}

}  // namespace

std::string pooling_of(const PredictorConfig& config) {
  const bool edge = config.kind == "edge";
  check_usage(std::find(kPredictors.begin(), kPredictors.end(), config.kind) != kPredictors.end(), "probe",
              "a predictor is linear, mlp or edge, got '", config.kind, "'");
  if (config.pooling.empty()) return edge ? "attention" : "mean";
  const std::vector<std::string> known = edge ? std::vector<std::string>{"attention", "mean", "endpoint"}
                                              : std::vector<std::string>{"mean", "sum", "max", "endpoint"};
  check_usage(std::find(known.begin(), known.end(), config.pooling) != known.end(), "probe", "predictor ", config.kind,
              " pools spans by ", edge ? "attention, mean or endpoint" : "mean, sum, max or endpoint", ", got '",
              config.pooling, "'");
  return config.pooling;
}

int64_t predictor_parameters(const PredictorConfig& config, int64_t width, bool pairs, int64_t classes, int64_t mixed) {
  const int64_t out = std::max<int64_t>(classes, 1), p = config.projection, q = config.hidden;
  const int64_t own = [&] {
    if (config.kind == "linear") return pooled_width(config, width, pairs) * out + out;
    if (config.kind == "mlp") return pooled_width(config, width, pairs) * q + q + q * out + out;
    const int64_t spans = pairs ? 2 : 1;
    return width * p + p + (pools_attentively(config) ? spans * (p + 1) : 0) + pooled_width(config, p, pairs) * q + q +
           q * out + out;
  }();
  return own + (mixed ? mixed + 1 : 0);
}

struct Predictor::State {
  PredictorConfig config;
  std::string pooling;
  Layers layers;
  int64_t classes = 0, width = 0;
  bool pairs = false, edge = false;
  Parameters parameters;
  Linear project, score[2], hidden, out;
  Parameter *mix = nullptr, *gain = nullptr;
  std::vector<std::vector<float>> shift, scale;  // of the pooled rows of each layer; edge: scale[l] one number
  double value_mean = 0, value_deviation = 1;
  std::vector<double> solved;  // least squares: of each pooled number, and a constant

  void build() {
    BuildContext context{.parameters = &parameters, .seed = config.seed};
    const Scope scope(context, "probe");
    const Axis to = classes ? classes : 1;
    int64_t in = pooled_width(config, edge ? config.projection : width, pairs);
    if (edge) {
      project = Linear(scope / "project", width, config.projection, true);
      for (int s = 0; s < (pairs ? 2 : 1); ++s)
        if (pooling == "attention") score[s] = Linear(scope / cat("score", s), config.projection, 1, true);
    }
    if (config.kind != "linear") {
      hidden = Linear(scope / "hidden", in, config.hidden, true);
      in = config.hidden;
    }
    out = Linear(scope / "out", in, to, true);
    if (layers.size() < 2) return;
    mix = scope.parameter("mixture", {Axis(int64_t(layers.size()))}, InitRole::zeros);
    gain = scope.parameter("gain", {Axis(1)}, InitRole::ones);
  }

  Var mixed(const std::vector<Var>& of) const {
    return of.size() == 1 ? of[0] : weighted_sum(of, mixture_weights(mix->var(), gain->var()));
  }

  // Pooled rows [B, in] of one layer, not scaled.
  Tensor pooled(const Dataset& data, const std::vector<int64_t>& items, int64_t layer) const {
    const int64_t in = pooled_width(config, width, pairs), half = in / (pairs ? 2 : 1);
    const Tensor x = empty({int64_t(items.size()), in}, DType::f32);
    for (size_t b = 0; b < items.size(); ++b) {
      const Instance& instance = data.instances[size_t(items[b])];
      float* to = x.data<float>() + int64_t(b) * in;
      pool_span(*data.rows, layer, instance.first, pooling, to);
      if (pairs) pool_span(*data.rows, layer, instance.second, pooling, to + half);
    }
    return x;
  }

  Tensor scaled(const Dataset& data, const std::vector<int64_t>& items, size_t l) const {
    const Tensor x = pooled(data, items, layers[l]);
    const int64_t in = x.cols();
    for (int64_t b = 0; b < x.rows(); ++b)
      for (int64_t c = 0; c < in; ++c) {
        float& v = x.data<float>()[b * in + c];
        v = (v - shift[l][size_t(c)]) * scale[l][size_t(c)];
      }
    return x;
  }

  void measure(const Dataset& train) {
    for (const int64_t layer : layers) {
      if (edge) {
        double squares = 0;
        for (const float v : train.rows->layer(layer)) squares += double(v) * double(v);
        const double mean = squares / double(std::max<int64_t>(train.rows->words() * width, 1));
        scale.push_back({mean > 0 ? float(1 / std::sqrt(mean)) : 1});
        continue;
      }
      const int64_t in = pooled_width(config, width, pairs), n = int64_t(train.instances.size());
      std::vector<double> sum(size_t(in), 0.0), squares(size_t(in), 0.0);
      const std::vector<int64_t> all = all_of(train);
      for (int pass = 0; pass < 2; ++pass)  // means first: their squares would swallow small deviations
        for (int64_t begin = 0; begin < n; begin += kPredicted) {
          const Tensor x = pooled(train, {all.begin() + begin, all.begin() + std::min(n, begin + kPredicted)}, layer);
          for (int64_t b = 0; b < x.rows(); ++b)
            for (int64_t c = 0; c < in; ++c) {
              const double v = double(x.data<float>()[b * in + c]);
              if (pass == 0)
                sum[size_t(c)] += v;
              else
                squares[size_t(c)] += (v - sum[size_t(c)] / double(n)) * (v - sum[size_t(c)] / double(n));
            }
        }
      std::vector<float>&mean = shift.emplace_back(), &factor = scale.emplace_back();
      for (int64_t c = 0; c < in; ++c) {
        const double deviation = std::sqrt(squares[size_t(c)] / double(n)), of = sum[size_t(c)] / double(n);
        mean.push_back(float(of));
        factor.push_back(deviation > 1e-6 * std::abs(of) && deviation > 0 ? float(1 / deviation) : 0);  // else constant
      }
    }
  }

  // All rows of the first or second spans, projected and pooled.
  Var pooled_spans(const Dataset& data, const std::vector<int64_t>& items, bool second) const {
    std::vector<int64_t> offsets{0};
    for (const int64_t i : items) {
      const Instance& instance = data.instances[size_t(i)];
      offsets.push_back(offsets.back() + (second ? instance.second : instance.first).size());
    }
    std::vector<Var> of;
    for (size_t l = 0; l < layers.size(); ++l) {
      const Tensor x = empty({offsets.back(), width}, DType::f32);
      float* to = x.data<float>();
      for (const int64_t i : items) {
        const Instance& instance = data.instances[size_t(i)];
        const Span& span = second ? instance.second : instance.first;
        const float* from = data.rows->row(layers[l], span.begin);
        for (int64_t k = 0; k < span.size() * width; ++k) *to++ = from[k] * scale[l][0];
      }
      of.emplace_back(x);
    }
    const Sequences spans(offsets);
    const Var x = project(mixed(of));
    if (pooling == "mean") return pool(x, spans, "mean");
    if (pooling == "attention") return attentive_pool(x, score[second](x), spans);
    return beside(pool(x, spans, "cls"), pool(x, spans, "last"));
  }

  // [B, a] and [B, b] side by side: their products with the halves of an identity would do; rows are moved instead.
  static Var beside(const Var& a, const Var& b) {
    const int64_t n = a.rows(), c = a.cols();
    std::vector<int64_t> order;
    for (int64_t i = 0; i < n; ++i) order.push_back(i), order.push_back(n + i);
    return reshape(pick_rows(concatenate_rows({a, b}), order), {n, 2 * c});
  }

  Var predictions(const Dataset& data, const std::vector<int64_t>& items) const {
    Var x;
    if (edge) {
      x = pooled_spans(data, items, false);
      if (pairs) x = beside(x, pooled_spans(data, items, true));
    } else {
      std::vector<Var> of;
      for (size_t l = 0; l < layers.size(); ++l) of.emplace_back(scaled(data, items, l));
      x = mixed(of);
    }
    if (hidden.weight) x = activate(kernels::Activation::relu, hidden(x));
    return out(x);
  }

  // Yes or no of every class as two classes.
  static Var yes_or_no(const Var& logits) {
    static const std::vector<float> to_second{0, 1};
    return linear(reshape(logits, {logits.value().numel(), 1}),
                  Var(tensor_of({1, 2}, std::span<const float>(to_second))));
  }

  Tensor targets(const Dataset& data, const std::vector<int64_t>& items) const {
    std::vector<int32_t> labels;
    for (const int64_t i : items) {
      const std::vector<int32_t>& of = data.instances[size_t(i)].labels;
      if (!config.sigmoid) {
        check(of.size() == 1, "probe", "an instance has ", of.size(), " labels; with several use sigmoids");
        labels.push_back(of[0]);
        continue;
      }
      const size_t begin = labels.size();
      labels.resize(begin + size_t(classes), 0);
      for (const int32_t label : of) labels[begin + size_t(label)] = 1;
    }
    return tensor_of({int64_t(labels.size())}, std::span<const int32_t>(labels));
  }

  Var loss(const Dataset& data, const std::vector<int64_t>& items) const {
    const Var y = predictions(data, items);
    const double each = 1 / double(items.size());
    if (classes) return cross_entropy(config.sigmoid ? yes_or_no(y) : y, targets(data, items), 0, each);
    std::vector<float> values;
    for (const int64_t i : items)
      values.push_back(float((data.instances[size_t(i)].value - value_mean) / value_deviation));
    return squared_error(y, tensor_of({int64_t(values.size())}, std::span<const float>(values)), each);
  }

  // Least squares of the scaled rows and a constant, by the normal equations with a ridge that only makes them
  // solvable.
  void solve(const Dataset& train) {
    const int64_t in = pooled_width(config, width, pairs) + 1, n = int64_t(train.instances.size());
    std::vector<double> a(size_t(in * in), 0.0), b(size_t(in), 0.0);
    const std::vector<int64_t> all = all_of(train);
    for (int64_t begin = 0; begin < n; begin += kPredicted) {
      const Tensor x = scaled(train, {all.begin() + begin, all.begin() + std::min(n, begin + kPredicted)}, 0);
      for (int64_t r = 0; r < x.rows(); ++r) {
        const float* v = x.data<float>() + r * (in - 1);
        const auto at = [&](int64_t c) { return c + 1 < in ? double(v[c]) : 1.0; };
        for (int64_t i = 0; i < in; ++i) {
          b[size_t(i)] += at(i) * train.instances[size_t(begin + r)].value;
          for (int64_t j = 0; j <= i; ++j) a[size_t(i * in + j)] += at(i) * at(j);
        }
      }
    }
    for (int64_t i = 0; i < in; ++i) a[size_t(i * in + i)] += 1e-9 * double(n);
    check(solve_positive(a, b, in) > 0, "probe", "least squares over ", n, " values has no solution");
    solved = std::move(b);
  }
};

Predictor::~Predictor() = default;
Predictor::Predictor(Predictor&&) noexcept = default;

Predictor::Predictor(const PredictorConfig& config, const Dataset& train, int64_t classes, const Layers& layers)
    : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.config = config, s.pooling = pooling_of(config), s.layers = layers, s.classes = classes;
  s.edge = config.kind == "edge";
  check(!train.instances.empty(), "probe", "there are no instances to train on");
  check(!layers.empty(), "probe", "a predictor reads at least one layer");
  s.width = train.rows->width();
  s.pairs = train.instances[0].second.size() > 0;
  s.build();
  s.measure(train);
  const auto n = int64_t(train.instances.size());
  if (!classes && config.kind == "linear" && layers.size() == 1) {
    s.solve(train);
    return;
  }
  if (!classes) {
    double squares = 0;
    for (const Instance& i : train.instances) s.value_mean += i.value / double(n);
    for (const Instance& i : train.instances) squares += (i.value - s.value_mean) * (i.value - s.value_mean);
    if (squares > 0) s.value_deviation = std::sqrt(squares / double(n));
  }
  fit(s.parameters, n, {config.epochs, config.batch, config.least_steps, config.learning_rate, config.seed},
      [&](const std::vector<int64_t>& items) { return s.loss(train, items); });
}

Outcome Predictor::predict(const Dataset& data) const {
  const State& s = *state_;
  const NoGrad no_grad;
  Outcome out;
  const std::vector<int64_t> all = all_of(data);
  const auto n = int64_t(all.size());
  for (int64_t begin = 0; begin < n; begin += kPredicted) {
    const std::vector<int64_t> items(all.begin() + begin, all.begin() + std::min(n, begin + kPredicted));
    if (!s.solved.empty()) {
      const Tensor x = s.scaled(data, items, 0);
      for (int64_t r = 0; r < x.rows(); ++r) {
        double y = s.solved.back();
        for (int64_t c = 0; c < x.cols(); ++c) y += s.solved[size_t(c)] * double(x.data<float>()[r * x.cols() + c]);
        out.values.push_back(y);
      }
      continue;
    }
    const Var y = s.predictions(data, items);
    if (!s.classes) {
      for (int64_t r = 0; r < y.rows(); ++r)
        out.values.push_back(value_at(y.value(), r) * s.value_deviation + s.value_mean);
      continue;
    }
    LossSums sums;
    cross_entropy(s.config.sigmoid ? State::yes_or_no(y) : y, s.targets(data, items), 0, 1, &sums);
    out.nats += sums.nll;
    const float* v = y.value().data<float>();
    for (int64_t r = 0; r < y.rows(); ++r, v += s.classes) {
      out.classes.push_back(int32_t(std::max_element(v, v + s.classes) - v));
      if (!s.config.sigmoid) continue;
      std::vector<int32_t>& chosen = out.chosen.emplace_back();
      for (int32_t c = 0; c < int32_t(s.classes); ++c)
        if (v[c] >= 0) chosen.push_back(c);
    }
  }
  return out;
}

std::vector<double> Predictor::mixture() const {
  std::vector<double> out;
  if (!state_->mix) return out;
  const NoGrad no_grad;
  const Tensor one = zeros({1}, DType::f32);
  set_value(one, 0, 1);
  const Tensor weights = mixture_weights(state_->mix->var(), Var(one)).value();
  for (int64_t l = 0; l < weights.numel(); ++l) out.push_back(value_at(weights, l));
  return out;
}

int64_t Predictor::parameters() const { return state_->parameters.count(); }

}  // namespace lithe::probe

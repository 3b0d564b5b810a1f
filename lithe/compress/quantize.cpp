#include "lithe/compress/quantize.h"

#include <fnmatch.h>

#include <cmath>

#include "lithe/base/stop.h"
#include "lithe/compress/rounded_matrix.h"
#include "lithe/kernels/gemm/gemm.h"
#include "lithe/kernels/optimizer/optimizer.h"
#include "lithe/kernels/quantized_product/quantized_product.h"
#include "lithe/model/quantized_weights.h"
#include "lithe/objective/device_batch.h"
#include "lithe/ops/weight_product.h"

namespace lithe {

namespace {

Node text(const std::string& value) { return Node::scalar(value, {}, true); }

Node description(const QuantizeOptions& options) {
  const bool wide = options.weights().name == "int8";
  Node node = Node::map(), kept = Node::list();
  for (const std::string& pattern : options.keep) kept.push(text(pattern));
  for (const auto& [name, format] : options.formats)
    if (format == "kept") kept.push(text(name));
  node.set("quant_method", text("lithe"));
  node.set("bits", options.formats.empty() ? Node::scalar(wide ? "8" : "4") : text("mixed"));
  if (!wide || !options.formats.empty()) node.set("group_size", Node::scalar(cat(options.group_size)));
  node.set("activation_bits", Node::scalar("8"));
  node.set("modules_to_not_convert", kept);
  return node;
}

// Of the matrices `of`.
std::map<std::string, Tensor> sums_of_inputs(const Model& model, const BatchSource& text, int64_t max_tokens,
                                             const std::set<std::string>& of) {
  const NoGrad no_grad;
  std::map<const void*, std::string> names;
  for (const Parameter& p : model.parameters().all())
    if (of.count(p.name)) names[p.var().value().raw()] = p.name;
  std::map<std::string, Tensor> sums;
  const ProductObserver observer([&](const Tensor& x, const Var& w, const Tensor&, const Tensor&) {
    if (w.packed()) return;
    const auto found = names.find(w.value().raw());
    if (found == names.end()) return;
    const Tensor rows = x.dtype() == DType::f32 ? x : convert(x, DType::f32);
    const Tensor product = empty({x.cols(), x.cols()}, DType::f32);
    kernels::gemm({.a = rows, .b = rows, .c = product, .transpose_a = true});
    Tensor& sum = sums[found->second];
    if (!sum.defined()) sum = zeros(product.shape(), DType::f64);
    const float* from = product.data<float>();
    double* to = sum.data<double>();
    for (int64_t i = 0; i < sum.numel(); ++i) to[i] += double(from[i]);
  });
  int64_t tokens = 0;
  for (int64_t i = 0; i < text.batches_per_epoch() && tokens < max_tokens; ++i) {
    check(!stop_signal(), "quantize", "stopped by signal ", stop_signal());
    const DeviceBatch batch = to_device(text.batch(0, i), model.device());
    Pass pass;
    model.logits(model.run(batch.input, pass));
    tokens += batch.input.rows();
  }
  check(tokens > 0, "quantize", "the text to look at has no tokens");
  return sums;
}

}  // namespace

int64_t moments_budget(const Model& model) {
  constexpr int64_t kLeast = int64_t(256) << 20;
  return std::max(kLeast, model.parameters().bytes() / 2);
}

InputMoments input_moments(const Model& model, const BatchSource& text, int64_t max_tokens, int64_t bytes) {
  // Matrices whose sums fit in memory together, in the order of the model.
  const auto group_of = std::make_shared<std::map<std::string, std::shared_ptr<std::set<std::string>>>>();
  std::shared_ptr<std::set<std::string>> group;
  const std::map<std::string, Packable> able = packable_matrices(model.config());
  int64_t used = 0;
  for (const Parameter& p : model.parameters().all()) {
    const auto found = able.find(p.name);
    if (found == able.end() || !found->second.product || p.master.packed()) continue;
    const int64_t inputs = p.master.shape()[found->second.by_rows ? 1 : 0], own = inputs * inputs * size_of(DType::f64);
    if (!group || used + own > bytes) group = std::make_shared<std::set<std::string>>(), used = 0;
    group->insert(p.name);
    used += own;
    (*group_of)[p.name] = group;
  }
  struct Held {
    const std::set<std::string>* group = nullptr;
    std::map<std::string, Tensor> sums;
  };
  return [&model, &text, max_tokens, group_of, held = std::make_shared<Held>()](const std::string& matrix) -> Tensor {
    const auto found = group_of->find(matrix);
    if (found == group_of->end()) return {};
    if (held->group != found->second.get()) {
      held->sums.clear();
      held->sums = sums_of_inputs(model, text, max_tokens, *found->second);
      held->group = found->second.get();
    }
    const auto sum = held->sums.find(matrix);
    return sum == held->sums.end() ? Tensor() : sum->second;
  };
}

kernels::QuantizedTensors round_as(const Tensor& w, const kernels::PackedMatrix& m, const WeightIntegers& as,
                                   const std::string& method, const InputMoments& moments) {
  const Tensor sums = method == "nearest" || !moments ? Tensor() : moments(m.name);
  if (!sums.defined()) return round_matrix(w, m, as);
  if (method == "gptq") return round_by_second_order(w, m, as, sums);
  const Tensor importance = empty({m.inputs}, DType::f64);
  for (int64_t k = 0; k < m.inputs; ++k) importance.data<double>()[k] = sums.data<double>()[k * m.inputs + k];
  return round_matrix(w, m, as, importance);
}

kernels::PackedMatrix matrix_to_round(const Parameter& p, const Packable& able, const WeightIntegers& as) {
  const Shape& w = p.master.shape();
  return {.format = as.format,
          .outputs = w[able.by_rows ? 0 : 1],
          .inputs = w[able.by_rows ? 1 : 0],
          .group = as.group,
          .by_rows = able.by_rows,
          .name = p.name};
}

std::map<std::string, Packable> matrices_to_round(const Model& model, const QuantizeOptions& options) {
  std::map<std::string, Packable> able = packable_matrices(model.config());
  for (const std::string& pattern : options.keep) {
    bool any = false;
    for (const Parameter& p : model.parameters().all())
      if (::fnmatch(pattern.c_str(), p.name.c_str(), 0) == 0) any = true, able.erase(p.name);
    check_usage(any, "quantize", "--keep '", pattern,
                "' names no parameter; `*` stands for any text, as in 'head.*' or '*.mixer.*'");
  }
  for (const auto& [name, format] : options.formats)
    if (format == "kept") able.erase(name);
  return able;
}

ModelConfig write_quantized(const Model& outline, const std::map<std::string, PendingTensor>& numbers,
                            const QuantizeOptions& options, const Path& file, std::vector<QuantizedLayer>& layers,
                            const InputMoments& moments) {
  check_usage(options.method == "nearest" || moments, "quantize", "method ", options.method,
              " looks at the rows of a text; give it input_moments()");
  const std::map<std::string, Packable> able = matrices_to_round(outline, options);
  check_usage(!able.empty(), "quantize", "nothing is left to quantise; keep fewer parameters");
  std::map<std::string, SafetensorsWriter::Entry> kept;
  std::vector<kernels::PackedMatrix> matrices;
  for (const Parameter& p : outline.parameters().all())
    if (const auto found = able.find(p.name); found != able.end())
      matrices.push_back(matrix_to_round(p, found->second, options.weights(p.name)));
    else
      kept[p.name] = {p.master.shape(), numbers.at(p.name).dtype};
  QuantizedWriter out(file, kept, matrices);
  for (const Parameter& p : outline.parameters().all()) {
    check(!stop_signal(), "quantize", "stopped by signal ", stop_signal());
    const MemoryScope scratch(MemoryClass::workspace);
    const Tensor w = numbers.at(p.name).read();
    check(kernels::all_finite(w), "quantize", "'", p.name,
          "' must hold finite numbers alone, and it does not; take other weights (--from)");
    const auto found = able.find(p.name);
    QuantizedLayer layer{p.name, w.shape(), "kept", w.bytes(), w.bytes(), 0, {}};
    if (found == able.end()) {
      out.put(p.name, w);
    } else {
      const WeightIntegers as = options.weights(p.name);
      kernels::PackedMatrix m = matrix_to_round(p, found->second, as);
      const auto steps = options.steps.find(p.name);
      const kernels::QuantizedTensors parts = steps == options.steps.end() ? round_as(w, m, as, options.method, moments)
                                                                           : round_at_steps(w, m, as, steps->second);
      kernels::pack(m, parts);
      layer.format = as.name;
      layer.bytes_after = parts.values.bytes() + parts.scales.bytes();
      layer.weight_error = rounding_error(w, m);
      out.put(m, parts);
    }
    if (w.shape().rank() == 2) layers.push_back(layer);
  }
  out.commit();
  ModelConfig config = outline.config();
  config.quantization_config = description(options);
  return config;
}

std::unique_ptr<Model> quantize_model(const Model& model, const QuantizeOptions& options, const Path& file,
                                      std::vector<QuantizedLayer>& layers, const InputMoments& moments) {
  std::map<std::string, PendingTensor> numbers;
  for (const Parameter& p : model.parameters().all()) numbers[p.name] = pending(p.master.value());
  const ModelConfig config = write_quantized(model, numbers, options, file, layers, moments);
  const std::set<std::string> integers = integer_weights(file);
  auto quantized = std::make_unique<Model>(config, ModelOptions{.dtype = model.compute_dtype(),
                                                                .compute = model.compute_dtype(),
                                                                .integers = &integers,
                                                                .initialised = false});
  load_weights(*quantized, file);
  return quantized;
}

namespace {

// log softmax of a row.
void log_probabilities(const float* logits, int64_t V, std::vector<double>& to) {
  double most = logits[0], sum = 0;
  for (int64_t v = 1; v < V; ++v) most = std::max(most, double(logits[v]));
  for (int64_t v = 0; v < V; ++v) sum += std::exp(logits[v] - most);
  const double shift = most + std::log(sum);
  to.resize(size_t(V));
  for (int64_t v = 0; v < V; ++v) to[size_t(v)] = logits[v] - shift;
}

// Output errors: each product of the float model, done again with its integers.
class OutputErrors {
 public:
  OutputErrors(const Model& before, const Model& after) {
    for (const Parameter& p : after.parameters().all())
      if (p.master.packed()) {
        const Parameter* numbers = const_cast<Model&>(before).parameters().find(p.name);
        seen_[numbers->var().value().raw()] = {p.name, p.master.packed()};
      }
  }
  void see(const Tensor& x, const Var& w, const Tensor& bias, const Tensor& y) {
    if (w.packed()) return;
    const auto found = seen_.find(w.value().raw());
    if (found == seen_.end()) return;
    const Tensor other = empty(y.shape(), y.dtype());
    kernels::quantized_product({.x = x, .w = found->second.matrix, .y = other, .bias = bias});
    for (int64_t i = 0; i < y.numel(); ++i) {
      const double a = value_at(y, i), d = a - value_at(other, i);
      found->second.error += d * d, found->second.size += a * a;
    }
  }
  void fill(std::vector<QuantizedLayer>& layers) const {
    for (const auto& [at, entry] : seen_)
      for (QuantizedLayer& layer : layers)
        if (layer.name == entry.name && entry.size > 0) layer.output_error = std::sqrt(entry.error / entry.size);
  }

 private:
  struct Entry {
    std::string name;
    const kernels::PackedMatrix* matrix = nullptr;
    double error = 0, size = 0;
  };
  std::map<const void*, Entry> seen_;
};

}  // namespace

PredictionChange compare_predictions(const Model& before, const Model& after, const BatchSource& text,
                                     int64_t max_tokens, std::vector<QuantizedLayer>& layers) {
  const NoGrad no_grad;
  OutputErrors errors(before, after);
  PredictionChange out;
  std::vector<double> p, q;
  for (int64_t i = 0; i < text.batches_per_epoch() && out.tokens < max_tokens; ++i) {
    check(!stop_signal(), "quantize", "stopped by signal ", stop_signal());
    const Batch labels = text.batch(0, i);
    const DeviceBatch batch = to_device(labels, before);
    const auto logits = [](const Model& model, const Rows& rows, const std::vector<int64_t>& wanted) {
      const Tensor x = model.logits(rows, wanted).value();
      return x.dtype() == DType::f32 ? x : convert(x, DType::f32);
    };
    const ProductObserver::Seen see = [&](const Tensor& x, const Var& w, const Tensor& bias, const Tensor& y) {
      errors.see(x, w, bias, y);
    };
    Pass pass, pass_after;
    const Rows rows = [&] {
      const ProductObserver observer(see);
      return before.run(batch.input, pass);
    }();
    const Rows rows_after = after.run(batch.input, pass_after);
    // Predictions of a large vocabulary are larger than all else: some rows at a time.
    constexpr int64_t kMostLogits = int64_t(1) << 21;
    const Head::LabelCount count = before.label_count(rows.sequences);
    const int64_t all = rows.x.rows();
    const bool pieces = before.exits().empty() && count.labels == all && all * count.classes > kMostLogits;
    const int64_t step = pieces ? std::max<int64_t>(1, kMostLogits / count.classes) : all;
    for (int64_t begin = 0; begin < all; begin += step) {
      std::vector<int64_t> wanted;
      for (int64_t row = begin; pieces && row < std::min(all, begin + step); ++row) wanted.push_back(row);
      const Tensor a = [&] {
        const ProductObserver observer(see);
        return logits(before, rows, wanted);
      }();
      if (out.tokens >= max_tokens) continue;  // the products of all rows are seen
      const Tensor b = logits(after, rows_after, wanted);
      const int64_t V = a.cols();
      for (int64_t row = 0; row < a.rows() && out.tokens < max_tokens; ++row) {
        const int32_t label = labels.labels[size_t(begin + row)];
        if (label < 0) continue;
        log_probabilities(a.data<float>() + row * V, V, p);
        log_probabilities(b.data<float>() + row * V, V, q);
        out.nll_before -= p[size_t(label)], out.nll_after -= q[size_t(label)];
        for (size_t v = 0; v < size_t(V); ++v) out.kl += std::exp(p[v]) * (p[v] - q[v]);
        const auto choice = [](const std::vector<double>& x) {
          return std::max_element(x.begin(), x.end()) - x.begin();
        };
        out.same_choice += choice(p) == choice(q);
        ++out.tokens;
      }
    }
  }
  check(out.tokens > 0, "quantize", "the text has no token to predict");
  for (double* x : {&out.nll_before, &out.nll_after, &out.kl, &out.same_choice}) *x /= double(out.tokens);
  errors.fill(layers);
  return out;
}

}  // namespace lithe

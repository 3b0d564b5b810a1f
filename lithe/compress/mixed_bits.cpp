// Which matrices can take few bits, and how many each gets under a budget.
#include <algorithm>
#include <cmath>

#include "lithe/base/stop.h"
#include "lithe/compress/rounded_matrix.h"
#include "lithe/model/quantized_weights.h"
#include "lithe/model/rounding.h"
#include "lithe/objective/device_batch.h"

namespace lithe {
namespace {

// Rows of predictions of the text, in f32.
std::vector<Tensor> predictions(const Model& model, const std::vector<DeviceBatch>& batches) {
  const NoGrad no_grad;
  std::vector<Tensor> out;
  for (const DeviceBatch& batch : batches) {
    check_not_stopped("quantize", "nothing was written");
    Pass pass;
    const Tensor x = model.logits(model.run(batch.input, pass)).value();
    out.push_back(x.dtype() == DType::f32 ? x : convert(x, DType::f32));
  }
  return out;
}

// KL(p || q) of the softmaxes of both rows.
double divergence(const float* p, const float* q, int64_t V) {
  const auto log_sum = [V](const float* x) {
    const double most = *std::max_element(x, x + V);
    double sum = 0;
    for (int64_t v = 0; v < V; ++v) sum += std::exp(double(x[v]) - most);
    return most + std::log(sum);
  };
  const double of_p = log_sum(p), of_q = log_sum(q);
  double out = 0;
  for (int64_t v = 0; v < V; ++v) {
    const double log_p = double(p[v]) - of_p;
    out += std::exp(log_p) * (log_p - (double(q[v]) - of_q));
  }
  return out;
}

double change_of(const std::vector<Tensor>& before, const std::vector<Tensor>& after) {
  double sum = 0, size = 0;
  for (size_t b = 0; b < before.size(); ++b) {
    const int64_t V = before[b].cols();
    for (int64_t row = 0; row < before[b].rows(); ++row) {
      const float *p = before[b].data<float>() + row * V, *q = after[b].data<float>() + row * V;
      if (V > 1) {
        sum += divergence(p, q, V), size += 1;
      } else {
        sum += (double(*q) - double(*p)) * (double(*q) - double(*p)), size += double(*p) * double(*p);
      }
    }
  }
  return size > 0 ? std::max(0.0, sum / size) : 0;
}

// The choices that are worth having: each with more bytes changes less, and saves no more a byte than the one before.
std::vector<BitChoice> worthwhile(std::vector<BitChoice> choices) {
  std::sort(choices.begin(), choices.end(), [](const BitChoice& a, const BitChoice& b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.change < b.change;
  });
  const auto slope = [](const BitChoice& a, const BitChoice& b) {
    return (a.change - b.change) / double(b.bytes - a.bytes);
  };
  std::vector<BitChoice> out;
  for (const BitChoice& c : choices) {
    if (!out.empty() && (c.bytes == out.back().bytes || c.change >= out.back().change)) continue;
    while (out.size() > 1 && slope(out.back(), c) >= slope(out[out.size() - 2], out.back())) out.pop_back();
    out.push_back(c);
  }
  return out;
}

}  // namespace

std::vector<MatrixBits> bit_sensitivity(Model& model, const QuantizeOptions& options, const InputMoments& moments,
                                        const BatchSource& text, int64_t max_tokens,
                                        const std::function<void(int64_t, int64_t)>& progress) {
  std::vector<DeviceBatch> batches;
  int64_t tokens = 0;
  for (int64_t i = 0; i < text.batches_per_epoch() && tokens < max_tokens; ++i) {
    batches.push_back(to_device(text.batch(0, i), model));
    tokens += batches.back().input.rows();
  }
  check_usage(tokens > 0, "quantize", "the text has no tokens to look at");
  const std::vector<Tensor> before = predictions(model, batches);
  const std::map<std::string, Packable> able = matrices_to_round(model, options);
  std::vector<MatrixBits> out;
  int64_t begun = 0;
  for (Parameter& p : model.parameters().all()) {
    const auto found = able.find(p.name);
    if (found == able.end()) continue;
    if (progress) progress(begun++, int64_t(able.size()));
    const Tensor numbers = clone(p.numbers());  // assign() writes into the same memory
    MatrixBits bits{p.name, {{"kept", p.master.value().bytes(), 0}}};
    for (const char* format : {"int8", "int4"}) {
      const WeightIntegers as = weight_integers(format, options.group_size);
      const kernels::PackedMatrix m = matrix_to_round(p, found->second, as);
      const kernels::QuantizedTensors integers = round_as(p.master.value(), m, as, options.method, moments);
      const Tensor rounded = empty(numbers.shape(), numbers.dtype());
      write_numbers(integers, m, rounded);
      p.assign(rounded);
      bits.choices.push_back(
          {format, integers.values.bytes() + integers.scales.bytes(), change_of(before, predictions(model, batches))});
      p.assign(numbers);
    }
    out.push_back(std::move(bits));
  }
  check_usage(!out.empty(), "quantize", "nothing is left to quantise; keep fewer parameters");
  return out;
}

std::map<std::string, std::string> choose_bits(const std::vector<MatrixBits>& matrices, int64_t bytes) {
  struct Step {
    size_t matrix, choice;
    double saved;  // change a byte
  };
  std::vector<std::vector<BitChoice>> choices;
  std::vector<Step> steps;
  int64_t used = 0;
  for (const MatrixBits& matrix : matrices) {
    choices.push_back(worthwhile(matrix.choices));
    const std::vector<BitChoice>& of = choices.back();
    used += of.front().bytes;
    for (size_t c = 1; c < of.size(); ++c)
      steps.push_back(
          {choices.size() - 1, c, (of[c - 1].change - of[c].change) / double(of[c].bytes - of[c - 1].bytes)});
  }
  if (used > bytes)
    throw_error("quantize", ExitCode::memory,
                {"the matrices have ", used, " bytes with the fewest bits, and ", bytes,
                 " are left for them; allow more, or prune the model first"});
  std::stable_sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) { return a.saved > b.saved; });
  std::vector<size_t> chosen(matrices.size(), 0);
  for (const Step& step : steps) {
    const std::vector<BitChoice>& of = choices[step.matrix];
    const int64_t more = of[step.choice].bytes - of[chosen[step.matrix]].bytes;
    if (used + more > bytes) continue;
    used += more;
    chosen[step.matrix] = step.choice;
  }
  std::map<std::string, std::string> out;
  for (size_t m = 0; m < matrices.size(); ++m) out[matrices[m].name] = choices[m][chosen[m]].format;
  return out;
}

std::map<std::string, std::string> bits_for_size(const Model& model, const QuantizeOptions& options,
                                                 const std::vector<MatrixBits>& matrices, int64_t bytes) {
  using Formats = std::map<std::string, std::string>;
  const std::map<std::string, Packable> able = matrices_to_round(model, options);
  const auto file_bytes = [&](const Formats& formats) {
    QuantizeOptions with = options;
    with.formats = formats;
    std::map<std::string, SafetensorsWriter::Entry> kept;
    std::vector<kernels::PackedMatrix> rounded;
    for (const Parameter& p : model.parameters().all())
      if (const auto format = formats.find(p.name); format != formats.end() && format->second != "kept")
        rounded.push_back(matrix_to_round(p, able.at(p.name), with.weights(p.name)));
      else
        kept[p.name] = {p.master.shape(), p.master.dtype()};
    return QuantizedWriter::file_bytes(kept, rounded);
  };
  const auto matrix_bytes = [&](const Formats& formats) {
    int64_t sum = 0;
    for (const MatrixBits& m : matrices)
      for (const BitChoice& c : m.choices) sum += c.format == formats.at(m.name) ? c.bytes : 0;
    return sum;
  };
  Formats least;
  for (const MatrixBits& m : matrices)
    least[m.name] = std::ranges::min_element(m.choices, [](const BitChoice& a, const BitChoice& b) {
                      return a.bytes < b.bytes;
                    })->format;
  const int64_t smallest = file_bytes(least), whole = file_bytes({}), header = smallest - matrix_bytes(least);
  check_usage(whole > bytes, "quantize", "the file has ", whole, " bytes as it is, and --size is ", bytes,
              ": the model fits; leave it so, or give --weights");
  if (smallest > bytes)
    throw_error("quantize", ExitCode::memory,
                {"the file has ", smallest, " bytes with the fewest bits, and --size is ", bytes,
                 "; allow more, or prune the model first"});
  // Formats differ in what the header says of them, too.
  for (int64_t left = bytes - header; left >= matrix_bytes(least);) {
    const Formats out = choose_bits(matrices, left);
    const int64_t more = file_bytes(out) - bytes;
    if (more <= 0) return out;
    left = std::min(left, matrix_bytes(out)) - more;
  }
  return least;
}

}  // namespace lithe

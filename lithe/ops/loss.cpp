#include "lithe/ops/loss.h"

#include <algorithm>
#include <optional>

#include "lithe/kernels/cross_entropy/cross_entropy.h"
#include "lithe/kernels/elementwise/elementwise.h"
#include "lithe/kernels/gemm/gemm.h"
#include "lithe/ops/linear.h"
#include "lithe/ops/weight_product.h"

namespace lithe {
namespace {

void check_labels(const Tensor& labels, int64_t rows, int64_t classes) {
  check(labels.dtype() == DType::i32 && labels.numel() == rows, "cross_entropy", "labels must be i32 [", rows,
        "], got ", labels.dtype(), labels.shape());
  if (labels.is_meta()) return;
  const int32_t* at = labels.data<int32_t>();
  for (int64_t i = 0; i < rows; ++i)
    check(at[i] < classes, "cross_entropy", "label ", at[i], " at row ", i, " is not below ", classes);
}

void add_sums(const Tensor& losses, const Tensor& nll, const Tensor& labels, LossSums& sums) {
  if (losses.is_meta()) return;
  for (int64_t i = 0; i < losses.numel(); ++i) {
    if (labels.data<int32_t>()[i] < 0) continue;
    sums.loss += value_at(losses, i);
    sums.nll += value_at(nll, i);
    ++sums.labels;
  }
}

Tensor scalar(double value, DType dtype, Device device) {
  Tensor out = empty({1}, dtype, device);
  if (!out.is_meta()) set_value(out, 0, value);
  return out;
}

}  // namespace

Var cross_entropy(const Var& logits, const Tensor& labels, double smoothing, double scale, LossSums* sums,
                  Tensor row_nll) {
  check_labels(labels, logits.rows(), logits.cols());
  const DType type = wide_of(logits.dtype());
  Tensor losses = empty({logits.rows()}, type, logits.device()), nll = row_nll.defined() ? row_nll : empty_like(losses);
  Tensor work = clone(logits.value());
  kernels::cross_entropy({.logits = work,
                          .labels = labels,
                          .losses = losses,
                          .nll = nll,
                          .smoothing = smoothing,
                          .gradient_scale = scale,
                          .gradient = Tape::current() != nullptr});
  LossSums mine;
  add_sums(losses, nll, labels, mine);
  if (sums) *sums = mine;
  return record("cross_entropy", {logits}, scalar(scale * mine.loss, type, logits.device()),
                [x = logits.ref(), work](const Tensor& dy, Grads& g) {
                  const auto dx = g.into(x);
                  const double d = dy.is_meta() ? 1 : value_at(dy, 0);
                  kernels::add({.a = work, .b = dx.accumulate ? dx.to : Tensor(), .out = dx.to, .alpha = d});
                });
}

Var linear_cross_entropy(const Var& given, const Var& w, bool transposed, const Tensor& labels, double smoothing,
                         double scale, LossSums* sums, Tensor row_nll, const Var& bias) {
  if (w.low_rank())
    return cross_entropy(linear(given, w, bias, transposed), labels, smoothing, scale, sums, std::move(row_nll));
  const Var x = product_input(given, w);
  const int64_t N = x.rows(), D = x.cols(), V = w.dim(transposed ? 0 : 1);
  check(D == w.dim(transposed ? 1 : 0), "linear_cross_entropy", "x ", x.shape(), " does not fit the weight ",
        w.shape());
  check(!bias.defined() || bias.value().numel() == V, "linear_cross_entropy", "bias must be [", V,
        "] to match the weight ", w.shape());
  check_labels(labels, N, V);
  const bool training = Tape::current() && (x.needs_grad() || w.needs_grad() || (bias.defined() && bias.needs_grad()));
  const DType type = wide_of(x.dtype());
  // Evaluation keeps f32 logits; training in bf16 makes bf16 ones, whose gradient feeds bf16 products.
  const DType logit_type = training ? x.dtype() : type;
  constexpr int64_t kChunkBytes = int64_t(16) << 20;
  const int64_t chunk =
      std::clamp<int64_t>(kChunkBytes / std::max<int64_t>(1, V * size_of(logit_type)), 256, std::max<int64_t>(N, 256));

  Grads grads;
  Tensor dx = training && x.needs_grad() ? empty_like(x.value()) : Tensor();
  Tensor losses = empty({N}, type, x.device()), nll = row_nll.defined() ? row_nll : empty_like(losses);
  const Tensor rows = x.value().reshape({N, D}), shift = value_or_none(bias);
  Tensor logits;
  {
    const MemoryScope scope(MemoryClass::workspace);
    logits = empty({std::min(chunk, N), V}, logit_type, x.device());
  }
  std::optional<InputGradient> input_gradient;
  if (dx.defined()) input_gradient.emplace(w, transposed);
  for (int64_t begin = 0; begin < N; begin += chunk) {
    const int64_t end = std::min(N, begin + chunk);
    const Tensor part = logits.slice(0, end - begin), input = rows.slice(begin, end);
    if (training && !w.packed())
      kernels::gemm({.a = input, .b = w.value(), .c = part, .bias = shift, .transpose_b = transposed});
    else
      weight_products(input, {{{w, shift, part, transposed}}});
    kernels::cross_entropy({.logits = part,
                            .labels = labels.slice(begin, end),
                            .losses = losses.slice(begin, end),
                            .nll = nll.slice(begin, end),
                            .smoothing = smoothing,
                            .gradient_scale = scale,
                            .gradient = training});
    if (!training) continue;
    if (const auto dw = grads.into(w))
      kernels::gemm({.a = transposed ? part : input,
                     .b = transposed ? input : part,
                     .c = dw.to,
                     .transpose_a = true,
                     .accumulate = dw.accumulate});
    if (bias.defined() && bias.needs_grad())
      kernels::row_affine_grad({.dy = part, .dshift = grads.into_zeroed(bias.ref())});
    if (dx.defined()) (*input_gradient)(part, dx.slice(begin, end));
  }
  LossSums mine;
  add_sums(losses, nll, labels, mine);
  if (sums) *sums = mine;
  return record("linear_cross_entropy", {x, w, bias}, scalar(scale * mine.loss, type, x.device()),
                [x = x.ref(), dx](const Tensor& dy, Grads& g) {
                  check(dy.is_meta() || value_at(dy, 0) == 1, "linear_cross_entropy",
                        "its gradient was taken in the forward pass for dy = 1; put factors into scale");
                  if (dx.defined()) g.give(x, dx);
                });
}

Var squared_error(const Var& predictions, const Tensor& targets, double scale, LossSums* sums) {
  const int64_t count = predictions.value().numel();
  check(targets.dtype() == DType::f32 && targets.numel() == count, "squared_error", "targets must be f32 [", count,
        "], got ", targets.dtype(), targets.shape());
  const Tensor d = empty_like(predictions.value());
  LossSums mine{.labels = d.is_meta() ? 0 : count};
  for (int64_t i = 0; i < mine.labels; ++i) {
    const double difference = value_at(predictions.value(), i) - value_at(targets, i);
    mine.loss += difference * difference;
    set_value(d, i, 2 * scale * difference);
  }
  mine.nll = mine.loss;
  if (sums) *sums = mine;
  return record(
      "squared_error", {predictions}, scalar(scale * mine.loss, wide_of(d.dtype()), d.device()),
      [x = predictions.ref(), d](const Tensor& dy, Grads& g) {
        const auto dx = g.into(x);
        kernels::add(
            {.a = d, .b = dx.accumulate ? dx.to : Tensor(), .out = dx.to, .alpha = dy.is_meta() ? 1 : value_at(dy, 0)});
      });
}

}  // namespace lithe

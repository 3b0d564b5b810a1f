// Discrete Fourier transforms in two steps, each a product of matrices, which the library of the products does at the
// machine's peak; no other library is needed. Uniform partitions [Stockham 1966; Gardner 1995].
#include "lithe/ops/long_convolution.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>

#include "lithe/kernels/convolution/convolution.h"
#include "lithe/kernels/elementwise/elementwise.h"
#include "lithe/kernels/gemm/gemm.h"
#include "lithe/ops/basic.h"

namespace lithe {
namespace {

/// [bins, C]; `minus` is -im, where it is needed.
struct Spectrum {
  Tensor re, im, minus;
};

/// Transforms of n = 2 L = n1 n2 real rows. Row t = t1 n2 + t2 goes into the bins k = k1 + n1 k2, k1 = 0 ... n1/2 (the
/// others are conjugates): sums over t1 first, then over t2 with the factors between the steps.
class Transform {
 public:
  Transform(int64_t L, int64_t C, DType dtype, Device device)
      : n_(2 * L), n1_(2), C_(C), dtype_(dtype), device_(device) {
    while (16 * n1_ * n1_ <= n_) n1_ *= 2;
    n2_ = n_ / n1_, bins_ = n1_ / 2 + 1;
    low_ = matrix(2 * bins_, n1_ / 2), high_ = matrix(2 * bins_, n1_ / 2), last_ = matrix(n1_, 2 * bins_);
    re_ = matrix(bins_ * n2_, 2 * n2_), im_ = matrix(bins_ * n2_, 2 * n2_);
    if (!low_.is_meta()) dispatch_float(dtype, [&]<class T>() { fill<T>(); });
  }

  /// Of rows [0, L), and [L, 2 L); one may be absent (zeros).
  Spectrum operator()(const Tensor& low, const Tensor& high, bool minus) const {
    const Tensor between = matrix(2 * bins_, n2_ * C_), stacked = between.reshape({2 * bins_ * n2_, C_});
    if (low) kernels::gemm({.a = low_, .b = wide(low), .c = between});
    if (high) kernels::gemm({.a = high_, .b = wide(high), .c = between, .accumulate = low.defined()});
    Spectrum out{matrix(bins_ * n2_, C_), matrix(bins_ * n2_, C_), {}};
    for (int64_t k = 0; k < bins_; ++k) {
      const Tensor rows = stacked.slice(2 * k * n2_, 2 * (k + 1) * n2_);
      kernels::gemm({.a = of(re_, k), .b = rows, .c = of(out.re, k)});
      kernels::gemm({.a = of(im_, k), .b = rows, .c = of(out.im, k)});
    }
    if (minus) {
      out.minus = matrix(bins_ * n2_, C_);
      kernels::add({.a = out.im, .out = out.minus, .alpha = -1});
    }
    return out;
  }
  Spectrum nothing() const {
    return {zeros({bins_ * n2_, C_}, dtype_, device_), zeros({bins_ * n2_, C_}, dtype_, device_), {}};
  }
  /// Adds the rows [from L, to L) of what x is the transform of.
  void add_rows(const Spectrum& x, int64_t from, int64_t to, const Tensor& out) const {
    const Tensor between = matrix(2 * bins_ * n2_, C_);
    for (int64_t k = 0; k < bins_; ++k) {
      const Tensor rows = between.slice(2 * k * n2_, 2 * (k + 1) * n2_);
      kernels::gemm({.a = of(re_, k), .b = of(x.re, k), .c = rows, .transpose_a = true});
      kernels::gemm({.a = of(im_, k), .b = of(x.im, k), .c = rows, .transpose_a = true, .accumulate = true});
    }
    kernels::gemm({.a = last_.slice(from * n1_ / 2, to * n1_ / 2),
                   .b = between.reshape({2 * bins_, n2_ * C_}),
                   .c = out.reshape({(to - from) * n1_ / 2, n2_ * C_}),
                   .accumulate = true});
  }
  /// out += a b, or conj(a) b; `a` with its minus.
  static void add_product(const Spectrum& a, const Spectrum& b, bool conjugate, const Spectrum& out) {
    kernels::mul({.a = a.re, .b = b.re, .out = out.re, .accumulate = true});
    kernels::mul({.a = conjugate ? a.im : a.minus, .b = b.im, .out = out.re, .accumulate = true});
    kernels::mul({.a = a.re, .b = b.im, .out = out.im, .accumulate = true});
    kernels::mul({.a = conjugate ? a.minus : a.im, .b = b.re, .out = out.im, .accumulate = true});
  }

 private:
  int64_t n_, n1_, C_, n2_ = 0, bins_ = 0;
  DType dtype_;
  Device device_;
  Tensor low_, high_, last_, re_, im_;

  Tensor matrix(int64_t rows, int64_t columns) const { return empty({rows, columns}, dtype_, device_); }
  Tensor wide(const Tensor& rows) const { return rows.reshape({n1_ / 2, n2_ * C_}); }
  Tensor of(const Tensor& x, int64_t k) const { return x.slice(k * n2_, (k + 1) * n2_); }

  template <class T>
  void fill() {
    std::vector<double> cosines(static_cast<size_t>(n_));
    for (int64_t i = 0; i < n_; ++i) cosines[size_t(i)] = std::cos(2 * std::numbers::pi * double(i) / double(n_));
    const auto cosine = [&](int64_t i) { return cosines[size_t(i % n_)]; };
    const auto sine = [&](int64_t i) { return cosines[size_t((i % n_ + 3 * n_ / 4) % n_)]; };  // n is 4 or more
    for (int64_t k = 0; k < bins_; ++k) {
      const double weight = (k == 0 || 2 * k == n1_ ? 1.0 : 2.0) / double(n_);
      for (int64_t t = 0; t < n1_; ++t) {
        const double c = cosine(k * t * n2_), s = sine(k * t * n2_);
        const Tensor& first = t < n1_ / 2 ? low_ : high_;
        T* to = first.data<T>() + 2 * k * (n1_ / 2) + t % (n1_ / 2);
        to[0] = T(c), to[n1_ / 2] = T(-s);
        last_.data<T>()[t * 2 * bins_ + 2 * k] = T(weight * c);
        last_.data<T>()[t * 2 * bins_ + 2 * k + 1] = T(-weight * s);
      }
      for (int64_t j = 0; j < n2_; ++j)
        for (int64_t t = 0; t < n2_; ++t) {
          const double c = cosine(t * (k + n1_ * j)), s = sine(t * (k + n1_ * j));
          T *re = re_.data<T>() + (k * n2_ + j) * 2 * n2_ + t, *im = im_.data<T>() + (k * n2_ + j) * 2 * n2_ + t;
          re[0] = T(c), re[n2_] = T(s), im[0] = T(-s), im[n2_] = T(c);
        }
    }
  }
};

/// One call: the transforms, and those of taps, which sequences of different lengths share as far as they reach.
class Blocks {
 public:
  Blocks(const Tensor& x, const Tensor& taps, const Sequences& sequences, int64_t ahead, int64_t L)
      : x_(x), taps_(taps), sequences_(sequences), ahead_(ahead), L_(L), C_(x.cols()) {
    for (int64_t b = 0; b < sequences.count(); ++b)
      if (sequences.length(b) > 0 && blocks_of(b) > 1 && taps.rows() > 1 && !transform_)
        transform_ = std::make_unique<Transform>(L, C_, taps.dtype(), x.device());
  }

  void forward(int64_t b, const Tensor& y) {
    if (sequences_.length(b) == 0) return;
    const Tensor rows = padded(x_, b, 0), out = empty_like(rows);
    kernels::convolution({.x = rows, .w = near(b), .y = out, .segments = segments(b)});
    if (far(b)) {
      std::vector<Spectrum> spectra;
      for (int64_t i = 0; i + 1 < blocks_of(b); ++i) spectra.push_back((*transform_)(block(rows, i), {}, true));
      for (int64_t j = 1; j < blocks_of(b); ++j) {
        const Spectrum sum = transform_->nothing();
        for (int64_t i = std::max<int64_t>(0, j - far(b)); i < j; ++i)
          Transform::add_product(spectra[size_t(i)], taps_spectrum(b, j - i), false, sum);
        transform_->add_rows(sum, 1, 2, block(out, j));
      }
    }
    const int64_t from = sequences_.offset(b), T = sequences_.length(b);
    kernels::add({.a = out.slice(ahead_, ahead_ + T), .out = y.slice(from, from + T)});
  }

  /// dx, of which the caller has rows, and dtaps, which is added to; either may be absent.
  void backward(int64_t b, const Tensor& dy, const Tensor& dx, bool accumulate, const Tensor& dtaps) {
    if (sequences_.length(b) == 0) return;
    const Tensor rows = padded(x_, b, 0), drows = dx ? empty_like(rows) : Tensor(), dout = padded(dy, b, ahead_),
                 dnear = dtaps ? dtaps.slice(0, near(b).rows()) : Tensor();
    kernels::convolution_grad({.forward = {.x = rows, .w = near(b), .y = dout, .segments = segments(b)},
                               .dy = dout,
                               .dx = drows,
                               .dw = dnear,
                               .accumulate_dw = true});
    const int64_t blocks = blocks_of(b);
    std::vector<Spectrum> later(static_cast<size_t>(far(b) ? blocks : 0));
    for (size_t j = 1; j < later.size(); ++j) later[j] = (*transform_)({}, block(dout, int64_t(j)), false);
    for (int64_t i = 0; i + 1 < blocks && dx && far(b); ++i) {
      const Spectrum sum = transform_->nothing();
      for (int64_t j = i + 1; j < std::min(blocks, i + far(b) + 1); ++j)
        Transform::add_product(taps_spectrum(b, j - i), later[size_t(j)], true, sum);
      transform_->add_rows(sum, 0, 1, block(drows, i));
    }
    if (dtaps && far(b)) add_far_taps(b, rows, later, dtaps);
    const int64_t from = sequences_.offset(b), T = sequences_.length(b);
    if (!dx) return;
    const Tensor to = dx.slice(from, from + T);
    kernels::add({.a = drows.slice(0, T), .b = accumulate ? to : Tensor(), .out = to});
  }

 private:
  Tensor x_, taps_;
  const Sequences& sequences_;
  int64_t ahead_, L_, C_;
  std::unique_ptr<Transform> transform_;
  std::map<std::pair<int64_t, int64_t>, Spectrum> taps_spectra_;

  int64_t total(int64_t b) const { return sequences_.length(b) + ahead_; }
  int64_t blocks_of(int64_t b) const { return (total(b) + L_ - 1) / L_; }
  int64_t reach(int64_t b) const { return std::min(taps_.rows(), total(b)); }
  Tensor near(int64_t b) const { return taps_.slice(0, std::min(reach(b), L_)); }
  /// How many blocks back the taps reach.
  int64_t far(int64_t b) const { return std::min(blocks_of(b) - 1, reach(b) > 1 ? (reach(b) - 2) / L_ + 1 : 0); }
  Tensor block(const Tensor& rows, int64_t i) const { return rows.slice(i * L_, (i + 1) * L_); }
  std::vector<kernels::ConvolutionSegment> segments(int64_t b) const {
    std::vector<kernels::ConvolutionSegment> out;
    for (int64_t i = 0; i < blocks_of(b); ++i) out.push_back({i * L_, L_, {}});
    return out;
  }
  /// The rows of a sequence from row `at` on, wide, zeros around them.
  Tensor padded(const Tensor& rows, int64_t b, int64_t at) const {
    const Tensor out = zeros({blocks_of(b) * L_, C_}, taps_.dtype(), rows.device());
    const int64_t from = sequences_.offset(b), T = sequences_.length(b);
    kernels::add({.a = rows.slice(from, from + T), .out = out.slice(at, at + T)});
    return out;
  }
  /// Of the taps (d - 1) L to (d + 1) L, which lead d blocks on.
  const Spectrum& taps_spectrum(int64_t b, int64_t d) {
    const int64_t from = (d - 1) * L_, to = std::min(reach(b), (d + 1) * L_);
    Spectrum& s = taps_spectra_[{d, to}];
    if (s.re) return s;
    const Tensor rows = zeros({2 * L_, C_}, taps_.dtype(), taps_.device());
    kernels::add({.a = taps_.slice(from, to), .out = rows.slice(0, to - from)});
    return s = (*transform_)(block(rows, 0), block(rows, 1), true);
  }
  void add_far_taps(int64_t b, const Tensor& rows, const std::vector<Spectrum>& later, const Tensor& dtaps) {
    const int64_t blocks = blocks_of(b);
    std::vector<Spectrum> spectra;
    for (int64_t i = 0; i + 1 < blocks; ++i) spectra.push_back((*transform_)(block(rows, i), {}, true));
    for (int64_t d = 1; d <= far(b); ++d) {
      const Spectrum sum = transform_->nothing();
      for (int64_t i = 0; i + d < blocks; ++i)
        Transform::add_product(spectra[size_t(i)], later[size_t(i + d)], true, sum);
      const Tensor found = zeros({2 * L_, C_}, dtaps.dtype(), dtaps.device());
      transform_->add_rows(sum, 0, 2, found);
      // Row 0 is the tap that no row of the block before needs.
      const int64_t from = (d - 1) * L_ + 1, to = std::min(reach(b), (d + 1) * L_);
      const Tensor mine = dtaps.slice(from, to);
      kernels::add({.a = found.slice(1, 1 + to - from), .b = mine, .out = mine});
    }
  }
};

Var real_convolution(const Var& x, const Var& taps, const Sequences& sequences, int64_t ahead, int64_t L) {
  const Tensor y = empty_like(x.value());
  {
    const MemoryScope scope(MemoryClass::workspace);
    Blocks blocks(x.value(), taps.value(), sequences, ahead, L);
    for (int64_t b = 0; b < sequences.count(); ++b) blocks.forward(b, y);
  }
  return record("long_convolution", {x, taps}, y,
                [=, rows = x.value(), w = taps.value(), x = x.ref(), taps = taps.ref()](const Tensor& dy, Grads& g) {
                  const auto dx = g.into(x);
                  const Tensor dw = taps ? g.into_zeroed(taps) : Tensor();
                  const MemoryScope scope(MemoryClass::workspace);
                  Blocks blocks(rows, w, sequences, ahead, L);
                  for (int64_t b = 0; b < sequences.count(); ++b) blocks.backward(b, dy, dx.to, dx.accumulate, dw);
                });
}

/// The halves of x's columns in the order `first`, `second` of each row.
Var halves(const Var& x, int64_t first, int64_t second) {
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < x.rows(); ++i) rows.push_back(2 * i + first), rows.push_back(2 * i + second);
  return reshape(pick_rows(reshape(x, {2 * x.rows(), x.cols() / 2}), rows), x.shape());
}

}  // namespace

Var long_convolution(const Var& x, const Var& taps, const Sequences& sequences, int64_t ahead, bool complex,
                     int64_t direct_rows) {
  const char* op = "long_convolution";
  check(sequences.rows() == x.rows(), op, "x ", x.shape(), " does not fit the ", sequences.rows(), " rows of ",
        sequences.count(), " sequences");
  check(taps.value().shape().rank() == 2 && taps.cols() == x.cols() && taps.rows() > 0 &&
            taps.dtype() == wide_of(x.dtype()),
        op, "taps must be ", wide_of(x.dtype()), " [taps, C] to match x ", x.shape(), ", got ", taps.dtype(),
        taps.shape());
  check(ahead >= 0 && ahead < taps.rows(), op, "ahead must be in [0, taps), got ", ahead, " and ", taps.rows(),
        " taps");
  check(direct_rows >= 2 && (direct_rows & (direct_rows - 1)) == 0, op,
        "direct_rows must be a power of two from 2 on, got ", direct_rows);
  check(!complex || x.cols() % 2 == 0, op, "complex rows have as many imaginary as real columns, got x ", x.shape());
  if (!complex) return real_convolution(x, taps, sequences, ahead, direct_rows);
  // (w_r + i w_i)(x_r + i x_i) = w_r x + w_i (i x)
  const Tensor signs = empty({x.cols()}, taps.dtype(), x.device());
  for (int64_t c = 0; c < x.cols() && !signs.is_meta(); ++c) set_value(signs, c, c < x.cols() / 2 ? -1 : 1);
  const Var turned = row_affine(halves(x, 1, 0), Var(signs), {});
  return add(real_convolution(x, halves(taps, 0, 0), sequences, ahead, direct_rows),
             real_convolution(turned, halves(taps, 1, 1), sequences, ahead, direct_rows));
}

}  // namespace lithe

// Continuous depth by an adaptive solver: dz/dl = F(norm(z)) from l = 0 to `depth`, in Runge-Kutta steps that are as
// long as an embedded method of lower order finds them right. Each row has steps of its own, by its own error alone, so
// that a token's result depends neither on later tokens nor on the batch. Gradients go through the steps taken, their
// lengths being constants: lengths halve and double, so that this is the derivative wherever there is one
// [TB 6.3.3 end; Chen et al. 2018; Dormand and Prince 1980; Bogacki and Shampine 1989].
// spec: ode.neural | residual | continuous depth, an adaptive solver for each token | TB 6.3.3 end
#include <algorithm>
#include <cmath>

#include "lithe/base/threads.h"
#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"

namespace lithe {
namespace {

struct AdaptiveRkConfig {
  std::string method = "adaptive_heun";
  double depth = 1, rtol = 0.01, atol = 1e-3;
  int64_t max_steps = 4;
  bool end_early = false;
  void fields(Fields& f) {
    f("method", method,
      "adaptive_heun: order 2, 2 evaluations a step; bosh3: order 3, 4 evaluations; dopri5: order 5, 7 evaluations, "
      "the usual RK45",
      one_of({"adaptive_heun", "bosh3", "dopri5"}));
    f("depth", depth, "depth (time) at which the solution is taken; negative: backwards", between(-1e6, 1e6));
    f("rtol", rtol,
      "a step is accepted for a row if the root mean square of its error is at most atol + rtol * the row's root mean "
      "square",
      at_least(0));
    f("atol", atol, "absolute tolerance (see rtol)", at_least(0));
    f("max_steps", max_steps,
      "most steps to try, refused ones included; a step of (remaining depth) / (remaining tries) is always accepted, "
      "so that the end is reached",
      between(1, 1000));
    f("end_early", end_early,
      "outside of training, stop the tries of a sub-layer when all rows have reached the end: same numbers, less work, "
      "no more memory than planned; false: run all tries");
  }
};

// Of an embedded pair: offsets below the diagonal, row by row; weights; what they differ by from those of lower order.
struct EmbeddedPair {
  int order;
  std::vector<double> offsets, weights, differences;
};

EmbeddedPair pair_of(const std::string& method) {
  if (method == "adaptive_heun") return {2, {1}, {0.5, 0.5}, {-0.5, 0.5}};
  if (method == "bosh3")
    return {3,
            {1.0 / 2, 0, 3.0 / 4, 2.0 / 9, 1.0 / 3, 4.0 / 9},
            {2.0 / 9, 1.0 / 3, 4.0 / 9, 0},
            {2.0 / 9 - 7.0 / 24, 1.0 / 3 - 1.0 / 4, 4.0 / 9 - 1.0 / 3, -1.0 / 8}};
  return {5,
          {1.0 / 5,
           3.0 / 40,
           9.0 / 40,
           44.0 / 45,
           -56.0 / 15,
           32.0 / 9,
           19372.0 / 6561,
           -25360.0 / 2187,
           64448.0 / 6561,
           -212.0 / 729,
           9017.0 / 3168,
           -355.0 / 33,
           46732.0 / 5247,
           49.0 / 176,
           -5103.0 / 18656,
           35.0 / 384,
           0,
           500.0 / 1113,
           125.0 / 192,
           -2187.0 / 6784,
           11.0 / 84},
          {35.0 / 384, 0, 500.0 / 1113, 125.0 / 192, -2187.0 / 6784, 11.0 / 84, 0},
          {71.0 / 57600, 0, -71.0 / 16695, 71.0 / 1920, -17253.0 / 339200, 22.0 / 525, -1.0 / 40}};
}

constexpr int64_t kRowsAtOnceOfStep = 16;

// z_n + lengths[n] sum_j factors[j] f_j,n; a row of length 0 stays as it is, whatever f is.
Var moved(const Var& z, const std::vector<Var>& f, const double* factors, const std::vector<double>& lengths) {
  std::vector<GradRef> inputs{z.ref()};
  std::vector<Tensor> slopes;
  std::vector<double> used;
  for (size_t j = 0; j < f.size(); ++j)
    if (factors[j] != 0) {
      check(f[j].shape() == z.shape() && f[j].dtype() == z.dtype(), "adaptive_rk", "rows ", z.dtype(), z.shape(),
            " have slopes ", f[j].dtype(), f[j].shape());
      inputs.push_back(f[j].ref());
      slopes.push_back(f[j].value());
      used.push_back(factors[j]);
    }
  const Tensor from = z.value(), out = empty_like(from);
  const int64_t D = z.cols();
  if (!out.is_meta())
    dispatch_float(out.dtype(), [&]<class T>() {
      parallel_for(out.rows(), kRowsAtOnceOfStep, [&](int64_t begin, int64_t end, int) {
        for (int64_t n = begin; n < end; ++n)
          for (int64_t i = n * D; i < (n + 1) * D; ++i) {
            double change = 0;
            for (size_t j = 0; j < slopes.size() && lengths[size_t(n)] != 0; ++j)
              change += used[j] * double(slopes[j].data<T>()[i]);
            out.data<T>()[i] = lengths[size_t(n)] == 0 ? from.data<T>()[i]
                                                       : T(double(from.data<T>()[i]) + lengths[size_t(n)] * change);
          }
      });
    });
  if (!recording()) return Var(out);
  return record_many("adaptive_rk", inputs, {out},
                     [inputs, used, lengths, D](const std::vector<Tensor>& dys, Grads& g) {
                       const Tensor dy = dys[0];
                       if (inputs[0]) g.give(inputs[0], dy);
                       for (size_t j = 0; j < used.size(); ++j)
                         if (const auto df = g.into(inputs[j + 1]); df && !dy.is_meta())
                           dispatch_float(dy.dtype(), [&]<class T>() {
                             parallel_for(dy.rows(), kRowsAtOnceOfStep, [&](int64_t begin, int64_t end, int) {
                               for (int64_t i = begin * D; i < end * D; ++i) {
                                 const double factor = used[j] * lengths[size_t(i / D)];
                                 df.to.data<T>()[i] = T((factor == 0 ? 0 : factor * double(dy.data<T>()[i])) +
                                                        (df.accumulate ? double(df.to.data<T>()[i]) : 0));
                               }
                             });
                           });
                     })[0];
}

class AdaptiveRk final : public Residual {
 public:
  AdaptiveRk(const Scope&, const AdaptiveRkConfig& config, const Args& args)
      : pair_(pair_of(config.method)), config_(config), norm_(args.norm), dropout_(args.dropout) {}
  // Training runs all tries, so that auxiliary losses count alike where layers are recomputed.
  Var forward(const Var& x, const SubLayerFunction& f) const override {
    return solve(x, f, config_.end_early && !training() && !recording());
  }
  Var change(const Var& x, const SubLayerFunction& f) const override { return add(solve(x, f, false), x, 1, -1); }
  bool adds() const override { return true; }
  Var input(const Var& x) const override { return norm_->forward(x); }
  int64_t stages() const override { return config_.max_steps * int64_t(pair_.weights.size()); }
  bool final_norm() const override { return true; }

 private:
  EmbeddedPair pair_;
  AdaptiveRkConfig config_;
  const Norm* norm_;
  const Dropout* dropout_;

  Var solve(const Var& x, const SubLayerFunction& f, bool may_end) const {
    const auto rows = size_t(x.rows());
    std::vector<double> left(rows, std::abs(config_.depth)), wanted = left, lengths(rows, 0);
    const double sign = config_.depth < 0 ? -1 : 1;
    Var z = x;
    for (int64_t k = 0; k < config_.max_steps; ++k) {
      const double tries = double(config_.max_steps - k);
      for (size_t n = 0; n < rows; ++n) lengths[n] = sign * std::min(left[n], std::max(wanted[n], left[n] / tries));
      const std::vector<Var> slopes = evaluate(z, k, lengths, f);
      for (size_t n = 0; n < rows && !z.value().is_meta(); ++n) {
        const double length = std::abs(lengths[n]);
        if (length == 0) continue;
        const double error = length * error_of(slopes, int64_t(n)), most = limit(z.value(), int64_t(n));
        wanted[n] = error <= std::ldexp(most, -pair_.order - 1) ? 2 * length : error <= most ? length : length / 2;
        if (error <= most || length <= left[n] / tries)
          left[n] -= length;
        else
          lengths[n] = 0;
      }
      z = moved(z, slopes, pair_.weights.data(), lengths);
      if (may_end && !z.value().is_meta() && std::all_of(left.begin(), left.end(), [](double l) { return l <= 0; }))
        break;
    }
    return z;
  }

  // The slopes of try k at z.
  std::vector<Var> evaluate(const Var& z, int64_t k, const std::vector<double>& lengths,
                            const SubLayerFunction& f) const {
    const auto count = int64_t(pair_.weights.size());
    std::vector<Var> slopes;
    const double* offsets = pair_.offsets.data();
    for (int64_t i = 0; i < count; offsets += i, ++i) {
      const int64_t stage = k * count + i;
      const Var at = i == 0 ? z : moved(z, slopes, offsets, lengths);
      slopes.push_back((*dropout_)(f(norm_->forward(at), stage), stage));
    }
    return slopes;
  }

  // The root mean square over row n of the difference to the lower order, a length of 1.
  double error_of(const std::vector<Var>& slopes, int64_t n) const {
    const int64_t D = slopes[0].cols();
    std::vector<double> sums(size_t(D), 0);
    for (size_t j = 0; j < slopes.size(); ++j) {
      if (pair_.differences[j] == 0) continue;
      dispatch_float(slopes[j].dtype(), [&]<class T>() {
        const T* row = slopes[j].value().data<T>() + n * D;
        for (int64_t c = 0; c < D; ++c) sums[size_t(c)] += pair_.differences[j] * double(row[c]);
      });
    }
    double squares = 0;
    for (const double s : sums) squares += s * s;
    return std::sqrt(squares / double(D));
  }
  double limit(const Tensor& z, int64_t n) const {
    const int64_t D = z.cols();
    double squares = 0;
    dispatch_float(z.dtype(), [&]<class T>() {
      const T* row = z.data<T>() + n * D;
      for (int64_t c = 0; c < D; ++c) squares += double(row[c]) * double(row[c]);
    });
    return config_.atol + config_.rtol * std::sqrt(squares / double(D));
  }
};

}  // namespace

void register_residual_adaptive_rk(Registry& registry) {
  registry.add<Residual, AdaptiveRk, AdaptiveRkConfig>(
      "adaptive_rk", {.spec = "ode.neural",
                      .summary = "continuous depth: Runge-Kutta steps with an adaptive step size for each token",
                      .source = "TB 6.3.3 end",
                      .samples = {"{depth: 2}", "{method: bosh3, max_steps: 2, depth: -0.7, rtol: 0.0001}",
                                  "{method: dopri5, max_steps: 1, depth: 0.5}"}});
}

}  // namespace lithe

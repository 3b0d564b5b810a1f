#include "lithe/ops/hard_concrete.h"

#include <algorithm>
#include <cmath>

#include "lithe/kernels/kernel.h"

namespace lithe {
namespace {

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

double HardConcrete::at_test(double log_alpha) const {
  return std::clamp(logistic(log_alpha) * (zeta - gamma) + gamma, 0.0, 1.0);
}

double HardConcrete::stretched(double log_alpha, double u) const {
  return logistic((std::log(u) - std::log1p(-u) + log_alpha) / beta) * (zeta - gamma) + gamma;
}

double HardConcrete::sampled(double log_alpha, double u) const { return std::clamp(stretched(log_alpha, u), 0.0, 1.0); }

double HardConcrete::probability(double log_alpha) const {
  return logistic(log_alpha - beta * std::log(-gamma / zeta));
}

// spec: prune.gates | compression | hard-concrete gates on units, and a penalty on open ones | TB 6.4.7(2)
Var hard_concrete(const HardConcrete& form, const Var& log_alpha, const std::vector<double>& u) {
  const int64_t n = log_alpha.value().numel();
  check(u.empty() || int64_t(u.size()) == n, "hard_concrete", "there are ", n, " gates, and noise for ", u.size());
  const Tensor gates = empty_like(log_alpha.value()), slopes = empty_like(gates);
  kernels::book_cost("hard_concrete", {30.0 * double(n), 3.0 * double(gates.bytes())});
  for (int64_t i = 0; !gates.is_meta() && i < n; ++i) {
    const double a = value_at(log_alpha.value(), i), span = form.zeta - form.gamma;
    const double sharp = u.empty() ? 1 : 1 / form.beta;
    const double s = (u.empty() ? logistic(a) * span + form.gamma : form.stretched(a, u[size_t(i)]));
    const double inner = (s - form.gamma) / span;
    set_value(gates, i, std::clamp(s, 0.0, 1.0));
    set_value(slopes, i, s > 0 && s < 1 ? span * inner * (1 - inner) * sharp : 0);
  }
  return record("hard_concrete", {log_alpha}, gates, [x = log_alpha.ref(), slopes](const Tensor& dy, Grads& g) {
    const auto dx = g.into(x);
    kernels::book_cost("hard_concrete", {2.0 * double(dy.numel()), 3.0 * double(dy.bytes())});
    for (int64_t i = 0; !dy.is_meta() && i < dy.numel(); ++i)
      set_value(dx.to, i, (dx.accumulate ? value_at(dx.to, i) : 0) + value_at(dy, i) * value_at(slopes, i));
  });
}

Var gate_penalty(const HardConcrete& form, const Var& log_alpha, double scale) {
  const int64_t n = log_alpha.value().numel();
  const Tensor out = empty({1}, log_alpha.dtype(), log_alpha.device()), slopes = empty_like(log_alpha.value());
  kernels::book_cost("gate_penalty", {20.0 * double(n), 2.0 * double(slopes.bytes())});
  double total = 0;
  for (int64_t i = 0; !out.is_meta() && i < n; ++i) {
    const double p = form.probability(value_at(log_alpha.value(), i));
    total += p;
    set_value(slopes, i, scale * p * (1 - p));
  }
  if (!out.is_meta()) set_value(out, 0, scale * total);
  return record("gate_penalty", {log_alpha}, out, [x = log_alpha.ref(), slopes](const Tensor& dy, Grads& g) {
    const auto dx = g.into(x);
    kernels::book_cost("gate_penalty", {2.0 * double(slopes.numel()), 2.0 * double(slopes.bytes())});
    const double d = dy.is_meta() ? 1 : value_at(dy, 0);
    for (int64_t i = 0; !dy.is_meta() && i < slopes.numel(); ++i)
      set_value(dx.to, i, (dx.accumulate ? value_at(dx.to, i) : 0) + d * value_at(slopes, i));
  });
}

Var gate_elements(const Var& w, const Var& gates, const Tensor& units) {
  check(units.dtype() == DType::i32 && units.numel() == w.value().numel(), "gate_elements", "units must be i32 [",
        w.value().numel(), "], got ", units.dtype(), units.shape());
  const Tensor y = empty_like(w.value());
  const auto cost = [](const Tensor& of) {
    kernels::book_cost("gate_elements", {2.0 * double(of.numel()), 3.0 * double(of.bytes())});
  };
  cost(y);
  std::vector<double> z;  // the last: 1, of elements without a gate
  for (int64_t i = 0; !y.is_meta() && i < gates.value().numel(); ++i) z.push_back(value_at(gates.value(), i));
  z.push_back(1);
  const auto place = [count = z.size() - 1](int32_t unit) { return unit < 0 ? count : size_t(unit); };
  if (!y.is_meta())
    dispatch_float(y.dtype(), [&]<class T>() {
      const T* from = w.value().data<T>();
      for (int64_t e = 0; e < y.numel(); ++e) y.data<T>()[e] = T(double(from[e]) * z[place(units.data<int32_t>()[e])]);
    });
  return record(
      "gate_elements", {w, gates}, y,
      [w = w.ref(), of_gates = gates.ref(), x = w.value(), z, units, cost, place](const Tensor& dy, Grads& g) {
        const auto dw = g.into(w);
        const Tensor dz = g.into_zeroed(of_gates);
        cost(dy);
        if (dy.is_meta()) return;
        std::vector<double> sums(z.size(), 0);
        dispatch_float(x.dtype(), [&]<class T>() {
          const T* from = x.data<T>();
          for (int64_t e = 0; e < x.numel(); ++e) {
            const size_t unit = place(units.data<int32_t>()[e]);
            const double d = value_at(dy, e);
            sums[unit] += d * double(from[e]);
            if (dw) set_value(dw.to, e, (dw.accumulate ? value_at(dw.to, e) : 0) + d * z[unit]);
          }
        });
        for (int64_t i = 0; dz.defined() && i < dz.numel(); ++i) set_value(dz, i, value_at(dz, i) + sums[size_t(i)]);
      });
}

}  // namespace lithe

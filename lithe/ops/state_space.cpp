#include "lithe/ops/state_space.h"

#include <cmath>
#include <complex>

namespace lithe {
namespace {

using Complex = std::complex<double>;

/// (e^l - 1) / l and its derivative, by their series where the closed form cancels.
struct Phi {
  Complex value, slope;
};
Phi phi(Complex l) {
  if (std::abs(l) > 0.5) {
    const Complex e = std::exp(l);
    return {(e - 1.0) / l, (e * (l - 1.0) + 1.0) / (l * l)};
  }
  Phi out{0, 0};
  Complex power = 1;  // l^k / k!
  for (int k = 0; k < 20; ++k) {
    out.value += power / double(k + 1);
    out.slope += power / double(k + 2);
    power *= l / double(k + 1);
  }
  return out;
}

/// a and b / D of l, and their derivatives.
struct Step {
  Complex a, a_slope, b, b_slope;
};
Step step_of(Discretisation kind, Complex l) {
  const Complex half = 1.0 / (1.0 - l / 2.0);
  switch (kind) {
    case Discretisation::euler: return {1.0 + l, 1, 1, 0};
    case Discretisation::bilinear: return {(1.0 + l / 2.0) * half, half * half, half, half * half / 2.0};
    case Discretisation::zoh: break;
  }
  const Phi p = phi(l);
  return {std::exp(l), std::exp(l), p.value, p.slope};
}

}  // namespace

// spec: ssm.continuous | operation | a continuous diagonal state space with a learned step | TB Eq 6.162-6.179
// spec: ssm.euler | operation | a = 1 + D A, b = D | TB Eq 6.168
// spec: ssm.bilinear | operation | the trapezoidal rule, signs as in E31 | TB Eq 6.172-6.173
// spec: ssm.zoh | operation | exact for inputs that stay between steps | TB Eq 6.176-6.179
std::vector<Var> discretise(Discretisation kind, const Var& decay, const Var& frequency, const Var& log_step) {
  const int64_t n = decay.value().numel(), steps = log_step.value().numel(), parts = frequency.defined() ? 2 : 1;
  check(steps == 1 || steps == n, "discretise", "log_step must be [1] or [", n, "] to match decay ", decay.shape(),
        ", got ", log_step.shape());
  check(parts == 1 || frequency.value().numel() == n, "discretise", "frequency must be [", n, "] to match decay ",
        decay.shape(), ", got ", frequency.shape());
  const Tensor a = empty({parts * n}, decay.dtype(), decay.device()), b = empty_like(a);
  const auto put = [n, parts](const Tensor& to, int64_t i, Complex x) {
    set_value(to, i, x.real());
    if (parts == 2) set_value(to, i + n, x.imag());
  };
  const auto rate = [n, parts](const Tensor& decays, const Tensor& frequencies, int64_t i) {
    return Complex(-std::exp(value_at(decays, i)), parts == 2 ? value_at(frequencies, i) : 0);
  };
  const Tensor waves = parts == 2 ? frequency.value() : Tensor();
  for (int64_t i = 0; i < n && !a.is_meta(); ++i) {
    const double D = std::exp(value_at(log_step.value(), i % steps));
    const Step s = step_of(kind, D * rate(decay.value(), waves, i));
    put(a, i, s.a);
    put(b, i, D * s.b);
  }
  return record_many(
      "discretise", {decay, frequency, log_step}, {a, b},
      [=, decays = decay.value(), logs = log_step.value(), decay = decay.ref(), frequency = frequency.ref(),
       log_step = log_step.ref()](const std::vector<Tensor>& dys, Grads& g) {
        const Tensor none;
        const Tensor ddecay = decay ? g.into_zeroed(decay) : none,
                     dfrequency = frequency ? g.into_zeroed(frequency) : none,
                     dstep = log_step ? g.into_zeroed(log_step) : none;
        const auto cotangent = [&](const Tensor& dy, int64_t i) {
          if (!dy) return Complex(0);
          return Complex(value_at(dy, i), parts == 2 ? value_at(dy, i + n) : 0);
        };
        const auto add = [](const Tensor& to, int64_t i, double x) {
          if (to) set_value(to, i, value_at(to, i) + x);
        };
        for (int64_t i = 0; i < n && !decays.is_meta(); ++i) {
          const double D = std::exp(value_at(logs, i % steps));
          const Complex A = rate(decays, waves, i);
          const Step s = step_of(kind, D * A);
          const Complex ga = cotangent(dys[0], i), gb = cotangent(dys[1], i);
          const Complex gl = std::conj(s.a_slope) * ga + std::conj(D * s.b_slope) * gb;  // of l
          add(ddecay, i, D * gl.real() * A.real());
          add(dfrequency, i, D * gl.imag());
          add(dstep, i % steps, D * ((std::conj(A) * gl).real() + (std::conj(s.b) * gb).real()));
        }
      });
}

}  // namespace lithe

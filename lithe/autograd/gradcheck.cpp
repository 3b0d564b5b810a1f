#include "lithe/autograd/gradcheck.h"

#include <cmath>

#include "lithe/base/random.h"

namespace lithe {

double gradcheck(const VarFunction& f, const std::vector<Tensor>& inputs, std::string* where) {
  constexpr double kStep = 1e-5;
  const RandomKey key{.seed = 12345, .purpose = purpose_of("gradcheck")};
  const auto weighted = [&](const std::vector<Var>& in) {
    const NoGrad no_grad;
    const Var y = f(in);
    double sum = 0;
    for (int64_t i = 0; i < y.value().numel(); ++i)
      sum += (2 * random_uniform(key, uint64_t(i)) - 1) * value_at(y.value(), i);
    return sum;
  };

  std::vector<Var> vars;
  for (const Tensor& x : inputs) {
    check(x.dtype() == DType::f64, "gradcheck", "inputs must be f64, got ", x.dtype());
    vars.push_back(Var::leaf(clone(x)));
  }
  {
    Tape tape;
    const Var y = f(vars);
    Tensor dy = empty_like(y.value());
    for (int64_t i = 0; i < dy.numel(); ++i) set_value(dy, i, 2 * random_uniform(key, uint64_t(i)) - 1);
    tape.backward(y, dy);
  }
  double worst = 0;
  for (size_t v = 0; v < vars.size(); ++v) {
    const Tensor x = vars[v].value(), grad = vars[v].grad();
    std::vector<double> numeric(size_t(x.numel()));
    double largest = 1;
    for (int64_t i = 0; i < x.numel(); ++i) {
      const double old = value_at(x, i);
      set_value(x, i, old + kStep);
      const double up = weighted(vars);
      set_value(x, i, old - kStep);
      const double down = weighted(vars);
      set_value(x, i, old);
      numeric[size_t(i)] = (up - down) / (2 * kStep);
      largest = std::max(largest, std::abs(numeric[size_t(i)]));
    }
    for (int64_t i = 0; i < x.numel(); ++i) {
      const double exact = grad.defined() ? value_at(grad, i) : 0;
      const double error = std::abs(exact - numeric[size_t(i)]) / largest;
      if (!(error <= worst)) {
        worst = std::isnan(error) ? INFINITY : error;
        if (where)
          *where = cat("input ", v, " element ", i, ": gradient ", exact, ", differences ", numeric[size_t(i)]);
      }
    }
  }
  return worst;
}

}  // namespace lithe

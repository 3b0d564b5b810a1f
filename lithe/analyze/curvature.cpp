#include "lithe/analyze/curvature.h"

#include <algorithm>
#include <cmath>

#include "lithe/ops/basic.h"

namespace lithe {
namespace {

std::vector<Parameter*> trained(Parameters& parameters) {
  std::vector<Parameter*> out;
  for (Parameter& p : parameters.all())
    if (p.master.needs_grad()) out.push_back(&p);
  check_usage(!out.empty(), "curvature", "the model has no parameter that is trained; freeze fewer");
  return out;
}

// The gradient where each parameter is `from` + step v.
std::vector<Tensor> gradient_at(Parameters& parameters, const std::vector<Parameter*>& all,
                                const std::vector<Tensor>& from, const std::vector<Tensor>& v, double step,
                                const GatherGradients& gradients) {
  for (size_t k = 0; k < all.size(); ++k) {
    const Tensor& to = all[k]->master.value();
    for (int64_t i = 0; i < to.numel(); ++i) set_value(to, i, value_at(from[k], i) + step * value_at(v[k], i));
  }
  parameters.refresh_views();
  gradients();
  std::vector<Tensor> out;
  for (Parameter* p : all) {
    const Tensor g = p->master.grad();
    out.push_back(g.defined() ? convert(g, DType::f64) : zeros(p->master.shape(), DType::f64));
    p->master.ref()->grad = Tensor();
  }
  return out;
}

}  // namespace

std::vector<Tensor> hessian_product(Parameters& parameters, const GatherGradients& gradients,
                                    const std::vector<Tensor>& v, double h) {
  const std::vector<Parameter*> all = trained(parameters);
  check(v.size() == all.size(), "curvature", "needs one tensor for each of ", all.size(), " parameters, got ",
        v.size());
  check_usage(h > 0, "curvature", "the step h must be above 0, got ", h);
  std::vector<Tensor> from;
  for (const Parameter* p : all) from.push_back(clone(p->master.value()));
  const std::vector<Tensor> after = gradient_at(parameters, all, from, v, h, gradients),
                            before = gradient_at(parameters, all, from, v, -h, gradients);
  for (size_t k = 0; k < all.size(); ++k) copy_into(all[k]->master.value(), from[k]);
  parameters.refresh_views();
  std::vector<Tensor> out;
  for (size_t k = 0; k < all.size(); ++k) {
    out.push_back(empty(v[k].shape(), DType::f64));
    for (int64_t i = 0; i < v[k].numel(); ++i)
      set_value(out[k], i, (value_at(after[k], i) - value_at(before[k], i)) / (2 * h));
  }
  return out;
}

// spec: init.hessian_probe | analysis | Hutchinson's estimate of each matrix's curvature, gains by it | TB 6.3.2(2)
std::vector<ParameterCurvature> estimate_curvature(Parameters& parameters, const GatherGradients& gradients,
                                                   const CurvatureOptions& options) {
  check_usage(options.probes >= 1, "curvature", "needs at least one probe, got ", options.probes);
  const std::vector<Parameter*> all = trained(parameters);
  std::vector<ParameterCurvature> out;
  for (const Parameter* p : all) out.push_back({p->name, 0, 0, p->master.shape().numel()});
  std::vector<double> squares(all.size(), 0);
  for (int64_t probe = 0; probe < options.probes; ++probe) {
    std::vector<Tensor> v;
    for (const Parameter* p : all) {
      v.push_back(empty(p->master.shape(), DType::f64));
      const RandomKey key{.seed = options.seed, .step = uint64_t(probe), .purpose = purpose_of("curvature." + p->name)};
      for (int64_t i = 0; i < v.back().numel(); ++i)
        set_value(v.back(), i, random_uniform(key, uint64_t(i)) < 0.5 ? -1 : 1);
    }
    const std::vector<Tensor> product = hessian_product(parameters, gradients, v, options.h);
    for (size_t k = 0; k < all.size(); ++k) {
      double sum = 0;
      for (int64_t i = 0; i < v[k].numel(); ++i) sum += value_at(v[k], i) * value_at(product[k], i);
      out[k].trace += sum / double(options.probes);
      squares[k] += sum * sum / double(options.probes);
    }
  }
  for (size_t k = 0; k < all.size() && options.probes > 1; ++k)
    out[k].standard_error =
        std::sqrt(std::max(0.0, squares[k] - out[k].trace * out[k].trace) / double(options.probes - 1));
  return out;
}

std::map<std::string, double> rescale_by_curvature(Parameters& parameters,
                                                   const std::vector<ParameterCurvature>& curvature, double most) {
  std::map<std::string, double> logs;
  double mean = 0;
  for (const ParameterCurvature& c : curvature) {
    const Parameter* p = parameters.find(c.name);
    check(p != nullptr, "curvature", "there is no parameter '", c.name, "'");
    if (p->master.shape().rank() != 2 || !(c.trace > 0)) continue;
    mean += logs[c.name] = -0.5 * std::log(c.trace / double(c.numel));
  }
  std::map<std::string, double> factors;
  for (const auto& [name, log] : logs) {
    const double factor = std::clamp(std::exp(log - mean / double(logs.size())), 1 / most, most);
    factors[name] = factor;
    const Tensor& w = parameters.find(name)->master.value();
    for (int64_t i = 0; i < w.numel(); ++i) set_value(w, i, factor * value_at(w, i));
  }
  parameters.refresh_views();
  return factors;
}

}  // namespace lithe

// How curved a loss is in each parameter: an estimate of its Hessian's trace.
#pragma once

#include <functional>

#include "lithe/model/model.h"

namespace lithe {

struct CurvatureOptions {
  int64_t probes = 32;
  double h = 1e-3;  // of the central difference of gradients
  uint64_t seed = 1;
};

struct ParameterCurvature {
  std::string name;
  double trace = 0;           // of the Hessian's block of this parameter
  double standard_error = 0;  // of the trace, by the probes; 0 for one
  int64_t numel = 0;
};

/// Gathers the loss's gradient in the masters of all parameters. Called with changed parameters; it must be a pure
/// function of them.
using GatherGradients = std::function<void()>;

/// H v by central differences of gradients: v and the result have one tensor for each parameter that is trained, f64.
/// Parameters are left as they were, without gradients.
std::vector<Tensor> hessian_product(Parameters& parameters, const GatherGradients& gradients,
                                    const std::vector<Tensor>& v, double h);

/// Hutchinson's estimate of each parameter's trace, the mean of v^T (H v) over probes of random signs; two gradients a
/// probe. Exact for every probe where the Hessian is diagonal.
std::vector<ParameterCurvature> estimate_curvature(Parameters& parameters, const GatherGradients& gradients,
                                                   const CurvatureOptions& options);

/// Multiplies each matrix by a factor in proportion to (trace / numel)^(-1/2), the geometric mean of all factors being
/// 1; those whose trace is not above 0 stay. Factors are kept within 1/`most` and `most`. Returns them by name.
std::map<std::string, double> rescale_by_curvature(Parameters& parameters,
                                                   const std::vector<ParameterCurvature>& curvature, double most = 4);

}  // namespace lithe

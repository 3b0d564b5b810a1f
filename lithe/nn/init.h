// How parameters start. Every value is a pure function of (seed, parameter name, element), so that models
// which share a parameter's name and shape share its initial values.
#pragma once

#include "lithe/base/fields.h"
#include "lithe/tensor/tensor.h"

namespace lithe {

/// What a parameter is for; depth-dependent gains apply to some roles only.
enum class InitRole {
  zeros,            // biases
  ones,             // norm weights
  embedding,        // tables: normal with std (never Xavier)
  query_key,        // projections to queries and keys
  matrix,           // every other matrix
  residual_output,  // the last matrix of a sub-layer, whose result is added to the residual stream
};

/// Recipe section model.init.
struct InitConfig {
  std::string type = "normal";
  double std = 0.02, gain = 1;
  bool literal = false;
  bool scale_residual_outputs = true;
  std::string depth = "none";
  double depth_a = 1, depth_b = 0.5;
  void fields(Fields& f);
};

/// The gain that `depth` gives to a matrix of `role` in layer `layer` (from 0; -1 outside layers) of `layers`.
double depth_gain(const InitConfig& config, InitRole role, int64_t layer, int64_t layers);

/// Fills x [d_in, d_out] (or a vector). `name` is the parameter's full name.
void initialise(const Tensor& x, const InitConfig& config, InitRole role, const std::string& name, uint64_t seed,
                int64_t layer, int64_t layers);

}  // namespace lithe

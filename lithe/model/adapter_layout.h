// How PEFT names and lays out low-rank adapters: adapter_model.safetensors of adapter/ in a run.
#pragma once

#include <cmath>
#include <string>
#include <string_view>

#include "lithe/base/error.h"
#include "lithe/tensor/tensor.h"

namespace lithe {

/// What every name begins with.
inline constexpr std::string_view kAdapted = "base_model.model.";
/// Metadata of adapter_model.safetensors: the checksum of the weights that it is for.
inline constexpr const char* kAdapterBase = "lithe_base_checksum";
/// "base_model.model.MODULE.WHAT" of WHAT lora_A.weight, lora_B.weight, lora_magnitude_vector.
inline std::string adapter_tensor(const std::string& module, const std::string& what) {
  return cat(kAdapted, module, ".", what);
}
/// MODULE of such a name; empty: it is called otherwise.
inline std::string adapted_module(const std::string& name, const std::string& what) {
  const std::string end = "." + what;
  if (!name.starts_with(kAdapted) || !name.ends_with(end) || name.size() <= kAdapted.size() + end.size()) return {};
  return name.substr(kAdapted.size(), name.size() - kAdapted.size() - end.size());
}
/// The module of a parameter: its name without the last word.
inline std::string module_of_parameter(const std::string& name) { return name.substr(0, name.rfind('.')); }
/// What the product of both matrices is multiplied by: alpha / rank, of rslora alpha / sqrt(rank).
inline double adapter_scale(double alpha, double rank, bool rslora) {
  return alpha / (rslora ? std::sqrt(rank) : rank);
}
/// [R, C] as [C, R], times `scale`, in this type: PEFT has matrices as [outputs, inputs].
inline Tensor turned_matrix(const Tensor& x, double scale, DType dtype) {
  const Tensor out = empty({x.cols(), x.rows()}, dtype, x.device());
  for (int64_t r = 0; r < x.rows(); ++r)
    for (int64_t c = 0; c < x.cols(); ++c) set_value(out, c * x.rows() + r, scale * value_at(x, r * x.cols() + c));
  return out;
}

}  // namespace lithe

#include "lithe/nn/state.h"

namespace lithe {

std::optional<DType> cache_type_named(const std::string& name) {
  if (name.empty()) return {};
  return name == "int8" ? DType::i8 : name == "int4" ? DType::u8 : dtype_named(name);
}

std::string cache_type_name(DType type) {
  return type == DType::i8 ? "int8" : type == DType::u8 ? "int4" : name_of(type);
}

const Tensor& kept_tensor(const NamedTensors& kept, const std::string& name) {
  const auto found = kept.find(name);
  check(found != kept.end(), "state", "there is no tensor '", name, "' among the ", kept.size(),
        " of the saved state; it was saved by another model");
  return found->second;
}

void restore_tensor(const Tensor& to, const NamedTensors& kept, const std::string& name) {
  const Tensor& from = kept_tensor(kept, name);
  check(from.shape() == to.shape() && from.dtype() == to.dtype(), "state", "'", name, "' was saved as ", from.dtype(),
        from.shape(), ", this state keeps ", to.dtype(), to.shape(), "; it was saved by another model");
  if (!to.is_meta()) copy_into(to, from);
}

Tensor tensor_of_counts(const std::vector<int64_t>& counts) {
  const Tensor out = empty({int64_t(counts.size())}, DType::i32);
  for (size_t i = 0; i < counts.size(); ++i) out.data<int32_t>()[i] = int32_t(counts[i]);
  return out;
}

std::vector<int64_t> counts_of(const Tensor& saved, int64_t n) {
  check(saved.dtype() == DType::i32 && saved.numel() == n, "state", "the saved state has ", saved.numel(),
        " sequences, this one ", n);
  return {saved.data<int32_t>(), saved.data<int32_t>() + n};
}

}  // namespace lithe

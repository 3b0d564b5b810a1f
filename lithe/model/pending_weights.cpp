#include "lithe/model/pending_weights.h"

#include "lithe/model/safetensors.h"

namespace lithe {

std::map<std::string, PendingTensor> weights_in(const Path& file, const Model& outline, const std::string& operation,
                                                bool as_stored) {
  const auto in = std::make_shared<const SafetensorsFile>(file);
  std::map<std::string, PendingTensor> out;
  for (const Parameter& p : outline.parameters().all()) {
    const auto entry = in->entries().find(p.name);
    check(entry != in->entries().end(), operation, "'", file.string(), "' has no tensor '", p.name, "' ",
          p.master.shape(), "; its config.json must be the one the weights were saved with");
    check(entry->second.shape == p.master.shape(), operation, "'", file.string(), "': tensor '", p.name, "' is ",
          entry->second.shape, ", config.json calls for ", p.master.shape());
    const DType dtype = as_stored ? entry->second.dtype : p.master.dtype();
    out[p.name] = {p.master.shape(), dtype, [in, name = p.name, shape = p.master.shape(), dtype] {
                     const MemoryScope memory(MemoryClass::workspace);
                     const Tensor x = empty(shape, dtype);
                     in->read(name, x);
                     return x;
                   }};
  }
  for (const auto& [name, entry] : in->entries())
    check(out.count(name), operation, "'", file.string(), "' has a tensor '", name,
          "' that this model does not; its config.json must be the one the weights were saved with");
  return out;
}

}  // namespace lithe

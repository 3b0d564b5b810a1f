// What readers and writers of safetensors files share.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "lithe/tensor/tensor.h"

namespace lithe {

inline constexpr const char* kChecksumsKey = "lithe.checksums";
inline constexpr size_t kChecksumDigits = 16;

/// The type's name in a header.
const char* safetensors_name(DType dtype);

/// Of a tensor's bytes and of all that the header says about them, so that a damaged header is found too.
/// `sum_of_bytes` gives the checksum() of its bytes with a seed.
std::string safetensors_checksum(const std::map<std::string, std::string>& metadata, const std::string& name,
                                 DType dtype, const Shape& shape,
                                 const std::function<uint64_t(uint64_t seed)>& sum_of_bytes);

}  // namespace lithe

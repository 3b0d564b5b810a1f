// Which layer a parameter is of.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

namespace lithe {

/// "layers.12.ffn.up.weight" as 12; -1: of no layer.
inline int64_t layer_of(const std::string& parameter) {
  constexpr std::string_view kLayer = "layers.";
  return parameter.starts_with(kLayer) ? std::atoll(parameter.c_str() + kLayer.size()) : -1;
}

}  // namespace lithe

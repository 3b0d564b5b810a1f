// How many key and value heads an attention's heads keep, of mha, gqa and mqa.
#pragma once

#include "lithe/base/part_options.h"

namespace lithe {

/// Of gqa: as given, or (0) half of the query heads, or 1 where these are odd.
constexpr int64_t grouped_heads(int64_t given, int64_t query_heads) {
  return given ? given : query_heads % 2 ? 1 : query_heads / 2;
}

/// Of an attention with heads mha, gqa or mqa; 0 of others.
inline int64_t key_value_heads(const PartChoice& mixer) {
  const std::string type = option(mixer, "heads");
  const int64_t h = option_integer(mixer, "num_attention_heads");
  if (type == "gqa") return grouped_heads(option_integer(mixer, "heads.num_key_value_heads"), h);
  return type == "mha" ? h : type == "mqa" ? 1 : 0;
}

}  // namespace lithe

// What the numbers of a model count: widths of parameters by the axis, and options by what they size.
#pragma once

#include <cstdint>

namespace lithe {

enum class Dimension : uint8_t {
  none,        // a number of the part's own: buckets, gates, halves
  hidden,      // channels of the rows
  key_heads,   // heads that keys and values are made for
  queries,     // query heads of each of these
  head_width,  // channels of a head
  ffn,         // hidden units of a feed-forward layer
  vocabulary,
  experts,
  state,      // numbers that a recurrence keeps
  taps,       // of a convolution along time, the first at the token itself
  positions,  // of tokens
  classes,    // labels
};

const char* to_string(Dimension of);

}  // namespace lithe

#include "lithe/base/dimension.h"

namespace lithe {

const char* to_string(Dimension of) {
  switch (of) {
    case Dimension::none: return "none";
    case Dimension::hidden: return "hidden";
    case Dimension::key_heads: return "key_heads";
    case Dimension::queries: return "queries";
    case Dimension::head_width: return "head_width";
    case Dimension::ffn: return "ffn";
    case Dimension::vocabulary: return "vocabulary";
    case Dimension::experts: return "experts";
    case Dimension::state: return "state";
    case Dimension::taps: return "taps";
    case Dimension::positions: return "positions";
    case Dimension::classes: return "classes";
  }
  return "";
}

}  // namespace lithe

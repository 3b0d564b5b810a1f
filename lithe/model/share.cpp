#include "lithe/model/share.h"

#include "lithe/base/error.h"

namespace lithe {

void ShareConfig::fields(Fields& f) {
  f("layers", layers,
    "which layers share one set of parameters: none; all; cycle: layers 1 to `distinct` repeat; sequence: `distinct` "
    "groups of neighbouring layers; groups: as `groups` lists",
    one_of({"none", "all", "cycle", "sequence", "groups"}));
  f("distinct", distinct, "cycle, sequence: number of different sets of parameters", at_least(0));
  f("groups", groups, "groups: one number for each layer; layers with equal numbers share");
  f("parts", parts, "what layers share: the whole layer, only its mixers (attention), or only its ffns",
    one_of({"layer", "mixer", "ffn"}));
}

// spec: share.layers | sharing | layers of one group have one set of parameters, states of their own | TB Eq 6.150
// spec: reg.share_sublayers | sharing | one ffn, mixer or whole layer for all depths | TB 6.3.2(4), 6.4.4
int64_t ShareConfig::owner(int64_t index, int64_t count) const {
  if (layers == "none") return index;
  if (layers == "all") return 0;
  if (layers == "cycle") return index % distinct;
  if (layers == "groups") {
    int64_t first = 0;
    while (groups[size_t(first)] != groups[size_t(index)]) ++first;
    return first;
  }
  // Runs as even as can be: layer i is in run i distinct / count.
  const int64_t run = index * distinct / count;
  return (run * count + distinct - 1) / distinct;
}

void ShareConfig::validate(int64_t count) const {
  const bool counted = layers == "cycle" || layers == "sequence";
  check_usage(!counted || (distinct >= 1 && distinct <= count), "model", "share.layers ", layers,
              " needs share.distinct, sets of parameters from 1 to num_hidden_layers ", count, ", got ", distinct);
  check_usage(counted || distinct == 0, "model", "share.distinct ", distinct,
              " is for share.layers cycle and sequence, ", "not ", layers, "; leave it out");
  check_usage(layers == "groups" || groups.empty(), "model", "share.groups is for share.layers groups, not ", layers,
              "; leave it out");
  check_usage(layers != "groups" || int64_t(groups.size()) == count, "model", "share.groups has ", groups.size(),
              " numbers, num_hidden_layers is ", count, "; give one a layer");
}

}  // namespace lithe

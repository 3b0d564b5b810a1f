// What can be taken out of a model: heads, hidden units, experts, channels, sub-layers and layers.
#pragma once

#include <map>
#include <set>

#include "lithe/model/model.h"

namespace lithe {

/// What of a model is taken out.
enum class PruneUnit {
  heads,       // of a mixer: groups of query heads with their keys and values; where all share these, query heads
  ffn,         // hidden units of a feed-forward layer
  experts,     // of a mixture
  hidden,      // channels of the rows
  sub_layers,  // a mixer or a feed-forward layer, with its norm
  layers,
};
const char* name_of(PruneUnit unit);
PruneUnit prune_unit_named(const std::string& name);
std::vector<std::string> prune_unit_names();

/// Units that stand side by side, one index each.
struct PruneGroup {
  PruneUnit unit = PruneUnit::heads;
  std::string path;  // of the parameters: "layers.3.mixer"; of hidden channels ""
  Dimension of = Dimension::none;
  int64_t count = 0;
  std::set<int64_t> fixed = {};  // units that always stay: other parts of the model read them
  std::string name() const { return path.empty() ? "hidden" : path; }
};

/// The groups of these kinds. Fails (usage) where there is none at all, and on layers that share their parameters.
/// `left` gets, one line each, what stays whole and why.
std::vector<PruneGroup> prune_groups(const Model& model, const std::set<PruneUnit>& units,
                                     std::vector<std::string>& left);

/// Of groups, by name and unit, which indices stay, in order; groups that are not there stay whole.
using PruneKept = std::map<std::pair<std::string, PruneUnit>, std::vector<int64_t>>;

/// Sets to zero what joins the rows of all that does not stay, in the model itself. The function is that of the smaller
/// model (compress/prune_model.h) where no part couples the units.
void mask(Model& model, const PruneKept& kept);

/// The parameters through which the units of a group join the rows, with an axis for the units, or, of experts and
/// whole sub-layers, one unit's each.
std::vector<Parameter*> joining(Model& model, const PruneGroup& group, int64_t unit);
/// The elements of a parameter that unit `index` has; none: it has no part in it.
std::optional<Slice> elements_of(const Parameter& p, const PruneGroup& group, int64_t index);

}  // namespace lithe

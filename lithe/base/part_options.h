// Options of parts, read by their place.
#pragma once

#include <string>

#include "lithe/base/fields.h"

namespace lithe {

/// An option of a part, resolved, as text; of a part within it its type. Empty when there is none.
std::string option(const PartChoice& part, const std::string& path);
int64_t option_integer(const PartChoice& part, const std::string& path);
double option_number(const PartChoice& part, const std::string& path);
/// Layers share parameters of this part, which the first of them has (share: layers).
bool shared_by_layers(const PartChoice& part);
/// The part that stands as an option of another, as attention's heads.
PartChoice inner_part(const PartChoice& part, const std::string& name);

}  // namespace lithe

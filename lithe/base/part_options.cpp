#include "lithe/base/part_options.h"

#include <cmath>

#include "lithe/base/node_path.h"

namespace lithe {

std::string option(const PartChoice& part, const std::string& path) {
  const Node* node = node_at(part.options, path);
  if (node && node->is_map()) node = node->find("type");
  return node ? node->text() : "";
}

double option_number(const PartChoice& part, const std::string& path) {
  const std::string text = option(part, path);
  return text.empty() ? 0 : std::stod(text);
}
bool shared_by_layers(const PartChoice& part) { return option(part, "share") == "layers"; }
int64_t option_integer(const PartChoice& part, const std::string& path) {
  return std::llround(option_number(part, path));
}

PartChoice inner_part(const PartChoice& part, const std::string& name) {
  const Node* node = part.options.find(name);
  if (!node) return {};
  if (node->is_scalar()) return {node->text(), {}};
  PartChoice out{node->find("type") ? node->find("type")->text() : "", *node};
  out.options.erase("type");
  return out;
}

}  // namespace lithe

// What stands in a tree under a path of keys.
#pragma once

#include "lithe/base/node.h"

namespace lithe {

/// Through maps: "model.mixer.heads". Null when there is none.
inline const Node* node_at(const Node& root, std::string_view path) {
  const size_t dot = path.find('.');
  const Node* child = root.find(path.substr(0, dot));
  return child && dot != path.npos ? node_at(*child, path.substr(dot + 1)) : child;
}

}  // namespace lithe

#include "lithe/compress/part_options.h"

#include <algorithm>
#include <cmath>

namespace lithe {

std::string option(const PartChoice& part, const std::string& path) {
  const Node* at = &part.options;
  for (size_t begin = 0; at && begin <= path.size();) {
    const size_t dot = std::min(path.find('.', begin), path.size());
    at = at->find(path.substr(begin, dot - begin));
    begin = dot + 1;
  }
  if (!at) return "";
  if (at->is_map()) return at->find("type") ? at->find("type")->text() : "";
  return at->text();
}

double option_number(const PartChoice& part, const std::string& path) {
  const std::string text = option(part, path);
  return text.empty() ? 0 : std::stod(text);
}
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

int64_t key_value_heads(const PartChoice& mixer) {
  const std::string type = option(mixer, "heads");
  const int64_t h = option_integer(mixer, "num_attention_heads"),
                given = option_integer(mixer, "heads.num_key_value_heads");
  if (type == "mha") return h;
  if (type == "mqa") return 1;
  if (type == "gqa") return given ? given : h % 2 ? 1 : h / 2;
  return 0;
}

}  // namespace lithe

#include "lithe/base/json.h"

#include "lithe/base/error.h"

namespace lithe {
namespace {

template <class Tree>
Tree parse(std::string_view text, std::string_view origin) {
  try {
    // The library parses without recursion, but destroys and visits trees recursively.
    const auto shallow = [&](int depth, typename Tree::parse_event_t, Tree&) {
      check(depth <= 256, "json", "'", origin, "': nested deeper than 256");
      return true;
    };
    return Tree::parse(text, shallow);
  } catch (const nlohmann::json::exception& error) {
    fail("json", "'", origin, "': ", error.what());
  }
}

}  // namespace

Json parse_json(std::string_view text, std::string_view origin) { return parse<Json>(text, origin); }

nlohmann::json parse_json_sorted(std::string_view text, std::string_view origin) { return parse<nlohmann::json>(text, origin); }

}  // namespace lithe

#include "lithe/base/json.h"

#include "lithe/base/error.h"

namespace lithe {

Json parse_json(std::string_view text, std::string_view origin) {
  try {
    // The library parses without recursion, but destroys and visits trees recursively.
    const auto shallow = [&](int depth, Json::parse_event_t, Json&) {
      check(depth <= 256, "json", "'", origin, "': nested deeper than 256");
      return true;
    };
    return Json::parse(text, shallow);
  } catch (const Json::exception& error) {
    fail("json", "'", origin, "': ", error.what());
  }
}

}  // namespace lithe

#include "lithe/base/json.h"

#include <limits>
#include <set>
#include <vector>

#include "lithe/base/error.h"

namespace lithe {
namespace {

constexpr size_t kMostKeys = 5000;

template <class Tree>
Tree parse(std::string_view text, std::string_view origin, bool unique, size_t most_keys) {
  try {
    std::vector<std::set<std::string>> objects;  // the keys so far of the objects around
    const auto watch = [&](int depth, typename Tree::parse_event_t event, Tree& parsed) {
      using Event = typename Tree::parse_event_t;
      // The library parses without recursion, but destroys and visits trees recursively.
      check(depth <= 256, "json", "'", origin, "': nested deeper than 256");
      if (!unique) return true;
      // It keeps the last value of a repeated key, silently.
      if (event == Event::object_start) objects.emplace_back();
      if (event == Event::object_end) objects.pop_back();
      if (event == Event::key) {
        check(objects.back().insert(parsed.template get<std::string>()).second, "json", "'", origin, "': the key ",
              parsed.dump(), " stands twice in one object");
        check(objects.back().size() <= most_keys, "json", "'", origin, "': an object has more than ", most_keys,
              " keys");
      }
      return true;
    };
    return Tree::parse(text, watch);
  } catch (const nlohmann::json::exception& error) {
    const std::string_view what = error.what();  // "[json.exception.parse_error.101] parse error at line 1, ..."
    fail("json", "'", origin, "': is not JSON: ", what.substr(std::min(what.size(), what.find("] ") + 2)));
  }
}

}  // namespace

Json parse_json(std::string_view text, std::string_view origin) { return parse<Json>(text, origin, true, kMostKeys); }

nlohmann::json parse_json_sorted(std::string_view text, std::string_view origin, bool unique) {
  return parse<nlohmann::json>(text, origin, unique, std::numeric_limits<size_t>::max());
}

}  // namespace lithe

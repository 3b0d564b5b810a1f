#include "lithe/base/json.h"

#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "lithe/base/error.h"

namespace lithe {
namespace {

constexpr size_t kMostKeys = 5000;

// Checks what the library does not, before it builds a tree: its own hook for that looks at all members of an object
// again after each.
template <class Tree>
class Watch final : public nlohmann::json_sax<Tree> {
 public:
  using Text = typename nlohmann::json_sax<Tree>::string_t;
  Watch(std::string_view origin, bool unique, size_t most_keys)
      : origin_(origin), unique_(unique), most_keys_(most_keys) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(typename Tree::number_integer_t) override { return true; }
  bool number_unsigned(typename Tree::number_unsigned_t) override { return true; }
  bool number_float(typename Tree::number_float_t, const Text&) override { return true; }
  bool string(Text&) override { return true; }
  bool binary(typename Tree::binary_t&) override { return true; }
  bool start_object(std::size_t) override { return enter(); }
  bool start_array(std::size_t) override { return enter(); }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }
  bool key(Text& name) override {
    if (!unique_) return true;
    // Of a repeated key the library keeps the last value, silently.
    check(levels_.back().insert(name).second, "json", "'", origin_, "': the key ", dump(Tree(name)),
          " stands twice in one object");
    check(levels_.back().size() <= most_keys_, "json", "'", origin_, "': an object has more than ", most_keys_,
          " keys");
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;  // the library says it again
  }

 private:
  std::string_view origin_;
  bool unique_;
  size_t most_keys_;
  std::vector<std::set<std::string>> levels_;  // the keys so far of the objects around

  bool enter() {
    levels_.emplace_back();
    // The library parses without recursion, but destroys and visits trees recursively.
    check(levels_.size() <= 257, "json", "'", origin_, "': nested deeper than 256");
    return true;
  }
  bool leave() {
    levels_.pop_back();
    return true;
  }
};

template <class Tree>
Tree parse(std::string_view text, std::string_view origin, bool unique, size_t most_keys) {
  try {
    Watch<Tree> watch(origin, unique, most_keys);
    Tree::sax_parse(text, &watch);
    return Tree::parse(text);
  } catch (const nlohmann::json::exception& error) {
    const std::string_view what = error.what();  // "[json.exception.parse_error.101] parse error at line 1, ..."
    fail("json", "'", origin, "': is not JSON: ", what.substr(std::min(what.size(), what.find("] ") + 2)),
         "; it is damaged, or a file of another kind");
  }
}

}  // namespace

template <class Tree>
static std::string dumped(const Tree& value, int indent, Invalid invalid) {
  return value.dump(indent, ' ', false,
                    invalid == Invalid::replaced ? Tree::error_handler_t::replace : Tree::error_handler_t::strict);
}

Json finite_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(); }
double number_or_nan(const Json& value) { return value.is_number() ? value.get<double>() : std::nan(""); }

std::string dump(const Json& value, int indent, Invalid invalid) { return dumped(value, indent, invalid); }
std::string dump(const nlohmann::json& value, int indent, Invalid invalid) { return dumped(value, indent, invalid); }

Json parse_json(std::string_view text, std::string_view origin) { return parse<Json>(text, origin, true, kMostKeys); }

nlohmann::json parse_json_sorted(std::string_view text, std::string_view origin, bool unique) {
  return parse<nlohmann::json>(text, origin, unique, std::numeric_limits<size_t>::max());
}

}  // namespace lithe

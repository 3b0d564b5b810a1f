// The keys of a request's body.
#pragma once

#include "lithe/base/json.h"

namespace lithe {

/// Keys are asked for by name; null counts as left out, and finish() refuses what nobody asked for. All fail (usage)
/// with a sentence that names the key. The JSON outlives it.
class Body {
 public:
  explicit Body(const Json& body);
  const Json* find(const std::string& key);
  /// Fails where it is missing.
  const Json& get(const std::string& key);
  double number(const std::string& key, double usual, double least, double most);
  int64_t integer(const std::string& key, int64_t usual, int64_t least, int64_t most);
  bool flag(const std::string& key, bool usual);
  /// A text, or a list of texts, at least one.
  std::vector<std::string> texts(const std::string& key);
  /// Keys that change nothing, and keys that may not be there.
  void ignore(std::initializer_list<const char*> keys);
  void refuse(std::initializer_list<const char*> keys);
  void finish() const;

 private:
  const Json& body_;
  std::vector<std::string> seen_;
};

/// The ids of a list, from 0 to below `vocab`; fails (usage), naming `key`.
std::vector<int32_t> ids_of(const Json& list, const std::string& key, int64_t vocab);

/// JSON as a message shows it, cut where it is long.
std::string shown(const Json& value);

}  // namespace lithe

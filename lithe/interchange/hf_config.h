// A config.json of the Hugging Face format, of which every key is accounted for.
#pragma once

#include <set>

#include "lithe/base/node.h"

namespace lithe {

class HfConfig {
 public:
  HfConfig(Node node, std::string origin) : node_(std::move(node)), origin_(std::move(origin)) {}
  static HfConfig from_file(const Path& file);

  const std::string& origin() const { return origin_; }
  /// The value of a key that counts from now on as read; null when it is absent or null.
  const Node* find(const std::string& key) const;
  /// The key stands there, be it as null.
  bool present(const std::string& key) const { return node_.find(key) != nullptr; }
  bool has(const std::string& key) const { return find(key) != nullptr; }
  /// Scalars by the JSON text, checked. Without a default a key that is absent fails.
  int64_t integer(const std::string& key) const;
  int64_t integer(const std::string& key, int64_t otherwise) const;
  double number(const std::string& key) const;
  double number(const std::string& key, double otherwise) const;
  bool flag(const std::string& key, bool otherwise) const;
  std::string text(const std::string& key) const;
  std::string text(const std::string& key, const std::string& otherwise) const;
  /// A section within, whose keys are accounted for apart.
  HfConfig section(const std::string& key) const;
  /// Fails unless the key is absent, null, or one of `values`: other values would need what lithe has not.
  void only(const std::string& key, const std::vector<std::string>& values) const;
  /// Keys that change no result.
  void ignore(const std::vector<std::string>& keys) const;
  /// Keys that were neither read nor ignored, and that might matter.
  std::vector<std::string> unread() const;
  /// Fails when there are such keys, naming them.
  void finish() const;

 private:
  Node node_;
  std::string origin_;
  mutable std::set<std::string> seen_;
};

/// A number as recipes have it: the shortest text that reads back as the same number.
std::string number_text(double value);

}  // namespace lithe

// Reading an object of a JSON file with errors that name the place.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lithe/base/error.h"
#include "lithe/base/json.h"

namespace lithe {

/// An object (or null, which is read as one without keys). Include from .cpp files only.
class JsonSection {
 public:
  using Tree = nlohmann::json;

  JsonSection(const Tree& tree, std::string place) : tree_(tree), place_(std::move(place)) {
    check(tree_.is_object() || tree_.is_null(), "tokenizer", place_, " must be an object, got ", tree_.type_name());
  }

  const std::string& place() const { return place_; }
  std::string place(const char* key) const { return place_ + "." + key; }
  bool is_null() const { return tree_.is_null(); }

  /// The value, null when absent.
  const Tree& value(const char* key) const {
    static const Tree null;
    if (!tree_.is_object()) return null;
    const auto entry = tree_.find(key);
    return entry == tree_.end() ? null : *entry;
  }
  bool has(const char* key) const { return !value(key).is_null(); }
  /// True also when the value is null.
  bool states(const char* key) const { return tree_.is_object() && tree_.contains(key); }
  JsonSection section(const char* key) const { return {value(key), place(key)}; }

  std::string type() const { return text("type"); }
  std::string text(const char* key) const {
    const Tree& v = value(key);
    check(v.is_string(), "tokenizer", place(key), " must be text, got ", v.type_name());
    return v.get<std::string>();
  }
  std::optional<std::string> optional_text(const char* key) const {
    if (!has(key)) return {};
    return text(key);
  }
  bool flag(const char* key, bool otherwise) const {
    const Tree& v = value(key);
    if (v.is_null()) return otherwise;
    check(v.is_boolean(), "tokenizer", place(key), " must be true or false, got ", v.type_name());
    return v.get<bool>();
  }
  int64_t integer(const char* key, int64_t otherwise) const {
    const Tree& v = value(key);
    return v.is_null() ? otherwise : integer_of(v, place(key));
  }
  const Tree& list(const char* key) const {
    const Tree& v = value(key);
    check(v.is_array(), "tokenizer", place(key), " must be a list, got ", v.type_name());
    return v;
  }

  static int64_t integer_of(const Tree& v, const std::string& place) {
    check(v.is_number_integer(), "tokenizer", place, " must be an integer, got ", v.type_name());
    check(!v.is_number_unsigned() || v.get<uint64_t>() <= uint64_t(INT64_MAX), "tokenizer", place, " is too big");
    return v.get<int64_t>();
  }

 private:
  const Tree& tree_;
  std::string place_;
};

}  // namespace lithe

#include "lithe/serve/body.h"

#include <algorithm>

#include "lithe/base/error.h"

namespace lithe {

std::string shown(const Json& value) { return dump(value, -1, Invalid::replaced).substr(0, 200); }

std::vector<int32_t> ids_of(const Json& list, const std::string& key, int64_t vocab) {
  check_usage(list.is_array(), "request", "'", key, "' must be a list of ids, got ", shown(list));
  std::vector<int32_t> out;
  for (const Json& id : list) {
    check_usage(id.is_number_integer() && id.get<int64_t>() >= 0 && id.get<int64_t>() < vocab, "request", "'", key,
                "' has the id ", shown(id), ", ids are below ", vocab);
    out.push_back(id.get<int32_t>());
  }
  return out;
}

Body::Body(const Json& body) : body_(body) {
  check_usage(body.is_object(), "request", "the body must be a JSON object");
}

const Json* Body::find(const std::string& key) {
  seen_.push_back(key);
  const auto at = body_.find(key);
  return at == body_.end() || at->is_null() ? nullptr : &*at;
}

const Json& Body::get(const std::string& key) {
  const Json* x = find(key);
  check_usage(x, "request", "'", key, "' is missing");
  return *x;
}

double Body::number(const std::string& key, double usual, double least, double most) {
  const Json* x = find(key);
  if (!x) return usual;
  check_usage(x->is_number() && x->get<double>() >= least && x->get<double>() <= most, "request", "'", key,
              "' must be a number from ", least, " to ", most, ", got ", shown(*x));
  return x->get<double>();
}

int64_t Body::integer(const std::string& key, int64_t usual, int64_t least, int64_t most) {
  const Json* x = find(key);
  if (!x) return usual;
  check_usage(x->is_number_integer() && (x->is_number_unsigned() ? x->get<uint64_t>() <= uint64_t(INT64_MAX) : true) &&
                  x->get<int64_t>() >= least && x->get<int64_t>() <= most,
              "request", "'", key, "' must be a whole number from ", least, " to ", most, ", got ", shown(*x));
  return x->get<int64_t>();
}

bool Body::flag(const std::string& key, bool usual) {
  const Json* x = find(key);
  check_usage(!x || x->is_boolean(), "request", "'", key, "' must be true or false, got ", x ? shown(*x) : "");
  return x ? x->get<bool>() : usual;
}

std::vector<std::string> Body::texts(const std::string& key) {
  const Json& x = get(key);
  if (x.is_string()) return {x.get<std::string>()};
  check_usage(x.is_array() && !x.empty(), "request", "'", key, "' must be a text or a list of texts, got ", shown(x));
  std::vector<std::string> out;
  for (const Json& one : x) {
    check_usage(one.is_string(), "request", "'", key, "' must have texts alone, not ids, got ", shown(one));
    out.push_back(one.get<std::string>());
  }
  return out;
}

void Body::ignore(std::initializer_list<const char*> keys) {
  for (const char* key : keys) find(key);
}

void Body::refuse(std::initializer_list<const char*> keys) {
  for (const char* key : keys) check_usage(!find(key), "request", "'", key, "' is not supported; leave it out");
}

void Body::finish() const {
  for (const auto& [key, value] : body_.items())
    check_usage(std::find(seen_.begin(), seen_.end(), key) != seen_.end(), "request", "unknown key '", key, "'");
}

}  // namespace lithe

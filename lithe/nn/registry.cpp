#include "lithe/nn/registry.h"

#include "lithe/base/did_you_mean.h"

namespace lithe {
namespace {

PartChoice resolve(const std::string& slot, const PartChoice& choice, const Mark& where) {
  const auto& entry = Registry::instance().get(slot, choice.type, where);
  return {choice.type, entry.resolve(choice.options, slot + " " + choice.type)};
}

}  // namespace

Registry::Registry() { set_part_resolver(resolve); }

void Registry::insert(Entry entry) {
  const auto key = std::pair(entry.slot, entry.name);
  check(entries_.emplace(key, std::move(entry)).second, "registry", "slot ", key.first, " has two parts named '",
        key.second, "'");
}

const Registry::Entry& Registry::get(const std::string& slot, const std::string& name, const Mark& where) const {
  const auto found = entries_.find({slot, name});
  if (found != entries_.end()) return found->second;
  std::vector<std::string> names;
  std::string listed;
  for (const Entry* e : this->slot(slot)) {
    names.push_back(e->name);
    listed += (listed.empty() ? "" : ", ") + e->name;
  }
  const std::string place = to_string(where);
  fail_usage("recipe", place, place.empty() ? "" : ": ", "slot ", slot, " has no part '", name, "'; it has ", listed,
             did_you_mean(name, names));
}

std::vector<const Registry::Entry*> Registry::slot(const std::string& slot) const {
  std::vector<const Entry*> out;
  for (const auto& [key, entry] : entries_)
    if (key.first == slot) out.push_back(&entry);
  return out;
}

std::vector<const Registry::Entry*> Registry::all() const {
  std::vector<const Entry*> out;
  for (const auto& [key, entry] : entries_) out.push_back(&entry);
  return out;
}

}  // namespace lithe

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

PartInfo::~PartInfo() = default;

void Registry::insert(const char* slot, const char* name, const PartInfo& info, decltype(Entry::resolve) resolve,
                      decltype(Entry::describe) describe, decltype(Entry::make) make) {
  check(entries_.emplace(std::pair(slot, name), Entry{slot, name, info, resolve, describe, make}).second, "registry",
        "slot ", slot, " has two parts named '", name, "'");
}

void Registry::refuse_cross_without(bool cross, const Entry& entry) {
  check_usage(!cross || entry.info.cross, "model", "slot ", entry.slot, ": part '", entry.name,
              "' has no cross form; give the decoder's cross-attention a mixer of its own, model.cross_attention: "
              "{type: attention}");
  check_usage(cross || !entry.info.recurs, "model", "slot ", entry.slot, ": part '", entry.name,
              "' reads a source beside the text, and stands where a decoder reads one: give it to "
              "model.cross_attention, or to a layer by sub_layers: [{cross: {type: ",
              entry.name, "}}]");
}

void Registry::refuse_direction_without(bool causal, const Entry& entry) {
  check_usage(
      causal ? entry.info.causal : entry.info.bidirectional, "model", "slot ", entry.slot, ": part '", entry.name,
      "' has no ", causal ? "causal" : "bidirectional",
      " form, which this architecture needs; choose another, or model.architecture: ", causal ? "encoder" : "decoder");
}

const Registry::Entry& Registry::get(const std::string& slot, const std::string& name, const Mark& where) const {
  const auto found = entries_.find({slot, name});
  if (found != entries_.end()) return found->second;
  if (const auto moved = moved_.find({slot, name}); moved != moved_.end())
    fail_usage("recipe", to_string(where), where.origin.empty() ? "" : ": ", slot, " '", name, "' is now ",
               moved->second);
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

PartChoice Registry::standard(const std::string& slot) const {
  for (const Entry* entry : this->slot(slot))
    if (entry->info.standard) return {entry->name, {}};
  fail("registry", "slot ", slot, " has no standard part; say .standard = true where one is registered");
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

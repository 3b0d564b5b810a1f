#include "lithe/parts/common/field_list.h"

namespace lithe {

FieldList::FieldList(const char* name, const Scope& scope, const Node& list, const Args& args) : args_(args) {
  check_usage(list.is_list() && !list.items().empty(), name,
              "fields must be a list of fields: [{type: span, left: 31}, global]");
  for (size_t i = 0; i < list.items().size(); ++i) {
    const Node& node = list.items()[i];
    const Node* type = node.is_map() ? node.find("type") : &node;
    check_usage(type && type->is_scalar(), name, "field ", i,
                " has no type: {type: span, left: 31}, or its name alone");
    PartChoice choice{type->text(), Node::map()};
    if (node.is_map()) {
      choice.options = node;
      choice.options.erase("type");
    }
    fields_.push_back(Registry::instance().make<Field>(choice, scope / cat(i), args));
    check_usage(!fields_.back()->biases(), name, "field ", choice.type,
                " changes weights beside saying who meets, which has no meaning for a part of the pairs; leave it out");
  }
}

bool FieldList::reads_keys() const {
  for (const auto& field : fields_)
    if (field->reads_keys()) return true;
  return false;
}

std::vector<std::string> FieldList::reads_columns() const {
  std::vector<std::string> out;
  for (const auto& field : fields_)
    for (const std::string& column : field->reads_columns()) out.push_back(column);
  return out;
}

const Field* FieldList::reader() const {
  const Field* out = nullptr;
  for (const auto& field : fields_) {
    if (!field->reads_keys()) continue;
    if (out) return nullptr;
    out = field.get();
  }
  return out;
}

Field::KeyLabels FieldList::key_labels(DType cache) const {
  const Field* one = reader();
  return one ? one->key_labels(cache) : KeyLabels{};
}

int64_t FieldList::reach() const {
  int64_t reach = 0;
  for (const auto& field : fields_) {
    if (field->reach() == 0) return 0;
    reach = std::max(reach, field->reach());
  }
  return reach;
}

int64_t FieldList::sinks() const {
  int64_t sinks = 0;
  for (const auto& field : fields_) sinks = std::max(sinks, field->sinks());
  return sinks;
}

int64_t FieldList::first_seen(int64_t tokens) const {
  int64_t first = tokens;
  for (const auto& field : fields_) first = std::min(first, field->first_seen(tokens));
  return first;
}

std::vector<kernels::AttentionPattern> FieldList::patterns(const FieldInput& in) const {
  std::vector<kernels::AttentionPattern> out;
  for (const auto& field : fields_) out.push_back(field->pattern(in));
  return out;
}

}  // namespace lithe

#include "lithe/parts/common/field_list.h"

#include <algorithm>

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
                " changes weights beside saying who meets, and ", name, " only joins who meets; leave it out",
                choice.type == "tree" ? ", set apply: hard, or give the tree alone as the field, with heads: [0] for "
                                        "some of the heads"
                                      : "");
  }
}

bool FieldList::reads_keys() const {
  for (const auto& field : fields_)
    if (field->reads_keys()) return true;
  return false;
}

bool FieldList::reads_heads() const {
  for (const auto& field : fields_)
    if (field->reads_heads()) return true;
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

bool FieldList::labels_columns() const {
  for (const auto& field : fields_)
    if (field->labels_columns()) return true;
  return false;
}

Tensor FieldList::label_rows(const Pass& pass, int64_t rows) const {
  std::vector<Tensor> parts;
  int64_t count = 0;
  for (const auto& field : fields_)
    if (field->labels_columns()) parts.push_back(field->label_rows(pass, rows)), count += parts.back().cols();
  const Tensor out = empty({rows, count}, DType::i32, parts[0].device());
  if (out.is_meta()) return out;
  int64_t first = 0;
  for (const Tensor& part : parts) {
    for (int64_t i = 0; i < rows; ++i)
      std::copy_n(part.data<int32_t>() + i * part.cols(), part.cols(), out.data<int32_t>() + i * count + first);
    first += part.cols();
  }
  return out;
}

Field::KeyLabels FieldList::key_labels(DType cache) const {
  if (labels_columns()) {
    int64_t count = 0;
    for (const auto& field : fields_)
      if (field->labels_columns()) count += field->key_labels(cache).count;
    return {count, DType::i32};
  }
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
  if (!in.labels.defined() || !labels_columns()) {
    for (const auto& field : fields_) out.push_back(field->pattern(in));
    return out;
  }
  int64_t first = 0;
  for (const auto& field : fields_) {  // each has its own of the columns
    Tensor labels;
    if (field->labels_columns()) {
      const int64_t rows = in.labels.dim(0), count = field->key_labels(DType::f32).count;
      labels = empty({rows, count}, DType::i32, in.labels.device());
      for (int64_t i = 0; i < rows && !labels.is_meta(); ++i)
        std::copy_n(in.labels.data<int32_t>() + i * in.labels.cols() + first, count,
                    labels.data<int32_t>() + i * count);
      first += count;
    }
    out.push_back(field->pattern({in.q, in.k, in.queries, in.pass, in.x, in.keys, in.scale, labels}));
  }
  return out;
}

}  // namespace lithe

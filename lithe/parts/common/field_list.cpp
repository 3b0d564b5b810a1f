#include "lithe/parts/common/field_list.h"

#include <algorithm>
#include <cstring>

namespace lithe {

namespace {

// Columns [first, first + part.cols()) of `all`, copied out of it (into) or to it.
void copy_columns(const Tensor& all, int64_t first, const Tensor& part, bool into) {
  if (all.is_meta()) return;
  const int64_t size = size_of(all.dtype()), width = part.cols() * size;
  for (int64_t i = 0; i < part.rows(); ++i) {
    std::byte* const there = static_cast<std::byte*>(all.raw()) + (i * all.cols() + first) * size;
    std::byte* const here = static_cast<std::byte*>(part.raw()) + i * width;
    std::memcpy(into ? there : here, into ? here : there, size_t(width));
  }
}

}  // namespace

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
    for (const auto& field : fields_)
      check_usage(!field->labels_rows() || !fields_.back()->labels_rows() ||
                      field->key_labels(DType::f32).dtype == fields_.back()->key_labels(DType::f32).dtype,
                  name, "field ", choice.type, " and another keep labels of rows of two types, and ", name,
                  " has one cache for both; leave one of them out");
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

bool FieldList::labels_rows() const {
  for (const auto& field : fields_)
    if (field->labels_rows()) return true;
  return false;
}

Tensor FieldList::label_rows(const Pass& pass, const Var& x) const {
  std::vector<Tensor> parts;
  int64_t count = 0;
  for (const auto& field : fields_)
    if (field->labels_rows()) parts.push_back(field->label_rows(pass, x)), count += parts.back().cols();
  const Tensor out = empty({x.rows(), count}, parts[0].dtype(), parts[0].device());
  int64_t first = 0;
  for (const Tensor& part : parts) copy_columns(out, first, part, true), first += part.cols();
  return out;
}

Field::KeyLabels FieldList::key_labels(DType cache) const {
  if (labels_rows()) {
    KeyLabels all{0, DType::i32};
    for (const auto& field : fields_)
      if (field->labels_rows()) {
        const auto [count, dtype] = field->key_labels(cache);
        all = {all.count + count, dtype};
      }
    return all;
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
  if (!in.labels.defined() || !labels_rows()) {
    for (const auto& field : fields_) out.push_back(field->pattern(in));
    return out;
  }
  int64_t first = 0;
  for (const auto& field : fields_) {  // each has its own of the columns
    Tensor labels;
    if (field->labels_rows()) {
      labels = empty({in.labels.rows(), field->key_labels(DType::f32).count}, in.labels.dtype(), in.labels.device());
      copy_columns(in.labels, first, labels, false);
      first += labels.cols();
    }
    out.push_back(field->pattern({in.q, in.k, in.queries, in.pass, in.x, in.keys, in.scale, labels}));
  }
  return out;
}

}  // namespace lithe

// Fields made of a list of others.
#pragma once

#include "lithe/nn/registry.h"
#include "lithe/parts/common/pattern_field.h"

namespace lithe {

class FieldList : public Field {
 public:
  FieldList(const char* name, const Scope& scope, const Node& list, const Args& args);
  bool reads_keys() const override;
  bool reads_heads() const override;
  std::vector<std::string> reads_columns() const override;
  /// Those of the fields whose labels are of rows, side by side; else those of the one field that reads keys; where
  /// several do, none are kept.
  KeyLabels key_labels(DType cache) const override;
  bool labels_rows() const override;
  Tensor label_rows(const Pass& pass, const Var& x) const override;
  Tensor label(const Tensor& keys) const override { return reader()->label(keys); }
  int64_t reach() const override;
  int64_t sinks() const override;
  int64_t first_seen(int64_t tokens) const override;

 protected:
  /// What each of them says.
  std::vector<kernels::AttentionPattern> patterns(const FieldInput& in) const;
  const Args& args() const { return args_; }
  size_t count() const { return fields_.size(); }

 private:
  Args args_;
  std::vector<std::unique_ptr<Field>> fields_;

  const Field* reader() const;  // the only field that reads keys; null: none does, or several
};

}  // namespace lithe

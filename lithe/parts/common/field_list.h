// Fields made of a list of others.
#pragma once

#include "lithe/nn/registry.h"
#include "lithe/parts/common/pattern_field.h"

namespace lithe {

class FieldList : public Field {
 public:
  FieldList(const char* name, const Scope& scope, const Node& list, const Args& args);
  bool reads_keys() const override;
  int64_t reach() const override;
  int64_t sinks() const override;

 protected:
  /// What each of them says.
  std::vector<kernels::AttentionPattern> patterns(const FieldInput& in) const;
  const Args& args() const { return args_; }
  size_t count() const { return fields_.size(); }

 private:
  Args args_;
  std::vector<std::unique_ptr<Field>> fields_;
};

}  // namespace lithe

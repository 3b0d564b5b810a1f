// An embedding of words and tags alone, in f64.
#pragma once

#include <gtest/gtest.h>

#include "tests/support/model_kit.h"

namespace lithe {

struct Tagged {
  Tagged(const std::string& type, const std::string& options)
      : part(bench.make<Embedding>(type, {.vocab_size = 6, .hidden_size = 3}, options)) {}
  Var operator()(const Tensor& ids, const std::map<std::string, std::vector<int32_t>>& tags = {}) const {
    Pass pass;
    for (const auto& [name, values] : tags) pass.give(name, tensor_of({int64_t(values.size())}, values));
    return part->forward(ids, pass);
  }
  kit::Bench bench;
  std::unique_ptr<Embedding> part;
};

inline void fill(const Tensor& x, double value) {
  for (int64_t i = 0; i < x.numel(); ++i) set_value(x, i, value);
}
inline void identity(const Tensor& x) {
  fill(x, 0);
  for (int64_t i = 0; i < x.rows(); ++i) set_value(x, i * x.cols() + i, 1);
}

}  // namespace lithe

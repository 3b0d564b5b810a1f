// Mixers of recurrent cells alone.
#pragma once

#include <gtest/gtest.h>

#include "tests/support/model_kit.h"

namespace lithe {

inline std::unique_ptr<Mixer> recurrent_mixer(const std::string& type, kit::Bench& bench, int64_t d,
                                              const std::string& options = "{}", bool causal = true) {
  return bench.make<Mixer>(type, {.hidden_size = d, .max_position_embeddings = 9, .causal = causal}, options);
}

/// Both directions are a layer onward and one backward, joined.
inline void expect_two_layers_joined(const std::string& type) {
  kit::Bench bench;
  const auto mixer = recurrent_mixer(type, bench, 4, "{}", false);
  kit::randomise(bench.parameters(), 2);
  kit::Bench one;
  const auto onward = recurrent_mixer(type, one, 4);
  const auto direction = [&](const std::string& which, const Tensor& x) {
    for (Parameter& p : one.parameters().all()) copy_into(p.master.value(), bench["part." + which + p.name.substr(4)]);
    return kit::product(onward->forward({Var(x), Sequences::single(5), nullptr}).value(),
                        bench["part.join." + which + ".weight"]);
  };
  const Tensor x = kit::normal({5, 4}, DType::f64, 1);
  const std::vector<int64_t> turned{4, 3, 2, 1, 0};
  const Tensor a = direction("onward", x), b = kit::rows_of(direction("backward", kit::rows_of(x, turned)), turned),
               y = mixer->forward({Var(x), Sequences::single(5), nullptr}).value();
  for (int64_t i = 0; i < 20; ++i) EXPECT_NEAR(value_at(y, i), value_at(a, i) + value_at(b, i), 1e-13);
}

}  // namespace lithe

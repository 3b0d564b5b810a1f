#include <gtest/gtest.h>

#include <cmath>

#include "lithe/ops/dense_state_space.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

struct Dense {
  Dense(int64_t d, const std::string& options, bool moved = true)
      : mixer(bench.make<Mixer>("dense_ssm", {.hidden_size = d, .max_position_embeddings = 40, .causal = true},
                                options)) {
    if (moved) kit::randomise(bench.parameters(), 3);
  }
  Tensor operator()(const Tensor& x) const {
    return mixer->forward({Var(x), Sequences::single(x.rows()), nullptr}).value();
  }
  kit::Bench bench;
  std::unique_ptr<Mixer> mixer;
};

// W_t = B f a^t C, f and a by the discretisation, is what an impulse reads out.
// oracle: ssm.continuous, ssm.recurrent
TEST(DenseSsmMixer, TheResponseToAnImpulseIsTheKernel) {
  for (const char* kind : {"zoh", "bilinear", "euler"}) {
    const int64_t d = 3, T = 5;
    Dense mixer(d, cat("{state_size: 4, skip: none, discretisation: ", kind, "}"));
    const std::string name = kind;
    const auto step = discretise_dense(name == "zoh"        ? Discretisation::zoh
                                       : name == "bilinear" ? Discretisation::bilinear
                                                            : Discretisation::euler,
                                       Var(mixer.bench["part.rates"]), Var(mixer.bench["part.log_step"]));
    const Tensor C = mixer.bench["part.out.weight"];
    for (int64_t c = 0; c < d; ++c) {
      const Tensor x = zeros({T, d}, DType::f64);
      set_value(x, c, 1);
      const Tensor y = mixer(x);
      Tensor z = kit::product(kit::product(x.slice(0, 1), mixer.bench["part.in.weight"]), step[1].value());
      for (int64_t t = 0; t < T; ++t) {
        EXPECT_LT(kit::largest_difference(y.slice(t, t + 1), kit::product(z, C)), 1e-12) << kind << " " << t;
        z = kit::product(z, step[0].value());
      }
    }
  }
}

// Rates -1 ... -n alone are the diagonal mixer's.
// oracle: ssm.diagonal
TEST(DenseSsmMixer, ADiagonalMatrixIsTheDiagonalMixer) {
  Dense dense(3, "{state_size: 4}", false);
  kit::Bench bench;
  const auto diagonal = bench.make<Mixer>("ssm", {.hidden_size = 3, .max_position_embeddings = 40}, "{state_size: 4}");
  for (Parameter& p : bench.parameters().all())
    if (Parameter* same = dense.bench.parameters().find(p.name)) copy_into(p.master.value(), same->master.value());
  const Tensor x = kit::normal({7, 3}, DType::f64, 1);
  EXPECT_LT(kit::largest_difference(dense(x), diagonal->forward({Var(x), Sequences::single(7), nullptr}).value()),
            1e-12);
}

// oracle: ssm.continuous
TEST(DenseSsmMixer, LegsIsTheMatrixOfThePageTransposed) {
  Dense mixer(2, "{state_size: 3, init: legs}", false);
  const Tensor A = mixer.bench["part.rates"];
  const double want[] = {-1, -std::sqrt(3), -std::sqrt(5), 0, -2, -std::sqrt(15), 0, 0, -3};
  for (int64_t i = 0; i < 9; ++i) EXPECT_NEAR(value_at(A, i), want[i], 1e-15) << i;
}

// d_z^2 + 2 d d_z + d^2 + 1
// oracle: ssm.continuous
TEST(DenseSsmMixer, ParametersAndStateAreThoseOfTheSpecification) {
  Dense mixer(6, "{state_size: 5}");
  EXPECT_EQ(mixer.bench.parameters().count(), 25 + 2 * 30 + 36 + 1);
  EXPECT_EQ(mixer.mixer->state_bytes({100, 3}, DType::f32), 2 * 5 * 4);
  EXPECT_EQ(kit::error_of([] { Dense(6, "{min_step: 1, max_step: 0.5}"); }),
            "dense_ssm: min_step 1 is larger than max_step 0.5");
}

}  // namespace
}  // namespace lithe

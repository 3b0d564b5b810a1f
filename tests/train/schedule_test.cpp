#include "lithe/train/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lithe/base/error.h"
#include "lithe/recipe/train_config.h"

namespace lithe {
namespace {

// oracle: train.lr_inv_sqrt
TEST(Schedule, InverseSquareRootHasTheNumbersOfTheSpec) {
  const Schedule s{.type = "inverse_sqrt", .peak = 1 / std::sqrt(512.0), .warmup = 4000};
  EXPECT_NEAR(s.at(1), 1.746928e-7, 5e-14);
  EXPECT_NEAR(s.at(4000), 6.987712e-4, 5e-11);
  EXPECT_NEAR(s.at(16000), 3.493856e-4, 5e-11);
  EXPECT_DOUBLE_EQ(s.at(4000), s.peak / std::sqrt(4000.0));
  for (int64_t n : {1, 7, 1999, 3999}) EXPECT_NEAR(s.at(n), double(n) * s.at(1), 1e-18);  // linear before
  for (int64_t n : {4000, 5001, 123456}) EXPECT_DOUBLE_EQ(s.at(4 * n), s.at(n) / 2);
  EXPECT_GT(s.at(4000), s.at(3999));
  EXPECT_GT(s.at(4000), s.at(4001));
}

TEST(Schedule, EndsOfEachCourse) {
  for (const char* type : {"linear", "cosine", "cosine_restarts", "wsd"}) {
    SCOPED_TRACE(type);
    const Schedule s{.type = type, .peak = 2e-3, .floor = 1e-4, .warmup = 100, .total = 1000, .decay_ratio = 0.2};
    EXPECT_DOUBLE_EQ(s.at(1), 2e-5);
    EXPECT_DOUBLE_EQ(s.at(50), 1e-3);
    EXPECT_DOUBLE_EQ(s.at(100), 2e-3);
    EXPECT_DOUBLE_EQ(s.at(1000), 1e-4);
    EXPECT_DOUBLE_EQ(s.at(5000), 1e-4);  // beyond the end it stays there
    // No jump larger than a step of the steepest part: continuous.
    for (int64_t n = 1; n < 1000; ++n) EXPECT_LE(std::abs(s.at(n + 1) - s.at(n)), 2.1e-5) << n;
  }
  const Schedule linear{.type = "linear", .peak = 1, .warmup = 100, .total = 1100};
  EXPECT_DOUBLE_EQ(linear.at(600), 0.5);
  const Schedule cosine{.type = "cosine", .peak = 1, .floor = 0.1, .warmup = 100, .total = 1100};
  EXPECT_NEAR(cosine.at(600), 0.55, 1e-12);
  EXPECT_NEAR(cosine.at(100 + 250), 0.1 + 0.9 * (1 + std::sqrt(0.5)) / 2, 1e-12);
  const Schedule wsd{.type = "wsd", .peak = 1, .warmup = 10, .total = 1000, .decay_ratio = 0.1};
  EXPECT_EQ(wsd.at(11), 1);
  EXPECT_EQ(wsd.at(900), 1);
  EXPECT_DOUBLE_EQ(wsd.at(950), 0.5);
  const Schedule constant{.type = "constant", .peak = 3e-4};
  EXPECT_EQ(constant.at(1), 3e-4);
  EXPECT_EQ(constant.at(1 << 30), 3e-4);
}

TEST(Schedule, HardRestartsBeginAgainAtThePeak) {
  const Schedule s{.type = "cosine_restarts", .peak = 1, .warmup = 0, .total = 400, .restarts = 4};
  EXPECT_EQ(s.at(100), 1);
  EXPECT_EQ(s.at(200), 1);
  EXPECT_NEAR(s.at(50), 0.5, 1e-12);
  EXPECT_NEAR(s.at(350), 0.5, 1e-12);
  EXPECT_LT(s.at(199), 1e-3);
  EXPECT_EQ(s.at(400), 0);
}

TEST(Schedule, RefusesStepZero) { EXPECT_THROW((Schedule{.peak = 1}.at(0)), Error); }

// ---- how many steps a recipe has

TrainConfig limits(const std::string& yaml) {
  TrainConfig c;
  read_fields(parse_yaml(yaml, "test"), "train", [&](Fields& f) { c.fields(f); });
  return c;
}

TEST(TrainConfig, TheFirstLimitEnds) {
  EXPECT_EQ(limits("{max_steps: 10, batch_tokens: 100}").total_steps(7), 10);
  EXPECT_EQ(limits("{max_tokens: 950, batch_tokens: 100}").total_steps(7), 9);
  EXPECT_EQ(limits("{max_tokens: 50, batch_tokens: 100}").total_steps(7), 1);
  EXPECT_EQ(limits("{max_tokens: 900, batch_tokens: 100}").total_steps(7), 9);
  EXPECT_EQ(limits("{num_train_epochs: 2, batch_tokens: 100}").total_steps(7), 14);
  EXPECT_EQ(limits("{num_train_epochs: 2, batch_tokens: 100, gradient_accumulation_steps: 2}").total_steps(7), 7);
  EXPECT_EQ(limits("{num_train_epochs: 0.5, batch_tokens: 100}").total_steps(7), 3);
  EXPECT_EQ(limits("{num_train_epochs: 0.01, batch_tokens: 100}").total_steps(7), 1);
  EXPECT_EQ(limits("{max_steps: 10, max_tokens: 300, num_train_epochs: 2, batch_tokens: 100}").total_steps(7), 3);
  EXPECT_EQ(limits("{max_time: 3}").total_steps(7), 0);
  EXPECT_THROW(limits("{num_train_epochs: 1e30}").total_steps(7), Error);
}

TEST(TrainConfig, RefusesWhatCannotWork) {
  const auto error = [](const std::string& yaml) -> std::string {
    try {
      limits(yaml).validate(32);
    } catch (const Error& e) {
      return e.code() == ExitCode::usage ? e.what() : "wrong code";
    }
    return "accepted";
  };
  EXPECT_EQ(error("{max_steps: 5}"), "accepted");
  EXPECT_NE(error("{batch_tokens: 64}").find("no limit is set"), std::string::npos);
  EXPECT_NE(error("{max_steps: 5, batch_tokens: 100, gradient_accumulation_steps: 3}").find("must be a multiple"),
            std::string::npos);
  EXPECT_NE(error("{max_steps: 5, batch_tokens: 31}").find("at least one sequence of data.sequence_length 32"),
            std::string::npos);
  EXPECT_NE(error("{max_steps: 5, learning_rate: 1.0e-4, min_learning_rate: 1.0e-3}").find("must not exceed"),
            std::string::npos);
  EXPECT_NE(error("{max_time: 5, lr_scheduler_type: cosine}").find("needs to know the last step"), std::string::npos);
  EXPECT_EQ(error("{max_time: 5, lr_scheduler_type: constant}"), "accepted");
  EXPECT_NE(error("{max_steps: 5, adam_epsilon: 0}").find("must be above 0"), std::string::npos);
  EXPECT_NE(error("{max_steps: 5, spike_deviations: 6}").find("give save_steps"), std::string::npos);
}

}  // namespace
}  // namespace lithe

// Whole runs of divided models, as mpirun starts them.
#include <cmath>

#include "lithe/base/json.h"
#include "lithe/model/safetensors.h"
#include "tests/parallel/mpirun_kit.h"

namespace lithe {
namespace {

class DividedRunTest : public kit::RanksTest {
 protected:
  // The largest difference of a tensor of both files, relative to its norm.
  static double difference(const Path& a, const Path& b) {
    const SafetensorsFile one(a), two(b);
    EXPECT_EQ(one.entries().size(), two.entries().size());
    double worst = 0;
    for (const auto& [name, entry] : one.entries()) {
      const Tensor x = empty(entry.shape, entry.dtype), y = empty(entry.shape, entry.dtype);
      one.read(name, x);
      two.read(name, y);
      double squares = 0, norm = 0;
      for (int64_t i = 0; i < x.numel(); ++i) {
        squares += std::pow(value_at(x, i) - value_at(y, i), 2);
        norm += std::pow(value_at(x, i), 2);
      }
      worst = std::max(worst, norm > 0 ? std::sqrt(squares / norm) : std::sqrt(squares));
    }
    return worst;
  }
  // Fewer messages: more ranks than processors wait for each other.
  static constexpr const char* kShort =
      " --set train.gradient_accumulation_steps=2 --set train.eval_steps=0 --set train.sample_steps=7";
  static double last_loss(const Path& run) {
    return parse_json(read_file(run / "result.json"), "result").at("final_loss").get<double>();
  }
};

// oracle: hpc.parallel
TEST_F(DividedRunTest, EveryDivisionEqualsOneProcess) {
  const struct {
    const char *name, *model, *parallel;
    int ranks;
  } cases[] = {
      {"tensor", "", "{tensor: 2}", 2},
      {"copies", "", "{tensor: 2, data: 2}", 4},
      {"stages", ", hidden_dropout: 0.1", "{pipeline: 2}", 2},
      {"experts", ", ffn: {type: moe, num_experts: 4, moe_intermediate_size: 16, router_aux_loss_coef: 0.01}",
       "{expert: 2}", 2},
      {"sequence", "", "{sequence: 2}", 2},
  };
  for (const auto& of : cases) {
    const std::string file = recipe(of.name, of.model, ""), one = scratch / cat(of.name, 1),
                      all = scratch / cat(of.name, of.ranks);
    ASSERT_EQ(on(1, cat("train ", file, " --out ", one, kShort)).code, 0);
    const Ended ended =
        on(of.ranks, cat("train ", file, " --out ", all, kShort, " --set 'train.parallel=", of.parallel, "'"));
    ASSERT_EQ(ended.code, 0) << of.name << ended.err;
    EXPECT_NEAR(last_loss(all), last_loss(one), 1e-4 * last_loss(one)) << of.name;
    EXPECT_LT(difference(Path(all) / "model.safetensors", Path(one) / "model.safetensors"), 1e-2) << of.name;
    EXPECT_LT(difference(Path(all) / "best" / "model.safetensors", Path(one) / "best" / "model.safetensors"), 1e-2);
    const Ended scored = on(1, cat("eval ", all));
    EXPECT_EQ(scored.code, 0) << scored.err;
    const Json memory = parse_json(read_file(Path(all) / "memory.json"), "memory");
    EXPECT_EQ(memory["planned"]["optimizer"], memory["measured"]["optimizer"]) << of.name << dump(memory);
  }
}

TEST_F(DividedRunTest, GoesOnDividedInAnotherWay) {
  const std::string file = recipe("recipe", "", ""), whole = scratch / "whole", parts = scratch / "parts";
  ASSERT_EQ(on(1, cat("train ", file, " --out ", whole, kShort)).code, 0);
  ASSERT_EQ(on(2, cat("train ", file, " --out ", parts, kShort, " --set train.parallel.tensor=2")).code, 0);
  for (const char* step : {"step-00000006", "step-00000007"})
    std::filesystem::remove_all(Path(parts) / "training_state" / step);
  Ended ended = on(2, cat("train ", file, " --out ", parts, kShort, " --resume --set train.parallel.pipeline=2"));
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_NE(ended.err.find("resuming after step 3"), std::string::npos) << ended.err;
  std::filesystem::remove_all(Path(parts) / "training_state" / "step-00000007");
  ended = on(1, cat("train ", file, " --out ", parts, kShort, " --resume"));
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_LT(difference(Path(parts) / "model.safetensors", Path(whole) / "model.safetensors"), 1e-2);
}

TEST_F(DividedRunTest, OneLineSaysWhatCannotBeDivided) {
  const std::string file = recipe("recipe", "", ""), out = scratch / "run";
  Ended ended = on(1, cat("train ", file, " --out ", out, " --set train.parallel.tensor=2"));
  EXPECT_EQ(ended.code, 2) << ended.err;
  EXPECT_NE(ended.err.find("needs 2 ranks, and the job has 1"), std::string::npos) << ended.err;
  ended = on(3, cat("train ", file, " --out ", out, " --set train.parallel.tensor=3"));
  EXPECT_EQ(ended.code, 2) << ended.err;
  EXPECT_EQ(ended.said(), 1) << ended.err;
  EXPECT_NE(ended.err.find("tensor 3 does not divide the 2 heads"), std::string::npos) << ended.err;
  EXPECT_FALSE(std::filesystem::exists(Path(out) / "resolved_recipe.yaml"));
}

}  // namespace
}  // namespace lithe

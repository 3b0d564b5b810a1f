// Whole runs of divided models, as mpirun starts them.
#include <sstream>

#include "lithe/base/json.h"
#include "tests/parallel/divided_kit.h"
#include "tests/parallel/mpirun_kit.h"

namespace lithe {
namespace {

// A plan of each rank, on meta tensors, counts the messages of the rank at work.
TEST(DividedRun, PlansCountTheMessagesOfARun) {
  const std::string experts =
      "{vocab_size: 61, hidden_size: 16, num_hidden_layers: 2, max_position_embeddings: 32, mixer: "
      "{type: attention, num_attention_heads: 4}, ffn: {type: moe, num_experts: 4, "
      "num_experts_per_tok: 2, moe_intermediate_size: 24}}";
  for (const ParallelConfig& parallel : {ParallelConfig{.tensor = 2}, ParallelConfig{.pipeline = 2},
                                         ParallelConfig{.sequence = 2}, ParallelConfig{.data = 2, .expert = 2}}) {
    const ModelConfig config = kit::model_config(
        parallel.expert > 1
            ? experts
            : "{vocab_size: 61, hidden_size: 16, num_hidden_layers: 2, max_position_embeddings: 32, mixer: "
              "{type: attention, num_attention_heads: 4}, ffn: {type: gelu, intermediate_size: 24}}");
    TrainConfig train;
    train.parallel = parallel;
    const auto waited = [&](Device device) {
      Model model(config, {.device = device, .seed = 5, .trainable = true});
      const TrainedObjective objective(train, model);
      const auto batches = kit::clm_batches(1, 2, config.vocab_size, device);
      const MessageMeter meter;
      accumulate_gradients(model, objective, batches, train, 1);
      return std::pair(meter.messages(), meter.bytes());
    };
    set_threads(1);
    const int ranks = int(parallel.model() * std::max<int64_t>(1, parallel.data));
    std::vector<std::pair<int64_t, int64_t>> found(static_cast<size_t>(ranks));
    run_local_ranks(ranks, [&](Communicator& all) {
      const Layout layout(parallel, all);
      const Layout::Use use(&layout);
      found[size_t(all.rank())] = waited(Device::cpu);
    });
    for (int rank = 0; rank < ranks; ++rank) {
      const Layout layout(parallel, rank);
      const Layout::Use use(&layout);
      const auto [messages, bytes] = found[size_t(rank)];
      const auto [planned_messages, planned_bytes] = waited(Device::meta);
      EXPECT_GT(messages, 0);
      EXPECT_EQ(messages, planned_messages) << "rank " << rank << " of " << ranks;
      // A plan gives all ranks of a sequence as many tokens; here some have one more than others.
      EXPECT_NEAR(double(bytes), double(planned_bytes), parallel.sequence > 1 ? 0.1 * double(bytes) : 0)
          << "rank " << rank << " of " << ranks;
    }
  }
}

class DividedRunTest : public kit::RanksTest {
 protected:
  // The largest difference of a tensor of both files, relative to its norm.
  static double difference(const Path& a, const Path& b) {
    std::string where;
    const double worst = kit::relative_difference(kit::tensors_of(a), kit::tensors_of(b), &where);
    EXPECT_EQ(kit::tensors_of(a).size(), kit::tensors_of(b).size()) << where;
    return worst;
  }
  // By step and layer, what routers show.
  static Json statistics_of(const Path& run) {
    Json out = Json::array();
    std::istringstream lines(read_file(run / "metrics.jsonl"));
    for (std::string line; std::getline(lines, line);)
      if (const Json of = parse_json(line, "metrics"); of.contains("statistics")) out.push_back(of["statistics"]);
    return out;
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
      {"dropped", ", stack: {type: layer_drop, keep: 0.5}", "{tensor: 2, data: 2}", 4},
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
    const Ended written = on(1, cat("generate ", all, " --prompt the --max-new-tokens 3 --greedy"));
    EXPECT_EQ(written.code, 0) << written.err;
    const Json memory = parse_json(read_file(Path(all) / "memory.json"), "memory");
    EXPECT_EQ(memory["planned"]["optimizer"], memory["measured"]["optimizer"]) << of.name << dump(memory);
    const Json got = statistics_of(all), want = statistics_of(one);
    ASSERT_EQ(got.size(), want.size()) << of.name;
    EXPECT_EQ(want.empty(), std::string(of.name) != "experts");
    for (size_t i = 0; i < want.size(); ++i) {
      const Json flat = want[i].flatten(), theirs = got[i].flatten();
      ASSERT_EQ(theirs.size(), flat.size()) << of.name << dump(got[i]) << dump(want[i]);
      for (const auto& [key, value] : flat.items())
        EXPECT_NEAR(theirs.at(key).get<double>(), value.get<double>(), 2e-2) << of.name << key;
    }
  }
}

// All ranks end with the same line, and none waits for another.
TEST_F(DividedRunTest, WhatDivergesEndsAllRanks) {
  const std::string file = recipe("recipe", "", "");
  for (const auto& [name, parallel] : {std::pair("stages", "{pipeline: 2}"), std::pair("tensor", "{tensor: 2}"),
                                       std::pair("sequence", "{sequence: 2}")}) {
    const Ended ended =
        on(2, cat("train ", file, " --out ", scratch / name, kShort,
                  " --set train.learning_rate=1e30 --set train.max_grad_norm=0 --set 'train.parallel=", parallel, "'"));
    EXPECT_EQ(ended.code, int(ExitCode::diverged)) << name << ended.err;
    EXPECT_EQ(ended.said(), 1) << name << ended.err;
    EXPECT_NE(ended.err.find("one process finds the first value"), std::string::npos) << name << ended.err;
  }
}

// Stages need different memory: both choose what the last one needs, which has the head.
TEST_F(DividedRunTest, FitChoosesAlikeOnAllStages) {
  const std::string train = cat(
                        "train ", recipe("recipe", "", ""),
                        " --set train.gradient_accumulation_steps=1 --set train.eval_steps=0 --set "
                        "train.sample_steps=0 --set train.batch_tokens=1024 --set train.parallel.pipeline=2 --out "),
                    free = scratch / "free", out = scratch / "run";
  ASSERT_EQ(on(2, train + free).code, 0);
  const Json first = parse_json(read_file(Path(free) / "memory.json"), "memory");
  const int64_t budget = first["planned"]["peak"].get<int64_t>();  // the first stage would fit as it is
  const Ended ended = on(2, cat(train, out, " --fit --memory-budget ", budget));
  ASSERT_EQ(ended.code, 0) << ended.err;
  const std::string resolved = read_file(Path(out) / "resolved_recipe.yaml");
  EXPECT_EQ(resolved.find("gradient_accumulation_steps: 1\n"), std::string::npos) << resolved;
  const Json memory = parse_json(read_file(Path(out) / "memory.json"), "memory");
  EXPECT_LT(memory["measured"]["peak"].get<int64_t>(), budget);
}

TEST_F(DividedRunTest, PlanCountsTheCopies) {
  const std::string file = recipe("recipe", "", "");
  const std::string plan = cat(program(), " plan --no-speed ", file, " --set 'train.parallel={tensor: 2, data: 4}' ");
  const Ended refused = shell(plan + "--set train.gradient_accumulation_steps=2");
  EXPECT_EQ(refused.code, 2) << refused.err;
  EXPECT_NE(refused.err.find("gradient_accumulation_steps 2 is below the 4 ranks, or copies"), std::string::npos)
      << refused.err;
  EXPECT_EQ(shell(plan).code, 0);
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

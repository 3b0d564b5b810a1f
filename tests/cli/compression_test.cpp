// lithe distill and lithe prune, from a run to a smaller one.
#include "lithe/base/json.h"
#include "tests/cli/run_kit.h"

namespace lithe {
namespace {

namespace fs = std::filesystem;
using kit::run_program;

class Compression : public kit::RunTest {
 protected:
  static std::string at(const std::string& name) { return *scratch_ / name; }
  static void succeed(const std::vector<std::string>& words) {
    const kit::Finished f = run_program(words);
    ASSERT_EQ(f.code, 0) << words[0] << " " << f.err;
  }
  static Json json_of(const std::string& file) { return parse_json(read_file(file), file); }
  // A larger run to be made smaller.
  static void SetUpTestSuite() {
    kit::RunTest::SetUpTestSuite();
    if (!kit::have_program()) return;
    succeed({"train", *recipe_, "--out", at("large"), "--set", "model.num_hidden_layers=3", "--set",
             "model.ffn.intermediate_size=64"});
  }
};

TEST_F(Compression, AStudentLearnsFromTheTeacher) {
  succeed({"distill", *recipe_, "--teacher", at("large"), "--out", at("student"), "--temperature", "2", "--mixing",
           "0.5", "--hidden", "0.1", "--relation", "1"});
  const std::string recipe = read_file(at("student/resolved_recipe.yaml"));
  EXPECT_NE(recipe.find("teacher: "), std::string::npos);
  EXPECT_EQ(read_file(at("student/tokenizer.json")), read_file(at("large/tokenizer.json")));
  succeed({"eval", at("student")});
  succeed({"distill", *recipe_, "--teacher", at("large"), "--out", at("layers"), "--layers", "1,3", "--top-k", "5",
           "--cache", at("cache.bin")});
  EXPECT_EQ(json_of(at("layers/config.json"))["num_hidden_layers"], 2);
}

// oracle: kd.sequence
TEST_F(Compression, AStudentLearnsWhatTheTeacherWrites) {
  const std::vector<std::string> words{
      "distill",    *recipe_,     "--teacher",    at("large"), "--out",
      at("writes"), "--sequence", "--new-tokens", "8",         "--prompt-tokens",
      "4",          "--texts",    "30",           "--set",     "data.validation_fraction=0"};
  succeed(words);
  const std::string texts = read_file(at("writes/teacher_texts/texts.jsonl"));
  EXPECT_EQ(std::count(texts.begin(), texts.end(), '\n'), 30);
  expect_error(words, 2, {"already holds a run"});
  auto again = words;
  again.emplace_back("--overwrite");
  succeed(again);
  EXPECT_EQ(read_file(at("writes/teacher_texts/texts.jsonl")), texts);
  again.back() = "--resume";
  succeed(again);
}

TEST_F(Compression, StoppedWritingGoesOn) {
  fs::create_directories(at("stopped/teacher_texts"));
  const std::vector<std::string> words{
      "distill",     *recipe_,     "--teacher",    at("large"), "--out",
      at("stopped"), "--sequence", "--new-tokens", "8",         "--prompt-tokens",
      "4",           "--texts",    "30",           "--set",     "data.validation_fraction=0"};
  expect_error(words, 2, {"texts of a teacher that was stopped", "--resume"});
  auto resumed = words;
  resumed.emplace_back("--resume");
  succeed(resumed);
}

TEST_F(Compression, RefusesTeachersThatAreNone) {
  expect_error({"distill", *recipe_, "--teacher", at("nobody"), "--out", at("x")}, 2, {"nobody"});
  expect_error({"distill", *recipe_, "--teacher", at("large"), "--out", at("x"), "--layers", "one"}, 2, {"--layers"});
  expect_error({"distill", *recipe_, "--teacher", at("large"), "--out", at("x"), "--layers", "0,1"}, 2,
               {"--layers must be layers of the teacher from 1"});
  expect_error({"distill", *recipe_, "--teacher", at("large"), "--out", at("x"), "--layers", "9"}, 2,
               {"names layer 9", "1 to 3"});
  EXPECT_FALSE(fs::exists(at("x")));
}

TEST_F(Compression, APrunedRunIsAnOrdinaryRun) {
  succeed({"prune", at("large"), "--to", "0.8", "--out", at("pruned"), "--by", "gradient"});
  const Json receipt = json_of(at("pruned/receipt.json")), before = receipt["before"], after = receipt["after"];
  EXPECT_LE(double(after["parameters"]), 0.8 * double(before["parameters"]));
  EXPECT_LT(double(after["bytes_on_disk"]), double(before["bytes_on_disk"]));
  EXPECT_TRUE(after.contains("decode_tokens_per_second") && after.contains("loss"));
  succeed({"eval", at("pruned")});
  succeed({"generate", at("pruned"), "--prompt", "the", "--max-new-tokens", "4"});
  succeed({"quantize", at("pruned"), "--out", at("pruned-int8")});
  succeed({"prune", at("pruned"), "--to", "0.9", "--out", at("twice")});
  const Json twice = json_of(at("twice/receipt.json"));
  EXPECT_EQ(twice["chain"].size(), 1u);
  EXPECT_EQ(twice["origin"]["parameters"], before["parameters"]);
  expect_error({"prune", at("pruned-int8"), "--to", "0.9", "--out", at("x")}, 2, {"quantised"});
  expect_error({"prune", at("large"), "--to", "0.001", "--out", at("x")}, 2, {"take out more"});
  EXPECT_FALSE(fs::exists(at("x")));
}

// The receipt of a step that trains has the smaller shape from random weights beside it, trained as long.
TEST_F(Compression, ReceiptsHaveWhatTheTimeGivesFromScratch) {
  const auto beside = [](const std::string& run) {
    const Json receipt = json_of(at(run + "/receipt.json"));
    for (const Json& one : receipt["baselines"])
      if (std::string(one["what"]).find("from scratch, ") != std::string::npos) {
        EXPECT_EQ(one["parameters"], receipt["after"]["parameters"]);
        EXPECT_NE(one["loss"]["mean"], receipt["after"]["loss"]["mean"]);
        const double apart = double(receipt["after"]["loss"]["mean"]) - double(one["loss"]["mean"]);
        EXPECT_GT(double(one["loss_difference"]["mean"]) * apart, 0) << "of batches, and of labels: the same sign";
        return std::string(one["what"]);
      }
    return std::string("none");
  };
  succeed({"prune", at("large"), "--to", "0.8", "--out", at("half"), "--rounds", "2", "--train-steps", "3",
           "--from-scratch"});
  EXPECT_EQ(beside("half"), "after's shape from scratch, 6 steps");
  const std::string again = read_file(at("half.rounds/from-scratch/model.safetensors"));
  fs::remove_all(at("half"));  // a repeated command goes on, and has the same
  succeed({"prune", at("large"), "--to", "0.8", "--out", at("half"), "--rounds", "2", "--train-steps", "3",
           "--from-scratch"});
  EXPECT_EQ(read_file(at("half.rounds/from-scratch/model.safetensors")), again);
  expect_error({"prune", at("large"), "--to", "0.8", "--out", at("x"), "--from-scratch"}, 2, {"--train-steps"});

  succeed({"distill", *recipe_, "--teacher", at("large"), "--out", at("taught"), "--layers", "1,3", "--from-scratch"});
  EXPECT_NE(beside("taught").find("from scratch"), std::string::npos);
  EXPECT_EQ(read_file(at("taught.scratch/resolved_recipe.yaml")).find("distillation"), std::string::npos);
  EXPECT_EQ(read_file(at("taught.scratch/tokenizer.json")), read_file(at("large/tokenizer.json")));
}

// Each command adds its step, and the last receipt holds them all.
TEST_F(Compression, ReceiptsAddUpToAChain) {
  succeed({"prune", at("large"), "--to", "0.8", "--out", at("chain-1")});
  succeed({"distill", *recipe_, "--teacher", at("chain-1"), "--out", at("chain-2"), "--layers", "1,3"});
  succeed({"convert", at("chain-2"), "--densify", "--out", at("chain-3")});
  succeed({"quantize", at("chain-3"), "--weights", "int4", "--out", at("chain-4")});
  const Json last = json_of(at("chain-4/receipt.json"));
  std::vector<std::string> operations;
  for (const Json& step : last["chain"]) operations.push_back(step["operation"]);
  EXPECT_EQ(operations, (std::vector<std::string>{"prune", "distill", "convert"}));
  EXPECT_EQ(last["operation"], "quantize");
  EXPECT_EQ(last["origin"], json_of(at("chain-1/receipt.json"))["before"]);
  EXPECT_EQ(last["settings"]["weights"], "int4");
  std::string weights;  // of the step before
  for (const Json& step : last["chain"]) {
    for (const char* key : {"parameters", "bytes_on_disk", "peak_memory_bytes", "decode_tokens_per_second", "loss"})
      EXPECT_TRUE(step["before"].contains(key) && step["after"].contains(key)) << step["operation"] << " " << key;
    if (!weights.empty()) {
      EXPECT_EQ(step["before"]["weights"], weights) << step["operation"];
    }
    weights = step["after"]["weights"];
  }
  EXPECT_TRUE(fs::exists(at("chain-4/receipt.html")));
  // What prunes stands beside its parent with fewer bits.
  EXPECT_LT(double(json_of(at("chain-1/receipt.json"))["baselines"][0]["bytes_on_disk"]),
            double(last["origin"]["bytes_on_disk"]));

  const kit::Finished f = run_program({"compare", at("chain-1"), at("chain-4"), "--out", at("receipts"), "--json"});
  ASSERT_EQ(f.code, 0) << f.err;
  const Json read = parse_json(f.out, "compare");
  EXPECT_EQ(read[0]["steps"].size(), 1u);
  EXPECT_EQ(read[1]["steps"].size(), 4u);
  EXPECT_TRUE(fs::exists(at("receipts/receipts.html")));
  expect_error({"compare", at("chain-1"), at("large")}, 2, {"has no receipt.json"});
  expect_error({"compare", at("chain-1"), "--plan"}, 2, {"--plan"});
}

TEST_F(Compression, InRoundsWithTraining) {
  const std::vector<std::string> words{"prune",    at("large"),        "--to",     "0.7", "--out",         at("rounds"),
                                       "--units",  "heads,ffn,layers", "--rounds", "2",   "--train-steps", "4",
                                       "--distill"};
  succeed(words);
  EXPECT_EQ(json_of(at("rounds/prune.json"))["rounds"].size(), 2u);
  EXPECT_TRUE(fs::exists(at("rounds.rounds/2-trained/model.safetensors")));
  succeed({"eval", at("rounds")});
}

// Training after pruning is of the whole smaller model.
TEST_F(Compression, ARunOfAdaptersIsPrunedWhole) {
  succeed({"train", *recipe_, "--out", at("adapted"), "--set", "from_pretrained=" + at("large"), "--set", "model={}",
           "--set", "train.adapters={type: lora, rank: 2}"});
  succeed({"prune", at("adapted"), "--to", "0.8", "--train-steps", "2", "--out", at("adapted-less")});
  EXPECT_FALSE(fs::exists(at("adapted-less.rounds/1-trained/adapter")));
  EXPECT_EQ(read_file(at("adapted-less/resolved_recipe.yaml")).find("type: lora"), std::string::npos);
}

// Latency is timed, so that what is chosen differs from call to call; the counted budget beside it gives it again.
TEST_F(Compression, ToALatency) {
  succeed({"prune", at("large"), "--to", "0.9", "--budget", "latency", "--units", "heads,ffn,hidden,layers", "--out",
           at("fast")});
  const Json round = json_of(at("fast/prune.json"))["rounds"][0];
  EXPECT_LE(double(round["latency_after"]), 0.9 * double(round["latency_before"]));
  EXPECT_EQ(round["counted"]["budget"], "memory");
  succeed({"prune", at("large"), "--to", cat(double(round["counted"]["to"])), "--budget", "memory", "--units",
           "heads,ffn,hidden,layers", "--out", at("again")});
  EXPECT_EQ(read_file(at("fast/config.json")), read_file(at("again/config.json")));
  expect_error({"prune", at("large"), "--to", "0.0001", "--budget", "latency", "--out", at("x")}, 2,
               {"of the latency was not reached", "take out more"});
  expect_error({"prune", at("large"), "--budget", "latency", "--by", "random", "--out", at("x")}, 2, {"--by random"});
}

TEST_F(Compression, ByPoolAndByGates) {
  succeed({"prune", at("large"), "--to", "0.8", "--by", "random", "--pool", "3", "--out", at("pool")});
  const Json round = json_of(at("pool/prune.json"))["rounds"][0];
  EXPECT_EQ(round["pool_losses"].size(), 3u);
  succeed({"prune", at("large"), "--to", "0.8", "--by", "gates", "--gate-steps", "5", "--across", "model", "--out",
           at("gates")});
  succeed({"eval", at("gates")});
  // What cannot be reached is refused before the gates are trained, and stands in no one's way.
  std::vector<std::string> gates{"prune", at("large"), "--by",       "gates", "--gate-steps",
                                 "2",     "--out",     at("little"), "--to",  "0.001"};
  expect_error(gates, 2, {"take out more"});
  EXPECT_FALSE(fs::exists(at("little.rounds")));
  gates.back() = "0.8";
  succeed(gates);
}

}  // namespace
}  // namespace lithe

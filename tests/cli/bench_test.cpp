// `lithe bench` as a person or a script meets it: small models on one thread, whose clock other programs do not change.
#include <gtest/gtest.h>

#include <csignal>
#include <thread>

#include "lithe/base/error.h"
#include "lithe/base/json.h"
#include "tests/support/program_test.h"

namespace lithe {
namespace {

using kit::Finished;
using kit::run_program;

class Bench : public kit::ProgramTest {
 protected:
  kit::Scratch scratch_;
  std::string recipe(const std::string& name, const std::string& more = "") const {
    return scratch_.add(name, cat("model: {hidden_size: 16, num_hidden_layers: 1", more,
                                  ", mixer: {type: attention, num_attention_heads: 2}, ffn: {type: relu, "
                                  "intermediate_size: 32}}\ndata: {files: [none.txt], tokenizer: {type: bytes}, "
                                  "sequence_length: 32}\ntrain: {max_steps: 6, batch_tokens: 64}\n"));
  }
  // Few and short rounds, one thread.
  static Finished bench(std::vector<std::string> arguments, int rounds = 6) {
    arguments.insert(arguments.begin(), "bench");
    for (const char* word : {"--threads", "1", "--seconds", "0.005", "--rounds"}) arguments.push_back(word);
    arguments.push_back(std::to_string(rounds));
    return run_program(arguments);
  }
  static void expect_refused(const Finished& f, const std::string& word) {
    EXPECT_EQ(f.code, 2) << f.err;
    EXPECT_EQ(f.out, "");
    EXPECT_NE(f.err.find(word), std::string::npos) << "no '" << word << "' in " << f.err;
  }
  // bench.json with the seconds of every sample divided by `factor`.
  std::string claims(const std::string& file, double factor) const {
    Json json = parse_json(read_file(file), file);
    for (Json& m : json["measurements"])
      for (Json& seconds : m["samples"]["seconds"]) seconds = seconds.get<double>() / factor;
    return scratch_.add("claims.json", json.dump());
  }
};

TEST_F(Bench, MeasuresAModelAndComparesWithAnEarlierRun) {
  const std::string model = recipe("tiny.yaml"), out = scratch_ / "out";
  const std::vector<std::string> what{model, "--only", "train,prefill,decode", "--length", "16", "--batch", "1"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), what.begin(), what.end());
    return bench(more);
  };
  const Finished first = with({"--out", out});
  ASSERT_EQ(first.code, 0) << first.err;
  for (const char* part :
       {"train 64 tokens f32 of tiny", "prefill 16 tokens f32", "decode batch 1 after 16 f32", "tokens/s", "memory"})
    EXPECT_NE(first.out.find(part), std::string::npos) << part << " is not in\n" << first.out;
  const std::string file = out + "/bench.json";
  const Json json = parse_json(read_file(file), file);
  EXPECT_EQ(json["complete"], true);
  ASSERT_EQ(json["measurements"].size(), 3u);
  EXPECT_GT(json["measurements"][0]["peak_bytes"].get<int64_t>(), 0);
  for (const Json& m : json["measurements"]) {
    EXPECT_EQ(m["samples"]["seconds"].size(), 6u);
    EXPECT_GT(m["flops"].get<double>(), 0);
    EXPECT_GT(m["derived"]["tokens_per_second"].get<double>(), 0);
  }
  EXPECT_NE(read_file(out + "/bench.html").find("Roofline"), std::string::npos);

  // Nothing is twice as slow as just before.
  const Finished again = with({"--against", file, "--tolerance", "1"});
  EXPECT_EQ(again.code, 0) << again.out << again.err;
  EXPECT_NE(again.out.find("None of 3 measurements is slower"), std::string::npos) << again.out;

  // A file that claims ten times the speed.
  const Finished slower = with({"--against", claims(file, 10), "--json"});
  EXPECT_EQ(slower.code, 1) << slower.out << slower.err;
  EXPECT_NE(slower.err.find("slower beyond noise"), std::string::npos) << slower.err;
  const Json told = parse_json(slower.out, "--json");
  int count = 0;
  for (const Json& change : told["changes"]) count += change["verdict"] == "slower";
  EXPECT_GE(count, 1) << slower.out;

  // A tenth of the speed is no reason to fail.
  EXPECT_EQ(with({"--against", claims(file, 0.1)}).code, 0);
}

TEST_F(Bench, MeasuresVariantsInTheSameRounds) {
  const Finished f =
      bench({recipe("a.yaml"), recipe("b.yaml", ", max_position_embeddings: 32"), "--only", "train", "--json"});
  ASSERT_EQ(f.code, 0) << f.err;
  const Json json = parse_json(f.out, "--json");
  ASSERT_EQ(json["differences"].size(), 1u);
  EXPECT_EQ(json["differences"][0]["variant"], "b");
  EXPECT_EQ(json["differences"][0]["first"], "a");
  EXPECT_EQ(json["measurements"][0]["control"]["seconds"].size(), 6u);
}

TEST_F(Bench, EncodersAreMeasuredInSequences) {
  const std::string model = scratch_.add(
      "encoder.yaml",
      "model: {architecture: encoder, hidden_size: 16, num_hidden_layers: 1, mixer: {type: attention, "
      "num_attention_heads: 2}, ffn: {type: relu, intermediate_size: 32}, head: mlm}\ndata: {files: [none.txt], "
      "tokenizer: {type: wordpiece, vocab_size: 300}, sequence_length: 32}\ntrain: {max_steps: 6, batch_tokens: 64, "
      "objective: mlm}\n");
  const Finished f = bench({model, "--batch", "2"}, 2);
  ASSERT_EQ(f.code, 0) << f.err;
  EXPECT_NE(f.out.find("sequences/s"), std::string::npos) << f.out;
  EXPECT_EQ(f.out.find("decode"), std::string::npos) << f.out;
}

TEST_F(Bench, WhatAModelCannotDoIsSkippedWithTheReason) {
  const std::string model = scratch_.add(
      "short.yaml",
      "model: {hidden_size: 16, num_hidden_layers: 1, position: learned, max_position_embeddings: 32, mixer: {type: "
      "attention, num_attention_heads: 2}, ffn: {type: relu, intermediate_size: 32}}\ndata: {files: [none.txt], "
      "tokenizer: {type: bytes}, sequence_length: 32}\ntrain: {max_steps: 6, batch_tokens: 64}\n");
  const Finished f = bench({model, "--only", "train,prefill", "--length", "64"}, 1);
  ASSERT_EQ(f.code, 0) << f.err;
  EXPECT_NE(f.out.find("train 64 tokens"), std::string::npos) << f.out;
  EXPECT_NE(f.out.find("skipped: prefill of short"), std::string::npos) << f.out;
  EXPECT_NE(f.out.find("positions end at 32"), std::string::npos) << f.out;
}

TEST_F(Bench, WrongUseIsRefusedBeforeAnythingIsMeasured) {
  const std::string model = recipe("tiny.yaml");
  expect_refused(bench({"--only", "speed"}), "speed");
  expect_refused(bench({"--only", "train"}), "recipe");
  expect_refused(bench({scratch_ / "absent.yaml"}), "does not exist");
  expect_refused(bench({model, "--against", scratch_ / "absent.json"}), "absent.json");
  expect_refused(bench({model, "--against", scratch_.add("bad.json", "{]")}), "bad.json");
  expect_refused(bench({"--set", "train.seed=2"}), "--set");
  expect_refused(bench({model, "--force"}), "--against");
  expect_refused(bench({model, "--tolerance", "nan"}), "--tolerance");
  expect_refused(bench({model, "--precision", "f16"}), "--precision");
  expect_refused(run_program({"bench", model, "--rounds", "0"}), "--rounds");
}

TEST_F(Bench, OtherMachinesAreRefusedUnlessForced) {
  const std::string model = recipe("tiny.yaml"), out = scratch_ / "out", file = out + "/bench.json";
  ASSERT_EQ(bench({model, "--only", "train", "--out", out}, 2).code, 0);
  Json json = parse_json(read_file(file), file);
  json["setting"]["cpu"] = "Babbage";
  const std::string other = scratch_.add("other.json", json.dump());
  const Finished refused = bench({model, "--only", "train", "--against", other}, 2);
  expect_refused(refused, "'Babbage'");
  EXPECT_NE(refused.err.find("--force"), std::string::npos);
  EXPECT_EQ(bench({model, "--only", "train", "--against", other, "--force", "--tolerance", "5"}, 2).code, 0);
  expect_refused(bench({model, "--only", "train", "--precision", "bf16", "--against", file}, 2), "precision");
  // A file without anything in common.
  const Finished none =
      run_program({"bench", "--threads", "1", "--rounds", "1", "--only", "ceilings", "--against", file});
  EXPECT_EQ(none.code, 2);
  EXPECT_NE(none.err.find("no measurement in common"), std::string::npos) << none.err;
}

TEST_F(Bench, ASignalKeepsWhatWasMeasured) {
  const std::string out = scratch_ / "out";
  kit::Process process({"bench", recipe("tiny.yaml"), "--only", "train", "--threads", "1", "--rounds", "100000",
                        "--seconds", "0.001", "--out", out});
  for (int i = 0; i < 600 && !std::filesystem::exists(out); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  std::this_thread::sleep_for(std::chrono::seconds(2));
  ASSERT_TRUE(process.running());
  process.send(SIGINT);
  const Finished f = process.wait();
  EXPECT_EQ(f.code, 128 + SIGINT) << f.err;
  EXPECT_NE(f.err.find("stopped by signal 2"), std::string::npos) << f.err;
  const Json json = parse_json(read_file(out + "/bench.json"), "bench.json");
  EXPECT_EQ(json["complete"], false);
  EXPECT_NE(read_file(out + "/bench.html").find("Stopped early"), std::string::npos);
}

}  // namespace
}  // namespace lithe

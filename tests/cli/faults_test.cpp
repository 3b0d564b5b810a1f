// Damaged files, hostile input and awkward moments, as a person or a script meets them: one clear line and an exit
// code.
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>

#include "lithe/base/error.h"
#include "lithe/base/json.h"
#include "lithe/model/safetensors.h"
#include "tests/cli/run_kit.h"

namespace lithe {
namespace {

namespace fs = std::filesystem;
using kit::Finished;
using kit::run_program;

using Faults = kit::RunTest;

TEST_F(Faults, DamagedWeightsAreRefusedByAllWhoReadThem) {
  const std::string run = copy_of_run("damaged"), file = run + "/model.safetensors";
  std::string bytes = read_file(file);
  for (size_t i = 0; i < 64; ++i) bytes[bytes.size() - 200 + i] = char(bytes[bytes.size() - 200 + i] ^ (i * 37 + 1));
  overwrite(file, bytes);
  const std::vector<std::string> words = {file, "is damaged", "checksum"};
  expect_error({"eval", run}, 1, words);
  expect_error({"generate", run}, 1, words);
  expect_error({"inspect", run, "--text", "the cat"}, 1, words);
  expect_error({"quantize", run, "--out", *scratch_ / "damaged-int8"}, 1, words);
  EXPECT_FALSE(fs::exists(*scratch_ / "damaged-int8"));
  expect_error({"train", *recipe_, "--out", *scratch_ / "from-damaged", "--set", "from_pretrained=" + run}, 1, words);
}

// Weights of another program have no checksums: then the results say it.
TEST_F(Faults, ResultsThatAreNoNumbersAreFailures) {
  const std::string run = copy_of_run("foreign"), file = run + "/model.safetensors";
  std::string bytes = read_file(file);
  bytes.replace(bytes.find("lithe.checksums"), 15, "other.checksums");
  overwrite(file, bytes);
  EXPECT_EQ(run_program({"eval", run}).code, 0);
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), 8);
  std::fill(bytes.begin() + 8 + int64_t(header), bytes.end(), '\xff');  // every float is NaN
  overwrite(file, bytes);
  expect_error({"eval", run}, 1, {"eval: the loss must be finite"});
  expect_error({"inspect", run, "--text", "the cat"}, 1, {"inspect: ", "must be finite"});
  expect_error({"quantize", run, "--out", *scratch_ / "foreign-int8"}, 1, {"quantize: '", "must hold finite numbers"});
  EXPECT_FALSE(fs::exists(*scratch_ / "foreign-int8"));
}

std::string status_of(const std::string& run) {
  return parse_json(read_file(run + "/result.json"), "result.json")["status"];
}

// What stands in --out is somebody's: only a new or empty directory, or a run to resume, is written to.
TEST_F(Faults, TrainDoesNotWriteOverWhatIsNotItsRun) {
  const std::string out = *scratch_ / "foreign-out";
  fs::create_directory(out);
  scratch_->add("foreign-out/model.safetensors", "somebody's weights");
  expect_error({"train", *recipe_, "--out", out}, 2,
               {"'" + out + "' must be a new or empty directory", "'model.safetensors'", "--overwrite"});
  expect_error({"train", *recipe_, "--out", out, "--resume"}, 2, {"holds no run to resume", "--resume auto"});
  expect_error({"train", *recipe_, "--out", out, "--resume=auto"}, 2, {"must be a new or empty directory"});
  expect_error({"train", *recipe_, "--out", out, "--resume=always"}, 2, {"--resume", "always"});
  EXPECT_EQ(read_file(out + "/model.safetensors"), "somebody's weights");
  EXPECT_FALSE(fs::exists(out + "/.lock"));
  fs::create_directory(*scratch_ / "empty-out");
  EXPECT_EQ(run_program({"train", *recipe_, "--out", *scratch_ / "empty-out"}).code, 0);
  const Finished f = run_program({"train", *recipe_, "--out", out, "--overwrite"});
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_TRUE(read_file(out + "/model.safetensors") == read_file(*run_ + "/model.safetensors"));
  expect_error({"train", *recipe_, "--out", out}, 2, {"already holds a run", "--overwrite"});
  expect_error({"train", *recipe_, "--out", out, "--resume", "--overwrite"}, 2, {"exclude each other"});
  // A run may be begun anew, with another recipe.
  ASSERT_EQ(run_program({"train", *recipe_, "--out", out, "--overwrite", "--set", "train.max_steps=4"}).code, 0);
  EXPECT_FALSE(fs::exists(out + "/training_state/step-00000006"));
  EXPECT_TRUE(fs::exists(out + "/training_state/step-00000004"));
}

// A batch job that is started again has one command.
TEST_F(Faults, ResumeAutoBeginsOrContinues) {
  const std::string out = *scratch_ / "auto";
  const std::vector<std::string> words = {"train", *recipe_, "--out", out, "--resume", "auto"};
  const Finished first = run_program(words);
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_TRUE(read_file(out + "/model.safetensors") == read_file(*run_ + "/model.safetensors"));
  fs::remove_all(out + "/training_state/step-00000006");
  const Finished second = run_program(words);
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_NE(second.err.find("resuming after step 3"), std::string::npos) << second.err;
  EXPECT_TRUE(read_file(out + "/metrics.jsonl") == read_file(*run_ + "/metrics.jsonl"));
  const Finished third = run_program(words);
  EXPECT_NE(third.err.find("nothing is left to do"), std::string::npos) << third.err;
}

TEST_F(Faults, ARunCanBeExtended) {
  const std::string out = copy_of_run("extended");
  const std::vector<std::string> words = {"train", *recipe_, "--out", out, "--resume"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), words.begin(), words.end());
    return more;
  };
  expect_error(with({"--set", "train.max_steps=9", "--set", "train.learning_rate=0.02"}), 2,
               {"the recipe differs from the run's: train.learning_rate was 0.01 and is now 0.02"});
  expect_error(with({"--set", "train.max_steps=5"}), 2, {"train.max_steps was 6 and is now 5", "after step 6"});
  const Finished f = run_program(with({"--set", "train.max_steps=9"}));
  ASSERT_EQ(f.code, 0) << f.err;
  EXPECT_NE(f.err.find("train.max_steps was 6 and is now 9: going on after step 6 to step 9; learning rate (cosine"),
            std::string::npos)
      << f.err;
  EXPECT_TRUE(fs::exists(out + "/training_state/step-00000009"));
  EXPECT_EQ(status_of(out), "finished");
  // Its recipe is the new one from now on.
  EXPECT_NE(read_file(out + "/resolved_recipe.yaml").find("max_steps: 9"), std::string::npos);
  EXPECT_NE(run_program(with({"--set", "train.max_steps=9"})).err.find("nothing is left to do"), std::string::npos);
}

TEST_F(Faults, APretrainedRunsHeadIsNotDroppedSilently) {
  const std::string first = *scratch_ / "untied";
  ASSERT_EQ(run_program({"train", *recipe_, "--out", first, "--set", "model.tie_word_embeddings=false"}).code, 0);
  const auto tuned = [&](const std::string& key) {
    return run_program({"train", *recipe_, "--out", *scratch_ / "tuned", "--overwrite", "--set",
                        "from_pretrained=" + first, "--set", key});
  };
  const Finished same = tuned("model.tie_word_embeddings=false"), f = tuned("model.tie_word_embeddings=true");
  ASSERT_EQ(same.code, 0) << same.err;
  EXPECT_EQ(same.err.find("not taken over"), std::string::npos) << same.err;
  ASSERT_EQ(f.code, 0) << f.err;
  EXPECT_NE(f.err.find("not taken over from '" + first + "/model.safetensors', the head begins anew: head."),
            std::string::npos)
      << f.err;
}

// A disk that is full, seen as a limit on the size of files.
TEST_F(Faults, ResultSaysThatARunFailed) {
  const std::string out = *scratch_ / "full";
  const Finished f = run_program({"train", *recipe_, "--out", out}, {.file_limit = 40000});
  EXPECT_EQ(f.code, 1) << f.err;
  EXPECT_EQ(status_of(out), "failed");
  const Json result = parse_json(read_file(out + "/result.json"), "result.json");
  EXPECT_NE(result["message"].get<std::string>().find("could not be saved"), std::string::npos) << result;
}

TEST_F(Faults, SignalsAreHeardWhilePlanning) {
  const std::string out = *scratch_ / "planning";
  kit::Process process({"train", *recipe_, "--out", out, "--set", "model.num_hidden_layers=10000"});
  for (int i = 0; i < 3000 && !fs::exists(out + "/.lock"); ++i) ::usleep(10000);
  ::usleep(300000);
  process.send(SIGTERM);
  const auto start = std::chrono::steady_clock::now();
  const Finished f = process.wait();
  EXPECT_EQ(f.code, 128 + SIGTERM) << f.err;
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 20);
  EXPECT_FALSE(fs::exists(out));
}

TEST_F(Faults, NamesThatLeaveTheirDirectoryAreRefused) {
  for (const std::string name : {"../../x", "..", ".hidden", "a/b", ""})
    expect_error({"finetune", name + "=" + *run_, "--tasks", *recipe_, "--out", *scratch_ / "deep/tasks"}, 2,
                 {"a model's name becomes a directory"});
  EXPECT_FALSE(fs::exists(*scratch_ / "x"));
}

TEST_F(Faults, LineEndsOfOtherSystemsAreLineEnds) {
  std::string text = read_file(*scratch_ / "text.txt"), other;
  for (const char c : text) other += c == '\n' ? std::string("\r\n") : std::string(1, c);
  const auto loss = [&](const std::string& file) {
    const Finished f = run_program({"eval", *run_, file, "--json"});
    EXPECT_EQ(f.code, 0) << f.err;
    return parse_json(f.out, "eval");
  };
  EXPECT_EQ(loss(scratch_->add("crlf.txt", other)), loss(*scratch_ / "text.txt"));
}

TEST_F(Faults, ADashIsStandardInputForAllWhoReadText) {
  const std::string text = read_file(*scratch_ / "text.txt");
  const auto with = [&](const std::vector<std::string>& words) {
    const Finished f = run_program(words, {.stdin_text = text});
    EXPECT_EQ(f.code, 0) << words[0] << f.err;
    return f.out;
  };
  EXPECT_EQ(with({"eval", *run_, "-", "--json"}), with({"eval", *run_, *scratch_ / "text.txt", "--json"}));
  EXPECT_EQ(with({"inspect", *run_, "--file", "-"}), with({"inspect", *run_, "--file", *scratch_ / "text.txt"}));
  EXPECT_NE(with({"quantize", *run_, "--out", *scratch_ / "from-stdin", "--text", "-"}), "");
  EXPECT_EQ(with({"encode", *run_, "-", "--nearest", "1"}), with({"encode", *run_, "--nearest", "1"}));
  const Finished prompts = run_program({"generate", *run_, "--prompts-file", "-", "--json", "--max-new-tokens", "1"},
                                       {.stdin_text = "a\nb\n"});
  EXPECT_EQ(std::count(prompts.out.begin(), prompts.out.end(), '\n'), 2) << prompts.err;
  const Finished twice = run_program({"eval", *run_, "-", "-"}, {.stdin_text = text});
  EXPECT_EQ(twice.code, 2);
  EXPECT_NE(twice.err.find("can be read once only"), std::string::npos) << twice.err;
  expect_error({"train", *recipe_, "--out", *scratch_ / "dash", "--set", "data.files=['-']"}, 2,
               {"standard input cannot be read twice"});
}

TEST_F(Faults, GenerateSaysWhatItCannotDo) {
  expect_error({"generate", *run_, "--greedy", "--temperature", "0.5"}, 2, {"--greedy", "--temperature"});
  expect_error({"generate", *run_, "--greedy", "--top-k", "5"}, 2, {"--greedy", "--top-k"});
  const Finished f = run_program({"generate", *run_, "--prompt", "the cat", "--max-new-tokens", "50", "--json"});
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_NE(f.err.find("1 of 1 texts ended at the model's last position (it has 16), before 50 new tokens"),
            std::string::npos)
      << f.err;
  EXPECT_EQ(parse_json(f.out, "generate")["finish"], "positions");
}

// What is not there, or is no file, is wrong usage wherever it is named.
TEST_F(Faults, FilesThatAreNotThereAreWrongUsage) {
  const std::string none = *scratch_ / "none.txt", directory = scratch_->path();
  for (const std::string& name : {none, directory}) {
    expect_error({"eval", *run_, name}, 2, {name});
    expect_error({"encode", *run_, name, "--nearest", "1"}, 2, {name});
    expect_error({"generate", *run_, "--prompts-file", name}, 2, {name});
    expect_error({"inspect", *run_, "--file", name}, 2, {name});
    expect_error({"plan", name}, 2, {name});
    expect_error({"train", *recipe_, "--out", *scratch_ / "no", "--set", "data.files=['" + name + "']"}, 2, {name});
  }
}

TEST_F(Faults, LeftoversOfAKilledQuantizeGo) {
  const std::string out = *scratch_ / "rounded", left = out + ".tmp-00112233445566ff";
  fs::create_directory(left);
  scratch_->add("rounded.tmp-00112233445566ff/model.safetensors", "a full copy");
  ASSERT_EQ(run_program({"quantize", *run_, "--out", out}).code, 0);
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(fs::exists(out + "/model.safetensors"));
}

// The table of a tied head is packed for inference, which the row of padding met; and the head gave it a gradient.
TEST_F(Faults, APaddingRowStaysZeroAndIsReadPacked) {
  const std::string out = *scratch_ / "padding";
  ASSERT_EQ(
      run_program({"train", *recipe_, "--out", out, "--set", "model.embedding={type: lookup, padding_idx: 3}"}).code,
      0);
  const SafetensorsFile file(out + "/model.safetensors");
  const Tensor table = empty(file.entries().at("embedding.weight").shape, DType::f32);
  file.read("embedding.weight", table);
  for (int64_t c = 0; c < table.cols(); ++c) EXPECT_EQ(value_at(table, 3 * table.cols() + c), 0);
  for (const char* precision : {"f32", "bf16"}) {
    EXPECT_EQ(run_program({"eval", out, "--precision", precision}).code, 0) << precision;
    EXPECT_EQ(run_program({"generate", out, "--precision", precision}).code, 0) << precision;
  }
}

TEST_F(Faults, SharedQueriesAndKeysRunInBf16) {
  const std::string out = *scratch_ / "skv";
  ASSERT_EQ(run_program({"train", *recipe_, "--out", out, "--set", "model.mixer.heads={type: skv, tie: qk}"}).code, 0);
  for (const char* verb : {"eval", "generate"}) {
    const Finished f = run_program({verb, out, "--precision", "bf16"});
    EXPECT_EQ(f.code, 0) << f.err;
  }
}

// 20,000 keys at the wrong place took 20 seconds, 24 groups of braces longer than anybody waits.
TEST_F(Faults, HostileRecipesAreRefusedInTime) {
  const auto start = std::chrono::steady_clock::now();
  std::string keys;
  for (int i = 0; i < 20000; ++i) {
    if (i == 5000) expect_error({"plan", scratch_->add("keys.yaml", keys)}, 2, {"unknown key 'k0'"});
    keys += cat("k", i, ": 1\n");
  }
  expect_error({"plan", scratch_->add("keys.yaml", keys)}, 2, {"keys.yaml:5001:1: more than 5000 keys"});
  std::string braces;
  for (int i = 0; i < 24; ++i) braces += "{a,b}";
  expect_error({"train", *recipe_, "--out", *scratch_ / "no", "--set", "data.files=['" + braces + "']"}, 2,
               {"more than 4096 patterns"});
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 30);
}

// A model of a terabyte: the kernel would end it in the middle of a step, and whatever else runs with it.
TEST_F(Faults, WhatTheMachineCannotHoldIsNotBegun) {
  const std::string out = *scratch_ / "too-large";
  const std::vector<std::string> words = {
      "train", *recipe_, "--out", out, "--set", "model.hidden_size=65536", "--set", "model.num_hidden_layers=32"};
  expect_error(words, 4, {"the plan needs", "has", "left", "--memory-budget"});
  EXPECT_FALSE(fs::exists(out));
}

// Limits of the shell are worked with, or named with a remedy.
TEST_F(Faults, LimitsOfStackAndAddresses) {
  const std::vector<std::string> generate = {"generate", *run_, "--prompt", "the", "--greedy"};
  const auto limited = [&](int64_t stack, int64_t space) {
    return run_program(generate, {.stack_limit = stack, .space_limit = space});
  };
  const Finished free = limited(0, 0);
  ASSERT_EQ(free.code, 0) << free.err;
  const Finished small_stack = limited(64 << 10, 0);
  EXPECT_EQ(small_stack.code, 1) << small_stack.signal << small_stack.err;
  EXPECT_NE(small_stack.err.find("ulimit -s"), std::string::npos) << small_stack.err;
  EXPECT_EQ(limited(1 << 20, 0).out, free.out);
  EXPECT_EQ(limited(0, int64_t(2) << 30).out, free.out);
  for (int64_t megabytes = 60; megabytes <= 300; megabytes += megabytes < 100 ? 1 : 25) {  // libraries take most of it
    // The start of a library, before main, may abort.
    if (run_program({"--version"}, {.space_limit = megabytes << 20}).signal != 0) continue;
    const Finished small = limited(0, megabytes << 20);
    EXPECT_TRUE(small.code == 0 ? small.out == free.out : small.signal == 0 && !small.err.empty())
        << megabytes << " " << small.code << " " << small.signal << small.err;
  }
}

// A pipe in the place of a file that is mapped would wait for a writer for ever.
TEST_F(Faults, PipesInPlaceOfWeightsAreRefused) {
  const std::string run = copy_of_run("piped");
  fs::remove(run + "/model.safetensors");
  ASSERT_EQ(::mkfifo((run + "/model.safetensors").c_str(), 0644), 0);
  expect_error({"eval", run}, 1, {"model.safetensors", "not a plain file"});
}

}  // namespace
}  // namespace lithe

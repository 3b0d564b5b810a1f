// A run that is killed, at any moment and any number of times, and resumed ends as one that never stopped.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <thread>

#include "lithe/base/error.h"
#include "lithe/base/random.h"
#include "tests/support/program_test.h"

namespace lithe {
namespace {

namespace fs = std::filesystem;
using kit::Finished;
using kit::Process;
using kit::Scratch;

constexpr int kSteps = 48;

// Dropout, accumulation, moments in 8 bits (the table's), evaluation, a best checkpoint, a keep limit: everything whose
// state a resume must bring back.
std::string recipe_in(const Scratch& scratch) {
  scratch.add("text.txt", kit::small_text(20000));
  return scratch.add(
      "recipe.yaml",
      cat(R"(
model: {hidden_size: 32, num_hidden_layers: 2, mixer: {type: attention, num_attention_heads: 2}, ffn: {type: swiglu, intermediate_size: 64}, hidden_dropout: 0.1}
data: {files: [)",
          scratch / "text.txt",
          R"(], documents: paragraph, validation_fraction: 0.1, sequence_length: 32, cache_directory: )",
          scratch / "cache", R"(}
train: {max_steps: )",
          kSteps,
          R"(, batch_tokens: 128, gradient_accumulation_steps: 2, optimizer_states: int8, learning_rate: 3.0e-3, warmup_steps: 5, logging_steps: 3, eval_steps: 8, save_steps: 5, save_total_limit: 2, sample_steps: 16, spike_deviations: 6, spike_window: 10, seed: 3}
generate: {prompt: "the", max_new_tokens: 8}
)"));
}

// Begins the run, or resumes it where it has begun.
std::vector<std::string> command(const std::string& recipe, const std::string& out) {
  std::vector<std::string> words = {"train", recipe, "--out", out, "--threads", "1"};
  if (fs::exists(Path(out) / ".lock")) words.push_back("--resume");
  return words;
}

// What must be there again bit for bit.
const char* const kResults[] = {"model.safetensors", "best/model.safetensors", "metrics.jsonl", "samples.jsonl"};

void expect_same_results(const Path& got, const Path& want) {
  for (const char* name : kResults)
    EXPECT_TRUE(read_file(got / name) == read_file(want / name)) << name << " differs in " << got;
  // No litter of the processes that were killed.
  for (const auto& entry : fs::recursive_directory_iterator(got)) {
    const std::string name = entry.path().filename();
    EXPECT_TRUE(name.find(".tmp") == std::string::npos && name.find("saving") == std::string::npos &&
                name.find("dropping") == std::string::npos && name.find("linking") == std::string::npos)
        << entry.path();
  }
}

class Killed : public kit::ProgramTest {
 protected:
  static void SetUpTestSuite() {
    if (!kit::have_program()) return;
    scratch_ = new Scratch;
    recipe_ = new std::string(recipe_in(*scratch_));
    const auto start = std::chrono::steady_clock::now();
    const Finished whole = kit::run_program(command(*recipe_, *scratch_ / "whole"));
    seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    ASSERT_EQ(whole.code, 0) << whole.err;
  }
  static void TearDownTestSuite() {
    delete scratch_;
    delete recipe_;
  }
  void SetUp() override {
    ProgramTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_GT(seconds_, 0) << "the run without interruption failed";
  }
  Path whole() const { return *scratch_ / "whole"; }

  void finish(const std::string& out) {
    const Finished last = kit::run_program(command(*recipe_, out));
    ASSERT_EQ(last.code, 0) << last.err;
    expect_same_results(out, whole());
  }
  // Kills the run when `now` says so; false when it ended before.
  bool kill_when(const std::string& out, const std::function<bool()>& now, int signal = SIGKILL) {
    Process run(command(*recipe_, out));
    while (run.running()) {
      if (now()) {
        run.send(signal);
        const Finished f = run.wait();
        if (signal == SIGKILL) return f.signal == SIGKILL;
        err_ = f.err;
        code_ = f.code;
        return true;
      }
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    const Finished f = run.wait();
    EXPECT_EQ(f.code, 0) << f.err;
    return false;
  }

  static inline Scratch* scratch_ = nullptr;
  static inline std::string* recipe_ = nullptr;
  static inline double seconds_ = 0;
  std::string err_;
  int code_ = 0;
};

TEST_F(Killed, AtRandomMoments) {
  const std::string out = *scratch_ / "random";
  // A resumed run has less to do than the first, and the machine may be faster by now: short waits always kill.
  int kills = 0;
  for (uint64_t i = 0; i < 8 || (kills < 2 && i < 40); ++i) {
    const double share = random_uniform({.seed = 7, .purpose = purpose_of("kill")}, i),
                 wait = seconds_ * share / (1 + double(i) / 4);
    if (i >= 8 && kills < 2) fs::remove_all(out);
    const auto start = std::chrono::steady_clock::now();
    kills += kill_when(
        out, [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > wait; });
  }
  EXPECT_GE(kills, 2);
  finish(out);
}

// True while a file whose name holds `part` is in `directory`.
bool has_file(const Path& directory, const std::string& part) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error))
    if (entry.path().filename().string().find(part) != std::string::npos) return true;
  return false;
}

TEST_F(Killed, WhileSavingACheckpoint) {
  const std::string out = *scratch_ / "saving";
  int kills = 0;
  for (const char* part : {".saving-", ".dropping-", ".saving-"})
    for (int i = 0; i < 2; ++i) kills += kill_when(out, [&] { return has_file(Path(out) / "training_state", part); });
  EXPECT_GE(kills, 2);
  finish(out);
}

TEST_F(Killed, WhileEvaluatingAndKeepingTheBest) {
  const std::string out = *scratch_ / "best";
  int kills = 0;
  for (int i = 0; i < 3; ++i) kills += kill_when(out, [&] { return has_file(Path(out) / "best", ".tmp"); });
  EXPECT_GE(kills, 1);
  finish(out);
}

TEST_F(Killed, SignalsSaveAndSayHowToGoOn) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    const std::string out = *scratch_ / cat("signal", signal);
    // Once in the middle of training, once while the best weights of an evaluation are written.
    for (const bool evaluating : {false, true}) {
      const auto in_training = [&] {
        std::error_code error;
        return fs::file_size(Path(out) / "metrics.jsonl", error) > 600 && !error;
      };
      const auto in_evaluation = [&] { return has_file(Path(out) / "best", ".tmp"); };
      if (!kill_when(out, evaluating ? std::function<bool()>(in_evaluation) : in_training, signal)) break;
      if (code_ == 0) break;  // it was finishing
      EXPECT_EQ(code_, 128 + signal) << err_;
      EXPECT_NE(read_file(out + "/result.json").find("\"stopped\""), std::string::npos);
      EXPECT_NE(err_.find(cat("continue with: lithe train ", *recipe_, " --out ", out, " --threads 1 --resume")),
                std::string::npos)
          << err_;
    }
    finish(out);
  }
}

// A signal before the first step, while the program reads its data, ends it at once and without damage.
TEST_F(Killed, SignalAtTheStart) {
  const std::string out = *scratch_ / "early";
  for (const double wait : {0.0, 0.01, 0.03}) {
    const auto start = std::chrono::steady_clock::now();
    kill_when(
        out, [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > wait; },
        SIGTERM);
  }
  finish(out);
}

}  // namespace
}  // namespace lithe

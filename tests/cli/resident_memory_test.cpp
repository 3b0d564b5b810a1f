// Verbs that only make or turn weights hold a tensor or a layer at a time, not a model.
#include <gtest/gtest.h>

#include <functional>

#include "lithe/base/error.h"
#include "tests/support/program_test.h"

namespace lithe {
namespace {

constexpr int64_t kMiB = int64_t(1) << 20;

class ResidentMemory : public kit::ProgramTest {
 protected:
  // 60 MiB of weights in layers of 5.
  static void SetUpTestSuite() {
    if (!kit::have_program()) return;
    scratch_ = new kit::Scratch;
    scratch_->add("text.txt", kit::small_text(4000));
    scratch_->add("recipe.yaml",
                  cat("model: {vocab_size: 3000, hidden_size: 320, num_hidden_layers: 12, position: rotary, norm: rms, "
                      "mixer: {type: attention, num_attention_heads: 8}, ffn: {type: swiglu, intermediate_size: "
                      "864}}\ndata: {files: [\"",
                      *scratch_ / "text.txt", "\"], tokenizer: {type: bytes}, sequence_length: 32, cache_directory: \"",
                      *scratch_ / "cache", "\"}\ntrain: {max_steps: 1, batch_tokens: 64}\n"));
    init_ = kit::run_program({"init", at("recipe.yaml"), "--out", at("run"), "--threads", "1"});
    least_ = kit::run_program({"inspect", at("run"), "--help"}).peak_memory;
  }
  static void TearDownTestSuite() { delete scratch_; }
  void SetUp() override {
    ProgramTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_EQ(init_.code, 0) << init_.err;
    weights_ = int64_t(std::filesystem::file_size(at("run") + "/model.safetensors"));
    ASSERT_GT(weights_, 55 * kMiB);
  }
  static std::string at(const std::string& name) { return *scratch_ / name; }
  // Beyond what the program itself needs: some tensors, libraries and buffers, and far from the weights.
  void expect_streamed(const kit::Finished& f) const {
    ASSERT_EQ(f.code, 0) << f.err;
    EXPECT_LT(f.peak_memory - least_, 30 * kMiB) << f.peak_memory << " of which " << least_ << " without weights";
  }

  static inline kit::Scratch* scratch_ = nullptr;
  static inline kit::Finished init_;
  static inline int64_t least_ = 0;
  int64_t weights_ = 0;
};

TEST_F(ResidentMemory, OfInitQuantizeConvertExportAndImport) {
  expect_streamed(init_);
  const auto run = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--threads", "1"});
    return kit::run_program(arguments);
  };
  for (const char* integers : {"int8", "int4"})
    expect_streamed(run({"quantize", at("run"), "--out", at(integers), "--weights", integers, "--no-receipt"}));
  EXPECT_FALSE(std::filesystem::exists(at("int4") + "/receipt.json"));
  expect_streamed(run(
      {"convert", at("run"), "--set", "model.mixer.output.type=hadamard", "--out", at("hadamard"), "--no-receipt"}));
  expect_streamed(run({"convert", at("run"), "--set", "model.ffn.type=gelu", "--out", at("gelu"), "--no-receipt"}));
  expect_streamed(run({"export", at("run"), "--out", at("hf")}));
  expect_streamed(run({"import", at("hf"), "--out", at("imported")}));
  EXPECT_EQ(read_file(at("imported") + "/model.safetensors").size(), size_t(weights_));
}

// What is measured stands in memory as one model and its rounded form, and the receipt's models one after the other.
TEST_F(ResidentMemory, OfWhatIsMeasured) {
  const kit::Finished f = kit::run_program({"quantize", at("run"), "--out", at("measured"), "--weights", "int4",
                                            "--text", at("text.txt"), "--max-tokens", "64", "--threads", "1"});
  ASSERT_EQ(f.code, 0) << f.err;
  const auto rounded = int64_t(std::filesystem::file_size(at("measured") + "/model.safetensors"));
  EXPECT_LT(f.peak_memory - least_, weights_ + rounded + 30 * kMiB);
}

}  // namespace
}  // namespace lithe

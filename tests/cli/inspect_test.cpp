// `lithe inspect` and `lithe plan --cost` as a person or a script meets them.
#include <gtest/gtest.h>

#include "lithe/base/error.h"
#include "lithe/base/json.h"
#include "tests/support/process.h"

namespace lithe {
namespace {

using kit::Finished;
using kit::run_program;

class Inspect : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!kit::have_program()) return;
    scratch_ = new kit::Scratch;
    scratch_->add("text.txt", kit::small_text(2000));
    for (const char* heads : {"mha", "mhe_mul"}) {
      const std::string recipe = scratch_->add(
          cat(heads, ".yaml"),
          cat("model: {hidden_size: 12, num_hidden_layers: 2, mixer: {type: attention, "
              "num_attention_heads: 3, heads: ",
              heads, "}, ffn: {type: relu, intermediate_size: 16}}\ndata: {files: [\"", *scratch_ / "text.txt",
              "\"], documents: paragraph, sequence_length: 16, cache_directory: \"", *scratch_ / "cache",
              "\"}\ntrain: {max_steps: 2, batch_tokens: 64}\n"));
      ASSERT_EQ(run_program({"train", recipe, "--out", *scratch_ / heads}).code, 0);
    }
  }
  static void TearDownTestSuite() { delete scratch_; }
  void SetUp() override {
    if (!kit::have_program()) GTEST_SKIP() << "LITHE_BINARY is not set";
  }
  static void expect_usage(const std::vector<std::string>& arguments, const std::string& words) {
    const Finished f = run_program(arguments);
    EXPECT_EQ(f.code, 2) << f.err;
    EXPECT_EQ(f.out, "");
    EXPECT_NE(f.err.find(words), std::string::npos) << f.err;
  }
  static std::string run(const std::string& name) { return *scratch_ / name; }

  static inline kit::Scratch* scratch_ = nullptr;
};

TEST_F(Inspect, PrintsATableAndWritesAPage) {
  const Finished f = run_program({"inspect", run("mha"), "--text", "the small text"});
  ASSERT_EQ(f.code, 0) << f.err;
  EXPECT_NE(f.out.find("mha: 14 tokens"), std::string::npos) << f.out;
  EXPECT_NE(read_file(run("mha") + "/inspect.html").find("Attention of mha"), std::string::npos);
}

TEST_F(Inspect, ShowsModelsSideBySide) {
  const std::string page = *scratch_ / "page.html";
  const Finished f = run_program({"inspect", run("mha"), run("mhe_mul"), "--file", *scratch_ / "text.txt", "--length",
                                  "9", "--layers", "2", "--heads", "1,3", "--out", page, "--json"});
  ASSERT_EQ(f.code, 0) << f.err;
  const Json json = parse_json(f.out, "inspect --json");
  EXPECT_EQ(json["models"][1]["model"], "mhe_mul");
  EXPECT_EQ(json["models"][0]["tokens"].size(), 9u);
  EXPECT_EQ(json["models"][0]["cut"], true);
  EXPECT_EQ(json["models"][0]["layers"][1]["maps"][1]["weights"].size(), 81u);
  EXPECT_NE(read_file(page).find("mhe_mul, layer 2, head 3"), std::string::npos);
  const Finished empirical =
      run_program({"inspect", run("mha"), "--text", "abc", "--normalise", "empirical", "--json", "--out", page});
  double low = 1, high = 0;
  const Json alone = parse_json(empirical.out, "inspect --json");
  for (const Json& layer : alone["models"][0]["layers"]) {
    low = std::min(low, double(layer["normalised"]["entropy"]));
    high = std::max(high, double(layer["normalised"]["entropy"]));
  }
  EXPECT_EQ(low, 0);
  EXPECT_EQ(high, 1);
}

TEST_F(Inspect, NamesAreTheEndsOfPathsThatDiffer) {
  for (const char* heads : {"mha", "mhe_mul"}) {
    std::filesystem::create_directories(scratch_->path() / "runs" / heads);
    std::filesystem::copy(run(heads), scratch_->path() / "runs" / heads / "seed-1",
                          std::filesystem::copy_options::recursive);
  }
  const Finished f = run_program(
      {"inspect", *scratch_ / "runs/mha/seed-1/", *scratch_ / "runs/mhe_mul/seed-1", "--text", "abc", "--json"});
  ASSERT_EQ(f.code, 0) << f.err;
  const Json json = parse_json(f.out, "inspect --json");
  EXPECT_EQ(json["models"][0]["model"], "mha/seed-1");
  EXPECT_EQ(json["models"][1]["model"], "mhe_mul/seed-1");
  EXPECT_EQ(run_program({"inspect", run("mha"), run("mha"), "--text", "abc"}).code, 0);
}

TEST_F(Inspect, SaysWhatIsWrong) {
  expect_usage({"inspect", run("mha")}, "give either --text or --file");
  expect_usage({"inspect", run("mha"), "--text", "a", "--layers", "3"},
               "there is no layer 3: they are numbered 1 to 2");
  expect_usage({"inspect", run("mha"), "--text", "a", "--heads", "0"}, "there is no head 0");
  expect_usage({"inspect", run("nothing"), "--text", "a"}, "is not a directory");
}

TEST_F(Inspect, CostsArePrintedAndAsJson) {
  const std::string recipe = *scratch_ / "mhe_mul.yaml";
  const Finished table = run_program({"plan", recipe, "--cost", "--batch", "2", "--length", "8"});
  ASSERT_EQ(table.code, 0) << table.err;
  EXPECT_NE(table.out.find("published formula"), std::string::npos) << table.out;
  const Finished f = run_program({"plan", recipe, "--cost", "--batch", "2", "--length", "8", "--json"});
  const Json json = parse_json(f.out, "plan --cost --json");
  EXPECT_EQ(json["batch"], 2);
  bool found = false;
  for (const Json& part : json["parts"])
    if (part["part"] == "layers.*.mixer") {
      found = true;
      EXPECT_EQ(part["parameters"], 2 * (3 * 12 * 4 + 3 * 12 + 12 * 12));
      EXPECT_EQ(part["published"]["parameters"], double(2 * (3 * 12 * 4 + 3 * 12 + 12 * 12)));
      EXPECT_EQ(part["cache_bytes"], 2 * 2 * 2 * 8 * 4 * 4);
    }
  EXPECT_TRUE(found);
  expect_usage({"plan", recipe, "--batch", "2"}, "--batch and --length belong to --cost");
  expect_usage({"plan", recipe, "--cost", "--memory-budget", "1GiB"}, "leave out --memory-budget");
}

}  // namespace
}  // namespace lithe

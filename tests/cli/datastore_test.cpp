// `lithe datastore` and what asks its stores, as a person or a script meets them.
#include <gtest/gtest.h>

#include "lithe/base/error.h"
#include "lithe/base/json.h"
#include "tests/support/program_test.h"

namespace lithe {
namespace {

using kit::Finished;
using kit::run_program;

class DatastoreProgram : public kit::ProgramTest {
 protected:
  static void SetUpTestSuite() {
    if (!kit::have_program()) return;
    scratch_ = new kit::Scratch;
    scratch_->add("text.txt", kit::small_text(4000));
    train("run", "bytes");
    train("wordy", "bpe, vocab_size: 300");
    ASSERT_EQ(run_program({"datastore", "build", at("run"), "--out", at("store"), "--lists", "12"}).code, 0);
  }
  static void TearDownTestSuite() { delete scratch_; }
  static std::string at(const std::string& name) { return *scratch_ / name; }
  static void train(const std::string& name, const std::string& tokenizer, const std::string& more = "") {
    const std::string recipe = scratch_->add(
        name + ".yaml",
        cat("model: {hidden_size: 32, num_hidden_layers: 1, mixer: {type: attention, num_attention_heads: 2}}\n"
            "data: {files: [\"",
            at("text.txt"), "\"], documents: paragraph, validation_fraction: 0.2, sequence_length: 16, ",
            "tokenizer: {type: ", tokenizer, "}, cache_directory: \"", at("cache"),
            "\"}\ntrain: {max_steps: 20, batch_tokens: 128, learning_rate: 0.01}\n", more));
    ASSERT_EQ(run_program({"train", recipe, "--out", at(name)}).code, 0);
  }
  static double loss(const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"eval", at("run"), "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Finished f = run_program(arguments);
    EXPECT_EQ(f.code, 0) << f.err;
    return parse_json(f.out, "eval")["loss"];
  }
  static inline kit::Scratch* scratch_ = nullptr;
};

TEST_F(DatastoreProgram, NeighboursLowerTheLoss) {
  const double alone = loss({}), exact = loss({"--datastore", at("store")});
  EXPECT_LT(exact, alone);
  EXPECT_EQ(loss({"--datastore", at("store"), "--knn-weight", "0"}), alone);
  EXPECT_EQ(loss({"--datastore", at("store"), "--batch-tokens", "16"}), exact);
  EXPECT_EQ(loss({"--datastore", at("store"), "--knn-probes", "12"}), exact) << "all lists are the exact search";
  const Finished text =
      run_program({"generate", at("run"), "--datastore", at("store"), "--prompt", "the ", "--max-new-tokens", "8"});
  EXPECT_EQ(text.code, 0) << text.err;
  const Finished shown = run_program({"datastore", "show", at("store"), "--check", "--json"});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_EQ(parse_json(shown.out, "show")["lists"], 12);
}

TEST_F(DatastoreProgram, AGraphFindsTheSameNeighbours) {
  const Finished built = run_program({"datastore", "build", at("run"), "--out", at("graph"), "--index", "hnsw"});
  if (built.code == 2 && built.err.find("without hnswlib") != std::string::npos) GTEST_SKIP() << built.err;
  ASSERT_EQ(built.code, 0) << built.err;
  EXPECT_NE(built.err.find("of the 32 nearest keys"), std::string::npos) << built.err;
  const Finished shown = run_program({"datastore", "show", at("graph"), "--check", "--json"});
  EXPECT_EQ(shown.code, 0) << shown.err;
  const Json graph = parse_json(shown.out, "show")["hnsw"];
  EXPECT_EQ(graph["links"], 16);
  EXPECT_GT(graph["recall"].get<double>(), 0.8);
  const double exact = loss({"--datastore", at("graph")});
  EXPECT_NEAR(loss({"--datastore", at("graph"), "--knn-effort", "400"}), exact, 0.02 * exact);
  EXPECT_EQ(loss({"--datastore", at("graph"), "--knn-effort", "40"}),
            loss({"--datastore", at("graph"), "--knn-effort", "40", "--batch-tokens", "16"}));
  // The graph of another store.
  std::filesystem::create_directories(at("mixed"));
  std::filesystem::copy(at("store") + "/datastore.bin", at("mixed") + "/datastore.bin");
  expect_error({"eval", at("run"), "--datastore", at("mixed"), "--knn-effort", "40"}, 2, "--index hnsw");
  std::filesystem::copy(at("graph") + "/hnsw.bin", at("mixed") + "/hnsw.bin");
  expect_error({"eval", at("run"), "--datastore", at("mixed"), "--knn-effort", "40"}, 2, "another store");
  expect_error({"eval", at("run"), "--datastore", at("graph"), "--knn-effort", "4", "--knn-probes", "2"}, 2, "lists");
}

TEST_F(DatastoreProgram, StoresOfOthersAreRefused) {
  expect_error({"eval", at("wordy"), "--datastore", at("store")}, 2, "another tokenizer");
  ASSERT_EQ(run_program({"train", at("run.yaml"), "--set", "train.seed=2", "--out", at("seeded")}).code, 0);
  expect_error({"eval", at("seeded"), "--datastore", at("store")}, 2, "other weights");
  std::filesystem::create_directories(at("cut"));
  const std::string bytes = read_file(at("store") + "/datastore.bin");
  write_file(at("cut") + "/datastore.bin", std::string_view(bytes).substr(0, bytes.size() / 2));
  expect_error({"eval", at("run"), "--datastore", at("cut")}, 1, "cut short");
  // One bit of one key: found when it is read, by all who read it.
  std::string damaged = bytes;
  damaged[100] = char(damaged[100] ^ 1);
  std::filesystem::create_directories(at("bit"));
  write_file(at("bit") + "/datastore.bin", damaged);
  expect_error({"eval", at("run"), "--datastore", at("bit")}, 1, "is damaged (checksum of keys");
  expect_error({"generate", at("run"), "--datastore", at("bit"), "--prompt", "the "}, 1,
               "is damaged (checksum of keys");
  expect_error({"datastore", "show", at("bit"), "--check"}, 1, "is damaged (checksum of keys");
  expect_error({"eval", at("run"), "--datastore", at("nowhere")}, 2, "lithe datastore build");
  expect_error({"eval", at("run"), "--knn-k", "3"}, 2, "need --datastore");
  expect_error({"generate", at("run"), "--datastore", at("store"), "--draft", "lookup"}, 2, "leave out --draft");
}

}  // namespace
}  // namespace lithe

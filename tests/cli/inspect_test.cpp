// `lithe inspect` and `lithe plan --cost` as a person or a script meets them.
#include <gtest/gtest.h>

#include "lithe/base/error.h"
#include "lithe/base/json.h"
#include "lithe/text/code_tokenizer.h"
#include "lithe/text/word_neighbours.h"
#include "tests/support/program_test.h"

namespace lithe {
namespace {

using kit::Finished;
using kit::run_program;

class Inspect : public kit::ProgramTest {
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
  EXPECT_NE(f.out.find("mha: 15 tokens"), std::string::npos) << f.out;
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
  const Finished empirical = run_program(
      {"inspect", run("mha"), "--text", "abc", "--normalise", "empirical", "--json", "--out", page, "--overwrite"});
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
  expect_usage({"inspect", run("mha")}, "give --text or --file");
  expect_usage({"inspect", run("mha"), "--text", "a", "--layers", "3"},
               "there is no layer 3: they are numbered 1 to 2");
  expect_usage({"inspect", run("mha"), "--text", "a", "--heads", "0"}, "there is no head 0");
  expect_usage({"inspect", run("nothing"), "--text", "a"}, "does not exist");
}

TEST_F(Inspect, CountsHowHashesAreShared) {
  ASSERT_EQ(run_program({"train", *scratch_ / "mha.yaml", "--out", run("codes"), "--set",
                         "model.head={type: hash_codes, num_tables: 3, num_codes: 8}", "--set",
                         "model.embedding={type: byte_ngrams, group_sizes: [2], num_buckets: 50}", "--set",
                         "model.tie_word_embeddings=false"})
                .code,
            0);
  const std::string text = *scratch_ / "text.txt";
  const Finished f = run_program({"inspect", run("codes"), "--hashes", text, "--json"});
  ASSERT_EQ(f.code, 0) << f.err;
  const Json json = parse_json(f.out, "inspect --json"), tables = json["runs"][0]["tables"];
  ASSERT_EQ(tables.size(), 4u);
  EXPECT_EQ(tables[0]["part"], "embedding");
  EXPECT_EQ(tables[0]["rows"], 50);
  EXPECT_EQ(tables[3]["what"], "candidates, hash 3");
  EXPECT_EQ(tables[3]["distinct"], 257);
  expect_usage({"inspect", run("mha"), "--hashes", text}, "has no mixer engram");
  expect_usage({"inspect", run("codes"), "--hashes", text, "--text", "a"}, "leave one out");
  const auto loss = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"eval", run("codes"), text, "--json"});
    const Finished scored = run_program(more);
    return double(parse_json(scored.out, "eval --json")["loss"]);
  };
  EXPECT_NE(loss({}), loss({"--misspell", "0.5"}));
  EXPECT_EQ(loss({"--misspell", "0.5"}), loss({"--misspell", "0.5", "--misspell-seed", "1"}));
  expect_usage({"eval", run("codes"), "--misspell", "0.5"}, "name them");
}

// Runs whose tokens are hashes of words, by buckets and by bits.
class InspectWords : public Inspect {
 protected:
  static void SetUpTestSuite() {
    if (!kit::have_program()) return;
    Inspect::SetUpTestSuite();
    scratch_->add("few.txt", "The cat sat, the dog sat.\nA cat plays; it played.\n");
    const std::pair<const char*, const char*> kinds[] = {
        {"bucket", "{type: words, code: bucket, num_buckets: 3}, embedding: {type: hash_table, num_buckets: 3}"},
        {"bits", "{type: words, hash: lsh, bits: 420}, embedding: {type: proformer, bits: 420}"}};
    for (const auto& [name, parts] : kinds) {
      const std::string both = parts;
      const size_t at = both.find(", embedding: ");
      const std::string recipe = scratch_->add(
          cat(name, ".yaml"),
          cat("model: {architecture: encoder, hidden_size: 8, num_hidden_layers: 1, position: learned, mixer: {type: "
              "attention, num_attention_heads: 2}, ffn: {type: gelu, intermediate_size: 8}, head: tag, "
              "tie_word_embeddings: false",
              both.substr(at), "}\ndata: {files: [\"", *scratch_ / "few.txt",
              "\"], sequence_length: 8, tokenizer: ", both.substr(0, at), ", cache_directory: \"", *scratch_ / "cache",
              "\"}\ntrain: {objective: shuffle_random, max_steps: 1, batch_tokens: 16}\n"));
      const Finished f = run_program({"train", recipe, "--out", *scratch_ / name});
      ASSERT_EQ(f.code, 0) << f.err;
    }
  }
  static std::string text() { return *scratch_ / "few.txt"; }
};

TEST_F(InspectWords, CountsCollisionsAsTheTokenizerDoes) {
  const auto tokenizer = load_tokenizer(run("bucket"));
  const std::vector<std::string> words = distinct_words(*tokenizer, read_file(text()));
  ASSERT_EQ(words, (std::vector<std::string>{"the", "cat", "sat", ",", "dog", ".", "a", "plays", ";", "it", "played"}));
  const WordCollisions want = word_collisions(*tokenizer, words);
  ASSERT_GT(want.colliding, 0);
  const Finished f =
      run_program({"inspect", run("bucket"), "--words", text(), "--word", "The", "--nearest", "2", "--json"});
  ASSERT_EQ(f.code, 0) << f.err;
  const Json json = parse_json(f.out, "inspect --words --json")["runs"][0];
  EXPECT_EQ(json["words"], 11);
  EXPECT_EQ(json["code"], "bucket");
  EXPECT_EQ(json["codes"], want.codes);
  EXPECT_EQ(json["colliding_words"], want.colliding);
  EXPECT_EQ(json["colliding_pairs"], want.pairs);
  EXPECT_EQ(json["largest"], Json(want.largest));
  EXPECT_EQ(json["shared"], Json(want.shared));
  const auto mates = nearest_words(*tokenizer, "the", words, 2);
  ASSERT_EQ(json["nearest"][0]["words"].size(), mates.size());
  for (size_t i = 0; i < mates.size(); ++i) EXPECT_EQ(json["nearest"][0]["words"][i]["word"], mates[i].word);
  const Finished shown = run_program({"inspect", run("bucket"), "--words", text(), "--word", "the"});
  EXPECT_NE(shown.out.find(cat("11 words with ", want.codes, " buckets")), std::string::npos) << shown.out;
  EXPECT_NE(shown.out.find("in the bucket of 'the':"), std::string::npos) << shown.out;
  EXPECT_FALSE(std::filesystem::exists(run("bucket") + "/inspect.html"));
}

TEST_F(InspectWords, NeighboursByHammingDistanceAndRunsSideBySide) {
  const Finished f = run_program({"inspect", run("bits"), run("bucket"), "--words", text(), "--word", "plays", "--word",
                                  "cat", "--nearest", "3", "--json"});
  ASSERT_EQ(f.code, 0) << f.err;
  const Json json = parse_json(f.out, "inspect --words --json");
  ASSERT_EQ(json["runs"].size(), 2u);
  const Json& near = json["runs"][0]["nearest"];
  ASSERT_EQ(near.size(), 2u);
  ASSERT_EQ(near[0]["words"].size(), 3u);
  EXPECT_EQ(near[0]["words"][0]["word"], "played");
  const auto tokenizer = load_tokenizer(run("bits"));
  const auto want = nearest_words(*tokenizer, "plays", distinct_words(*tokenizer, read_file(text())), 3);
  for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(near[0]["words"][i]["distance"], want[i].distance);
}

TEST_F(InspectWords, SaysWhatIsWrong) {
  expect_usage({"inspect", run("mha"), "--words", text()}, "--words needs a tokenizer of type words");
  expect_usage({"inspect", run("bits"), "--words", text(), "--text", "a"}, "--text");
  expect_usage({"inspect", run("bits"), "--words", text(), "--layers", "1"}, "--layers");
  expect_usage({"inspect", run("bits"), "--word", "a"}, "--words");
  expect_usage({"inspect", run("bits"), "--words", text(), "--nearest", "3"}, "--word");
  expect_usage({"inspect", run("bits"), "--words", text(), "--word", "a", "--nearest", "0"}, "--nearest");
  expect_usage({"inspect", run("bits"), "--words", text(), "--word", "two words"},
               "'two words' must be one word to this tokenizer, but it is 2");
  expect_usage({"inspect", run("bits"), "--words", text(), "--word", " "}, "but it is 0");
  expect_usage({"inspect", run("nothing"), "--words", text()}, "is not a directory");
  expect_usage({"inspect", run("bits"), "--words", *scratch_ / "nothing.txt"}, "nothing.txt");
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
      EXPECT_EQ(part["cache_bytes"], 2 * 2 * 3 * 8 * 4 * 4);  // keys of two turned rows, and values
    }
  EXPECT_TRUE(found);
  expect_usage({"plan", recipe, "--batch", "2"}, "--batch, --length and --source-length belong to --cost");
  expect_usage({"plan", recipe, "--cost", "--memory-budget", "1GiB"}, "leave out --memory-budget");
}

}  // namespace
}  // namespace lithe

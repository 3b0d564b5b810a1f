// `lithe probe` as a person or a script meets it.
#include "lithe/base/json.h"
#include "tests/cli/run_kit.h"

namespace lithe::kit {
namespace {

class ProbeTest : public RunTest {
 protected:
  std::string bank() {
    std::string text;
    for (int i = 0; i < 8; ++i)
      text +=
          "1\tthe\tthe\tDET\tDT\t_\t2\tdet\t_\t_\n2\tcat\tcat\tNOUN\tNN\t_\t3\tnsubj\t_\t_\n3\tsat\tsit\tVERB\tVBD\t_"
          "\t0\troot\t_\t_\n\n";
    return scratch_->add("bank.conllu", text);
  }
};

TEST_F(ProbeTest, WritesAPageAndItsNumbersAndKeepsRows) {
  const std::string bank = this->bank(), page = *scratch_ / "probe.html";
  const Finished f = run_program(
      {"probe", *run_, "--task", "distance,pos,heads", "--train", bank, "--test", bank, "--seeds", "1", "--out", page});
  ASSERT_EQ(f.code, 0) << f.err;
  EXPECT_NE(f.out.find("pos, accuracy"), std::string::npos) << f.out;
  EXPECT_NE(read_file(page).find("What run knows"), std::string::npos);
  const Json json = parse_json(read_file(*scratch_ / "probe.json"), "probe.json");
  EXPECT_EQ(json["tasks"].size(), 2u);
  EXPECT_EQ(json["tasks"][1]["baselines"]["most frequent label of the word"]["accuracy"], 1.0);
  EXPECT_TRUE(std::filesystem::exists(*run_ + "/probe-rows"));
  EXPECT_EQ(json["random_models"], 3);
  for (const Json& curve : json["tasks"][0]["curves"])  // one seed, but three models with random weights
    EXPECT_EQ(curve["layers"][0]["uuas"]["values"].size(), curve["model"] == "trained" ? 1u : 3u);
  EXPECT_EQ(json["heads"]["best"][0]["random_weights"]["values"].size(), 3u);
  // Neither the page nor the numbers beside it are replaced unasked.
  expect_error({"probe", *run_, "--task", "pos", "--train", bank, "--test", bank, "--out", page}, 2,
               {"probe.html", "--overwrite"});
  std::filesystem::rename(page, *scratch_ / "elsewhere.html");
  expect_error({"probe", *run_, "--task", "pos", "--train", bank, "--test", bank, "--out", page}, 2,
               {"probe.json", "--overwrite"});
  // From the rows that were kept, the same numbers.
  const Finished again = run_program({"probe", *run_, "--task", "distance,pos,heads", "--train", bank, "--test", bank,
                                      "--seeds", "1", "--out", page, "--overwrite", "--json"});
  EXPECT_EQ(parse_json(again.out, "probe --json"), json) << again.err;
}

TEST_F(ProbeTest, CausalModelsRankAnswersOfFacts) {
  const std::string facts = scratch_->add("facts.jsonl",
                                          "{\"text\": \"the [MASK] sat\", \"answer\": \"cat\"}\n{\"text\": \"the cat "
                                          "[MASK]\", \"answer\": [\"sat\", \"ran\"]}\n");
  const Finished f =
      run_program({"probe", *run_, "--task", "cloze", "--facts", facts, "--out", *scratch_ / "cloze.html", "--json"});
  ASSERT_EQ(f.code, 0) << f.err;
  const Json json = parse_json(f.out, "probe --json");
  EXPECT_EQ(json["cloze"]["trained"]["facts"], 2);
  EXPECT_EQ(json["cloze"]["trained"]["candidates"], 3.0);
}

// A decoder that came from another program, and a directory as sentence-transformers writes it.
TEST_F(ProbeTest, ReadsImportedModels) {
  const std::string bank = this->bank();
  const auto probed = [&](const std::string& from, const std::string& name, const std::string& task) {
    const std::string run = *scratch_ / name;
    const Finished import = run_program({"import", from, "--out", run});
    ASSERT_EQ(import.code, 0) << import.err;
    const Finished f = run_program({"probe", run, "--task", task, "--train", bank, "--test", bank, "--seeds", "1",
                                    "--random-models", "2", "--json"});
    ASSERT_EQ(f.code, 0) << f.err;
    const Json json = parse_json(f.out, "probe --json");
    EXPECT_EQ(json["heads"]["best"][0]["random_weights"]["values"].size(), 2u);
    EXPECT_EQ(json["tasks"][0]["curves"][0]["layers"][0]["accuracy"]["mean"], 1.0);  // the words have one tag each
  };
  const std::string exported = exported_of(untrained_llama());
  probed(exported, "decoder", "pos,heads");
  const char* data = std::getenv("LITHE_DATA");
  const Path bert = Path(data ? data : "data") / "models/tiny-bert-random";
  if (!std::filesystem::exists(bert / "config.json")) GTEST_SKIP() << "LITHE_DATA has no models/tiny-bert-random";
  const Path sentences = Path(*scratch_ / "sentences");
  std::filesystem::copy(bert, sentences);
  std::filesystem::create_directory(sentences / "1_Pooling");
  write_file(sentences / "1_Pooling" / "config.json",
             "{\"word_embedding_dimension\": 32, \"pooling_mode_cls_token\": false, \"pooling_mode_mean_tokens\": "
             "true, \"pooling_mode_max_tokens\": false, \"pooling_mode_mean_sqrt_len_tokens\": false}");
  write_file(sentences / "modules.json",
             "[{\"idx\": 0, \"name\": \"0\", \"path\": \"\", \"type\": "
             "\"sentence_transformers.models.Transformer\"}, {\"idx\": 1, \"name\": \"1\", \"path\": "
             "\"1_Pooling\", \"type\": \"sentence_transformers.models.Pooling\"}]");
  probed(sentences.string(), "encoder", "pos,heads");
}

TEST_F(ProbeTest, RefusesWhatDoesNotFitInOneLine) {
  const std::string bank = this->bank(),
                    facts = scratch_->add("bad.jsonl", "{\"text\": \"no mask\", \"answer\": \"x\"}\n");
  expect_error({"probe", *run_, "--task", "poss", "--train", bank, "--test", bank}, 2, {"poss", "did you mean", "pos"});
  expect_error({"probe", *run_, "--task", "pos"}, 2, {"--train", "--test"});
  expect_error({"probe", *run_, "--task", "pos", "--train", bank, "--test", bank, "--rank", "4"}, 2,
               {"--rank", "distance and depth"});
  expect_error({"probe", *run_, "--task", "pos", "--train", bank, "--test", bank, "--pooling", "attention"}, 2,
               {"linear", "attention"});
  expect_error({"probe", *run_, "--task", "pos", "--train", bank, "--test", bank, "--layers", "7"}, 2, {"no layer 7"});
  expect_error({"probe", *run_, "--task", "label:feats", "--train", bank, "--test", bank}, 2,
               {"label:feats", "nothing to predict"});
  expect_error({"probe", *run_, "--task", "constituents", "--train", bank, "--test", bank}, 2,
               {"constituents", ".ptb"});
  expect_error({"probe", *run_, "--task", "cloze", "--facts", facts}, 1, {"bad.jsonl:1", "[MASK]"});
  expect_error({"probe", *run_, "--task", "cloze"}, 2, {"--facts"});
  expect_error({"probe", *run_, "--task", "pos", "--train", bank, "--test", bank, "--random-models", "0"}, 2,
               {"--random-models"});
}

}  // namespace
}  // namespace lithe::kit

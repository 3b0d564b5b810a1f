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
}

}  // namespace
}  // namespace lithe::kit

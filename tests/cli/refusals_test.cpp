// Nothing that was given is ignored, and nothing that stands on disk is lost by a command that means something else.
#include <gtest/gtest.h>

#include "lithe/base/json.h"
#include "tests/cli/run_kit.h"

namespace lithe {
namespace {

namespace fs = std::filesystem;
using kit::Finished;
using kit::run_program;

class Refusals : public kit::RunTest {};

TEST_F(Refusals, OptionsThatWouldHaveNoEffect) {
  const std::string out = *scratch_ / "new";
  const auto refused = [&](const std::vector<std::string>& arguments, const std::vector<std::string>& words) {
    expect_error(arguments, 2, words);
    EXPECT_FALSE(fs::exists(out)) << arguments[0];
  };
  refused({"quantize", *run_, "--out", out, "--weights", "int8", "--group-size", "32"}, {"--group-size", "int4"});
  refused({"generate", *run_, "--draft-tokens", "3"}, {"--draft-tokens requires --draft"});
  refused({"eval", *run_, "--tokenize", "none"}, {"--tokenize", "models that translate"});
  refused({"eval", *run_, "--bootstrap-samples", "4"}, {"--bootstrap-samples requires --baseline"});
  refused({"eval", *run_, "--misspell-seed", "3"}, {"--misspell-seed requires --misspell"});
  refused({"eval", "--task", "translation", "--hypotheses", "a", "--references", "b", "--stride", "4"},
          {"only files are scored"});
  refused({"grow", *run_, "--width", "2", "--zero-new-residual", "--out", out},
          {"--zero-new-residual is for --layers"});
  refused({"convert", *run_, "--set", "model.mixer.heads=mqa", "--tokens", "10", "--out", out},
          {"--tokens requires --text"});
  refused({"encode", *run_, "--out", out, "--measure", "euclidean"}, {"--measure is of --pairs and --nearest"});
  refused({"synth", "copy", "--keys", "5", "--out", out}, {"keys are of recall"});
  refused({"bench", *recipe_, "--tolerance", "0.1"}, {"--tolerance requires --against"});
  refused({"bench", *recipe_, "--only", "kernels"}, {"--only kernels measures no model"});
  refused({"man", "train", "--out", out}, {"subcommand excludes --out"});
  refused({"inspect", *run_, "--text", "a", "--file", "b"}, {"--text and --file both give the text"});
  refused({"finetune", *run_, "--tasks", "t.yaml", "--set", "train.seed=2", "--out", out},
          {"--set train.seed=2 has no effect", "--seeds"});
}

TEST_F(Refusals, ValuesOutOfTheirRangeAndOptionsGivenTwice) {
  expect_error({"eval", *run_, "--threads", "0"}, 2, {"--threads: must be from 1 to 1024, got 0"});
  expect_error({"train", *recipe_, "--out", "a", "--out", "b"}, 2, {"--out is given more than once; give it once"});
  expect_error({"inspect", *run_, "--text", "a", "--length", "100000"}, 2, {"--length: must be from 1 to 4096"});
  expect_error({"plan", *recipe_, "--set", "train.max_steps=1000000000000000000"}, 2,
               {"'train.max_steps' must be an integer of at most 16 digits"});
  expect_error({"plan", *recipe_, "--set", "train.max_step=3"}, 2,
               {"unknown key 'max_step'", "did you mean 'max_steps'"});
  expect_error({"plan", *recipe_, "--set", "model.mixer.type=attentoin"}, 2, {"--set model.mixer.type", "attention"});
  expect_error({"plan", scratch_->add("empty.yaml", "")}, 2, {"empty.yaml", "is empty"});
  expect_error({"plan", *recipe_, "--set", "data.files=*.txt"}, 2, {"must stand in quotes"});
  expect_error({"generate", *scratch_ / "nowhere"}, 2, {"nowhere' does not exist"});
  expect_error({"tokenize", *scratch_ / "nowhere", "--text", "a"}, 2, {"nowhere' does not exist"});
  expect_error({"tokenize", *run_, "--source", "--text", "a"}, 2, {"no tokenizer of its own for the source"});
  expect_error({"init", *recipe_, "--out", *run_}, 2, {"init: ", "already holds a run", "--overwrite"});
  const std::string file = scratch_->add("plain", "text");
  expect_error({"train", *recipe_, "--out", file + "/deeper"}, 2, {"plain' is a file; give a directory"});
}

// A corpus is not read for a model that cannot be built.
TEST_F(Refusals, WidthsThatDoNotFitBeforeTextsAreRead) {
  const std::string out = *scratch_ / "odd";
  for (const char* change : {"model.hidden_size=17", "model.mixer.num_attention_heads=3"}) {
    const Finished f = run_program({"train", *recipe_, "--out", out, "--set", change});
    EXPECT_EQ(f.code, 2) << f.err;
    EXPECT_EQ(f.err.find("text:"), std::string::npos) << f.err;
    EXPECT_FALSE(fs::exists(out));
  }
}

// What grow and convert make has no state that a training goes on from.
// What a recipe says is known to be wrong before anything is read.
TEST_F(Refusals, RecipesOfPicturesAndSounds) {
  const auto plan = [](const std::string& recipe, const std::string& set) {
    return std::vector<std::string>{"plan", recipe, "--no-speed", "--set", set};
  };
  expect_error(plan("recipes/speech/st_decoupled.yaml", "task.transcript=null"), 2,
               {"model.encoder has a compressor ctc_adapter", "set task.transcript"});
  expect_error(plan("recipes/speech/st_decoupled.yaml", "task.metrics=[las]"), 2, {"'las' is no metric of a task"});
  // Batches of pictures have no rest that is a text.
  std::vector<std::string> pictures = plan("recipes/vision/vit_b16.yaml", "train.batch_tokens=410");
  pictures.insert(pictures.end(), {"--set", "train.gradient_accumulation_steps=1"});
  EXPECT_EQ(run_program(pictures).code, 0);
}

TEST_F(Refusals, AResumeWithoutATrainingState) {
  const std::string grown = *scratch_ / "grown";
  ASSERT_EQ(run_program({"grow", *run_, "--layers", "2", "--out", grown}).code, 0);
  const std::string weights = read_file(grown + "/model.safetensors");
  expect_error({"train", grown + "/resolved_recipe.yaml", "--out", grown, "--resume"}, 2,
               {"holds a model without the training state", "from_pretrained: " + grown, "--overwrite"});
  EXPECT_TRUE(read_file(grown + "/model.safetensors") == weights);
  expect_error({"convert", *run_, "--set", "model.hidden_size=32", "--out", *scratch_ / "nothing-kept"}, 2,
               {"nothing of the model is left"});
  EXPECT_FALSE(fs::exists(*scratch_ / "nothing-kept"));
}

TEST_F(Refusals, ARunOfAnotherTokenizer) {
  const std::string run = copy_of_run("other-tokens"), file = run + "/tokenizer.json";
  Json json = parse_json(read_file(file), file);
  Json& vocabulary = json["model"]["vocab"];
  const auto first = vocabulary.begin();
  auto second = first;
  ++second;
  std::swap(first.value(), second.value());
  overwrite(file, json.dump());
  expect_error({"train", *recipe_, "--out", run, "--resume", "--set", "train.max_steps=9"}, 2,
               {"the data or the run's tokenizer are not those this run began with"});
}

TEST_F(Refusals, ExistingDataAndStores) {
  const std::string data = *scratch_ / "data", store = *scratch_ / "store";
  const std::vector<std::string> synth = {"synth",   "copy", "--length", "8", "--items", "2",
                                          "--train", "4",    "--test",   "2", "--out",   data};
  ASSERT_EQ(run_program(synth).code, 0);
  expect_error(synth, 2, {"exists; give --out a new directory"});
  std::vector<std::string> again = synth;
  again.push_back("--overwrite");
  EXPECT_EQ(run_program(again).code, 0);
  again[11] = copy_of_run("not-synthetic");
  expect_error(again, 2, {"is no file of synth"});
  EXPECT_TRUE(fs::exists(*scratch_ / "not-synthetic/model.safetensors"));
  expect_error({"synth", "recall", "--length", "1000000000000", "--out", *scratch_ / "huge"}, 2,
               {"length must be at most"});
  const std::vector<std::string> build = {"datastore", "build", *run_, "--out", store, "--json"};
  const Finished f = run_program(build);
  ASSERT_EQ(f.code, 0) << f.err;
  EXPECT_GT(parse_json(f.out, "json")["entries"].get<int64_t>(), 0);
  expect_error(build, 2, {"exists; give --out a new directory"});
}

// Logs that are damaged cost their history, not the run.
TEST_F(Refusals, LogsThatAreShortOrGoneAreBegunAgain) {
  const std::string run = copy_of_run("short-logs");
  overwrite(run + "/metrics.jsonl", "{}\n");
  fs::remove(run + "/speed.jsonl");
  overwrite(run + "/result.json", "{\"status\":");
  const Finished f = run_program({"eval", run});
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_NE(f.err.find("the step of the weights is not known"), std::string::npos) << f.err;
  const Finished more = run_program({"train", *recipe_, "--out", run, "--resume", "--set", "train.max_steps=8"});
  EXPECT_EQ(more.code, 0) << more.err;
  EXPECT_NE(more.err.find("metrics.jsonl begins again after step 6"), std::string::npos) << more.err;
  EXPECT_NE(more.err.find("speed.jsonl' is gone"), std::string::npos) << more.err;
  EXPECT_EQ(read_file(run + "/metrics.jsonl.damaged"), "{}\n");
}

// What eval measured of the weights before is not the new run's.
TEST_F(Refusals, OverwriteForgetsWhatEvalMeasured) {
  const std::string run = copy_of_run("measured");
  ASSERT_EQ(run_program({"eval", run, "--by-position"}).code, 0);
  ASSERT_TRUE(fs::exists(run + "/loss_by_position.json"));
  ASSERT_EQ(run_program({"train", *recipe_, "--out", run, "--overwrite"}).code, 0);
  EXPECT_FALSE(fs::exists(run + "/loss_by_position.json"));
}

// plan makes a tokenizer that learns nothing: what it lacks is not the user's.
TEST_F(Refusals, PlanDoesNotWarnOfItsOwnTokenizer) {
  const Finished f = run_program(
      {"plan", *recipe_, "--no-speed", "--set", "data.tokenizer.type=bpe", "--set", "data.tokenizer.vocab_size=300"});
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_EQ(f.err, "");
}

TEST_F(Refusals, ARefusedComparisonLeavesItsDirectoryAsItWas) {
  const auto experiment = [&](const char* steps) {
    return scratch_->add(cat("steps-", steps, ".yaml"),
                         cat("recipe: recipe.yaml\nbaseline: a\nset: {train.max_steps: ", steps,
                             "}\nvariants: {a: {}, b: {model.ffn.intermediate_size: 24}}\nseeds: [1]\nmeasure: "
                             "{repeats: 0}\nbudget: {match: tokens}\n"));
  };
  const std::string out = *scratch_ / "compared", first = experiment("2");
  ASSERT_EQ(run_program({"compare", first, "--out", out}).code, 0);
  const std::string kept = read_file(out + "/experiment.yaml");
  expect_error({"compare", experiment("4"), "--out", out}, 2, {"train.max_steps was 2 and is now 4"});
  EXPECT_EQ(read_file(out + "/experiment.yaml"), kept);
}

}  // namespace
}  // namespace lithe

// Low-rank adapters as a person meets them: trained, then beside the weights that they were trained for.
#include <filesystem>

#include "tests/cli/run_kit.h"

namespace lithe {
namespace {

class AdapterOptions : public kit::RunTest {
 protected:
  // Over the integers of `few`: the base is no part of a checkpoint, a resume gives the same bits, and the adapter
  // beside the integers, or beside what they were made from, is the model that learned.
  void train_over_integers(const std::string& recipe, const std::string& few) {
    namespace fs = std::filesystem;
    const std::string whole = *scratch_ / "over", again = *scratch_ / "over-again";
    const auto train = [&](const std::string& out, std::vector<std::string> more = {}) {
      more.insert(more.begin(), {"train", recipe, "--out", out, "--set", "from_pretrained=" + few, "--set",
                                 "train.save_steps=10", "--set", "train.save_total_limit=9"});
      return more;
    };
    const kit::Finished first = kit::run_program(train(whole));
    ASSERT_EQ(first.code, 0) << first.err;
    const Path last = Path(whole) / "training_state" / "step-00000030" / "model.safetensors";
    EXPECT_LT(fs::file_size(last), fs::file_size(Path(few) / "model.safetensors"));
    fs::copy(whole, again, fs::copy_options::recursive);
    fs::remove_all(Path(again) / "training_state" / "step-00000030");
    ASSERT_EQ(kit::run_program(train(again, {"--resume"})).code, 0);
    for (const char* file : {"model.safetensors", "adapter/adapter_model.safetensors"})
      EXPECT_TRUE(read_file(Path(again) / file) == read_file(Path(whole) / file)) << file;
    for (const std::string& base : {few, *run_})
      EXPECT_EQ(kit::run_program(
                    {"generate", base, "--adapter", whole + "/adapter", "--prompt", "a", "--max-new-tokens", "2"})
                    .code,
                0);
    const auto set = [&](const std::string& key) {
      std::vector<std::string> more = train(*scratch_ / "none", {"--set", key});
      return more;
    };
    expect_error(set("train.adapters.type=dora"), 2, {"holds integer weights", "dora", "lora or rslora"});
    expect_error(set("train.adapters.type=lara"), 2, {"train.adapters.type", "lara", "did you mean 'lora'"});
    expect_error(set("train.adapters.type=none"), 2, {"holds integer weights", "train adapters over them"});

    expect_error(set("train.precision=f64"), 2, {"no products in f64"});
    expect_error(set("train.adapters.also=[layers.0.mixer.heads.q.weight]"), 2, {"also", "integer weights"});
    expect_error(set("from_layers=[1]"), 2, {"from_layers takes numbers"});
    // Another file under the same name.
    fs::remove_all(Path(again) / "training_state" / "step-00000030");
    fs::rename(few, few + "-away");
    expect_error(train(again, {"--resume"}), 2, {few});
    ASSERT_EQ(kit::run_program({"quantize", *run_, "--weights", "int8", "--keep", "*.q.*", "--out", few}).code, 0);
    expect_error(train(again, {"--resume"}), 2, {"is not the file of integer weights", "checksum"});
    fs::remove_all(few);
    fs::rename(few + "-away", few);
  }
};

TEST_F(AdapterOptions, TheAdapterBesideTheWeightsIsTheMergedModel) {
  const std::string recipe = scratch_->add(
      "adapt.yaml", cat("from_pretrained: \"", *run_, "\"\ndata: {files: [\"", *scratch_ / "text.txt",
                        "\"], sequence_length: 16, cache_directory: \"", *scratch_ / "cache",
                        "\"}\ntrain: {max_steps: 30, batch_tokens: 64, learning_rate: 0.1, adapters: {type: rslora, "
                        "rank: 4, alpha: 64, targets: ['*.mixer.heads.*.weight', '*.ffn.*.weight']}}\n"));
  const std::string adapted = *scratch_ / "adapted", adapter = adapted + "/adapter";
  ASSERT_EQ(kit::run_program({"train", recipe, "--out", adapted}).code, 0);
  const auto said = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--prompt", "the", "--max-new-tokens", "12", "--seed", "3"});
    const kit::Finished f = kit::run_program(arguments);
    EXPECT_EQ(f.code, 0) << f.err;
    return f.out;
  };
  const std::string merged = said({"generate", adapted});
  EXPECT_NE(said({"generate", *run_}), merged);
  EXPECT_EQ(said({"generate", *run_, "--adapter", adapter}), merged);
  // Integers stay integers: the text is that of the model that they stand for, with the adapter.
  const std::string few = *scratch_ / "few";
  ASSERT_EQ(kit::run_program({"quantize", *run_, "--weights", "int8", "--out", few}).code, 0);
  EXPECT_NE(said({"generate", few, "--adapter", adapter}), said({"generate", few}));

  train_over_integers(recipe, few);

  // Weights of the same shape are another base.
  const std::string other = *scratch_ / "other";
  ASSERT_EQ(kit::run_program({"init", *recipe_, "--out", other}).code, 0);
  expect_error({"generate", other, "--adapter", adapter, "--prompt", "a"}, 2, {"was trained for weights", "checksum"});
  expect_error({"train", *recipe_, "--out", *scratch_ / "x", "--set", "train.adapters={type: lora, rank: 2}"}, 2,
               {"train.adapters freezes", "from_pretrained"});
  expect_error({"train", recipe, "--out", *scratch_ / "x", "--set", "train.adapters={rank: 2}"}, 2,
               {"train.adapters has no type"});
  expect_error({"plan", *recipe_, "--set", "train.adapters={type: lora, rank: 2}"}, 2, {"train.adapters freezes"});

  expect_error({"generate", *run_, "--adapter", *run_, "--prompt", "a"}, 2, {"has no adapter_config.json"});
  const auto refused = [&](const std::vector<std::string>& more, const std::vector<std::string>& words) {
    std::vector<std::string> arguments{"serve", *run_, "--port", "0"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    expect_error(arguments, 2, words);
  };
  refused({"--adapter", adapter}, {"must be NAME=DIRECTORY"});
  refused({"--adapter", "run=" + adapter}, {"needs a name that no run and no other adapter has"});
  refused({"--adapter", "a=" + adapter, "--adapter", "a=" + adapter}, {"needs a name"});
  refused({"--adapter", "other:a=" + adapter}, {"is of run 'other', which is not served"});
  refused({few, "--adapter", "a=" + adapter}, {"must say of which run it is"});
}

}  // namespace
}  // namespace lithe

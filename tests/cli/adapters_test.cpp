// Low-rank adapters as a person meets them: trained, then beside the weights that they were trained for.
#include "tests/cli/run_kit.h"

namespace lithe {
namespace {

class AdapterOptions : public kit::RunTest {};

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

  // Weights of the same shape are another base.
  const std::string other = *scratch_ / "other";
  ASSERT_EQ(kit::run_program({"init", *recipe_, "--out", other}).code, 0);
  expect_error({"generate", other, "--adapter", adapter, "--prompt", "a"}, 2, {"was trained for weights", "checksum"});
  expect_error({"train", *recipe_, "--out", *scratch_ / "x", "--set", "train.adapters={type: lora, rank: 2}"}, 2,
               {"train.adapters freezes", "from_pretrained"});
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

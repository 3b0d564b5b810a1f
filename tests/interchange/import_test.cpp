// Models of the Hugging Face format: what transformers computes of them (tools/oracles/make_transformers_golden.py),
// and what is refused.
#include "lithe/interchange/import.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "lithe/eval/sentence_rows.h"
#include "lithe/interchange/export.h"
#include "lithe/interchange/weights.h"
#include "lithe/model/safetensors.h"
#include "lithe/recipe/recipe.h"
#include "lithe/text/framing.h"
#include "tests/interchange/golden_kit.h"
#include "tests/support/errors.h"
#include "tests/support/process.h"

namespace lithe {
namespace {

using kit::TransformersGolden;

// f32 on both sides: sums of up to 40 products in two or three layers.
constexpr double kTolerance = 1e-5;

class Transformers : public testing::TestWithParam<Path> {};

TEST_P(Transformers, ImportedModelsComputeWhatTransformersDoes) {
  const TransformersGolden golden(GetParam());
  kit::Scratch scratch;
  golden.write(scratch / "model");
  const ImportReport report = golden.import_to(scratch / "model", scratch / "run");
  EXPECT_EQ(report.model_type, std::string(golden.json["config"]["model_type"]));
  EXPECT_EQ(report.dtype, "f32");
  const LoadedModel loaded = load_model(scratch / "run", "", "f32");
  EXPECT_LE(kit::relative_difference(golden.of(*loaded.model), golden.expected()), kTolerance);
  if (!golden.json.contains("greedy")) return;
  EXPECT_EQ(golden.greedy(*loaded.model, 8), golden.json["greedy"].get<std::vector<int64_t>>());
  // In f64 what is left is the reference's own rounding.
  const LoadedModel exact = load_model(scratch / "run", "", "f64");
  EXPECT_LE(kit::relative_difference(golden.of(*exact.model), golden.expected()), kTolerance);
}

INSTANTIATE_TEST_SUITE_P(, Transformers, testing::ValuesIn(kit::transformers_goldens()),
                         [](const auto& info) { return info.param.stem().string(); });

// The same models, loaded and saved by version 5 of transformers, which says much in another way.
class Transformers5 : public testing::TestWithParam<std::string> {};

TEST_P(Transformers5, ModelsSavedAgainAreTheSame) {
  const TransformersGolden before("tests/golden/transformers/" + GetParam() + ".json"),
      after = kit::in_version_5(GetParam());
  kit::Scratch scratch;
  before.write(scratch / "before"), after.write(scratch / "after");
  before.import_to(scratch / "before", scratch / "was"), after.import_to(scratch / "after", scratch / "is");
  for (const char* file : {"config.json", "model.safetensors"})
    EXPECT_EQ(read_file(Path(scratch / "was") / file), read_file(Path(scratch / "is") / file)) << file;
}

INSTANTIATE_TEST_SUITE_P(, Transformers5, testing::ValuesIn(kit::saved_again()),
                         [](const auto& info) { return info.param; });

// What a golden model computes when its config.json has these keys, too.
double difference_with(const char* name, const Json& keys) {
  TransformersGolden golden(cat("tests/golden/transformers/", name, ".json"));
  for (const auto& [key, value] : keys.items()) golden.json["config"][key] = value;
  kit::Scratch scratch;
  golden.write(scratch / "model");
  golden.import_to(scratch / "model", scratch / "run");
  return kit::relative_difference(golden.of(*load_model(scratch / "run", "", "f32").model), golden.expected());
}

TEST(Import, KeysThatTransformersDoesNotReadChangeNothing) {
  EXPECT_LE(difference_with("llama2", {{"sliding_window", 3}}), kTolerance);
  EXPECT_LE(difference_with("llama2", {{"partial_rotary_factor", 0.5}}), kTolerance);
  EXPECT_LE(difference_with("olmo2", {{"sliding_window", 3}}), kTolerance);
  EXPECT_GT(difference_with("mistral", {{"sliding_window", 3}}), 1e-3);
  EXPECT_GT(difference_with("phi", {{"partial_rotary_factor", 1.0}}), 1e-3);
  // Gemma's first files say gelu and mean its approximation; null is no other name.
  EXPECT_LE(difference_with("gemma", {{"hidden_act", "gelu"}, {"hidden_activation", nullptr}}), kTolerance);
  EXPECT_LE(difference_with("gemma2", {{"hidden_act", "gelu"}}), kTolerance);
  EXPECT_GT(difference_with("gemma2", {{"hidden_activation", "gelu"}}), kTolerance);
}

TEST(Import, ShardsByIndexAreTheSameModel) {
  const TransformersGolden golden("tests/golden/transformers/qwen3.json");
  kit::Scratch scratch;
  golden.write(scratch / "model");
  import_model({scratch / "model", scratch / "whole", {}});
  const auto tensors = golden.tensors();
  std::filesystem::remove(Path(scratch / "model") / "model.safetensors");
  std::map<std::string, Tensor> half[2];
  Json map;
  size_t i = 0;
  for (const auto& [name, tensor] : tensors) {
    half[i % 2][name] = tensor;
    map[name] = cat("model-0000", i % 2 + 1, "-of-00002.safetensors");
    ++i;
  }
  for (int part : {0, 1})
    write_safetensors(Path(scratch / "model") / cat("model-0000", part + 1, "-of-00002.safetensors"), half[part], {});
  write_file(Path(scratch / "model") / "model.safetensors.index.json",
             Json({{"metadata", Json::object()}, {"weight_map", map}}).dump());
  import_model({scratch / "model", scratch / "shards", {}});
  EXPECT_EQ(read_file(Path(scratch / "whole") / "model.safetensors"),
            read_file(Path(scratch / "shards") / "model.safetensors"));
}

TEST(Import, HalfPrecisionAndBfloat16AreRead) {
  const TransformersGolden golden("tests/golden/transformers/llama2.json");
  kit::Scratch scratch;
  golden.write(scratch / "model");
  std::map<std::string, Tensor> rounded;
  for (const auto& [name, tensor] : golden.tensors()) rounded[name] = convert(tensor, DType::bf16);
  write_safetensors(Path(scratch / "model") / "model.safetensors", rounded, {});
  EXPECT_EQ(import_model({scratch / "model", scratch / "run", {}}).dtype, "bf16");
  const SafetensorsFile run(Path(scratch / "run") / "model.safetensors");
  EXPECT_EQ(run.entries().at("final_norm.weight").dtype, DType::bf16);
  const LoadedModel loaded = load_model(scratch / "run", "", "f32");
  EXPECT_LE(kit::relative_difference(golden.of(*loaded.model), golden.expected()), 0.05);
}

TEST(Import, ChatTemplatesAreKeptForExportAndSaidNotToBeApplied) {
  const TransformersGolden golden("tests/golden/transformers/llama2.json");
  kit::Scratch scratch;
  golden.write(scratch / "model");
  EXPECT_TRUE(import_model({scratch / "model", scratch / "plain", {}}).notes.empty());
  const std::string text = "{{ bos_token }}{% for m in messages %}{{ m['content'] }}{% endfor %}";
  const Path settings = Path(scratch / "model") / "tokenizer_config.json", file = "chat_template.jinja";
  Json config = std::filesystem::exists(settings) ? parse_json(read_file(settings), "tokenizer_config.json") : Json();
  config["chat_template"] = {{{"name", "default"}, {"template", text}}, {{"name", "tool_use"}, {"template", "tools"}}};
  write_file(settings, config.dump());
  const ImportReport report = import_model({scratch / "model", scratch / "run", {}});
  ASSERT_EQ(report.notes.size(), 1u);
  EXPECT_NE(report.notes[0].find("whole prompt"), std::string::npos);
  export_model({scratch / "run", scratch / "back", {}});
  EXPECT_EQ(read_file(Path(scratch / "back") / file), text);
  EXPECT_EQ(read_file(Path(scratch / "back") / "additional_chat_templates" / "tool_use.jinja"), "tools");
  // As files, which come before what tokenizer_config.json says.
  write_file(Path(scratch / "model") / file, "newer");
  import_model({scratch / "model", scratch / "again", {}});
  EXPECT_EQ(read_file(Path(scratch / "again") / file), "newer");
}

// Each of these is one line that names the file and what is wrong, and leaves no directory behind.
struct Refusals : testing::Test {
  Refusals() : golden("tests/golden/transformers/llama2.json") { golden.write(model()); }
  TransformersGolden golden;
  kit::Scratch scratch;
  Path model() const { return scratch / "model"; }
  void config(const std::string& key, const Json& value) {
    Json changed = golden.json["config"];
    changed[key] = value;
    write_file(model() / "config.json", changed.dump());
  }
  void weights(const std::function<void(std::map<std::string, Tensor>&)>& change) {
    auto tensors = golden.tensors();
    change(tensors);
    write_safetensors(model() / "model.safetensors", tensors, {});
  }
  void expect(const std::vector<std::string>& words) {
    const std::string error = kit::error_of([&] { import_model({model(), scratch / "run", {}}); });
    for (const std::string& word : words) EXPECT_NE(error.find(word), std::string::npos) << word << " in: " << error;
    EXPECT_EQ(error.find('\n'), std::string::npos);
    EXPECT_FALSE(std::filesystem::exists(scratch / "run"));
  }
};

TEST_F(Refusals, UnknownKeysAndValues) {
  config("sparse_attention", true);
  expect({"config.json", "key sparse_attention is unknown"});
  config("model_type", "mamba");
  expect({"model_type 'mamba'", "llama", "gpt2"});
  config("hidden_act", "relu6");
  expect({"hidden_act is \"relu6\"", "silu"});
  config("rope_scaling", {{"rope_type", "ntk"}, {"factor", 2.0}});
  expect({"rope_type is \"ntk\"", "linear, llama3, yarn, longrope, dynamic"});
  config("rope_scaling", {{"rope_type", "longrope"}, {"factor", 2.0}});
  expect({"must have a list short_factor"});
  config("rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}, {"short_factor", 1}});
  expect({"rope_scaling", "short_factor is unknown"});
  config("quantization_config", {{"bits", 4}});
  expect({"quantization_config is an object", "only models without it"});
  config("hidden_size", 24.5);
  expect({"hidden_size must be a whole number, got 24.5"});
  config("hidden_size", "24");
  expect({"hidden_size must be a number, got \"24\""});
  config("attention_bias", "yes");
  expect({"attention_bias must be true or false"});
  Json without = golden.json["config"];
  without.erase("hidden_size");
  write_file(model() / "config.json", without.dump());
  expect({"has no hidden_size"});
}

TEST_F(Refusals, TensorsThatDoNotFit) {
  weights([](auto& t) { t.erase("model.layers.1.mlp.up_proj.weight"); });
  expect({"has no tensor 'model.layers.1.mlp.up_proj.weight'"});
  weights([](auto& t) { t["model.layers.0.mlp.up_proj.weight"] = zeros({24, 40}, DType::f32); });
  expect({"'model.layers.0.mlp.up_proj.weight' is [24,40], config.json calls for [40,24]"});
  weights([](auto& t) { t["model.norm.weight"] = zeros({24}, DType::i32); });
  expect({"'model.norm.weight' is of type i32, a weight must be of a floating type"});
  weights([](auto& t) { t["model.layers.0.router.weight"] = zeros({4, 24}, DType::f32); });
  expect({"has 1 tensor without a place in this model, 'model.layers.0.router.weight'"});
}

TEST_F(Refusals, PipesAreNoShards) {
  std::filesystem::remove(model() / "model.safetensors");
  ASSERT_EQ(::mkfifo((model() / "model.safetensors").c_str(), 0600), 0);
  expect({"model.safetensors' is no file"});
}

TEST_F(Refusals, FilesThatAreDamaged) {
  const std::string whole = read_file(model() / "model.safetensors");
  write_file(model() / "model.safetensors", whole.substr(0, whole.size() - 100));
  expect({"model.safetensors", "lies at bytes"});
  write_file(model() / "model.safetensors", whole.substr(0, 50));
  expect({"model.safetensors", "header would have"});
  std::filesystem::remove(model() / "model.safetensors");
  expect({"has no model.safetensors and no model.safetensors.index.json"});
  const auto index = [&](const Json& map) {
    write_file(model() / "model.safetensors.index.json", Json({{"weight_map", map}}).dump());
  };
  index({{"model.norm.weight", "model-00001-of-00002.safetensors"}});
  expect({"lists the shard 'model-00001-of-00002.safetensors', which is missing"});
  for (const char* outside : {"../model.safetensors", "/etc/passwd", "..", "a/b.safetensors"}) {
    index({{"model.norm.weight", outside}});
    expect({"'model.norm.weight' points to '", outside, "which is not the name of a file in its directory"});
  }
  write_file(model() / "shard.safetensors", whole);
  index({{"model.norm.weight", "shard.safetensors"}});
  expect({"does not list tensor", "'shard.safetensors'"});
  index({{"model.other.weight", "shard.safetensors"}});
  expect({"'model.other.weight' is not in 'shard.safetensors'"});
  write_file(model() / "model.safetensors.index.json", "{\"weight_map\": 3}");
  expect({"must have an object weight_map"});
}

TEST_F(Refusals, DirectoriesThatLackFiles) {
  std::filesystem::remove(model() / "tokenizer.json");
  expect({"has no tokenizer.json"});
  std::filesystem::remove(model() / "config.json");
  expect({"config.json' does not exist"});
  EXPECT_NE(kit::error_of([&] {
              import_model({scratch / "nowhere", scratch / "run", {}});
            }).find("does not exist"),
            std::string::npos);
  std::filesystem::create_directory(scratch / "used");
  write_file(Path(scratch / "used") / "file", "x");
  EXPECT_NE(kit::error_of([&] {
              import_model({model(), scratch / "used", {}});
            }).find("give --out a new directory"),
            std::string::npos);
}

TEST_F(Refusals, GenerationSettingsAreReadOrRefused) {
  write_file(
      model() / "generation_config.json",
      R"({"do_sample": true, "temperature": 0.6, "top_p": 0.9, "eos_token_id": [256, 65], "bos_token_id": 256})");
  import_model({model(), scratch / "run", {}});
  const std::string recipe = read_file(Path(scratch / "run") / "resolved_recipe.yaml");
  for (const char* line : {"temperature: 0.6", "top_p: 0.9", "top_k: 50", "do_sample: true", "add_bos_token: false"})
    EXPECT_NE(recipe.find(line), std::string::npos) << line;
  std::filesystem::remove_all(scratch / "run");
  // What changes no token, and what is not known: the latter is said.
  write_file(model() / "generation_config.json",
             R"({"_from_model_config": true, "output_attentions": false, "use_cache": true, "cfg_rescale": 0.7})");
  const ImportReport report = import_model({model(), scratch / "run", {}});
  ASSERT_EQ(report.notes.size(), 1u);
  EXPECT_NE(report.notes[0].find("cfg_rescale is not applied"), std::string::npos);
  std::filesystem::remove_all(scratch / "run");
  write_file(model() / "generation_config.json", R"({"num_beams": 4})");
  expect({"generation_config.json", "num_beams is 4"});
  write_file(model() / "generation_config.json", R"({"eos_token_id": 1000})");
  expect({"eos_token_id 1000 is not among the tokenizer's 257 entries"});
}

TEST(Import, SentenceModulesGivePoolingAndNormalisation) {
  const TransformersGolden golden("tests/golden/transformers/bert.json");
  kit::Scratch scratch;
  const Path model = scratch / "model";
  golden.write(model);
  std::filesystem::create_directory(model / "1_Pooling");
  write_file(model / "1_Pooling/config.json",
             R"({"word_embedding_dimension": 24, "pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false})");
  const auto modules = [&](const std::string& last) {
    write_file(model / "modules.json",
               R"([{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
                   {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
                   {"idx": 2, "name": "2", "path": "2", "type": "sentence_transformers.models.)" +
                   last + "\"}]");
  };
  modules("Normalize");
  write_file(model / "sentence_bert_config.json", R"({"max_seq_length": 20, "do_lower_case": false})");
  const ImportReport report = import_model({model, scratch / "run", {}});
  EXPECT_EQ(report.dropped.size(), 2u);  // the pooler, which sentence-transformers does not use either
  const std::string recipe = read_file(Path(scratch / "run") / "resolved_recipe.yaml");
  for (const char* line : {"pooling: cls", "normalize: true", "sequence_length: 20"})
    EXPECT_NE(recipe.find(line), std::string::npos) << line;
  // Names and keys of version 6, whose longest text is the tokenizer's.
  std::filesystem::remove(model / "sentence_bert_config.json");
  write_file(model / "1_Pooling/config.json",
             R"({"embedding_dimension": 24, "pooling_mode": "lasttoken", "include_prompt": true})");
  write_file(model / "sentence_bert_config.json",
             R"({"transformer_task": "feature-extraction", "module_output_name": "token_embeddings", "modality_config":
                 {"text": {"method": "forward", "method_output_name": "last_hidden_state"}}})");
  Json settings = parse_json(read_file(model / "tokenizer_config.json"), "tokenizer_config.json");
  settings["model_max_length"] = 30;
  write_file(model / "tokenizer_config.json", settings.dump());
  import_model({model, scratch / "six", {}});
  const std::string six = read_file(Path(scratch / "six") / "resolved_recipe.yaml");
  for (const char* line : {"pooling: last", "normalize: true", "sequence_length: 30"})
    EXPECT_NE(six.find(line), std::string::npos) << line;
  // And written again.
  export_model({scratch / "six", scratch / "written", {}});
  const std::string written = read_file(Path(scratch / "written") / "tokenizer_config.json");
  EXPECT_NE(written.find("pad_token"), std::string::npos);  // without which no batch can be made there
  std::filesystem::remove(Path(scratch / "written") / "tokenizer_config.json");
  import_model({scratch / "written", scratch / "back", {}});
  const Recipe before = recipe_of_run(scratch / "six"), after = recipe_of_run(scratch / "back");
  EXPECT_EQ(after.encode.pooling, before.encode.pooling);
  EXPECT_EQ(after.encode.normalize, before.encode.normalize);
  EXPECT_EQ(after.data.sequence_length, before.data.sequence_length);
  modules("Dense");
  EXPECT_NE(kit::error_of([&] {
              import_model({model, scratch / "other", {}});
            }).find("models.Dense is not supported"),
            std::string::npos);
}

// oracle: infer.el_rewrite
TEST(Import, ImportedModelsRunWithRewrittenHeads) {
  const TransformersGolden golden("tests/golden/transformers/gpt2.json");
  kit::Scratch scratch;
  golden.write(scratch / "model");
  import_model({scratch / "model", scratch / "run", {}});
  const LoadedModel loaded = load_model(scratch / "run", "", "f32", true);
  EXPECT_LE(kit::relative_difference(golden.of(*loaded.model), golden.expected()), kTolerance);
  EXPECT_EQ(golden.greedy(*loaded.model, 8), golden.json["greedy"].get<std::vector<int64_t>>());
  const LoadedModel plain = load_model(scratch / "run", "", "f32");
  EXPECT_EQ(2 * loaded.model->state_bytes({10}), plain.model->state_bytes({10}));
  // A norm of keys stands between them and the rows.
  const TransformersGolden normed("tests/golden/transformers/qwen3.json");
  normed.write(scratch / "normed");
  import_model({scratch / "normed", scratch / "qwen", {}});
  EXPECT_THROW(load_model(scratch / "qwen", "", "f32", true), Error);
}

// oracle: app.text_encode
TEST(Import, ImportedEncodersMakeTheRowsOfTheirTexts) {
  const TransformersGolden golden("tests/golden/transformers/bert.json");
  kit::Scratch scratch;
  golden.write(scratch / "model");
  import_model({scratch / "model", scratch / "run", {}});
  const LoadedModel loaded = load_model(scratch / "run", "", "f32");
  const std::vector<std::string> texts{"one", "and another text"};
  const Tensor both = sentence_rows(*loaded.model, *loaded.tokenizer, texts, "mean", 32);
  for (size_t i = 0; i < texts.size(); ++i) {
    // The mean of the last rows of the framed text, by hand.
    const std::vector<int32_t> ids = frame(*loaded.tokenizer, loaded.tokenizer->encode(texts[i]), {}, false, 32).tokens;
    const NoGrad no_grad;
    const Tensor rows = kit::forward(*loaded.model, tensor_of({int64_t(ids.size())}, std::span<const int32_t>(ids)),
                                     Sequences::single(int64_t(ids.size())))
                            .value();
    for (int64_t c = 0; c < rows.cols(); ++c) {
      double sum = 0;
      for (int64_t n = 0; n < rows.rows(); ++n) sum += value_at(rows, n * rows.cols() + c);
      EXPECT_NEAR(value_at(both, int64_t(i) * rows.cols() + c), sum / double(rows.rows()), 1e-5);
    }
  }
}

TEST(Import, PatternsMatchWithStars) {
  EXPECT_TRUE(matches("h.0.attn.bias", "*.attn.bias"));
  EXPECT_TRUE(matches("pooler.dense.weight", "pooler.dense.*"));
  EXPECT_TRUE(matches("abc", "*"));
  EXPECT_FALSE(matches("h.0.attn.bias2", "*.attn.bias"));
  EXPECT_FALSE(matches("attn.bias", "*.attn.bias"));
}

}  // namespace
}  // namespace lithe

// Models written in the Hugging Face format, and read again.
#include "lithe/interchange/export.h"

#include <gtest/gtest.h>

#include "lithe/interchange/export_parts.h"
#include "lithe/interchange/import.h"
#include "lithe/interchange/import_parts.h"
#include "lithe/interchange/same_model.h"
#include "lithe/model/safetensors.h"
#include "lithe/recipe/recipe.h"
#include "lithe/text/tokenizer_json.h"
#include "tests/interchange/golden_kit.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"
#include "tests/support/process.h"

namespace lithe {
namespace {

using kit::TransformersGolden;

std::string bytes(const Path& directory, const char* file) { return read_file(directory / file); }

class RoundTrip : public testing::TestWithParam<Path> {};

TEST_P(RoundTrip, ImportExportImportGivesTheSameBytes) {
  const TransformersGolden golden(GetParam());
  kit::Scratch scratch;
  golden.write(scratch / "model");
  import_model({scratch / "model", scratch / "first", {}});
  const ExportReport report = export_model({scratch / "first", scratch / "written", ""});
  import_model({scratch / "written", scratch / "second", {}});
  EXPECT_EQ(bytes(scratch / "first", "model.safetensors"), bytes(scratch / "second", "model.safetensors"));
  // Phi-3's joined maps are written apart, as Llama's.
  if (golden.name.starts_with("phi3") && golden.name != "phi3_part") {
    EXPECT_EQ(report.model_type, "llama");
    return;
  }
  const SafetensorsFile before(Path(scratch / "model") / "model.safetensors"),
      after(Path(scratch / "written") / "model.safetensors");
  for (const auto& [name, entry] : after.entries()) {
    ASSERT_TRUE(before.entries().count(name)) << name;
    const Tensor a = empty(entry.shape, entry.dtype), b = empty(entry.shape, entry.dtype);
    before.read(name, a), after.read(name, b);
    EXPECT_EQ(kit::bit_difference(a, b), "") << name;
  }
  const Json config = parse_json(bytes(scratch / "written", "config.json"), "config.json");
  if (golden.name.starts_with("mt5"))  // which is T5 without a scale before the head
    EXPECT_EQ(report.model_type, "t5");
  else
    EXPECT_EQ(config["architectures"], golden.json["config"]["architectures"]);
}

INSTANTIATE_TEST_SUITE_P(, RoundTrip, testing::ValuesIn(kit::transformers_goldens()),
                         [](const auto& info) { return info.param.stem().string(); });

// A run without training: what `lithe train` leaves, as far as export reads it.
void write_run(const Path& run, const ModelConfig& config) {
  make_directory(run);
  Model model(config, {});
  kit::randomise(model.parameters(), 7);
  save_weights(model, run / "model.safetensors");
  save_config(config, run / "config.json");
  save_tokenizer(*make_byte_tokenizer(), run);
  Recipe recipe;
  recipe.model = config;
  write_file(run / "resolved_recipe.yaml", to_yaml(resolved(recipe)));
}

constexpr const char* kSmall =
    "{vocab_size: 257, hidden_size: 16, num_hidden_layers: 2, max_position_embeddings: 32, token_width: 1, mixer: "
    "{type: "
    "attention, num_attention_heads: 4}}";

TEST(Export, RunsOfLitheBecomeLlamas) {
  kit::Scratch scratch;
  write_run(scratch / "run", kit::model_config(kSmall));
  EXPECT_EQ(export_model({scratch / "run", scratch / "out", ""}).model_type, "llama");
  import_model({scratch / "out", scratch / "again", {}});
  EXPECT_EQ(bytes(scratch / "run", "model.safetensors"), bytes(scratch / "again", "model.safetensors"));
  write_run(scratch / "biased", kit::model_config(kSmall,
                                                  "position: learned, norm: {type: layer, eps_mode: variance}, "
                                                  "ffn: gelu, mixer: {type: attention, num_attention_heads: 2, "
                                                  "attention_bias: true, output_bias: true}"));
  EXPECT_EQ(export_model({scratch / "biased", scratch / "gpt2", ""}).model_type, "gpt2");
}

// Models as large as the machine's memory can be written: theirs, ours and its conversion are held, of one tensor.
TEST(Export, HoldsOneTensorAtATime) {
  kit::Scratch scratch;
  const ModelConfig config = kit::model_config(
      "{vocab_size: 257, hidden_size: 64, num_hidden_layers: 4, max_position_embeddings: 32, token_width: 1, mixer: "
      "{type: attention, num_attention_heads: 4}}");
  write_run(scratch / "run", config);
  int64_t largest = 0, all = 0;
  for (const auto& [name, shape] : parameter_shapes(config)) {
    largest = std::max(largest, shape.numel() * 4);
    all += shape.numel() * 4;
  }
  ASSERT_GT(all, 4 * largest);
  Ledger& book = ledger(Device::cpu);
  for (const char* format : {"huggingface", "gguf"}) {
    book.reset_peak();
    const int64_t before = book.current();
    export_model({scratch / "run", scratch / format, "", format, "bf16"});
    EXPECT_LE(book.peak() - before, 3 * largest) << format;
  }
}

// The model was trained with bos before every text: transformers and the harness must put it there, too.
TEST(Export, PromptsBeginThereAsHere) {
  kit::Scratch scratch;
  write_run(scratch / "run", kit::model_config(kSmall));
  for (const bool begins : {true, false}) {
    Recipe recipe = recipe_of_run(scratch / "run");
    recipe.generate.add_bos_token = begins;
    write_file(scratch / "run/resolved_recipe.yaml", to_yaml(resolved(recipe)));
    const std::string out = scratch / (begins ? "begins" : "bare");
    export_model({scratch / "run", out, ""});
    EXPECT_EQ(begins_with_bos(out, *load_tokenizer(out)), begins);
    import_model({out, out + "-again", {}});
    EXPECT_EQ(recipe_of_run(out + "-again").generate.add_bos_token, begins);
    export_model({out + "-again", out + "-twice", ""});
    EXPECT_EQ(bytes(out, "tokenizer.json").size() > bytes(scratch / "run", "tokenizer.json").size(), begins);
  }
  // A decoder's prompt goes on, so that nothing of BERT's framing stands behind it.
  const std::string bert = bert_json({"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"});
  write_run(scratch / "words", kit::model_config(kSmall));
  save_tokenizer(*parse_tokenizer(bert, "tokenizer.json"), scratch / "words");
  export_model({scratch / "words", scratch / "words-out", ""});
  EXPECT_TRUE(begins_with_bos(scratch / "words-out", *load_tokenizer(scratch / "words-out")));
  const Json single = parse_json(bytes(scratch / "words-out", "tokenizer.json"), "t")["post_processor"]["single"];
  EXPECT_EQ(single.size(), 2u);
  EXPECT_TRUE(single.back().contains("Sequence"));
}

TEST(Export, TextsHaveTheSameTokensAroundThem) {
  kit::Scratch scratch;
  const auto tokenizer = make_byte_tokenizer();  // one special token, which ends texts and begins them
  const std::string end = tokenizer->token(*tokenizer->specials().eos);
  // What stands in the template, in order, each with its token type.
  const auto framing = [&](Architecture architecture, bool segments, const char* which) {
    const Path out = scratch / cat(architecture, segments);
    export_tokenizer(out, *tokenizer, architecture, true, segments);
    const Json processor = parse_json(bytes(out, "tokenizer.json"), "t")["post_processor"];
    std::string names;
    for (const Json& step : processor["processors"][1][which])
      for (const auto& [kind, what] : step.items())
        names +=
            cat(what["id"].get<std::string>() == end ? "e" : what["id"].get<std::string>(), what["type_id"].get<int>());
    EXPECT_EQ(bytes(out, "tokenizer_config.json").find("token_type_ids") != std::string::npos, segments);
    return names;
  };
  EXPECT_EQ(framing(Architecture::decoder, false, "single"), "e0A0");
  EXPECT_EQ(framing(Architecture::decoder, false, "pair"), "e0A0e0B0");
  EXPECT_EQ(framing(Architecture::encoder_decoder, false, "single"), "A0e0");
  EXPECT_EQ(framing(Architecture::encoder_decoder, false, "pair"), "A0e0B0e0");
  EXPECT_EQ(framing(Architecture::encoder, false, "single"), "e0A0e0");
  EXPECT_EQ(framing(Architecture::encoder, true, "pair"), "e0A0e0B1e1");
}

TEST(Export, PartsWithoutAFormThereAreNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"mixer: {type: attention, num_attention_heads: 4, output: hadamard}",
       "mixer.output.type is hadamard, not dense"},
      {"mixer: {type: attention, num_attention_heads: 4, heads: mhe_mul}", "mixer.heads.type is mhe_mul, not"},
      {"position: sinusoidal", "position"},
      {"stack: reversible", "stack.type is reversible, not plain"},
      {"norm: layer", "norm"}};
  for (const auto& [change, words] : cases) {
    kit::Scratch scratch;
    write_run(scratch / "run", kit::model_config(kSmall, change));
    const std::string error = kit::coded_error_of([&] { export_model({scratch / "run", scratch / "out", ""}); });
    EXPECT_TRUE(error.starts_with("2 export: no architecture there has")) << error;
    EXPECT_NE(error.find(words), std::string::npos) << error;
    EXPECT_FALSE(std::filesystem::exists(scratch / "out"));
  }
}

TEST(Export, WeightsMustBeThoseOfTheConfig) {
  kit::Scratch scratch;
  const Path run = scratch / "run";
  write_run(run, kit::model_config(kSmall));
  write_safetensors(run / "model.safetensors", {{"embedding.weight", zeros({2, 2}, DType::f32)}}, {});
  EXPECT_NE(kit::error_of([&] {
              export_model({run, scratch / "out", ""});
            }).find("'embedding.weight' is [2,2]"),
            std::string::npos);
  EXPECT_NE(kit::error_of([&] {
              export_model({run, scratch / "out", "best"});
            }).find("does not exist"),
            std::string::npos);
  EXPECT_NE(kit::error_of([&] {
              export_model({scratch / "none", scratch / "out", ""});
            }).find("has no config.json"),
            std::string::npos);
}

TEST(SameModel, DefaultsCountAsWhatTheyStandFor) {
  const ModelConfig a = kit::model_config(kSmall);
  EXPECT_TRUE(model_differences(a, kit::model_config(kSmall,
                                                     "ffn: {type: swiglu, intermediate_size: 42}, mixer: {type: "
                                                     "attention, num_attention_heads: 4, head_dim: 4, "
                                                     "attention_dropout: 0.1, heads: {type: gqa, "
                                                     "num_key_value_heads: 4}}"))
                  .empty());
  EXPECT_EQ(model_differences(a, kit::model_config(kSmall, "ffn: {type: swiglu, intermediate_size: 40}"))[0],
            "layers.0.ffn.intermediate_size is 42, not 40");
}

}  // namespace
}  // namespace lithe

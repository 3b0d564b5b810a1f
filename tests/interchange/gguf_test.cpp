// GGUF files: blocks as the package gguf reads and writes them (tools/oracles/make_gguf_golden.py), models through
// them, and stories260K, whose text llama2.c printed.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "lithe/infer/generate.h"
#include "lithe/interchange/export.h"
#include "lithe/interchange/gguf_file.h"
#include "lithe/interchange/import.h"
#include "lithe/kernels/gemm/packed_matrix.h"
#include "lithe/model/safetensors.h"
#include "lithe/recipe/recipe.h"
#include "lithe/tensor/half.h"
#include "tests/interchange/golden_kit.h"
#include "tests/support/errors.h"
#include "tests/support/process.h"

namespace lithe {
namespace {

using kit::TransformersGolden;

std::string from_hex(const std::string& hex) {
  std::string out;
  for (size_t i = 0; i < hex.size(); i += 2) out += char(std::stoi(hex.substr(i, 2), nullptr, 16));
  return out;
}

TEST(GgufBlocks, AreReadAsTheirPackageDoes) {
  const Json golden = parse_json(read_file("tests/golden/gguf_blocks.json"), "gguf_blocks.json");
  const std::pair<const char*, GgmlType> types[] = {
      {"Q4_0", GgmlType::q4_0}, {"Q8_0", GgmlType::q8_0},     {"Q4_K", GgmlType::q4_k}, {"Q6_K", GgmlType::q6_k},
      {"Q5_K", GgmlType::q5_k}, {"IQ4_NL", GgmlType::iq4_nl}, {"F16", GgmlType::f16},   {"BF16", GgmlType::bf16}};
  for (const auto& [name, type] : types) {
    const std::string blocks = from_hex(golden["types"][name]["bytes"]);
    const auto expected = golden["types"][name]["values"].get<std::vector<double>>();
    const int64_t count = int64_t(blocks.size()) / block_bytes(type) * block_numbers(type);
    ASSERT_EQ(count, int64_t(expected.size())) << name;
    std::vector<float> values(static_cast<size_t>(count));
    read_blocks(type, blocks.data(), count, values.data());
    // Products of at most three numbers: each rounds once, in another order.
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(values[i], expected[i],
                  4 * 0x1p-24 * (std::abs(expected[i]) + (type == GgmlType::q4_k || type == GgmlType::q5_k ? 32 : 0)))
          << name << " " << i;
  }
}

TEST(GgufBlocks, AreWrittenAsTheirPackageDoes) {
  const Json golden = parse_json(read_file("tests/golden/gguf_blocks.json"), "gguf_blocks.json");
  const auto numbers = golden["numbers"].get<std::vector<float>>();
  const std::pair<const char*, GgmlType> types[] = {
      {"Q4_0", GgmlType::q4_0}, {"Q8_0", GgmlType::q8_0}, {"BF16", GgmlType::bf16}};
  for (const auto& [name, type] : types) {
    const std::string expected = from_hex(golden["types"][name]["bytes"]);
    std::string blocks(numbers.size() / size_t(block_numbers(type)) * size_t(block_bytes(type)), '\0');
    write_blocks(type, numbers.data(), int64_t(numbers.size()), blocks.data());
    EXPECT_EQ(blocks, expected) << name;
  }
}

TEST(Half, EveryHalfComesBack) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float value = float_of_half(uint16_t(bits));
    if (std::isnan(value)) continue;
    EXPECT_EQ(half_of_float(value), bits);
    EXPECT_EQ(value, float((bits & 0x8000 ? -1 : 1) *
                           ((bits >> 10 & 31) == 31  ? INFINITY
                            : (bits >> 10 & 31) == 0 ? std::ldexp(bits & 1023, -24)
                                                     : std::ldexp(1024 + (bits & 1023), int(bits >> 10 & 31) - 25))));
  }
  EXPECT_EQ(half_of_float(65520), 0x7c00);  // half way to 65536 rounds to infinity
  EXPECT_EQ(half_of_float(65519.9f), 0x7bff);
  EXPECT_EQ(half_of_float(1 + 0x1p-11f), 0x3c00);  // ties to even
  EXPECT_EQ(half_of_float(1 + 3 * 0x1p-11f), 0x3c02);
  EXPECT_EQ(half_of_float(0x1p-25f), 0);
  EXPECT_EQ(half_of_float(0x1.8p-25f), 1);
}

class ThroughGguf : public testing::TestWithParam<const char*> {};

TEST_P(ThroughGguf, TheModelStaysTheSame) {
  const TransformersGolden golden(cat("tests/golden/transformers/", GetParam(), ".json"));
  kit::Scratch scratch;
  golden.write(scratch / "model");
  import_model({scratch / "model", scratch / "run", {}});
  export_model({scratch / "run", scratch / "model.gguf", "", "gguf", ""});
  import_model({scratch / "model.gguf", scratch / "again", {}});
  EXPECT_EQ(read_file(Path(scratch / "run") / "model.safetensors"),
            read_file(Path(scratch / "again") / "model.safetensors"));
  const LoadedModel loaded = load_model(scratch / "again", "", "f32");
  EXPECT_LE(kit::relative_difference(golden.of(*loaded.model), golden.expected()), 1e-5);
  const std::string text = "Wait: 3 little piglets\n\n  naïve 🙂?";
  const auto before = load_tokenizer(scratch / "run");
  EXPECT_EQ(loaded.tokenizer->encode(text), before->encode(text));
  EXPECT_EQ(loaded.tokenizer->specials().eos, before->specials().eos);
}

INSTANTIATE_TEST_SUITE_P(, ThroughGguf,
                         testing::Values("llama2", "llama3", "llama_linear", "smollm", "qwen2", "qwen3", "olmo2",
                                         "gpt2"));

TEST(Gguf, IntegersAreNearAndPartsWithoutANameAreRefused) {
  const TransformersGolden golden("tests/golden/transformers/gpt_neox.json"),
      llama("tests/golden/transformers/llama2.json");
  kit::Scratch scratch;
  golden.write(scratch / "model");
  import_model({scratch / "model", scratch / "run", {}});
  EXPECT_NE(kit::error_of([&] {
              export_model({scratch / "run", scratch / "x.gguf", "", "gguf", ""});
            }).find("no architecture there"),
            std::string::npos);
  // Widths of 32 fill blocks.
  ModelConfig config =
      read_model_config(parse_yaml("{vocab_size: 257, token_width: 1, hidden_size: 64, num_hidden_layers: 2, "
                                   "max_position_embeddings: 64, mixer: {type: attention, "
                                   "num_attention_heads: 4}, ffn: {type: swiglu, intermediate_size: 96}}",
                                   "test"));
  Model model(config, {});
  make_directory(scratch / "small");
  save_weights(model, Path(scratch / "small") / "model.safetensors");
  save_config(config, Path(scratch / "small") / "config.json");
  save_tokenizer(*make_byte_tokenizer(), scratch / "small");
  Recipe recipe;
  recipe.model = config;
  write_file(Path(scratch / "small") / "resolved_recipe.yaml", to_yaml(resolved(recipe)));
  const auto logits = llama.of(model);
  const std::pair<const char*, double> types[] = {{"f32", 1e-6}, {"bf16", 0.02}, {"q8_0", 0.02}, {"q4_0", 0.25}};
  uint64_t last = UINT64_MAX;
  for (const auto& [type, bound] : types) {
    const std::string file = scratch / (std::string(type) + ".gguf");
    const uint64_t bytes = export_model({scratch / "small", file, "", "gguf", type}).bytes;
    EXPECT_LT(bytes, last);
    last = bytes;
    import_model({file, scratch / type, {}});
    const LoadedModel kept = load_model(scratch / type, "", "f32", false, false);
    EXPECT_LE(kit::relative_difference(llama.of(*kept.model), logits), bound) << type;
    // Integers are kept as they are: the numbers that they stand for are those of --dequantize.
    ImportOptions numbers{.from = file, .out = scratch / cat(type, "-numbers")};
    numbers.dequantize = true;
    import_model(numbers);
    const LoadedModel wide = load_model(numbers.out, "", "f32", false, false);
    int64_t matrices = 0;
    for (const Parameter& p : kept.model->parameters().all()) {
      if (!p.master.packed()) continue;
      const Tensor one = unpacked(*p.master.packed()), other = wide.model->parameters().find(p.name)->master.value();
      ASSERT_EQ(std::memcmp(one.raw(), other.raw(), size_t(one.bytes())), 0) << p.name;
      ++matrices;
    }
    EXPECT_EQ(matrices, type[0] == 'q' ? 15 : 0) << type;
    EXPECT_LE(kit::relative_difference(llama.of(*wide.model), llama.of(*kept.model)), 0.02) << type;
  }
  EXPECT_NE(kit::error_of([&] {
              export_model({scratch / "small", scratch / "f32.gguf", "", "gguf", ""});
            }).find("exists"),
            std::string::npos);
}

TEST(Gguf, DamagedFilesAreRefused) {
  const TransformersGolden golden("tests/golden/transformers/qwen2.json");
  kit::Scratch scratch;
  golden.write(scratch / "model");
  import_model({scratch / "model", scratch / "run", {}});
  export_model({scratch / "run", scratch / "model.gguf", "", "gguf", ""});
  const std::string whole = read_file(scratch / "model.gguf");
  // Wherever the file is cut, its header or its last tensor says so.
  for (size_t size = 0; size < whole.size() - 31; size += size < 4000 ? 7 : 997)
    EXPECT_THROW(GgufFile(std::string_view(whole).substr(0, size), "cut"), Error) << size;
  // Any byte of the header may be wrong: an error, or a file that is read, and nothing else.
  for (size_t at = 0; at < 3000; at += 3) {
    std::string changed = whole;
    changed[at] = char(changed[at] ^ 0xff);
    try {
      const GgufFile file(changed, "changed");
      for (const auto& [name, entry] : file.entries()) file.read(name);
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find("internal"), std::string::npos);
    }
  }
  const auto refuse = [&](const std::string& bytes, const std::string& words) {
    write_file(scratch / "bad.gguf", bytes);
    const std::string error = kit::error_of([&] { import_model({scratch / "bad.gguf", scratch / "bad", {}}); });
    EXPECT_NE(error.find(words), std::string::npos) << error;
    EXPECT_FALSE(std::filesystem::exists(scratch / "bad"));
  };
  refuse("GGML and more bytes than twenty-four", "does not begin with GGUF");
  std::string other = whole;
  other.replace(other.find("qwen2.block_count"), 17, "qwen2.block_xount");
  refuse(other, "has no qwen2.block_count");
  std::string version = whole;
  version[4] = 9;
  refuse(version, "is of version 9");
}

// ---- stories260K

struct Numbers {
  std::string bytes;
  size_t at = 0;
  template <class T>
  T take() {
    T out;
    std::memcpy(&out, bytes.data() + at, sizeof out);
    at += sizeof out;
    return out;
  }
  Tensor take(Shape shape) {
    const Tensor out = empty(shape, DType::f32);
    std::memcpy(out.raw(), bytes.data() + at, size_t(out.bytes()));
    at += size_t(out.bytes());
    return out;
  }
};

TEST(Gguf, Stories260kTellsWhatLlama2cPrinted) {
  const char* data = std::getenv("LITHE_DATA");
  const Path home = Path(data ? data : "data") / "models/stories260K";
  if (!std::filesystem::exists(home / "stories260K.bin")) GTEST_SKIP() << "LITHE_DATA has no models/stories260K";
  Numbers in{read_file(home / "stories260K.bin")};
  int64_t dim = in.take<int32_t>(), hidden = in.take<int32_t>(), layers = in.take<int32_t>(),
          heads = in.take<int32_t>(), kv = in.take<int32_t>(), vocabulary = in.take<int32_t>(),
          length = in.take<int32_t>();
  std::vector<GgufTensor> tensors{{"token_embd.weight", pending(in.take(Shape{vocabulary, dim}))}};
  const auto each = [&](const char* name, Shape shape) {
    for (int64_t i = 0; i < layers; ++i)
      tensors.push_back({cat("blk.", i, ".", name, ".weight"), pending(in.take(shape))});
  };
  const int64_t kv_dim = dim / heads * kv;
  each("attn_norm", {dim});
  each("attn_q", {dim, dim});
  each("attn_k", {kv_dim, dim});
  each("attn_v", {kv_dim, dim});
  each("attn_output", {dim, dim});
  each("ffn_norm", {dim});
  each("ffn_gate", {hidden, dim});
  each("ffn_down", {dim, hidden});
  each("ffn_up", {hidden, dim});
  tensors.push_back({"output_norm.weight", pending(in.take(Shape{dim}))});

  Numbers words{read_file(home / "tok512.bin")};
  words.take<int32_t>();
  std::vector<std::string> tokens;
  std::vector<double> scores;
  std::vector<int64_t> types;
  for (int64_t id = 0; id < vocabulary; ++id) {
    scores.push_back(words.take<float>());
    const auto bytes = size_t(words.take<int32_t>());
    std::string token;
    for (const char c : words.bytes.substr(words.at, bytes)) token += c == ' ' ? "▁" : std::string(1, c);
    words.at += bytes;
    if (id < 3) token = id == 0 ? "<unk>" : id == 1 ? "<s>" : "</s>";
    tokens.push_back(token);
    types.push_back(id == 0 ? 2 : id < 3 ? 3 : id < 259 ? 6 : 1);
  }
  constexpr uint32_t u32 = 4, i32 = 5, f32 = 6, text = 8;
  const auto integer = [](const char* key, int64_t value) { return GgufPair{key, {value}, u32}; };
  kit::Scratch scratch;
  write_gguf(scratch / "stories.gguf",
             {{"general.architecture", {std::string("llama")}, text},
              integer("llama.context_length", length),
              integer("llama.embedding_length", dim),
              integer("llama.block_count", layers),
              integer("llama.feed_forward_length", hidden),
              integer("llama.attention.head_count", heads),
              integer("llama.attention.head_count_kv", kv),
              {"llama.attention.layer_norm_rms_epsilon", {1e-5}, f32},
              {"tokenizer.ggml.model", {std::string("llama")}, text},
              {"tokenizer.ggml.tokens", {tokens}, text},
              {"tokenizer.ggml.scores", {scores}, f32},
              {"tokenizer.ggml.token_type", {types}, i32},
              integer("tokenizer.ggml.bos_token_id", 1),
              integer("tokenizer.ggml.eos_token_id", 2),
              integer("tokenizer.ggml.unknown_token_id", 0)},
             tensors);
  import_model({scratch / "stories.gguf", scratch / "run", {}});
  const LoadedModel loaded = load_model(scratch / "run", "", "f32");
  GenerateConfig config = recipe_of_run(scratch / "run").generate;
  EXPECT_TRUE(config.add_bos_token);
  EXPECT_FALSE(config.do_sample);
  config.max_new_tokens = 200;
  std::string expected = read_file(home / "expected-greedy-200.txt");
  while (expected.ends_with('\n')) expected.pop_back();
  std::string told = generate(*loaded.model, *loaded.tokenizer, {""}, config)[0].text;
  while (told.ends_with('\n')) told.pop_back();
  EXPECT_EQ(told, expected);

  // And through the Hugging Face format, whose llama has the channels in another order.
  export_model({scratch / "run", scratch / "hf", ""});
  import_model({scratch / "hf", scratch / "again", {}});
  EXPECT_EQ(read_file(Path(scratch / "run") / "model.safetensors"),
            read_file(Path(scratch / "again") / "model.safetensors"));

  // The words too, as a tokenizer.json of that library, and from there as GGUF.
  EXPECT_TRUE(parse_json(read_file(Path(scratch / "hf") / "tokenizer.json"), "t").contains("added_tokens"));
  EXPECT_TRUE(std::filesystem::exists(Path(scratch / "hf") / "tokenizer.model"));
  export_model({scratch / "again", scratch / "again.gguf", "", "gguf", ""});
  import_model({scratch / "again.gguf", scratch / "third", {}});
  for (const char* run : {"again", "third"}) {
    const auto tokenizer = load_tokenizer(scratch / run);
    for (const std::string text : {expected.c_str(), "", " a  b ", "naïve 🙂 日本", "under▁line"})
      EXPECT_EQ(tokenizer->encode(text), loaded.tokenizer->encode(text)) << run << ": " << text;
    EXPECT_EQ(tokenizer->specials().bos, loaded.tokenizer->specials().bos);
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(expected)), expected);
  }
}

}  // namespace
}  // namespace lithe

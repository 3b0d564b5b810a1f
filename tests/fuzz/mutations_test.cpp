// Every fuzz target over sound inputs and thousands of mutations of them, the same ones each time. A crash, a trap or
// an exception that is no lithe::Error fails.
#include <gtest/gtest.h>

#include <functional>

#include "lithe/base/files.h"
#include "lithe/base/json.h"
#include "lithe/base/log.h"
#include "lithe/base/threads.h"
#include "lithe/data/token_store_writer.h"
#include "lithe/infer/datastore.h"
#include "lithe/infer/hnsw_index.h"
#include "lithe/interchange/gguf_names.h"
#include "lithe/model/model.h"
#include "lithe/model/safetensors.h"
#include "lithe/text/tokenizer.h"
#include "tests/fuzz/mutate.h"
#include "tests/support/process.h"
#include "tests/text/sentencepiece_for_tests.h"

extern "C" int safetensors_fuzz(const uint8_t* data, size_t size);
extern "C" int gguf_fuzz(const uint8_t* data, size_t size);
extern "C" int import_config_fuzz(const uint8_t* data, size_t size);
extern "C" int recipe_fuzz(const uint8_t* data, size_t size);
extern "C" int request_fuzz(const uint8_t* data, size_t size);
extern "C" int config_fuzz(const uint8_t* data, size_t size);
extern "C" int tokenizer_json_fuzz(const uint8_t* data, size_t size);
extern "C" int sentencepiece_fuzz(const uint8_t* data, size_t size);
extern "C" int datastore_fuzz(const uint8_t* data, size_t size);
extern "C" int hnsw_index_fuzz(const uint8_t* data, size_t size);
extern "C" int token_store_fuzz(const uint8_t* data, size_t size);
extern "C" int examples_fuzz(const uint8_t* data, size_t size);
extern "C" int translation_fuzz(const uint8_t* data, size_t size);
extern "C" int image_fuzz(const uint8_t* data, size_t size);
extern "C" int sound_fuzz(const uint8_t* data, size_t size);

namespace lithe {
namespace {

void run(int (*target)(const uint8_t*, size_t), const std::vector<std::string>& seeds,
         const std::vector<std::string>& tokens, int count) {
  set_log_level(LogLevel::error);
  set_threads(1);
  const auto feed = [&](const std::string& bytes) {
    target(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  };
  ASSERT_FALSE(seeds.empty());
  for (const std::string& seed : seeds) feed(seed);
  feed("");
  for (int i = 0; i < count; ++i) {
    Draw draw(uint64_t(i) + 1);
    const std::string bytes = mutated(seeds[size_t(i) % seeds.size()], tokens, draw);
    try {
      feed(bytes);
    } catch (const std::exception& error) {
      FAIL() << "mutation " << i << " (" << bytes.size() << " bytes): " << error.what() << "\n"
             << bytes.substr(0, 2000);
    }
  }
}

TEST(Mutations, Safetensors) {
  const kit::Scratch scratch;
  const auto file = [&](const std::map<std::string, Tensor>& tensors) {
    write_safetensors(scratch / "file", tensors, {{"format", "lithe"}});
    return read_file(scratch / "file");
  };
  const std::vector<std::string> seeds = {file({}), file({{"a", zeros({2, 3}, DType::f32)},
                                                          {"b", zeros({4}, DType::bf16)},
                                                          {"c", zeros({0, 5}, DType::f64)},
                                                          {"d", zeros({3}, DType::u8)}})};
  run(safetensors_fuzz, seeds,
      {"\"shape\":[", "18446744073709551615", "281474976710656", "-1", "[0,0]", "\"F32\"", "\"F64\"", "1e308", "{", "}",
       "[[[[", ",", "\"a\":", "null"},
      20000);
}

TEST(Mutations, Recipe) {
  std::vector<std::string> seeds;
  for (const auto& entry : std::filesystem::recursive_directory_iterator("recipes"))
    if (entry.path().extension() == ".yaml") seeds.push_back(read_file(entry.path()));
  std::sort(seeds.begin(), seeds.end());
  run(recipe_fuzz, seeds, {"&a ",   "*a",           "<<: ",  "!!binary ", "? ",   ": ",
                           "- ",    "|\n",          ">\n",   "{",         "[",    "]",
                           "}",     "\"",           "'",     "\n",        "~",    "null",
                           ".nan",  ".inf",         "1e999", "-0",        "0x10", "99999999999999999999",
                           "true",  "\xef\xbb\xbf", "\xff",  "\t",        "# ",   "---\n",
                           "...\n", "%YAML 9\n"},
      1500);
}

TEST(Mutations, Request) {
  run(request_fuzz,
      {R"({"model": "tiny", "prompt": ["a", "b"], "max_tokens": 3, "temperature": 0.5, "top_p": 0.9, "top_k": 3, "min_p": 0.1,
           "n": 2, "stop": ["x"], "seed": 1, "logprobs": 2, "echo": true, "presence_penalty": 1, "logit_bias": {"3": 4}})",
       R"({"messages": [{"role": "user", "content": "Hi"}], "stream": true, "stream_options": {"include_usage": true},
           "logprobs": true, "top_logprobs": 2, "response_format": {"type": "json_schema", "json_schema": {"schema": {"type":
           "object", "properties": {"a": {"type": "array", "items": {"enum": [1, "b"]}, "maxItems": 3}, "c": {"type": "number",
           "minimum": -2}}, "required": ["a"]}}}})",
       R"({"prompt": [1, 2, 3], "grammar": "root ::= [a-z]+ (\",\" x)*\nx ::= \"b\" | \"c\"{2,3}"})",
       "root ::= \"a\" x* [^b-c]{0,3}\nx ::= (\"\\x41\" | y)?\ny ::= \"é\" .\n",
       R"x({"anyOf": [{"type": "string", "pattern": "^(a|b){2,3}[^x-z]\\d*$"}, {"$ref": "#/$defs/t"}], "$defs": {"t": {"type":
           "object", "properties": {"next": {"$ref": "#/$defs/t"}}, "additionalProperties": {"type": "integer", "maximum": 99}}}})x"},
      {"\"grammar\"", "\"schema\"", "\"type\"", "[", "]", "{", "}", "null", "true", "1e400", "-1",
       "99999999999999999999", "\"\\ud800\"", "\"\\u0000\"", "::=", "{9999}", "*", "\xff"},
      4000);
}

TEST(Mutations, Config) {
  const kit::Scratch scratch;
  std::vector<std::string> seeds;
  for (const char* yaml : {"{vocab_size: 9, max_position_embeddings: 4}",
                           "{vocab_size: 9, max_position_embeddings: 4, num_hidden_layers: 2, mixers: {a: {type: "
                           "attention, num_attention_heads: 2}, b: attention}, layer_types: [a, b]}"}) {
    save_config(read_model_config(parse_yaml(yaml, "seed")), scratch / "config.json");
    seeds.push_back(read_file(scratch / "config.json"));
  }
  run(config_fuzz, seeds,
      {"\"type\"", "\"mixers\"", "\"layer_types\"", "[", "]", "{", "}", "null", "1e400", "-1", "99999999999999999999",
       "\"\\ud800\"", "\"\\u0000\"", "[[[[[[[["},
      4000);
}

TEST(Mutations, ImportedConfig) {
  std::vector<std::string> seeds;
  for (const Path& golden : glob("tests/golden/transformers/*.json"))
    seeds.push_back(parse_json(read_file(golden), golden.string())["config"].dump());
  run(import_config_fuzz, seeds,
      {"\"rope_scaling\":{",
       "\"layer_types\":[",
       "\"llama\"",
       "\"gpt2\"",
       "\"bert\"",
       "null",
       "true",
       "0",
       "-1",
       "1e400",
       "1e15",
       "0.5",
       "99999999999999999999",
       "\"sliding_attention\"",
       "[",
       "]",
       "{",
       "}",
       ",",
       ":"},
      4000);
}

TEST(Mutations, Gguf) {
  const kit::Scratch scratch;
  const auto tokenizer = make_byte_tokenizer();
  std::vector<GgufPair> metadata{{"general.architecture", {std::string("gpt2")}, 8}};
  for (auto& pair : gguf_of_config({{"n_positions", 8},
                                    {"n_embd", 32},
                                    {"n_layer", 1},
                                    {"n_inner", 64},
                                    {"n_head", 2},
                                    {"layer_norm_epsilon", 1e-5}},
                                   "gpt2"))
    metadata.push_back(pair);
  for (auto& pair : gguf_of_tokenizer(*tokenizer, 257, true)) metadata.push_back(pair);
  write_gguf(scratch / "whole", metadata,
             {{"token_embd.weight", pending(zeros({4, 32}, DType::f32)), GgmlType::q8_0},
              {"output_norm.weight", pending(zeros({32}, DType::f32)), GgmlType::f32},
              {"b", pending(zeros({3, 32}, DType::f32)), GgmlType::q4_0}});
  write_gguf(scratch / "small", {metadata.begin(), metadata.begin() + 7},
             {{"token_embd.weight", pending(zeros({4, 32}, DType::bf16)), GgmlType::bf16}});
  run(gguf_fuzz, {read_file(scratch / "whole"), read_file(scratch / "small")},
      {std::string(8, '\xff'), std::string(8, '\0'), std::string("\1\0\0\0", 4), std::string("\x0c\0\0\0", 4), "GGUF",
       "llama", "tokenizer.ggml.scores"},
      4000);
}

TEST(Mutations, TokenizerJson) {
  const std::vector<std::string_view> texts = {"the cat sat on the mat and the cat sat again"};
  std::vector<std::string> seeds = {train_bpe(texts, {.vocab_size = 270})->to_json()};
  run(tokenizer_json_fuzz, seeds,
      {"\"type\":\"BPE\"", "\"WordPiece\"", "\"Metaspace\"", "\"merges\":[", "null", "-1", "99999999999", "[]", "{}",
       "\"\"", "\"\\ud83d\"", "true", "\"Regex\":\"(((\""},
      1200);
}

TEST(Mutations, TokenStore) {
  std::vector<std::string> seeds;
  for (int64_t vocab : {300, 70000}) {
    std::string bytes;
    TokenStoreWriter writer({.vocab_size = vocab, .begin_of_text = 256, .end_of_text = 257},
                            [&](std::string_view part) { bytes += part; });
    for (int32_t d = 0; d < 5; ++d) writer.add(std::vector<int32_t>{d, 1, 299, 2}, "a b\n");
    writer.finish();
    seeds.push_back(bytes);
  }
  run(token_store_fuzz, seeds,
      {std::string(8, '\0'), std::string(8, '\xff'), std::string("\1\0\0\0\0\0\0\0", 8), "LITHETOK"}, 6000);
}

TEST(Mutations, Datastore) {
  std::vector<std::string> seeds;
  for (const bool index : {false, true}) {
    std::string bytes;
    DatastoreWriter writer({.vocab_size = 9, .width = 3, .type = index ? DType::bf16 : DType::f32},
                           [&](std::string_view part) { bytes += part; });
    for (int32_t i = 0; i < 5; ++i) writer.add(zeros({2, 3}, DType::f32), std::vector<int32_t>{i, 8});
    const std::vector<float> centroids(6, 0.5f);
    const std::vector<uint64_t> offsets{0, 4, 10};
    index ? writer.finish(centroids, offsets) : writer.finish();
    seeds.push_back(bytes);
  }
  run(datastore_fuzz, seeds,
      {std::string(8, '\0'), std::string(8, '\xff'), std::string("\1\0\0\0\0\0\0\0", 8), "LITHEKNN"}, 6000);
}

#ifdef LITHE_HAVE_HNSWLIB
TEST(Mutations, HnswIndex) {
  std::vector<std::string> seeds;
  std::string bytes;
  DatastoreWriter writer({.vocab_size = 9, .width = 2}, [&](std::string_view part) { bytes += part; });
  const Tensor keys = zeros({60, 2}, DType::f32);
  for (int64_t i = 0; i < keys.numel(); ++i) keys.data<float>()[i] = float(i * 37 % 61);
  writer.add(keys, std::vector<int32_t>(60, 3));
  writer.finish();
  for (const int64_t links : {2, 5})
    seeds.push_back(HnswIndex::build(Datastore::from_bytes(bytes), {.links = links}).to_bytes());
  run(hnsw_index_fuzz, seeds,
      {std::string(4, '\0'), std::string(4, '\xff'), std::string("\1\0\0\0", 4), std::string("\73\0\0\0", 4),
       "LITHENSW"},
      6000);
}
#endif

TEST(Mutations, Translations) {
  const std::string text = "the cat, 1.5-fold\t\xc3\xa9t\xc3\xa9 &quot;a&quot;\nthe cat\tthe cat\r\n\t\n";
  run(translation_fuzz, {"t" + text, "l" + text + std::string(1, '\0') + text},
      {"\t", "\n", "\r\n", std::string(1, '\0'), "\xff", "\xc2\x85", "\x1c", "&amp;", "1,2", ". "}, 3000);
}

TEST(Mutations, SentencePiece) {
  run(sentencepiece_fuzz, {small_sentencepiece(), small_sentencepiece({}), small_sentencepiece({}, 2)},
      {proto_piece("<0x41>", 0, 6), proto_piece("aba", 3e38f, 1), proto_piece("bb", 0, 5), proto_piece("<y>", -9, 4),
       proto_number(35, 1), proto_bytes(3, proto_number(3, 0)), std::string("\xFF\xFF\xFF\xFF", 4),
       std::string(2, '\0')},
      10000);
}

TEST(Mutations, Images) {
  const std::string ppm = "P6 2 1 255 abcdef", idx = std::string("\0\0\x08\x03\0\0\0\2\0\0\0\2\0\0\0\3", 16);
  // A PNG of one pixel.
  const std::string png = std::string("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\0\0\0\0\x3a\x7e\x9b\x55", 33) +
                          std::string("\0\0\0\x0aIDAT\x78\xda\x63\x60\0\0\0\2\0\1\xe5\x27\xde\xfc", 22) +
                          std::string("\0\0\0\0IEND\xae\x42\x60\x82", 12);
  std::string tar(1536, '\0');
  tar.replace(0, 1, "a");
  tar.replace(124, 12, std::string("00000000003\0", 12));
  tar[156] = '0';
  uint64_t sum = 8 * ' ';
  for (size_t i = 0; i < 512; ++i) sum += static_cast<unsigned char>(tar[i]);
  std::string octal(8, '\0');
  for (size_t i = 6; i-- > 0; sum /= 8) octal[i] = char('0' + sum % 8);
  tar.replace(148, 8, octal);
  run(image_fuzz,
      {std::string(1, '\0') + ppm, std::string(1, '\0') + png, std::string(1, '\1') + tar, std::string(1, '\2') + idx},
      {"IHDR", "IDAT", "\xff", "255", std::string(1, '\0'), "99999999"}, 3000);
}

// A WAV file of `channels` channels: format 1 of 16 bits, 3 of floats, and the bytes of the samples.
std::string wav(int format, int bits, int channels, const std::string& samples) {
  const auto number = [](size_t value, int bytes) {
    std::string out;
    for (int i = 0; i < bytes; ++i) out += char(value >> 8 * i & 255);
    return out;
  };
  const auto frame = size_t(bits / 8 * channels);
  return "RIFF" + number(36 + samples.size(), 4) + "WAVEfmt " + number(16, 4) + number(size_t(format), 2) +
         number(size_t(channels), 2) + number(16000, 4) + number(16000 * frame, 4) + number(frame, 2) +
         number(size_t(bits), 2) + "data" + number(samples.size(), 4) + samples;
}

TEST(Mutations, Sounds) {
  const std::string sixteen(64, '\x11'), floats(64, '\x3e');
  run(sound_fuzz,
      {wav(1, 16, 1, sixteen), wav(1, 16, 2, sixteen), wav(3, 32, 1, floats),
       std::string(".snd\0\0\0\x18\0\0\0\x08\0\0\0\3\0\0\x3e\x80\0\0\0\1", 24) + sixteen},
      {"RIFF", "RIFX", "WAVE", "fmt ", "data", "LIST", "fact", "fLaC", "OggS", "FORM", std::string("\0\0\xc0\x7f", 4),
       "\xff\xff\xff\xff", std::string(4, '\0'), std::string("\1\0", 2)},
      3000);
}

TEST(Mutations, Examples) {
  // The first byte: type + 4 * format, + 128 for columns by number (examples_fuzz.cpp).
  std::vector<std::string> seeds = {
      std::string(1, char(0)) + "text\tlabel\na b\tyes\n\"c\"\tno\n",
      std::string(1, char(128 + 4)) + "\"a \"\"b\"\"\n\",yes\r\nc,no\r\n",
      std::string(1, char(128 + 17)) + "\"a, b\",1.5\nc,-2e3\n",
      std::string(1, char(8)) + "{\"text\": \"a\", \"label\": 1}\n{\"label\": \"x\", \"text\": \"\\u00e9\"}\n",
      std::string(1, char(12)) + "1 a film\n0 another\n",
      std::string(1, char(2)) +
          "# c\n1-2\tab\t_\t_\t_\t_\t_\t_\t_\t_\n1\ta\t_\tX\t_\t_\t_\t_\t_\t_\n2\tb\t_\tY\t_\t_\t_\t_\t_\t_\n\n",
      std::string(1, char(10)) + "{\"text\": [\"a\", \"b\"], \"label\": [\"O\", 3]}\n",
      std::string(1, char(3)) +
          "{\"data\": [{\"paragraphs\": [{\"context\": \"\xc3\xa9t\xc3\xa9 in Rome\", \"qas\": [{\"id\": \"1\", "
          "\"question\": \"q\", \"is_impossible\": false, \"answers\": [{\"text\": \"Rome\", \"answer_start\": "
          "7}]}]}]}]}"};
  run(examples_fuzz, seeds,
      {"\t",
       "\"",
       "\"\"",
       ",",
       "\n",
       "\r\n",
       "[",
       "]",
       "{",
       "}",
       "null",
       "-1",
       "1e999",
       "nan",
       "99999999999999999999",
       "\xc3",
       "\xef\xbb\xbf",
       "\"answer_start\": ",
       "\"answers\": [",
       "1-2",
       "2.1",
       "\\u0000",
       "\\ud800"},
      20000);
}

}  // namespace
}  // namespace lithe

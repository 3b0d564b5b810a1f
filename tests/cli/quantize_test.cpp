// `lithe quantize` as a person or a script meets it.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "lithe/base/error.h"
#include "lithe/base/json.h"
#include "tests/support/program_test.h"

namespace lithe {
namespace {

namespace fs = std::filesystem;
using kit::Finished;
using kit::run_program;

class QuantizeProgram : public kit::ProgramTest {
 protected:
  static void SetUpTestSuite() {
    if (!kit::have_program()) return;
    scratch_ = new kit::Scratch;
    kit::train_small_run(*scratch_,
                         "{hidden_size: 32, num_hidden_layers: 2, mixer: {type: attention, num_attention_heads: 2}, "
                         "ffn: {type: gelu, intermediate_size: 64}}");
  }
  static void TearDownTestSuite() { delete scratch_; }
  static std::string at(const std::string& name) { return *scratch_ / name; }
  static Json json_of(const std::vector<std::string>& arguments) {
    const Finished f = run_program(arguments);
    EXPECT_EQ(f.code, 0) << f.err;
    return parse_json(f.out, arguments[0]);
  }

  static inline kit::Scratch* scratch_ = nullptr;
};

TEST_F(QuantizeProgram, MakesADirectoryThatGenerateAndEvalTake) {
  const double before = json_of({"eval", at("run"), "--json"})["loss"];
  for (const char* format : {"int8", "int4"}) {
    const std::string out = at(format);
    const Json json = json_of({"quantize", at("run"), "--out", out, "--weights", format, "--json"});
    EXPECT_EQ(json, parse_json(read_file(out + "/quantization.json"), out));
    EXPECT_LT(double(json["bytes_after"]), double(json["bytes_before"]));
    const Json& predictions = json["predictions"];
    EXPECT_GT(double(predictions["kl_divergence"]), 0);
    for (const Json& layer : json["layers"]) {
      EXPECT_EQ(layer["format"], format);
      EXPECT_TRUE(layer.contains("output_error"));
    }
    // The change that the table tells is the one that eval sees.
    const double after = json_of({"eval", out, "--json"})["loss"];
    EXPECT_NEAR(after - before, double(predictions["loss_after"]) - double(predictions["loss_before"]), 1e-4);
    EXPECT_NE(run_program({"generate", out, "--greedy"}).out, "");
    EXPECT_EQ(run_program({"eval", out, "--precision", "bf16"}).code, 0);
    expect_error({"eval", out, "--precision", "f64"}, 2, "no f64 products");
    expect_error({"quantize", out, "--out", at("twice")}, 2, "is quantised already");
    expect_error({"train", at("recipe.yaml"), "--out", out}, 2, "holds a quantised model");
    EXPECT_FALSE(fs::exists(at("twice")));
  }
}

TEST_F(QuantizeProgram, PrintsATableAndKeepsWhatIsNamed) {
  const Finished f = run_program({"quantize", at("run"), "--out", at("kept"), "--keep", "layers.0.*", "--max-tokens",
                                  "32", "--weights", "int4", "--group-size", "64"});
  ASSERT_EQ(f.code, 0) << f.err;
  for (const char* words : {"layers.0.ffn.up.weight", "kept", "KL divergence", "on 32 tokens"})
    EXPECT_NE(f.out.find(words), std::string::npos) << f.out;
  const Json config = parse_json(read_file(at("kept") + "/config.json"), "config.json");
  EXPECT_EQ(config["quantization_config"]["group_size"], 64);
  EXPECT_EQ(config["quantization_config"]["modules_to_not_convert"][0], "layers.0.*");
}

// spec: hpc.ptq, bits by matrix: the file keeps the size, and matrices that change more get more bits.
TEST_F(QuantizeProgram, MixesBitsUnderASize) {
  const auto size_of = [&](const char* format) {
    const std::string out = at(cat("size-", format));
    EXPECT_EQ(run_program({"quantize", at("run"), "--out", out, "--weights", format}).code, 0);
    return int64_t(fs::file_size(out + "/model.safetensors"));
  };
  const int64_t few = size_of("int4"), many = size_of("int8"), size = (few + many) / 2;
  const Json json = json_of({"quantize", at("run"), "--out", at("mixed-bits"), "--size", cat(size), "--json"});
  EXPECT_LE(int64_t(fs::file_size(at("mixed-bits") + "/model.safetensors")), size);
  std::set<std::string> formats;
  for (const Json& layer : json["layers"]) {
    formats.insert(layer["format"]);
    EXPECT_GE(double(layer["changes_alone"]["int4"]), 0);
    if (layer["format"] == "int4") {
      EXPECT_GT(double(layer["weight_error"]), 0.01);
    }
  }
  EXPECT_GT(formats.size(), 1u);
  // The scan leaves the model as it was: the loss before is that of the run.
  EXPECT_NEAR(double(json["predictions"]["loss_before"]), double(json_of({"eval", at("run"), "--json"})["loss"]), 1e-4);
  EXPECT_EQ(run_program({"eval", at("mixed-bits")}).code, 0);
  expect_error({"quantize", at("run"), "--out", at("x"), "--size", "1KB"}, 4, "with the fewest bits");
  expect_error({"quantize", at("run"), "--out", at("x"), "--size", "1GB"}, 2, "the model fits");
  // All of what --weights int4 writes, and not a byte more.
  json_of({"quantize", at("run"), "--out", at("least-bits"), "--size", cat(few), "--json"});
  EXPECT_LE(int64_t(fs::file_size(at("least-bits") + "/model.safetensors")), few);
  expect_error({"quantize", at("run"), "--out", at("x"), "--size", "1MB", "--weights", "int8"}, 2, "excludes");
  EXPECT_FALSE(fs::exists(at("x")));
}

TEST_F(QuantizeProgram, WarnsOfIntegersThatNoTrainingKnew) {
  const Finished f =
      run_program({"quantize", at("run"), "--out", at("ternary"), "--weights", "ternary", "--no-receipt"});
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_NE(f.err.find("train.rounding.weights: ternary"), std::string::npos) << f.err;
}

TEST_F(QuantizeProgram, ErrorsAreOneLineAndLeaveNothing) {
  expect_error({"quantize", at("run"), "--out", at("run")}, 2, "exists; give --out a new directory");
  expect_error({"quantize", at("run"), "--out", at("bad"), "--keep", "no.such"}, 2, "names no parameter");
  expect_error({"quantize", at("run"), "--out", at("bad"), "--weights", "int3"}, 2, "--weights");
  expect_error({"quantize", at("run"), "--out", at("bad"), "--size", "abc"}, 2, "quantize: --size must be a size");
  expect_error({"quantize", at("none"), "--out", at("bad")}, 2, "none");
  expect_error({"quantize", at("run"), "--out", at("bad"), "--from", "best.none"}, 2, "does not exist");
  expect_error({"quantize", at("run"), "--out", at("bad/deep/out"), "--keep", "no.such"}, 2, "names no parameter");
  for (const auto& entry : fs::directory_iterator(scratch_->path()))
    EXPECT_EQ(entry.path().filename().string().find("bad"), std::string::npos) << entry.path();
}

// Decoding reads every matrix once a step, and integers of 8 bits are a quarter of the bytes of f32, those of 4 bits an
// eighth and their scales.
TEST_F(QuantizeProgram, BenchCountsTheBytesOfIntegers) {
  std::vector<std::string> words{"bench", at("run")};
  for (const char* format : {"int8", "int4"}) {
    words.push_back(at(cat("bench-", format)));
    ASSERT_EQ(run_program({"quantize", at("run"), "--out", words.back(), "--weights", format}).code, 0);
  }
  for (const char* word : {"--only", "decode", "--batch", "1", "--length", "4", "--rounds", "1", "--seconds", "0.001",
                           "--precision", "f32", "--json"})
    words.push_back(word);
  const Json json = json_of(words);
  ASSERT_EQ(json["measurements"].size(), 3u);
  const auto bytes = [&](size_t i) { return json["measurements"][i]["bytes"].get<double>(); };
  const Json layers = parse_json(read_file(at("bench-int8") + "/quantization.json"), "quantization")["layers"];
  double saved = 0;
  for (const Json& layer : layers)
    if (layer["name"] != "embedding.weight") saved += layer["bytes_before"].get<double>() * 3 / 4;
  EXPECT_LT(bytes(1), bytes(0) - 0.8 * saved) << "saved by 8 bits: " << saved;
  EXPECT_LT(bytes(2), bytes(1) - 0.2 * saved);
}

// A directory put together from two others is refused.
TEST_F(QuantizeProgram, MixedDirectoriesAreRefused) {
  ASSERT_EQ(run_program({"quantize", at("run"), "--out", at("mixed")}).code, 0);
  fs::copy_file(at("run") + "/config.json", at("mixed") + "/config.json", fs::copy_options::overwrite_existing);
  expect_error({"eval", at("mixed")}, 1, "must come from one `lithe quantize`");
}

}  // namespace
}  // namespace lithe

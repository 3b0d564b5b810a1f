// `lithe transcribe` as a person or a script meets it, on tones of four pitches.
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <sstream>

#include "lithe/base/error.h"
#include "lithe/base/json.h"
#include "lithe/base/random.h"
#include "tests/support/program_test.h"
#include "tests/support/sound.h"

namespace lithe {
namespace {

using kit::Finished;
using kit::run_program;

constexpr int kRate = 8000;

// Two tones of 0.15 s, and silence behind each.
std::vector<float> tones(uint64_t number) {
  std::vector<float> out;
  const RandomKey key{.seed = number, .purpose = purpose_of("transcribe_test")};
  for (uint64_t tone = 0; tone < 2; ++tone)
    for (int t = 0; t < 1600; ++t) {
      const double hz = 300 * std::pow(1.4, double(number / (tone ? 4 : 1) % 4));
      const double loud = t < 1200 ? 0.3 * std::sin(6.2832 * hz * t / kRate) : 0;
      out.push_back(float(loud + 0.005 * random_normal(key, uint64_t(t) + 1600 * tone)));
    }
  return out;
}

std::string text(uint64_t number) { return {"drmf"[number % 4], "drmf"[number / 4 % 4]}; }

class Transcribe : public kit::ProgramTest {
 protected:
  static void SetUpTestSuite() {
    if (!kit::have_program()) return;
    scratch_ = new kit::Scratch;
    std::string list;
    for (uint64_t i = 0; i < 32; ++i) {
      scratch_->add(cat(i, ".wav"), kit::wav_file(tones(i), kRate));
      list += cat(i, ".wav\t", text(i), "\n");
    }
    scratch_->add("list.tsv", list);
    train("causal",
          "{architecture: decoder, hidden_size: 32, num_hidden_layers: 2, embedding_norm: true, position: rotary, "
          "modalities: {audio: {type: "
          "features, num_features: 40}}, layers: {near: {mixer: {type: conformer_convolution, kernel_size: 3}}, far: "
          "{mixer: {type: attention, num_attention_heads: 2, field: {type: local, window: 8}}}}, layer_types: [near, "
          "far], ffn: {type: gelu, intermediate_size: 64}, head: {type: ctc, zero_infinity: true}, "
          "tie_word_embeddings: false}",
          "{type: none, specials: [\"[PAD]\"]}", "features: kaldi, frames_per_row: 2", "transcription",
          "labels: [d, f, m, r]", 500);
    train("written",
          "{architecture: encoder_decoder, hidden_size: 16, num_hidden_layers: 1, position: sinusoidal, mixer: {type: "
          "attention, num_attention_heads: 2}, ffn: {type: gelu, intermediate_size: 32}, encoder: {num_hidden_layers: "
          "2, modalities: {audio: {type: features, num_features: 40}}, layers: {speech: {}, text: {compressor: {type: "
          "ctc_adapter, num_labels: 257, shrink: merge}}}, layer_types: [speech, text]}}",
          "{type: bytes}", "features: whisper, frames_per_row: 2", "text", "transcript: \"2\"", 8);
    train("narrow",
          "{architecture: encoder_decoder, hidden_size: 8, num_hidden_layers: 1, position: sinusoidal, mixer: {type: "
          "attention, num_attention_heads: 1}, ffn: {type: gelu, intermediate_size: 8}, encoder: {num_hidden_layers: "
          "2, modalities: {audio: {type: features, num_features: 40}}, layers: {speech: {}, text: {compressor: {type: "
          "ctc_adapter, num_labels: 128, shrink: merge}}}, layer_types: [speech, text]}}",
          "{type: bytes}", "features: whisper, frames_per_row: 2", "text", "transcript: \"2\"", 1);
  }
  static void train(const std::string& name, const std::string& model, const std::string& tokenizer,
                    const std::string& audio, const std::string& type, const std::string& more, int steps) {
    const std::string recipe = scratch_->add(
        name + ".yaml",
        cat("model: ", model, "\ndata: {tokenizer: ", tokenizer, ", sequence_length: 64, audio: {sample_rate: ", kRate,
            ", num_mel_bins: 20, ", audio, "}}\ntask: {type: ", type, ", train: [\"", *scratch_ / "list.tsv",
            "\"], audio: \"1\", label: \"2\", ", more, "}\ntrain: {objective: task, max_steps: ", steps,
            ", batch_tokens: 640, learning_rate: 0.005, warmup_steps: 10, eval_steps: 1000}\n"));
    const Finished f = run_program({"train", recipe, "--out", at(name), "--threads", "1"});
    ASSERT_EQ(f.code, 0) << f.err;
  }
  static void TearDownTestSuite() { delete scratch_; }
  static std::string at(const std::string& name) { return *scratch_ / name; }
  static std::string wav(int i) { return at(cat(i, ".wav")); }
  static std::string output_of(const std::vector<std::string>& arguments, const std::string& input = "") {
    const Finished f = run_program(arguments, {.stdin_text = input});
    EXPECT_EQ(f.code, 0) << f.err;
    return f.out;
  }
  // Lines that are no partial result.
  static std::string final_lines(const std::string& out) {
    std::istringstream lines(out);
    std::string text;
    for (std::string line; std::getline(lines, line);)
      if (!line.starts_with("  ")) text += line + "\n";
    return text;
  }

  static inline kit::Scratch* scratch_ = nullptr;
};

TEST_F(Transcribe, StreamsWriteTheTextsOfWholeFiles) {
  const std::string whole = output_of({"transcribe", at("causal"), wav(3), wav(9), wav(30)});
  EXPECT_NE(whole.find(text(9) + "\t"), std::string::npos) << whole;  // it has learnt something
  for (const char* chunk : {"0.02", "0.13", "5"}) {
    const std::string streamed =
        output_of({"transcribe", at("causal"), wav(3), wav(9), wav(30), "--stream", "--chunk", chunk});
    EXPECT_EQ(final_lines(streamed), whole);
    EXPECT_NE(streamed.find("  "), std::string::npos);
  }
  // Placed labels are the same, too.
  EXPECT_EQ(output_of({"transcribe", at("causal"), wav(9), "--json"}), [&] {
    const std::string out = output_of({"transcribe", at("causal"), wav(9), "--json", "--stream"});
    return out.substr(out.rfind('\n', out.size() - 2) + 1);
  }());
}

TEST_F(Transcribe, StandardInputIsRawSamples) {
  const std::string samples = kit::samples_of_16_bits(tones(9));
  const std::string streamed = output_of({"transcribe", at("causal"), "-", "--stream", "--chunk", "0.1"}, samples);
  const std::string whole = output_of({"transcribe", at("causal"), wav(9)});
  EXPECT_EQ(final_lines(streamed), whole.substr(0, whole.find('\t')) + "\t-\n");
  // What is heard is printed before the sound ends.
  const std::string json =
      output_of({"transcribe", at("causal"), "-", "--stream", "--chunk", "0.05", "--json"}, samples);
  const Json first = parse_json(json.substr(0, json.find('\n')), "first");
  EXPECT_LT(double(first["seconds"]), 0.35);
  EXPECT_EQ(std::string(first["partial"]).size(), 1u);
  const Finished odd = run_program({"transcribe", at("causal"), "-", "--stream"}, {.stdin_text = samples + "x"});
  EXPECT_NE(odd.err.find("ends within a sample"), std::string::npos) << odd.err;
}

// Within a piece that is never filled.
TEST_F(Transcribe, ASignalEndsAStreamThatWaits) {
  const std::string out = at("heard");
  kit::Process process({"transcribe", at("causal"), "-", "--stream", "--chunk", "0.3"},
                       {.stdout_to = out, .stdin_open = true});
  const std::string samples = kit::samples_of_16_bits(tones(9));  // of 0.4 s
  ASSERT_EQ(process.write(samples), ssize_t(samples.size()));
  const auto heard = [&] { return std::filesystem::exists(out) && std::filesystem::file_size(out) > 0; };
  kit::wait_until(heard);
  ASSERT_TRUE(heard());
  process.send(SIGINT);
  const Finished f = process.wait();
  EXPECT_EQ(f.code, 128 + SIGINT) << f.err;
  EXPECT_EQ(f.err.find("samples"), std::string::npos) << f.err;
  EXPECT_EQ(read_file(out).find('\t'), std::string::npos);  // no text of the whole
}

TEST_F(Transcribe, StreamsAreRefusedWhereRowsSeeLaterOnes) {
  expect_error({"transcribe", at("written"), wav(1), "--stream"}, 2, "features whisper bounds each frame");
  expect_error({"transcribe", at("causal"), "-"}, 2, "give --stream");
  expect_error({"transcribe", at("causal"), wav(1), "--stream", "--num-beams", "3"}, 2, "likeliest label");
  expect_error({"transcribe", at("causal"), wav(1), "--stream", "--chunk", "0"}, 2, "--chunk must be above 0");
  expect_error({"transcribe", at("causal"), wav(1), "--stream", "--chunk", "1e30"}, 2, "at most 60 seconds");
  expect_error({"transcribe", at("causal"), at("none.wav"), "--stream"}, 1, "cannot be read");
}

TEST_F(Transcribe, AFileThatCannotBeReadTakesNoOtherWithIt) {
  const std::string bad = scratch_->add("bad.wav", "no sound");
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"--stream"}}) {
    std::vector<std::string> arguments{"transcribe", at("causal"), wav(1), bad, wav(2)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Finished f = run_program(arguments);
    EXPECT_EQ(f.code, 1);
    EXPECT_EQ(final_lines(f.out), cat(text(1), "\t", wav(1), "\n", text(2), "\t", wav(2), "\n"));
    EXPECT_NE(f.err.find("bad.wav"), std::string::npos) << f.err;
  }
}

TEST_F(Transcribe, ReferencesAreFoundByTheirPathsFirst) {
  std::filesystem::create_directory(at("other"));
  const std::string other = scratch_->add("other/1.wav", kit::wav_file(tones(2), kRate));
  const std::string one = scratch_->add("one.tsv", cat(wav(1), "\t", text(1), "\n"));
  expect_error({"transcribe", at("causal"), wav(1), other, "--references", one}, 2, "have one name");
  const std::string two = scratch_->add("two.tsv", cat(wav(1), "\t", text(1), "\n", other, "\t", text(2), "\n"));
  const Finished f = run_program({"transcribe", at("causal"), wav(1), other, "--references", two});
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_NE(f.out.find("word error rate 0.00 %"), std::string::npos) << f.out;
}

TEST_F(Transcribe, TextsAreSearchedWithTheEncodersHead) {
  const auto words = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"transcribe", at("written"), wav(1), wav(2)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return output_of(arguments);
  };
  const std::string greedy = words({});
  EXPECT_EQ(std::count(greedy.begin(), greedy.end(), '\n'), 2);
  const std::string joint = words({"--num-beams", "3", "--ctc-weight", "0.5"});
  EXPECT_EQ(std::count(joint.begin(), joint.end(), '\t'), 2);
  expect_error({"transcribe", at("causal"), wav(1), "--ctc-weight", "0.5"}, 2, "--ctc-weight is of encoder-decoders");
  expect_error({"transcribe", at("causal"), wav(1), "--length-penalty", "0"}, 2, "--length-penalty is of beams");
  expect_error({"transcribe", at("causal"), wav(1), "--chunk", "1"}, 2, "--stream");
  expect_error({"transcribe", at("written"), wav(1), "--ctc-weight", "1.5"}, 2, "--ctc-weight");
  expect_error({"transcribe", at("written"), wav(1), "--ngram-order", "2"}, 2, "head ctc");
  expect_error({"transcribe", at("written"), wav(1), "--ngram-weight", "2"}, 2, "--ngram-order");
  expect_error({"transcribe", at("causal"), wav(1), "--ngram-weight", "2"}, 2, "--ngram-order");
  expect_error({"transcribe", at("written"), wav(1), "--length-penalty", "2"}, 2, "give --num-beams above 1");
  expect_error({"transcribe", at("narrow"), wav(1), "--ctc-weight", "0.5"}, 2, "num_labels 128, and texts have 256");
  expect_error({"transcribe", at("written"), wav(1), "--language", "en"}, 2, "Whisper's tokens");
}

}  // namespace
}  // namespace lithe

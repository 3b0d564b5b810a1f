// `lithe translate` as a person or a script meets it, with an encoder-decoder of random weights over bytes.
#include <gtest/gtest.h>

#include <csignal>
#include <sstream>

#include "lithe/base/error.h"
#include "lithe/base/json.h"
#include "lithe/model/model.h"
#include "lithe/text/tokenizer.h"
#include "tests/support/program_test.h"
#include "tests/support/text.h"

namespace lithe {
namespace {

namespace fs = std::filesystem;
using kit::Finished;
using kit::run_program;

class TranslateProgram : public kit::ProgramTest {
 protected:
  static void SetUpTestSuite() {
    if (!kit::have_program()) return;
    scratch_ = new kit::Scratch;
    fs::create_directory(run());
    Model model(read_model_config(parse_yaml("{architecture: encoder_decoder, vocab_size: 257, hidden_size: 16, "
                                             "num_hidden_layers: 1, max_position_embeddings: 32, position: learned, "
                                             "mixer: {type: attention, num_attention_heads: 2}, init: {std: 0.5}}",
                                             "test")),
                ModelOptions{});
    save_config(model.config(), Path(run()) / "config.json");
    save_weights(model, Path(run()) / "model.safetensors");
    save_tokenizer(*make_byte_tokenizer(), run());
    write_file(Path(run()) / "resolved_recipe.yaml", "translate: {num_beams: 4}\n");
    scratch_->add("lines.txt", kText);
  }
  static void TearDownTestSuite() { delete scratch_; }
  void SetUp() override {
    ProgramTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_TRUE(fs::exists(run() + "/model.safetensors"));
  }

  static constexpr const char* kText = "one line\r\nand another\n\nshort\nthe last, without end";
  static std::string run() { return *scratch_ / "run"; }
  static Finished translated(std::vector<std::string> options, const std::string& input = kText) {
    options.insert(options.begin(), {"translate", run()});
    Finished f = run_program(options, {.stdin_text = input});
    EXPECT_EQ(f.code, 0) << f.err;
    EXPECT_EQ(f.err, "");
    return f;
  }
  static void expect_error(std::vector<std::string> options, const std::vector<std::string>& words) {
    options.insert(options.begin(), "translate");
    const Finished f = run_program(options, {.stdin_text = "a\nb\n"});
    EXPECT_EQ(f.code, 2) << f.err;
    EXPECT_EQ(f.out, "");
    for (const std::string& word : words)
      EXPECT_NE(f.err.find(word), std::string::npos) << "no '" << word << "' in: " << f.err;
  }

  static inline kit::Scratch* scratch_ = nullptr;
};

TEST_F(TranslateProgram, OneLineEachInOrderFromStdinAndFiles) {
  const Finished plain = translated({});
  const auto lines = kit::lines_of(plain.out);
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[2], "");
  EXPECT_NE(lines[0], "");
  for (const auto& same : std::vector<std::vector<std::string>>{{"--window", "1"},
                                                                {"--window", "2", "--batch-size", "1"},
                                                                {*scratch_ / "lines.txt"},
                                                                {*scratch_ / "lines.txt", "--window", "3"},
                                                                {"--threads", "1"}})
    EXPECT_EQ(translated(same).out, plain.out) << same[0];
  EXPECT_EQ(translated({*scratch_ / "lines.txt", scratch_->add("more.txt", kText)}).out, plain.out + plain.out);
  EXPECT_EQ(kit::lines_of(translated({}, "alone").out).size(), 1u);
  EXPECT_EQ(kit::lines_of(translated({}, "\n").out).size(), 1u);
}

TEST_F(TranslateProgram, NBestScoresAndJsonAgree) {
  const auto plain = kit::lines_of(translated({"--length-penalty", "1"}).out);
  const auto scored = kit::lines_of(translated({"--length-penalty", "1", "--scores"}).out);
  const auto json = kit::lines_of(translated({"--length-penalty", "1", "--n-best", "3", "--json"}).out);
  const auto best = kit::lines_of(translated({"--length-penalty", "1", "--n-best", "3"}).out);
  ASSERT_EQ(json.size(), plain.size());
  ASSERT_EQ(best.size(), 4 * 3 + 1u);  // an empty line has one translation
  size_t at = 0;
  for (size_t i = 0; i < json.size(); ++i) {
    const Json line = parse_json(json[i], "translate --json");
    EXPECT_EQ(line["line"], i + 1);
    EXPECT_EQ(line["source"], kit::lines_of(kText)[i].substr(0, kit::lines_of(kText)[i].find('\r')));
    ASSERT_EQ(line["translations"].size(), i == 2 ? 1u : 3u);
    double before = 0;
    for (const Json& t : line["translations"]) {
      const std::string shown = best[at++];
      EXPECT_TRUE(shown.starts_with(cat(i, " ||| "))) << shown;
      EXPECT_TRUE(shown.ends_with(cat(" ||| ", double(t["score"])))) << shown;
      EXPECT_LE(double(t["score"]), before);
      before = t["score"];
    }
    const double score = line["translations"][0]["score"];
    EXPECT_EQ(scored[i], cat(score, "\t", plain[i]));
  }
}

TEST_F(TranslateProgram, OptionsReachTheSearch) {
  for (const std::string& line : kit::lines_of(translated({"--prefix", "So:"}).out))
    EXPECT_TRUE(line.empty() || line.starts_with("So:")) << line;
  const Json one = parse_json(translated({"--json", "--max-new-tokens", "3", "--num-beams", "1"}, "x").out, "json");
  EXPECT_LE(one["translations"][0]["tokens"], 3);
  EXPECT_NE(translated({"--scores", "--length-penalty", "1"}).out, translated({"--scores"}).out);
}

TEST_F(TranslateProgram, Draws) {
  const std::vector<std::string> options{"--sample", "--seed", "5", "--top-p", "0.95", "--n-best", "3", "--json"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), options.begin(), options.end());
    return translated(more).out;
  };
  const std::string drawn = with({});
  EXPECT_EQ(parse_json(kit::lines_of(drawn)[0], "json")["translations"].size(), 3u);
  EXPECT_EQ(with({"--batch-size", "1"}), drawn);
  EXPECT_EQ(with({"--window", "2"}), drawn);  // lines keep their draws wherever a window begins
  EXPECT_NE(with({"--temperature", "0.5"}), drawn);
  EXPECT_NE(translated({"--sample", "--seed", "6"}).out, translated({"--sample", "--seed", "5"}).out);
  expect_error({run(), "--seed", "5"}, {"--seed", "--sample"});
  expect_error({run(), "--sample", "--num-beams", "2"}, {"do_sample", "2 beams"});
  expect_error({run(), "--sample", "--top-p", "0"}, {"top_p"});
}

// Work for results that are lost is not done: all of these lines would take minutes.
TEST_F(TranslateProgram, StopsWhenNobodyTakesTheResults) {
  std::string many;
  for (int i = 0; i < 100000; ++i) many += "a line\n";
  const std::string file = scratch_->add("many.txt", many);
  const Finished full = run_program({"translate", run(), file, "--window", "4"}, {.stdout_to = "/dev/full"});
  EXPECT_EQ(full.code, 1);
  EXPECT_NE(full.err.find("lithe: output: the results could not be written to stdout"), std::string::npos) << full.err;
}

// The other end waits for an answer before it sends the next line.
TEST_F(TranslateProgram, ALineIsAnsweredBeforeTheNextIsSent) {
  const std::string out = *scratch_ / "answers";
  kit::Process process({"translate", run()}, {.stdout_to = out, .stdin_open = true});
  const auto answers = [&] { return fs::exists(out) ? kit::lines_of(read_file(out)).size() : 0; };
  const std::string text = "first\nsecond\n";
  for (size_t i = 0; i < 2; ++i) {
    const std::string line = kit::lines_of(text)[i] + "\n";
    ASSERT_EQ(process.write(line), ssize_t(line.size()));
    kit::wait_until([&] { return answers() > i; });
    ASSERT_EQ(answers(), i + 1);
  }
  // Waiting for a third, it ends when asked to, with what it answered.
  process.send(SIGINT);
  const Finished f = process.wait();
  EXPECT_EQ(f.code, 128 + SIGINT) << f.err;
  EXPECT_EQ(f.out, translated({}, text).out);
}

TEST_F(TranslateProgram, ErrorsSayWhatIsWrong) {
  expect_error({}, {"model", "lithe translate --help"});
  expect_error({*scratch_ / "nothing"}, {"does not exist"});
  expect_error({run(), "--num-beams", "2", "--n-best", "3"}, {"num_return_sequences", "num_beams 2, got 3"});
  expect_error({run(), "--length-penalty", "x"}, {"--length-penalty"});
  expect_error({run(), "--window", "0"}, {"--window"});
  scratch_->add("long.txt", "fine\n" + std::string(40, 'x') + "\n");
  expect_error({run(), *scratch_ / "long.txt"}, {"line 2 has 40 tokens", "at most 31", "split it"});
  const Finished later =
      run_program({"translate", run(), *scratch_ / "long.txt", "--window", "1"});  // what came before was answered
  EXPECT_EQ(later.code, 2);
  EXPECT_EQ(kit::lines_of(later.out).size(), 1u);
  EXPECT_NE(later.err.find("line 2 has 40 tokens"), std::string::npos) << later.err;
}

}  // namespace
}  // namespace lithe

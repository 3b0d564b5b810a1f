// The program as a person or a script meets it: results on stdout, one clear line on errors, exit codes.
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <sstream>

#include "lithe/base/error.h"
#include "lithe/base/json.h"
#include "tests/support/program_test.h"

namespace lithe {
namespace {

namespace fs = std::filesystem;
using kit::Finished;
using kit::run_program;

const char* const kVerbs[] = {"train", "eval", "generate", "plan", "quantize", "inspect", "list", "doctor"};

int lines_in(const std::string& text) { return int(std::count(text.begin(), text.end(), '\n')); }

std::string recipe_text(const kit::Scratch& scratch, const std::string& more = "") {
  return cat(
      "model: {hidden_size: 16, num_hidden_layers: 1, position: learned, mixer: {type: attention, num_attention_heads: "
      "2}, ffn: {type: relu, intermediate_size: 32}}\n",
      "data: {files: [\"", scratch / "text.txt",
      "\"], documents: paragraph, validation_fraction: 0.1, sequence_length: 16, cache_directory: \"",
      scratch / "cache",
      "\"}\ntrain: {max_steps: 6, batch_tokens: 64, learning_rate: 0.01, save_steps: 3}\ngenerate: {prompt: the, "
      "max_new_tokens: 6}\n",
      more);
}

class Program : public kit::ProgramTest {
 protected:
  static void SetUpTestSuite() {
    if (!kit::have_program()) return;
    scratch_ = new kit::Scratch;
    scratch_->add("text.txt", kit::small_text(3000));
    recipe_ = new std::string(scratch_->add("recipe.yaml", recipe_text(*scratch_)));
    run_ = new std::string(*scratch_ / "run");
    const Finished f = run_program({"train", *recipe_, "--out", *run_, "--json"});
    ASSERT_EQ(f.code, 0) << f.err;
    const Json result = parse_json(f.out, "train --json");  // nothing but the result on stdout
    ASSERT_EQ(result["status"], "finished");
    ASSERT_EQ(result["planned_peak_bytes"], result["measured_peak_bytes"]);
  }
  static void TearDownTestSuite() { delete scratch_; }
  void SetUp() override {
    ProgramTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_TRUE(run_ && fs::exists(*run_ + "/model.safetensors"));
  }
  // Exit code, nothing on stdout, one line "lithe: ..." that holds all the words.
  void expect_error(const std::vector<std::string>& arguments, int code, const std::vector<std::string>& words) {
    const Finished f = run_program(arguments);
    std::string shown;
    for (const std::string& a : arguments) shown += a + " ";
    EXPECT_EQ(f.code, code) << shown << "\n" << f.err;
    EXPECT_EQ(f.signal, 0) << shown;
    EXPECT_EQ(f.out, "") << shown;
    const size_t at = f.err.find("lithe: ");
    ASSERT_NE(at, std::string::npos) << shown << f.err;
    const std::string line = f.err.substr(at);
    EXPECT_EQ(lines_in(line), 1) << shown << line;
    EXPECT_EQ(line.find("internal"), std::string::npos) << line;
    for (const std::string& word : words)
      EXPECT_NE(line.find(word), std::string::npos) << "no '" << word << "' in: " << line;
  }
  // A recipe with these lines changed is refused when it is planned.
  void expect_bad_recipe(const std::string& text, const std::vector<std::string>& words, int code = 2) {
    expect_error({"plan", scratch_->add("bad.yaml", text), "--no-speed"}, code, words);
  }
  // A copy of the trained run that can be damaged.
  std::string copy_of_run(const std::string& name) {
    fs::copy(*run_, *scratch_ / name, fs::copy_options::recursive);
    return *scratch_ / name;
  }

  static inline kit::Scratch* scratch_ = nullptr;
  static inline std::string *recipe_ = nullptr, *run_ = nullptr;
};

TEST_F(Program, EveryHelpHasAnExampleThatParses) {
  const Finished all = run_program({"--help"});
  EXPECT_EQ(all.code, 0);
  for (const char* verb : kVerbs) {
    EXPECT_NE(all.out.find(verb), std::string::npos);
    const Finished help = run_program({verb, "--help"});
    EXPECT_EQ(help.code, 0);
    EXPECT_EQ(help.err, "");
    const size_t at = help.out.find("Example: lithe ");
    ASSERT_NE(at, std::string::npos) << verb;
    std::istringstream line(help.out.substr(at + 15, help.out.find('\n', at) - at - 15));
    std::vector<std::string> words;
    std::string word;
    bool quoted = false;
    for (char c; line.get(c);) {
      if (c == '"')
        quoted = !quoted;
      else if (c == ' ' && !quoted)
        words.push_back(std::exchange(word, ""));
      else
        word += c;
    }
    words.push_back(word);
    ASSERT_EQ(words[0], verb);
    for (std::string& w : words) {
      if (w == "runs/first") w = std::string(verb) == "train" ? *scratch_ / "example" : *run_;
      if (w == "recipes/quickstart.yaml" && std::string(verb) == "train") w = *recipe_;
      if (w == "train.max_steps=100") w = "train.max_steps=2";
      if (w == "runs/first-int8") w = *scratch_ / "int8";
      if (w == "64") w = "8";  // a stride and a prompt within this model's 16 positions
      if (w == "In the beginning") w = "In the";
    }
    const Finished example = run_program(words);
    EXPECT_EQ(example.code, 0) << verb << ": " << example.err;
    EXPECT_NE(example.out, "") << verb;
  }
}

TEST_F(Program, VersionAndUsage) {
  const Finished version = run_program({"--version"});
  EXPECT_EQ(version.code, 0);
  EXPECT_EQ(version.out.substr(0, 6), "lithe ");
  for (const char* word : {"commit", "built with", "instruction set", "threads"})
    EXPECT_NE(version.out.find(word), std::string::npos);
  expect_error({}, 2, {"subcommand", "lithe --help"});
  expect_error({"trian"}, 2, {"subcommand", "lithe --help"});
  expect_error({"train"}, 2, {"recipe", "lithe train --help"});
  expect_error({"train", *recipe_}, 2, {"--out"});
  expect_error({"eval", *run_, "--strid", "3"}, 2, {"--strid"});
  expect_error({"generate", *run_, "--seed", "x"}, 2, {"--seed"});
  for (const char* bad : {"0", "-1", "x", "100000", "99999999999999999999"})
    expect_error({"plan", *recipe_, "--threads", bad}, 2, {"--threads"});
  expect_error({"list", "--markdown"}, 2, {"--keys"});
  expect_error({"list", "--keys", "--json", "--markdown"}, 2, {"--markdown", "--json"});
  const Json keys = parse_json(run_program({"list", "--keys", "--json", "window"}).out, "keys");
  ASSERT_FALSE(keys.empty());
  for (const Json& key : keys) EXPECT_FALSE(key.at("key").get<std::string>().empty() || key.at("help").empty());
  EXPECT_EQ(keys.back().at("part"), "moving_average");
}

TEST_F(Program, JsonIsJsonAndNothingElse) {
  const auto plan = [&](const std::string& cache) {
    return parse_json(
        run_program({"plan", *recipe_, "--json", "--no-speed", "--set", "generate.cache_dtype=" + cache}).out, "plan");
  };
  EXPECT_EQ(plan("f32")["batch_tokens"], 64);
  EXPECT_LT(plan("int4")["state_bytes_per_token"], plan("int8")["state_bytes_per_token"]);
  EXPECT_EQ(plan("f32")["state_bytes_per_token"], 2 * plan("bf16")["state_bytes_per_token"].get<int64_t>());
  EXPECT_TRUE(parse_json(run_program({"doctor", "--json"}).out, "doctor").contains("gemm_f32_gflops"));
  const Json list = parse_json(run_program({"list", "--json"}).out, "list");
  EXPECT_GT(list["parts"].size(), 15u);
  EXPECT_FALSE(list["ids"].empty());
  const Json eval = parse_json(run_program({"eval", *run_, "--json"}).out, "eval");
  EXPECT_GT(eval["loss"].get<double>(), 0);
  for (const char* type : {"int8", "int4"}) {
    const Json cached = parse_json(run_program({"eval", *run_, "--cache-type", type, "--json"}).out, "eval");
    EXPECT_NEAR(cached["loss"].get<double>(), eval["loss"].get<double>(), 0.01 * eval["loss"].get<double>()) << type;
  }
  std::istringstream generated(
      run_program({"generate", *run_, "--prompt", "a", "--prompt", "b", "--prompt", "\xff", "--json"}).out);
  int count = 0;
  for (std::string line; std::getline(generated, line); ++count)
    EXPECT_EQ(parse_json(line, "generate")["new_tokens"], 6);
  EXPECT_EQ(count, 3);
}

TEST_F(Program, MisspeltAndMisplacedKeysAreShownWhereTheyStand) {
  const std::string bad = *scratch_ / "bad.yaml";
  expect_bad_recipe("model:\n  hiden_size: 16\n",
                    {bad + ":2:15", "'hiden_size'", "section 'model'", "did you mean 'hidden_size'"});
  expect_bad_recipe("modle: {hidden_size: 16}\n", {bad + ":1:8", "'modle'", "did you mean 'model'"});
  expect_bad_recipe("learning_rate: 1.0e-3\n", {bad + ":1:16", "'learning_rate' belongs in section 'train'"});
  expect_bad_recipe("train: {hidden_size: 8}\n",
                    {bad + ":1:22", "'hidden_size'", "section 'train'", "belongs in section 'model'"});
  expect_bad_recipe("train: {learning_rate: fast}\n",
                    {bad + ":1:24", "'train.learning_rate' must be a number, got 'fast'"});
  expect_bad_recipe("train: {max_steps: 1.5}\n", {bad + ":1:20", "must be an integer"});
  expect_bad_recipe("train: {max_steps: -1}\n", {bad + ":1:20", "at least 0"});
  expect_bad_recipe("train: {max_steps: [1, 2]}\n", {bad + ":1:20", "must be an integer, got 'a list'"});
  expect_bad_recipe("train: {gradient_checkpointing: yes}\n", {bad + ":1:33", "must be true or false"});
  expect_bad_recipe("train: {lr_scheduler_type: cosin}\n", {bad + ":1:28", "did you mean 'cosine'"});
  expect_bad_recipe("model: {position: rotery}\n",
                    {bad + ":1:19", "slot position has no part 'rotery'", "did you mean 'rotary'"});
  expect_bad_recipe("model: {position: {type: rotary, bsae: 3}}\n", {bad + ":1:40", "'bsae'", "did you mean 'base'"});
  expect_bad_recipe("model: {mixer: {type: attention, heads: {type: gqa, num_key_value_head: 3}}}\n",
                    {bad + ":1:73", "did you mean 'num_key_value_heads'"});
  expect_bad_recipe("model: {mixer: {heads: {type: mha, x: 1}}}\n", {"unknown key 'x'", "valid keys are qk_norm"});
  expect_bad_recipe("train: {seed: 1}\ntrain: {seed: 2}\n", {bad + ":2:1", "given twice"});
  expect_bad_recipe("train: {seed: 1\n", {bad + ":"});
  expect_bad_recipe("train: 5\n", {bad + ":1:8", "must be a section"});
  expect_bad_recipe("- model\n", {"must hold sections"});
  expect_bad_recipe("a\n", {"must hold sections"});
  expect_bad_recipe("a: &x [1]\n---\nb: 2\n", {"more than one document"});
  expect_bad_recipe(std::string("train: {seed: \0}\n", 17), {bad});
  expect_bad_recipe("model: {layer_types: [a]}\ntrain: {max_steps: 1}\n", {"layer_types", "num_hidden_layers"});
  expect_bad_recipe("train: {max_steps: 1, batch_tokens: 10, gradient_accumulation_steps: 3}\n", {"multiple"});
  expect_error({"plan", *recipe_, "--set", "train.learning_rat=3"}, 2,
               {"--set train.learning_rat", "did you mean 'learning_rate'"});
  expect_error({"plan", *recipe_, "--set", "train"}, 2, {"--set", "key=value"});
  expect_error({"plan", *recipe_, "--set", "=3"}, 2, {"--set"});
  expect_error({"plan", *recipe_, "--set", "train..seed=3"}, 2, {"empty key"});
  expect_error({"plan", *recipe_, "--set", "data.files.x=3"}, 2, {"is a list, not a section"});
}

// A mixer that no layer has was meant to be used. What an experiment's variant or a resolved recipe replaces may stand.
TEST_F(Program, AMixerThatNoLayerHasIsRefused) {
  const std::string hybrid =
      "layer_pattern: hybrid, mixers: {standard: {type: attention, num_attention_heads: 2}, replaced: mlp}";
  const std::string text = recipe_text(*scratch_);
  const auto with = [&](const std::string& model) {
    std::string out = text;
    const size_t at = out.find("mixer: "), end = out.find("}", at) + 1;
    return out.replace(at, end - at, model);
  };
  const std::string both = with("mixer: {type: mlp}, " + hybrid), only = scratch_->add("hybrid.yaml", with(hybrid));
  expect_bad_recipe(both, {"bad.yaml:1:", "no layer has model.mixer, because model.layer_pattern"});
  expect_bad_recipe(with("mixer: mlp, layer_types: [a], mixers: {a: mlp}"), {"because model.layer_types"});
  expect_bad_recipe(with("architecture: encoder_decoder, mixer: {type: attention, num_attention_heads: 2}, encoder: "
                         "{mixer: mlp, layer_types: [a], mixers: {a: mlp}}"),
                    {"no layer has model.encoder.mixer"});
  expect_bad_recipe(with("mixer: mlp, layer_types: [a], layers: {a: {mixer: mlp}}"),
                    {"because model.layer_types gives each layer one of model.layers, which all have a mixer"});
  expect_error({"plan", only, "--set", "model.mixer.heads=mqa"}, 2, {"no layer has model.mixer"});
  const auto plans = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"plan", "--no-speed"};
    words.insert(words.end(), more.begin(), more.end());
    const Finished f = run_program(words);
    EXPECT_EQ(f.code, 0) << f.err;
  };
  plans({only});
  plans({*recipe_, "--set", "model.layer_types=[a]", "--set", "model.mixers={a: mlp}"});
  ASSERT_EQ(run_program({"train", only, "--out", *scratch_ / "hybrid"}).code, 0);
  plans({*scratch_ / "hybrid/resolved_recipe.yaml"});
}

// Aliases that would grow to more nodes than any recipe has, and nesting that would exhaust the stack.
TEST_F(Program, HostileYamlIsRefusedAtOnce) {
  std::string laughs = "a: &a [1,1,1,1,1,1,1,1,1,1]\n";
  for (char c = 'b'; c <= 'k'; ++c)
    laughs += cat(c, ": &", c, " [*", char(c - 1), ",*", char(c - 1), ",*", char(c - 1), ",*", char(c - 1), ",*",
                  char(c - 1), ",*", char(c - 1), ",*", char(c - 1), ",*", char(c - 1), ",*", char(c - 1), "]\n");
  expect_bad_recipe(laughs, {"bad.yaml"});
  expect_bad_recipe("a: &a [*a, *a]\n", {"bad.yaml"});
  expect_bad_recipe("a: " + std::string(20000, '[') + "\n", {"bad.yaml"});
  expect_bad_recipe("a: " + std::string(20000, '{') + "\n", {"bad.yaml"});
  std::string blocks;
  for (int i = 0; i < 500; ++i) blocks += std::string(size_t(i), ' ') + "a:\n";
  expect_bad_recipe(blocks, {"bad.yaml"});
}

TEST_F(Program, RecipesThatAreNoFiles) {
  expect_error({"plan", scratch_->path().string()}, 2, {"is not a file"});
  expect_error({"train", *scratch_ / "nothing.yaml", "--out", *scratch_ / "o"}, 2, {"does not exist"});
  expect_error({"plan", "/dev/null"}, 2, {"is not a file"});
  EXPECT_FALSE(fs::exists(*scratch_ / "o"));
}

TEST_F(Program, CorporaThatCannotBeRead) {
  const auto with = [&](const std::string& files) {
    return std::vector<std::string>{
        "train", *recipe_, "--out", *scratch_ / "corpus", "--set", cat("data.files=[\"", files, "\"]")};
  };
  expect_error(with(*scratch_ / "nothing.txt"), 2, {"nothing matches", "nothing.txt"});
  expect_error(with(*scratch_ / "x*.txt"), 2, {"nothing matches"});
  expect_error(with(scratch_->path()), 2, {"is a directory"});
  expect_error(with(scratch_->add("empty.txt", "")), 1, {"holds no text"});
  expect_error(with(scratch_->add("blank.txt", " \n\n\t")), 1, {"holds no text"});
  expect_error({"eval", *run_, *scratch_ / "empty.txt"}, 1, {"empty.txt' holds no text; name files with text"});
  expect_error(with(scratch_->add("binary.txt", std::string("\x7f\x45\x4c\x46\0\1\2", 7))), 1, {"is not text"});
  expect_error(with(scratch_->add("latin.txt", "caf\xe9 au lait")), 1, {"not valid UTF-8 at byte 3", "iconv"});
  expect_error(with(scratch_->add("cut.txt.gz", "\x1f\x8b\x08")), 1, {"cut.txt.gz"});
  expect_error(with(scratch_->add("no.jsonl", "{\"txt\": \"a\"}\n")), 2, {"no.jsonl", "1"});
  if (::getuid() != 0) {
    fs::permissions(scratch_->add("secret.txt", "text"), fs::perms::none);
    expect_error(with(*scratch_ / "secret.txt"), 1, {"Permission denied"});
  }
  // One token is text, but too little for a held-out part.
  expect_error(with(scratch_->add("tiny.txt", "a")), 1, {"too short to hold out a part"});
}

TEST_F(Program, ModelDirectoriesThatMissOrDamageAFile) {
  expect_error({"generate", *scratch_ / "nowhere"}, 2, {"nowhere"});
  expect_error({"eval", *recipe_}, 2, {"recipe.yaml"});
  for (const char* file : {"config.json", "model.safetensors", "tokenizer.json", "resolved_recipe.yaml"}) {
    const std::string run = copy_of_run(cat("without-", file));
    fs::remove(Path(run) / file);
    const Finished f = run_program({"generate", run});
    EXPECT_TRUE(f.code == 1 || f.code == 2) << file << f.err;
    EXPECT_NE(f.err.find(file), std::string::npos) << f.err;
  }
  for (const char* file : {"config.json", "model.safetensors", "tokenizer.json", "resolved_recipe.yaml"})
    for (const int how : {0, 1, 2}) {  // cut, empty, noise
      const std::string run = copy_of_run(cat("damaged-", file, how));
      const std::string bytes = read_file(Path(run) / file);
      fs::remove(Path(run) / file);
      scratch_->add(cat("damaged-", file, how, "/", file), how == 0   ? bytes.substr(0, bytes.size() / 2)
                                                           : how == 1 ? ""
                                                                      : "\x01\x02 noise \xff");
      // A recipe that is empty or ends early but well is one with more defaults.
      if (how != 2 && std::string(file) == "resolved_recipe.yaml") continue;
      const Finished f = run_program({"eval", run, *scratch_ / "text.txt"});
      EXPECT_TRUE(f.code == 1 || f.code == 2) << file << how << f.err;
      EXPECT_NE(f.err.find("lithe: "), std::string::npos);
      EXPECT_EQ(f.err.find("internal"), std::string::npos) << f.err;
      EXPECT_NE(f.err.find(file), std::string::npos) << how << f.err;
    }
  // Weights of another shape.
  const std::string other = copy_of_run("other-shape");
  std::string config = read_file(Path(other) / "config.json");
  config.replace(config.find("\"hidden_size\": 16"), 17, "\"hidden_size\": 32");
  fs::remove(Path(other) / "config.json");
  scratch_->add("other-shape/config.json", config);
  expect_error({"generate", other}, 1, {"the model needs"});
}

TEST_F(Program, EvalAsksForTextWhereThereIsNone) {
  const std::string run = *scratch_ / "no-validation";
  ASSERT_EQ(run_program(
                {"train", *recipe_, "--out", run, "--set", "data.validation_fraction=0", "--set", "train.max_steps=1"})
                .code,
            0);
  const Finished f = run_program({"eval", run});
  EXPECT_EQ(f.code, 2);
  EXPECT_NE(f.err.find("the run has no held-out text; name the text to measure"), std::string::npos) << f.err;
  EXPECT_EQ(run_program({"eval", run, *scratch_ / "text.txt"}).code, 0);
  expect_error({"generate", run, "--weights", "best"}, 2, {"no held-out evaluation"});
  expect_error({"eval", *run_, *scratch_ / "nothing.txt"}, 2, {"nothing matches"});
  expect_error({"eval", *run_, *scratch_ / "text.txt", "--context-length", "17"}, 2,
               {"context_length 17 is beyond the model's 16 positions; choose that or less"});
  expect_error({"eval", *run_, "--cache-type", "int2"}, 2, {"--cache-type", "int2"});
  expect_error({"eval", *run_, "--skip-part", "mixer"}, 2, {"--skip-part requires --skip-layers"});
  expect_error({"eval", *run_, "--skip-layers", ","}, 2, {"'' is neither a layer number (1 to", "which is no hybrid"});
}

TEST_F(Program, PromptsFromFilesAndOptions) {
  const auto texts = [](const Finished& f) {
    std::vector<std::string> out;
    std::istringstream in(f.out);
    for (std::string line; std::getline(in, line);) out.push_back(parse_json(line, "generate")["prompt"]);
    return out;
  };
  EXPECT_EQ(texts(run_program({"generate", *run_, "--prompts-file", scratch_->add("short.txt", "one\r\ntwo\r\n\r\nx"),
                               "--json", "--max-new-tokens", "1"})),
            (std::vector<std::string>{"one", "two", "", "x"}));
  EXPECT_EQ(texts(run_program({"generate", *run_, "--prompt", "-x", "--prompt", "[a]", "--prompt", "", "--json",
                               "--max-new-tokens", "1"})),
            (std::vector<std::string>{"-x", "[a]", ""}));
  EXPECT_EQ(texts(run_program({"generate", *run_, "--json"})), std::vector<std::string>{"the"});  // the recipe's
  expect_error({"generate", *run_, "--prompts-file", scratch_->add("none.txt", "")}, 2, {"holds no prompt"});
  expect_error({"generate", *run_, "--prompts-file", *scratch_ / "nothing.txt"}, 2, {"nothing.txt"});
  expect_error({"generate", *run_, "--prompt", "much longer than sixteen tokens"}, 2,
               {"prompt 1 has 32 tokens, the model has positions for 16; shorten it"});
  for (const char* bad : {"nan", "inf", "-1"})
    expect_error({"generate", *run_, "--temperature", bad}, 2, {"temperature"});
  for (const char* bad : {"0", "1.5"}) expect_error({"generate", *run_, "--top-p", bad}, 2, {"top_p"});
  for (const char* bad : {"0", "-2"})
    expect_error({"generate", *run_, "--repetition-penalty", bad}, 2, {"repetition_penalty"});
  expect_error({"generate", *run_, "--stop", ""}, 2, {"stop"});
}

TEST_F(Program, CachedAndUncachedAndEveryBatchSizeAgree) {
  const auto text = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"generate", *run_,      "--prompt", "a",     "--prompt",
                                      "the cat",  "--prompt", "mat",      "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return run_program(words).out;
  };
  const std::string all = text({});
  EXPECT_NE(all, "");
  EXPECT_EQ(text({"--no-cache"}), all);
  EXPECT_EQ(text({"--batch-size", "1"}), all);
  EXPECT_EQ(text({"--batch-size", "2"}), all);
  EXPECT_NE(text({"--seed", "8"}), all);
  EXPECT_EQ(text({"--greedy", "--seed", "8"}), text({"--greedy"}));
  EXPECT_EQ(text({"--temperature", "0"}), text({"--greedy"}));
  EXPECT_EQ(text({"--top-k", "1"}), text({"--greedy"}));
}

// Streams that are closed, full or gone do no harm, least of all to the files of a run.
TEST_F(Program, ClosedAndFullOutputs) {
  const Finished closed = run_program({"train", *recipe_, "--out", *scratch_ / "closed"}, {.stdout_to = "closed"});
  EXPECT_EQ(closed.code, 0) << closed.err;
  EXPECT_TRUE(read_file(*scratch_ / "closed/model.safetensors") == read_file(*run_ + "/model.safetensors"));
  EXPECT_TRUE(read_file(*scratch_ / "closed/metrics.jsonl") == read_file(*run_ + "/metrics.jsonl"));
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"list"}, {"plan", *recipe_, "--no-speed"}, {"eval", *run_}, {"generate", *run_}, {"list", "--json"}}) {
    const Finished full = run_program(words, {.stdout_to = "/dev/full"});
    EXPECT_EQ(full.code, 1) << words[0];
    EXPECT_NE(full.err.find("lithe: output: the results could not be written to stdout"), std::string::npos)
        << words[0] << full.err;
    const Finished unread = run_program(words, {.stdout_to = "unread"});
    EXPECT_EQ(unread.signal, SIGPIPE) << words[0];
    EXPECT_EQ(unread.err.find("lithe:"), std::string::npos) << words[0] << unread.err;
  }
}

TEST_F(Program, BudgetsThatAreTooSmallExitWithFour) {
  const Finished plan = run_program({"plan", *recipe_, "--memory-budget", "10kB", "--no-speed"});
  EXPECT_EQ(plan.code, 4);
  EXPECT_NE(plan.err.find("the budget is 9.8 KiB"), std::string::npos);
  expect_error({"train", *recipe_, "--out", *scratch_ / "budget", "--memory-budget", "10kB"}, 4,
               {"the plan needs", "--fit"});
  expect_error({"train", *recipe_, "--out", *scratch_ / "budget", "--memory-budget", "10kB", "--fit"}, 4,
               {"cannot be met"});
  expect_error({"train", *recipe_, "--out", *scratch_ / "budget", "--memory-budget", "lots"}, 2,
               {"must be a size like 4GiB"});
  expect_error({"train", *recipe_, "--out", *scratch_ / "budget", "--fit"}, 2, {"--fit needs --memory-budget"});
}

TEST_F(Program, DivergenceExitsWithThree) {
  const Finished f = run_program({"train", *recipe_, "--out", *scratch_ / "diverged", "--set",
                                  "train.learning_rate=1e30", "--set", "train.lr_scheduler_type=constant"});
  EXPECT_EQ(f.code, 3);
  EXPECT_NE(f.err.find("lithe: diverged: "), std::string::npos) << f.err;
  EXPECT_EQ(f.out, "");
}

TEST_F(Program, SignalsEndEvalAndGenerate) {
  for (const std::string verb : {"eval", "generate"}) {
    std::vector<std::string> words = {verb, *run_};
    if (verb == "eval") {
      const std::vector<std::string> more = {scratch_->add("long.txt", kit::small_text(3000000)), "--stride", "1",
                                             "--batch-tokens", "64"};
      words.insert(words.end(), more.begin(), more.end());
    } else {
      const std::vector<std::string> more = {"--prompts-file",
                                             scratch_->add("many.txt",
                                                           [] {
                                                             std::string lines;
                                                             for (int i = 0; i < 100000; ++i) lines += "a\n";
                                                             return lines;
                                                           }()),
                                             "--batch-size", "1"};
      words.insert(words.end(), more.begin(), more.end());
    }
    kit::Process process(words);
    ::usleep(400000);
    process.send(SIGTERM);
    const Finished f = process.wait();
    EXPECT_EQ(f.code, 128 + SIGTERM) << verb << f.err;
  }
}

}  // namespace
}  // namespace lithe

// One rule for every output of every subcommand: what exists is refused, --overwrite replaces what the command itself
// wrote (a file that is named: any), and nothing else. The options are found from the parser.
#include <map>

#include "lithe/cli/command.h"
#include "tests/cli/run_kit.h"

namespace lithe {
namespace {

namespace fs = std::filesystem;
using kit::Finished;
using kit::run_program;
using Kind = OutputRule::Kind;

constexpr const char* kPrecious = "what the user wrote\n";

bool mentions(const std::string& text, const std::vector<std::string>& words) {
  return std::any_of(words.begin(), words.end(), [&](const auto& w) { return text.find(w) != std::string::npos; });
}

// Whatever an option that takes a name may be called, it writes when its help says so.
TEST(OutputOptions, AreDeclared) {
  size_t outputs = 0;
  for (const VerbDoc& verb : describe_verbs(verbs()))
    for (const OptionDoc& option : verb.options) {
      const std::string name = option.names[0];
      outputs += option.output.kind != Kind::none;
      if (option.value != "TEXT" || option.positional) continue;
      const bool writes = mentions(name, {"--out", "--save", "--report", "--write", "--log", "--dump"}) ||
                          mentions(option.help, {"write ", "writes ", "is written", "page goes", "new directory",
                                                 "new file", "directory of the run", "directory for"});
      EXPECT_EQ(option.output.kind != Kind::none, writes) << verb.name << " " << name << ": " << option.help;
    }
  EXPECT_GE(outputs, 19u);
}

class Outputs : public kit::RunTest {
 protected:
  // Arguments that the parser takes; the command itself would find nothing of their names.
  static std::vector<std::string> parsed(const VerbDoc& verb, const std::string& output) {
    std::vector<std::string> words{verb.name};
    for (const OptionDoc& option : verb.options) {
      if (!option.required || option.names[0] == output) continue;
      if (!option.positional) words.push_back(option.names[0]);
      words.push_back(option.choices.empty() ? "nothing-of-this-name" : option.choices[0]);
    }
    if (output == "--exits-report") words.push_back("--exits");
    return words;
  }
  // Receipts hold measured times: that they are there is all that stays the same.
  static std::map<std::string, std::string> contents(const Path& directory) {
    std::map<std::string, std::string> out;
    for (const auto& entry : fs::recursive_directory_iterator(directory))
      if (entry.is_regular_file())
        out[entry.path().lexically_relative(directory)] =
            entry.path().stem() == "receipt" ? std::string() : read_file(entry.path());
    return out;
  }
  static std::vector<std::string> with(std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
};

TEST_F(Outputs, EveryOptionRefusesWhatExists) {
  int tried = 0;
  for (const VerbDoc& verb : describe_verbs(verbs())) {
    for (const OptionDoc& option : verb.options) {
      const OutputRule& rule = option.output;
      if (rule.kind == Kind::none) continue;
      ++tried;
      const std::string name = option.names[0], place = cat("precious-", verb.name, name);
      const bool file = rule.kind == Kind::file || rule.kind == Kind::file_or_new;
      std::string inside = "/notes.txt";
      if (rule.kind == Kind::shared) inside = "/" + rule.own[0];
      if (!file) fs::create_directories(*scratch_ / place);
      const std::string precious = scratch_->add(file ? place : place + inside, kPrecious);
      const std::vector<std::string> words = with(parsed(verb, name), {name, *scratch_ / place});
      const Finished refused = run_program(words);
      EXPECT_EQ(refused.code, 2) << verb.name << " " << name << refused.err;
      if (rule.kind != Kind::of_command) {
        EXPECT_NE(refused.err.find(place), std::string::npos) << verb.name << " " << name << refused.err;
      }
      if (file || rule.kind == Kind::shared) {
        EXPECT_NE(refused.err.find("--overwrite"), std::string::npos) << refused.err;
      }
      EXPECT_EQ(read_file(precious), kPrecious) << verb.name;
      if (rule.kind == Kind::shared) continue;  // the command would run
      // A directory with something else in it is not replaced whatever is said.
      const Finished forced = run_program(with(words, {"--overwrite"}));
      EXPECT_NE(forced.code, 0) << verb.name << " " << name;
      EXPECT_EQ(forced.err.find("there is no option"), std::string::npos) << verb.name << forced.err;
      if (!file) {
        EXPECT_EQ(read_file(precious), kPrecious) << verb.name;
      }
    }
  }
  EXPECT_GE(tried, 19);
}

TEST_F(Outputs, FilesAreReplacedWhenItIsSaid) {
  scratch_->add("lines.txt", "the people\na valley\n");
  const std::string lines = *scratch_ / "lines.txt";
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"eval", *run_, "--per-token", *scratch_ / "tokens.json"},
        std::vector<std::string>{"encode", *run_, lines, "--out", *scratch_ / "rows.safetensors"},
        std::vector<std::string>{"inspect", *run_, "--text", "the people", "--out", *scratch_ / "page.html"}}) {
    const std::string file = words.back();
    scratch_->add(Path(file).filename(), kPrecious);
    expect_error(words, 2, {file + "' exists", "--overwrite to replace it"});
    EXPECT_EQ(read_file(file), kPrecious);
    const Finished f = run_program(with(words, {"--overwrite"}));
    EXPECT_EQ(f.code, 0) << f.err;
    EXPECT_NE(read_file(file), kPrecious);
  }
  // Weights are a file like any other.
  expect_error({"encode", *run_, lines, "--out", *run_ + "/model.safetensors"}, 2, {"exists"});
  expect_error({"encode", *run_, lines, "--out", lines, "--overwrite"}, 2, {"reads it (files)"});
  expect_error({"encode", *run_, lines, "--out", *run_, "--overwrite"}, 2, {"is a directory"});
  EXPECT_EQ(read_file(lines), "the people\na valley\n");
}

TEST_F(Outputs, DirectoriesAreReplacedWholeWhereTheyHoldNothingElse) {
  const std::string llama = untrained_llama(), exported = exported_of(llama);
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"quantize", *run_, "--weights", "int8"},
        std::vector<std::string>{"grow", *run_, "--layers", "2"},
        std::vector<std::string>{"convert", *run_, "--set", "model.mixer.output=hadamard"},
        std::vector<std::string>{"export", llama}, std::vector<std::string>{"import", exported},
        std::vector<std::string>{"datastore", "build", *run_},
        std::vector<std::string>{"synth", "copy", "--length", "8", "--items", "2", "--train", "4", "--test", "2"}}) {
    const std::string out = cat(*scratch_ / "made-", words[0]);
    const std::vector<std::string> plain = with(words, {"--out", out}), over = with(plain, {"--overwrite"});
    const Finished first = run_program(plain);
    ASSERT_EQ(first.code, 0) << words[0] << first.err;
    const auto made = contents(out);
    expect_error(plain, 2, {"exists; give --out a new directory"});
    EXPECT_EQ(contents(out), made) << words[0];
    const Finished again = run_program(over);
    EXPECT_EQ(again.code, 0) << words[0] << again.err;
    EXPECT_EQ(contents(out), made) << words[0];
    if (words[0] != "synth" && words[0] != "import" && words[0] != "export") {
      std::vector<std::string> itself = over;
      std::replace(itself.begin(), itself.end(), *run_, out);
      expect_error(itself, 2, {"reads it"});
    }
    scratch_->add(cat("made-", words[0], "/notes.txt"), kPrecious);
    expect_error(over, 2, {"notes.txt"});
    EXPECT_EQ(read_file(out + "/notes.txt"), kPrecious);
    for (const auto& entry : fs::directory_iterator(scratch_->path()))
      EXPECT_EQ(entry.path().filename().string().find(".tmp-"), std::string::npos) << entry.path();
  }
  // What one command wrote is not another's.
  const std::string quantized = *scratch_ / "of-quantize";
  ASSERT_EQ(run_program({"quantize", *run_, "--out", quantized}).code, 0);
  expect_error({"grow", *run_, "--layers", "2", "--out", quantized, "--overwrite"}, 2, {"lithe grow did not write"});
  expect_error({"grow", *run_, "--layers", "2", "--out", *run_, "--overwrite"}, 2, {"lithe grow did not write"});
  const std::string gguf = scratch_->add("model.gguf", kPrecious);
  expect_error({"export", llama, "--format", "gguf", "--out", gguf}, 2, {"exists", "--overwrite"});
  EXPECT_EQ(read_file(gguf), kPrecious);
}

// A run that stands stays whole until the new one is.
TEST_F(Outputs, InitialWeightsTakeThePlaceOfARunAtOnce) {
  const std::string run = copy_of_run("to-begin-anew");
  const auto before = contents(run);
  expect_error({"init", *recipe_, "--out", run}, 2, {"already holds a run", "--overwrite"});
  expect_error({"init", *recipe_, "--out", run, "--overwrite", "--set", "data.files=[\"nothing-here.txt\"]"}, 2,
               {"nothing-here.txt"});
  EXPECT_EQ(contents(run), before);
  scratch_->add("to-begin-anew/notes.txt", kPrecious);
  expect_error({"init", *recipe_, "--out", run, "--overwrite"}, 2, {"holds 'notes.txt', which no run has"});
  fs::remove(run + "/notes.txt");
  EXPECT_EQ(contents(run), before);
  const Finished f = run_program({"init", *recipe_, "--out", run, "--overwrite"});
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_FALSE(fs::exists(run + "/samples.jsonl") && read_file(run + "/samples.jsonl").size() > 0);
  EXPECT_NE(read_file(run + "/report.html").find("<title>to-begin-anew"), std::string::npos);
  EXPECT_EQ(run_program({"train", *recipe_, "--out", run, "--resume"}).code, 0);
  EXPECT_EQ(read_file(run + "/model.safetensors"), read_file(*run_ + "/model.safetensors"));
}

// --overwrite takes nothing away from whom the command refuses.
TEST_F(Outputs, WhatARefusedCommandWouldReplaceStays) {
  const std::string run = copy_of_run("to-stay");
  const auto before = contents(run);
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"--set", "data.files=[nothing-here.txt]"},
        std::vector<std::string>{"--set", "model.hidden_size=7"}, std::vector<std::string>{"--memory-budget", "10KiB"},
        std::vector<std::string>{"--set", "from_pretrained=" + run}}) {
    const Finished f = run_program(with({"train", *recipe_, "--out", run, "--overwrite"}, more));
    EXPECT_NE(f.code, 0) << more[1];
    EXPECT_EQ(contents(run), before) << more[1] << f.err;
  }
  expect_error({"distill", *recipe_, "--teacher", run, "--out", run + "/", "--overwrite"}, 2, {"is the teacher"});
  expect_error({"train", *recipe_, "--out", run, "--overwrite", "--set", "from_pretrained=" + run}, 2,
               {"from_pretrained reads", "--overwrite would replace"});
  const std::string weights = run + "/model.safetensors";
  expect_error({"eval", run, "--per-token", weights, "--overwrite"}, 2, {"is a part of the run", "give another name"});
  EXPECT_EQ(contents(run), before);

  const std::string bad = scratch_->add("bad.yaml", "variants: {a: {}}\n");
  for (const char* verb : {"compare", "search", "finetune"}) {
    const std::string out = *scratch_ / cat("kept-", verb);
    fs::create_directories(out + "/runs/a");
    scratch_->add(cat("kept-", verb, "/runs/a/result.json"), kPrecious);
    const Finished f = std::string(verb) == "finetune"
                           ? run_program({verb, "--tasks", bad, "--out", out, "--overwrite"})
                           : run_program({verb, bad, "--out", out, "--overwrite"});
    EXPECT_EQ(f.code, 2) << f.err;
    EXPECT_EQ(read_file(out + "/runs/a/result.json"), kPrecious) << verb << f.err;
    EXPECT_FALSE(fs::exists(out + "/.replaced")) << verb;
  }
}

}  // namespace
}  // namespace lithe

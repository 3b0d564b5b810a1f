// What holds for the options of all subcommands: refused before any file is read, in one line that says what to write.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "lithe/base/error.h"
#include "tests/support/program_test.h"

namespace lithe {
namespace {

using kit::Finished;
using kit::run_program;

class Options : public kit::ProgramTest {
 protected:
  // Exit code 2 and this line alone.
  static void expect_refusal(const std::vector<std::string>& arguments, const std::string& line,
                             const std::vector<std::string>& environment = {}) {
    const Finished f = run_program(arguments, {.environment = environment});
    EXPECT_EQ(f.code, 2) << line;
    EXPECT_EQ(f.out, "") << line;
    EXPECT_EQ(f.err, "lithe: " + line + "\n");
  }
  static std::vector<std::string> verbs() {
    std::istringstream help(run_program({"--help"}).out);
    std::vector<std::string> out;
    bool on = false;
    for (std::string line; std::getline(help, line);) {
      if (on && line.empty()) break;
      if (on) out.push_back(line.substr(2, line.find(' ', 2) - 2));
      on = on || line == "Subcommands:";
    }
    return out;
  }
};

TEST_F(Options, AnEmptyValueIsRefusedByEverySubcommand) {
  int with_out = 0;
  for (const std::string& verb : verbs()) {
    const std::string help = run_program({verb, "--help"}).out;
    if (help.find("--out TEXT") == std::string::npos) continue;
    ++with_out;
    std::vector<std::string> words = {verb,
                                      verb == "synth"       ? "copy"
                                      : verb == "datastore" ? "build"
                                                            : "nothing",
                                      "--out", ""};
    if (verb == "finetune") words.insert(words.end(), {"--tasks", "task.yaml"});
    expect_refusal(words, "--out: must not be empty; see lithe " + verb + " --help");
  }
  EXPECT_GE(with_out, 7);
  expect_refusal({"eval", ""}, "model: must not be empty; see lithe eval --help");
  expect_refusal({"eval", "run", ""}, "files: must not be empty; see lithe eval --help");
  expect_refusal({"inspect", "run", "--text", ""}, "--text: must not be empty; see lithe inspect --help");
  expect_refusal({"train", "a.yaml", "--out="}, "--out: 1 required TEXT missing; see lithe train --help");
  // Nothing is a beginning, too: these get as far as the run that is not there.
  for (const std::vector<std::string>& words : {std::vector<std::string>{"generate", "nothing", "--prompt", ""},
                                                std::vector<std::string>{"translate", "nothing", "--prefix", ""}})
    EXPECT_NE(run_program(words).err.find("'nothing' does not exist"), std::string::npos);
}

TEST_F(Options, NumbersAreWhatTheyReadAs) {
  const std::string eval = "; see lithe eval --help", generate = "; see lithe generate --help";
  const std::string huge = "99999999999999999999", most = "must fit 64 bits, at most 9223372036854775807, got ";
  expect_refusal({"eval", "run", "--context-length", huge}, "--context-length: " + most + huge + eval);
  expect_refusal({"generate", "run", "--seed", huge}, "--seed: " + most + huge + generate);
  expect_refusal({"generate", "run", "--seed", "-1"}, "--seed: must be at least 0, got -1" + generate);
  expect_refusal({"generate", "run", "--max-new-tokens", "0"}, "--max-new-tokens: must be above 0, got 0" + generate);
  for (const std::string bad : {"x", "010", "0x10", "1.5", "+1", "1 "})
    expect_refusal({"generate", "run", "--top-k", bad},
                   "--top-k: must be a whole number like 12, got '" + bad + "'" + generate);
  for (const std::string bad : {"x", "nan", "inf", "1e999"})
    expect_refusal({"generate", "run", "--temperature", bad},
                   "--temperature: must be a finite number, got '" + bad + "'" + generate);
  expect_refusal({"bench", "--batch", "1," + huge}, "--batch: " + most + huge + "; see lithe bench --help");
}

TEST_F(Options, MisspeltNamesGetTheNearest) {
  expect_refusal({"evall", "runs/s"}, "there is no subcommand 'evall'; did you mean 'eval'? See lithe --help");
  expect_refusal({"zzzzz"}, "there is no subcommand 'zzzzz'; see lithe --help");
  expect_refusal({"doctor", "--jsom"}, "there is no option '--jsom'; did you mean '--json'? See lithe doctor --help");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"generate", "run", "--promt", "a"},
        std::vector<std::string>{"generate", "--promt=a", "run"}, std::vector<std::string>{"generate", "--promt"}})
    expect_refusal(words, "there is no option '--promt'; did you mean '--prompt'? See lithe generate --help");
  expect_refusal({"doctor", "a", "b"}, "'a' was not expected; see lithe doctor --help");
  expect_refusal({"list", "atention"}, "list: nothing matches 'atention'; did you mean 'attention'?");
  expect_refusal({"list", "atention", "--json"}, "list: nothing matches 'atention'; did you mean 'attention'?");
  expect_refusal({"list", "--keys", "batch_tokns"},
                 "list: nothing matches 'batch_tokns'; did you mean 'batch_tokens'?");
  expect_refusal({"list", "--keys", "qqqq"}, "list: nothing matches 'qqqq'; lithe list --keys shows all");
}

TEST_F(Options, DotsMeanSeveralWords) {
  const std::string help = run_program({"bench", "--help"}).out;
  EXPECT_NE(help.find("--set TEXT "), std::string::npos);
  EXPECT_EQ(help.find("--set TEXT ..."), std::string::npos);
  EXPECT_NE(help.find("models TEXT ..."), std::string::npos);
}

TEST_F(Options, EnvironmentVariablesHaveTheirWordsAlone) {
  expect_refusal({"list"}, "LITHE_LOG: must be debug, info, warning or error, got 'foo'", {"LITHE_LOG=foo"});
  expect_refusal({"list"}, "LITHE_VERBOSE: must be dispatch or fusion, got 'foo'", {"LITHE_VERBOSE=dispatch,foo"});
  expect_refusal({"list"},
                 "LITHE_ISA: must be generic, avx2, avxvnni, avx512, avx512bf16, amx or amx-emulated, got 'foo'",
                 {"LITHE_ISA=foo"});
  for (const char* level : {"debug", "info", "warning", "error"})
    EXPECT_EQ(run_program({"list", "gqa"}, {.environment = {cat("LITHE_LOG=", level)}}).code, 0);
}

TEST_F(Options, WhatIsGivenInPlaceOfARecipeOrAResult) {
  kit::Scratch scratch;
  const std::string text = scratch.add("my.txt", "abc\n"), recipe = scratch.add("r.yaml", "train: {learning_rate: }\n");
  expect_refusal({"bench", "--against", text},
                 "bench: json: '" + text +
                     "': is not JSON: parse error at line 1, column 1: syntax error while parsing value - invalid "
                     "literal; last read: 'a'; it is damaged, or a file of another kind");
  expect_refusal({"plan", recipe, "--set", "train.learning_rate="},
                 "--set: 'train.learning_rate=' gives no value; write key=value, key=null for none, or "
                 "key='\"\"' for an empty text");
  // No value in a recipe is the default's.
  expect_refusal({"plan", recipe}, "train: no limit is set; give max_steps, max_tokens, num_train_epochs or max_time");
  // Two letters of four are another word.
  const Finished path = run_program(
      {"plan", recipe, "--set", "data.tokenizer={type: file, path: my.txt}", "--set", "train.learning_rate=1"});
  EXPECT_EQ(path.code, 2);
  EXPECT_NE(path.err.find("unknown key 'path' in section 'data.tokenizer'; valid keys are type, vocab_size, "
                          "min_frequency, specials, file"),
            std::string::npos)
      << path.err;
}

}  // namespace
}  // namespace lithe

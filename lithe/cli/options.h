// The options of the subcommands. The parser behind them (CLI11) takes seconds to read, so options.cpp alone reads it.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace lithe {

/// What a subcommand adds: its options, and the function that runs it and returns the exit code.
using Command = std::function<int()>;

/// What may stand already in the place of an output, without --overwrite: nothing.
struct OutputRule {
  enum class Kind {
    none,            // no output
    file,            // with --overwrite any file is replaced
    new_directory,   // made by NewDirectory: with --overwrite what the command wrote there before, and nothing else
    file_or_new,     // either of both
    kept_directory,  // the command goes on with what it wrote there; with --overwrite that is removed first
    shared,          // a directory where others have files, too: each of `own` is a file
    of_command,      // the command has its own rules
  };
  Kind kind = Kind::none;
  std::vector<std::string> own;        // names that the command writes there; "page*": all that begin so
  std::vector<std::string> of_others;  // kept_directory: names that may stand there, too
};
struct OutputOption;

/// One option or positional; what is set on it stands in the help, and is checked when the command line is parsed.
class Option {
 public:
  explicit Option(CLI::Option* option, std::vector<OutputOption>* outputs = nullptr)
      : option_(option), outputs_(outputs) {}
  /// Every option that names something to be written is declared so; its place is checked before the command runs.
  /// The subcommand gets a flag --overwrite when it has none of its own.
  Option output(const OutputRule& rule) const;
  Option output_file() const { return output({.kind = OutputRule::Kind::file}); }
  Option required() const;
  Option repeatable() const;             // each --name takes one value, and it may stand again
  Option delimiter(char between) const;  // one --name takes several values: 1,2
  Option positive() const;
  Option non_negative() const;
  Option between(int64_t low, int64_t high) const;  // both included
  Option share() const;                             // from 0 to 1
  Option one_of(const std::vector<std::string>& values) const;
  Option needs(Option other) const;
  Option excludes(Option other) const;
  Option show_default() const;

  bool given() const;
  std::string name() const;

 private:
  CLI::Option* option_;
  std::vector<OutputOption>* outputs_;
};

/// An option that names an output.
struct OutputOption {
  CLI::Option* option;
  OutputRule rule;
};

/// The options of one subcommand.
class CommandLine {
 public:
  CommandLine(CLI::App& app, std::vector<OutputOption>& outputs) : app_(app), outputs_(outputs) {}
  /// An option `--name`, or a positional. T: bool, int, int64_t, double, std::string, an optional of the last three, or
  /// a vector of the last three or of int.
  template <class T>
  Option add_option(const std::string& name, T& value, const std::string& help);
  /// An option whose value goes to `take` when it is parsed.
  Option add_option(const std::string& name, const std::function<void(int)>& take, const std::string& help);
  Option add_flag(const std::string& name, bool& value, const std::string& help);
  /// A flag that may have a value, `--name=value`; `true` where it stands alone.
  Option add_flag(const std::string& name, std::string& value, const std::string& help);
  /// The flag of a subcommand whose outputs are checked and removed before it runs.
  void add_overwrite(const std::string& help);
  void footer(const std::string& text);
  /// All that were added so far and have a `--name`.
  std::vector<Option> named() const;

 private:
  CLI::App& app_;
  std::vector<OutputOption>& outputs_;
};

struct Verb {
  const char *name, *help;
  Command (*add)(CommandLine&);
  /// A launcher may start several processes of it: they join as ranks, or each does no harm.
  bool of_ranks = false;
};
struct ProgramHelp {
  std::string name, description, footer, version;
};

/// What the help says of an option, in words that stand on their own: for manual pages and the completion of shells.
struct OptionDoc {
  std::vector<std::string> names;    // "--out", "-h"; of a positional its bare name
  std::string value;                 // "TEXT", "INT", "{f32,bf16}"; empty: a flag
  std::vector<std::string> choices;  // what the value can be, where that is a list
  std::string help;
  bool positional = false, required = false, several = false;
  OutputRule output;
};
struct VerbDoc {
  std::string name, help, footer;
  std::vector<OptionDoc> options;
};
std::vector<VerbDoc> describe_verbs(std::span<const Verb> verbs);

/// Words in lines of at most `columns`, divided at spaces; a line break in the text stays one.
std::vector<std::string> wrapped(const std::string& text, size_t columns);

/// Parses the command line and runs the verb that it picks. An option refuses, before its own checks: an empty text
/// (only a prompt or the beginning of a translation may be empty), what is no whole or no finite number where one is
/// wanted, and what no int64 or double holds. Returns the exit code; a refusal is one line on stderr, with the nearest
/// name of what is misspelt.
int run_verb(int argc, char** argv, const ProgramHelp& help, std::span<const Verb> verbs);

}  // namespace lithe

#include "lithe/cli/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iostream>
#include <list>
#include <optional>
#include <sstream>
#include <utility>

#include "lithe/base/did_you_mean.h"
#include "lithe/base/error.h"
#include "lithe/base/fields.h"
#include "lithe/base/files.h"
#include "lithe/base/new_directory.h"
#include "lithe/cli/command.h"
#include "lithe/data/examples_readers.h"
#include "lithe/parallel/job.h"
#include "lithe/train/resume.h"

namespace lithe {
namespace {

// Whole numbers are written as they are printed: 010 would be read as 8, and 99999999999999999999 as what fits.
std::string check_integer(const std::string& value) {
  int64_t n = 0;
  const auto end = value.data() + value.size();
  const auto [rest, error] = std::from_chars(value.data(), end, n);
  if (error == std::errc::result_out_of_range && rest == end)
    return cat("must fit 64 bits, at most ", INT64_MAX, ", got ", value);
  return std::to_string(n) == value ? "" : cat("must be a whole number like 12, got '", value, "'");
}

// What is wrong with a value, or empty. The type is what the help shows, such as INT:POSITIVE.
std::string check_value(const CLI::Option& option, const std::string& value) {
  const std::string name = option.get_name(), type = option.get_type_name();
  if (value.empty()) return name == "--prompt" || name == "--prefix" ? "" : "must not be empty";
  const bool integer = type.starts_with("INT"), real = type.starts_with("FLOAT");
  if (!integer && !real) return "";
  if (integer)
    if (const std::string wrong = check_integer(value); !wrong.empty()) return wrong;
  const auto number = finite_number(value);
  if (!number) return cat("must be a finite number, got '", value, "'");
  if (type.ends_with(":POSITIVE") && *number <= 0) return cat("must be above 0, got ", value);
  if (type.ends_with(":NONNEGATIVE") && *number < 0) return cat("must be at least 0, got ", value);
  return "";
}

// INT:INT in [1 - 64] is what CLI11 calls a bounded number; what is not a list of words stays out of the help, whose
// text and whose refusals say it.
std::string value_of(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return "";
  const std::string type = option.get_type_name();
  const size_t colon = type.find(':');
  if (colon == std::string::npos) return type;
  const std::string rule = type.substr(colon + 1);
  if (rule.starts_with("{")) return rule.substr(0, rule.find('}') + 1);
  return type.substr(0, colon);
}

std::vector<std::string> choices_of(const std::string& value) {
  std::vector<std::string> out;
  if (!value.starts_with("{")) return out;
  std::istringstream in(value.substr(1, value.size() - 2));
  for (std::string choice; std::getline(in, choice, ',');) out.push_back(choice);
  return out;
}

OptionDoc document(const CLI::Option& option) {
  OptionDoc doc{.value = value_of(option), .help = option.get_description()};
  doc.choices = choices_of(doc.value);
  doc.positional = option.get_positional();
  doc.required = option.get_required();
  doc.several = option.get_items_expected_max() > 1 && option.get_allow_extra_args();
  if (doc.positional)
    doc.names.push_back(option.get_name(true));
  else
    for (const std::string& name : option.get_lnames()) doc.names.push_back("--" + name);
  for (const std::string& name : option.get_snames()) doc.names.push_back("-" + name);
  return doc;
}

// A help in lines that fit a terminal.
class HelpFormatter final : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool) const override {
    const OptionDoc doc = document(*option);
    std::string head = "  ";
    for (const std::string& name : doc.names) head += (&name == doc.names.data() ? "" : ", ") + name;
    if (!doc.value.empty()) head += " " + doc.value;
    if (doc.several) head += " ...";
    if (!option->get_default_str().empty()) head += " [" + option->get_default_str() + "]";
    return columns(head, doc.help + (doc.required ? " (required)" : ""));
  }
  std::string make_subcommand(const CLI::App* sub) const override {
    return columns("  " + sub->get_name(), sub->get_description());
  }

 private:
  static std::string columns(const std::string& head, const std::string& text) {
    constexpr size_t kColumn = 30, kWidth = 110;
    std::string out = head;
    if (head.size() + 1 > kColumn) out += "\n" + std::string(kColumn, ' ');
    if (head.size() + 1 <= kColumn) out += std::string(kColumn - head.size(), ' ');
    bool first = true;
    for (const std::string& line : wrapped(text, kWidth - kColumn)) {
      out += (first ? "" : std::string(kColumn, ' ')) + line + "\n";
      first = false;
    }
    return first ? out + "\n" : out;
  }
};

CLI::Validator within(double low, double high) {
  return CLI::Validator(
      [low, high](std::string& value) {
        const auto number = finite_number(value);
        return number && *number >= low && *number <= high ? ""
                                                           : cat("must be from ", low, " to ", high, ", got ", value);
      },
      "");
}

// Its name is what the help shows as the value.
CLI::Validator one_among(const std::vector<std::string>& values) {
  std::string name;
  for (const std::string& value : values) name += (name.empty() ? "{" : ",") + value;
  return CLI::Validator(
      [values](std::string& value) {
        const bool known = std::find(values.begin(), values.end(), value) != values.end();
        return known ? "" : cat("must be one of ", join(values), ", got '", value, "'");
      },
      name + "}");
}

void guard_values(CLI::App& app) {
  for (CLI::Option* option : app.get_options())
    if (option->get_items_expected_max() > 0)
      option->transform(CLI::Validator([option](std::string& value) { return check_value(*option, value); }, ""));
}

// Why `app` refused its arguments, and whose help says more.
std::string refusal(const CLI::App& app, const CLI::ParseError& error) {
  const auto picked = app.get_subcommands();
  const CLI::App& at = picked.empty() ? app : *picked[0];
  const std::vector<std::string> unknown = app.remaining(true);
  const auto option = std::find_if(unknown.begin(), unknown.end(),
                                   [](const std::string& w) { return w.size() > 1 && w[0] == '-' && w != "--"; });
  std::string what = error.what();
  if (const size_t at = what.find(": At Most 1 required but received "); at != what.npos)
    what = what.substr(0, at) + " is given more than once; give it once";
  if (const size_t at = what.find(" is required"); at != what.npos && at + 12 == what.size())
    what = cat(what.starts_with("-") ? "give " : "give the argument ", what.substr(0, at));
  std::vector<std::string> names;
  if (option != unknown.end()) {
    for (const CLI::Option* o : at.get_options())
      for (const std::string& name : o->get_lnames()) names.push_back("--" + name);
    const std::string word = option->substr(0, option->find('='));
    what = cat("there is no option '", word, "'", did_you_mean(word, names));
  } else if (picked.empty() && !unknown.empty()) {
    for (const CLI::App* verb : app.get_subcommands({})) names.push_back(verb->get_name());
    what = cat("there is no subcommand '", unknown[0], "'", did_you_mean(unknown[0], names));
  } else if (!unknown.empty()) {
    what = cat("'", unknown[0], "' was not expected");
  }
  return cat(what, what.ends_with('?') ? " See lithe " : "; see lithe ", picked.empty() ? "" : at.get_name() + " ",
             "--help");
}

constexpr const char* kOverwrite = "--overwrite";

// A subcommand with its options, and what of them are outputs.
struct Declared {
  CLI::App* app;
  std::vector<OutputOption> outputs;
  Command command;
};

void declare(const Verb& verb, Declared& to) {
  CommandLine line(*to.app, to.outputs);
  to.command = verb.add(line);
  const std::string help = "replace an output that exists; without it such an output is refused";
  if (!to.outputs.empty() && !to.app->get_option_no_throw(kOverwrite)) to.app->add_flag(std::string(kOverwrite), help);
}

bool among(const std::vector<std::string>& names, const std::string& entry) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return name.ends_with('*') ? entry.starts_with(name.substr(0, name.size() - 1)) : entry == name;
  });
}

// What other arguments than `output` name that is there: visit(option, value, its canonical path).
template <class Visit>
void each_read(const CLI::App& app, const CLI::Option& output, const Visit& visit) {
  for (const CLI::Option* option : app.get_options())
    for (const std::string& value : option == &output ? CLI::results_t{} : option->results()) {
      std::error_code none;
      const Path read = std::filesystem::canonical(value.substr(value.find('=') + 1), none);  // NAME=DIR, too
      if (!none) visit(*option, value, read);
    }
}

bool lies_in(const Path& inner, const Path& outer) {
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

// Fails where another argument names `path` or something in it: what is read cannot be replaced meanwhile.
void check_not_read(const CLI::App& app, const CLI::Option& output, const Path& path) {
  std::error_code none;
  const Path place = std::filesystem::canonical(path, none);
  if (none) return;
  each_read(app, output, [&](const CLI::Option& option, const std::string&, const Path& read) {
    check_usage(!lies_in(read, place), app.get_name(), output.get_name(), ": '", path.string(),
                "' cannot be replaced by a command that reads it (", option.get_name(), "); give another name");
  });
}

// Fails where `file` is one of those that a run, which another argument names, consists of.
void check_not_of_run(const CLI::App& app, const CLI::Option& output, const Path& file) {
  std::error_code none;
  const Path place = std::filesystem::canonical(file, none);
  if (none) return;
  each_read(app, output, [&](const CLI::Option& option, const std::string& value, const Path& run) {
    if (!lies_in(place, run) || !std::filesystem::exists(run / "config.json")) return;
    const Path part = *place.lexically_relative(run).begin();
    check_usage(!stands_in_run(part.string()) || part.extension() == ".html", app.get_name(), output.get_name(), ": '",
                file.string(), "' is a part of the run '", value, "', which the command reads (", option.get_name(),
                "); give another name");
  });
}

void check_output_file(const CLI::App& app, const CLI::Option& option, const Path& file, bool overwrite) {
  const std::string verb = app.get_name(), name = option.get_name();
  check_usage(!std::filesystem::is_directory(file), verb, name, ": '", file.string(), "' is a directory; name a file");
  check_usage(overwrite || !std::filesystem::exists(file), verb, name, ": '", file.string(),
              "' exists; give another name, or ", kOverwrite, " to replace it");
  check_not_read(app, option, file);
  check_not_of_run(app, option, file);
}

// What --overwrite replaces in a directory stands aside while the command runs, and comes back where the command ended
// before it made anything in its place: where it was refused.
class SetAside {
 public:
  SetAside(const Path& directory, std::vector<std::string> names) : directory_(directory), names_(std::move(names)) {
    std::filesystem::remove_all(aside());
    make_directory(aside());
    for (const std::string& name : names_) std::filesystem::rename(directory_ / name, aside() / name);
  }
  SetAside(const SetAside&) = delete;
  SetAside& operator=(const SetAside&) = delete;
  ~SetAside() {
    namespace fs = std::filesystem;
    std::error_code ignored;
    const bool replaced =
        std::ranges::any_of(names_, [&](const std::string& name) { return fs::exists(directory_ / name, ignored); });
    for (const std::string& name : names_)
      if (!replaced) fs::rename(aside() / name, directory_ / name, ignored);
    if (replaced || fs::is_empty(aside(), ignored)) fs::remove_all(aside(), ignored);
  }
  static constexpr const char* kName = ".replaced";

 private:
  Path directory_;
  std::vector<std::string> names_;
  Path aside() const { return directory_ / kName; }
};

void check_output_directory(const CLI::App& app, const OutputOption& output, const Path& path, bool overwrite,
                            std::list<SetAside>& replaced) {
  namespace fs = std::filesystem;
  const OutputRule& rule = output.rule;
  const std::string verb = app.get_name(), name = output.option->get_name();
  if (!fs::exists(path)) return;
  check_usage(fs::is_directory(path), verb, name, ": '", path.string(), "' is a file; give a directory");
  const bool shared = rule.kind == OutputRule::Kind::shared;
  std::vector<std::string> own;
  for (const auto& entry : fs::directory_iterator(path)) {
    const std::string found = entry.path().filename().string();
    if (among(rule.own, found))
      own.push_back(found);
    else
      check_usage(shared || found == SetAside::kName || among(rule.of_others, found), verb, name, ": '", path.string(),
                  "' holds '", found, "', which lithe ", verb, " did not write; give another directory");
  }
  if (shared)
    for (const std::string& file : own) check_output_file(app, *output.option, path / file, overwrite);
  if (shared || !overwrite || own.empty()) return;
  const DirectoryLock lock(path);
  for (const std::string& entry : own) check_not_read(app, *output.option, path / entry);
  std::erase(own, ".lock");
  replaced.emplace_back(path, std::move(own));
}

void check_output(const CLI::App& app, const OutputOption& output, bool overwrite, std::list<SetAside>& replaced) {
  using Kind = OutputRule::Kind;
  const Kind kind = output.rule.kind;
  if (output.option->empty() || kind == Kind::of_command) return;
  const Path path = output.option->as<std::string>();
  const bool is_file = std::filesystem::exists(path) && !std::filesystem::is_directory(path);
  if (kind == Kind::file || (kind == Kind::file_or_new && is_file))
    return check_output_file(app, *output.option, path, overwrite);
  if (kind != Kind::new_directory && kind != Kind::file_or_new)
    return check_output_directory(app, output, path, overwrite, replaced);
  NewDirectory::check_place(path, app.get_name(), overwrite);
  check_not_read(app, *output.option, path);
}

// `--resume auto` means `--resume=auto`: a flag takes the word behind it as its value only where it cannot be another
// argument.
std::vector<std::string> words_of(int argc, char** argv) {
  std::vector<std::string> words;
  for (int i = 1; i < argc; ++i)
    if (std::string_view(argv[i]) == "auto" && !words.empty() && words.back() == "--resume")
      words.back() += "=auto";
    else
      words.emplace_back(argv[i]);
  return words;
}

}  // namespace

Option Option::output(const OutputRule& rule) const {
  outputs_->push_back({option_, rule});
  return *this;
}
Option Option::required() const { return Option(option_->required(), outputs_); }
Option Option::repeatable() const { return Option(option_->allow_extra_args(false), outputs_); }
Option Option::delimiter(char between) const { return Option(option_->delimiter(between), outputs_); }
Option Option::positive() const { return Option(option_->check(CLI::PositiveNumber), outputs_); }
Option Option::non_negative() const { return Option(option_->check(CLI::NonNegativeNumber), outputs_); }
Option Option::between(int64_t low, int64_t high) const {
  return Option(option_->check(within(double(low), double(high))), outputs_);
}
Option Option::share() const { return Option(option_->check(within(0, 1)), outputs_); }
Option Option::one_of(const std::vector<std::string>& values) const {
  return Option(option_->check(one_among(values)), outputs_);
}
Option Option::needs(Option other) const { return Option(option_->needs(other.option_), outputs_); }
Option Option::excludes(Option other) const { return Option(option_->excludes(other.option_), outputs_); }
Option Option::show_default() const { return Option(option_->capture_default_str(), outputs_); }
bool Option::given() const { return !option_->empty(); }
std::string Option::name() const { return option_->get_name(); }

template <class T>
Option CommandLine::add_option(const std::string& name, T& value, const std::string& help) {
  return Option(app_.add_option(name, value, help), &outputs_);
}
#define LITHE_OPTION_OF(T) template Option CommandLine::add_option(const std::string&, T&, const std::string&)
LITHE_OPTION_OF(int);
LITHE_OPTION_OF(int64_t);
LITHE_OPTION_OF(uint64_t);
LITHE_OPTION_OF(double);
LITHE_OPTION_OF(std::string);
LITHE_OPTION_OF(std::optional<int64_t>);
LITHE_OPTION_OF(std::optional<double>);
LITHE_OPTION_OF(std::optional<std::string>);
LITHE_OPTION_OF(std::vector<int>);
LITHE_OPTION_OF(std::vector<int64_t>);
LITHE_OPTION_OF(std::vector<double>);
LITHE_OPTION_OF(std::vector<std::string>);
#undef LITHE_OPTION_OF

Option CommandLine::add_option(const std::string& name, const std::function<void(int)>& take, const std::string& help) {
  return Option(app_.add_option_function<int>(name, take, help), &outputs_);
}
Option CommandLine::add_flag(const std::string& name, bool& value, const std::string& help) {
  return Option(app_.add_flag(name, value, help), &outputs_);
}
Option CommandLine::add_flag(const std::string& name, std::string& value, const std::string& help) {
  return Option(app_.add_flag(name, value, help), &outputs_);
}
void CommandLine::add_overwrite(const std::string& help) { app_.add_flag("--overwrite", help); }
void CommandLine::footer(const std::string& text) { app_.footer(text); }
std::vector<Option> CommandLine::named() const {
  std::vector<Option> out;
  for (CLI::Option* option : app_.get_options())
    if (!option->get_positional()) out.emplace_back(option, &outputs_);
  return out;
}

std::vector<std::string> wrapped(const std::string& text, size_t columns) {
  std::vector<std::string> out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string now;
    for (std::string word; words >> word;) {
      if (!now.empty() && now.size() + 1 + word.size() > columns) out.push_back(std::exchange(now, ""));
      now += (now.empty() ? "" : " ") + word;
    }
    out.push_back(now);
  }
  return out;
}

std::vector<VerbDoc> describe_verbs(std::span<const Verb> verbs) {
  std::vector<VerbDoc> out;
  for (const Verb& verb : verbs) {
    CLI::App app;
    Declared declared{&app, {}, {}};
    declare(verb, declared);
    VerbDoc& doc = out.emplace_back(VerbDoc{verb.name, verb.help, app.get_footer(), {}});
    for (const CLI::Option* option : app.get_options()) {
      doc.options.push_back(document(*option));
      for (const OutputOption& output : declared.outputs)
        if (output.option == option) doc.options.back().output = output.rule;
    }
  }
  return out;
}

namespace {

void check_process_alone(std::span<const Verb> verbs, const std::string& name) {
  const auto verb = std::ranges::find_if(verbs, [&](const Verb& one) { return one.name == name; });
  const Launched by = launched();
  check_usage(by.size <= 1 || verb == verbs.end() || verb->of_ranks, name, by.by, " started ", by.size,
              " processes of it, and the command is for one; start it without the launcher");
}

}  // namespace

int run_verb(int argc, char** argv, const ProgramHelp& help, std::span<const Verb> verbs) {
  CLI::App app{help.description, help.name};
  app.set_version_flag("--version", help.version);
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::simple);
  app.formatter(std::make_shared<HelpFormatter>());
  app.footer(help.footer);
  std::list<Declared> all;  // options hold places in them
  for (const Verb& verb : verbs) {
    Declared& declared = all.emplace_back(Declared{app.add_subcommand(verb.name, verb.help), {}, {}});
    declare(verb, declared);
    guard_values(*declared.app);
  }
  try {
    std::vector<std::string> words = words_of(argc, argv);
    std::reverse(words.begin(), words.end());  // as CLI11 takes them
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    std::cerr << "lithe: " << refusal(app, error) << std::endl;
    return int(ExitCode::usage);
  }
  for (const auto& [sub, outputs, command] : all)
    if (sub->parsed()) {
      check_process_alone(verbs, sub->get_name());
      std::list<SetAside> replaced;
      for (const OutputOption& output : outputs) check_output(*sub, output, sub->count(kOverwrite) > 0, replaced);
      const int code = command();
      if (code == 0) flush_results();  // results that nobody got are a failure
      return code;
    }
  return int(ExitCode::usage);
}

}  // namespace lithe

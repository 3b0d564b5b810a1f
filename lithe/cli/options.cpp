#include "lithe/cli/options.h"

#include <CLI/CLI.hpp>
#include <charconv>

#include "lithe/base/did_you_mean.h"
#include "lithe/base/error.h"
#include "lithe/data/examples_readers.h"

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

class HelpFormatter final : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    std::string out = CLI::Formatter::make_option_opts(option);
    const size_t dots = out.find(" ...");
    if (dots != std::string::npos && !option->get_allow_extra_args()) out.erase(dots, 4);
    return out;
  }
};

}  // namespace

void guard_values(CLI::App& app) {
  for (CLI::Option* option : app.get_options())
    if (option->get_items_expected_max() > 0)
      option->transform(CLI::Validator([option](std::string& value) { return check_value(*option, value); }, ""));
}

std::shared_ptr<CLI::FormatterBase> help_formatter() { return std::make_shared<HelpFormatter>(); }

std::string refusal(const CLI::App& app, const CLI::ParseError& error) {
  const auto picked = app.get_subcommands();
  const CLI::App& at = picked.empty() ? app : *picked[0];
  const std::vector<std::string> unknown = app.remaining(true);
  const auto option = std::find_if(unknown.begin(), unknown.end(),
                                   [](const std::string& w) { return w.size() > 1 && w[0] == '-' && w != "--"; });
  std::string what = error.what();
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

}  // namespace lithe

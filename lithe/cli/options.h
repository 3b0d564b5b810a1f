// What holds for the options of every subcommand: how their values are checked, shown in the help, and refused.
#pragma once

#include <memory>
#include <string>

namespace CLI {
class App;
class FormatterBase;
class ParseError;
}  // namespace CLI

namespace lithe {

/// Every option and positional of `app` refuses, before its own checks: an empty text (only a prompt or the beginning
/// of a translation may be empty), what is no whole or no finite number where one is wanted, and what no int64 or
/// double holds.
void guard_values(CLI::App& app);

/// A help where `...` stands only behind what takes several words at once.
std::shared_ptr<CLI::FormatterBase> help_formatter();

/// Why `app` refused its arguments, with the nearest name of what is misspelt, and whose help says more.
std::string refusal(const CLI::App& app, const CLI::ParseError& error);

}  // namespace lithe

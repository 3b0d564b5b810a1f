// -j, --launcher and --hosts: of commands whose runs can be processes beside each other.
#pragma once

#include "lithe/cli/options.h"
#include "lithe/compare/side_by_side.h"

namespace lithe {

void add_launcher_options(CommandLine& app, compare::Launcher& launcher);

/// Refuses (usage) what would be ignored. `only`: what --only says; empty: nothing.
void check_launcher(const char* command, const compare::Launcher& launcher, const std::string& only);

/// The options again, for a command that goes on: " -j 2".
std::string launcher_words(const compare::Launcher& launcher);

}  // namespace lithe

// Recipes, experiments, searches and tasks of the evaluation harness are all YAML, and easily mixed up.
#pragma once

#include <string>

#include "lithe/base/node.h"

namespace lithe {

enum class FileKind { recipe, experiment, search, harness_task };

/// Fails (usage) when the keys of `root` are those of another kind of file than `wanted`, and names the command that
/// takes it. `origin` is the file's name.
void check_kind(const Node& root, const std::string& origin, FileKind wanted);

}  // namespace lithe

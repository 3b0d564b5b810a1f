// Files of tasks and groups.
#pragma once

#include "lithe/eval/zero_shot.h"

namespace lithe {

/// A file with what it includes, whose keys its own replace.
Node read_task_node(const Path& file);
/// Fails (usage) where a value is a function of Python, `!function NAME`, that nothing replaced.
void refuse_functions(const Node& node, const std::string& key = "");
ZeroShotTask task_of_node(Node node, const Path& file, const ZeroShotReading& how);
/// A shell pattern that some file fits.
bool matches_a_file(const std::string& pattern);

}  // namespace lithe

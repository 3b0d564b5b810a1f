// What a training says at its end; of the verbs that train.
#pragma once

#include <string>
#include <vector>

#include "lithe/train/task_score.h"
#include "lithe/train/trainer.h"

namespace lithe {

/// Quoted for a shell where it must be.
std::string shell_word(const std::string& text);

/// Prints the result, as JSON where asked, and how to go on where a signal stopped it. Returns the exit code. `task`:
/// how the run answers its task, if it has one.
int report_training(const TrainResult& result, const std::string& out, bool json, const std::string& resume_command,
                    const std::optional<TaskScore>& task = {});

/// --resume's value, nothing, "true" or "auto", as whether the run in `out` goes on.
bool resumes(const std::string& value, const Path& out);

}  // namespace lithe

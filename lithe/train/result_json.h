// The result of a training, for programs.
#pragma once

#include "lithe/base/json.h"
#include "lithe/train/trainer.h"

namespace lithe {

/// What `lithe train --json` prints of the run in `out`.
Json result_json(const TrainResult& result, const std::string& out);

}  // namespace lithe

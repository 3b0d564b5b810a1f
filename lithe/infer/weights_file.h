// Which file of a run holds the weights that an option names.
#pragma once

#include <string>

#include "lithe/base/files.h"

namespace lithe {

/// `weights` is empty (model.safetensors), "best", "averaged", or a file. Fails (usage) when there is none.
Path weights_file(const Path& directory, const std::string& weights);

/// Checksum of that file: differs when the weights differ.
uint64_t weights_fingerprint(const Path& directory, const std::string& weights);

}  // namespace lithe

// Low-rank adapters between lithe's names of modules and those of the model's architecture, as PEFT's files have them.
#pragma once

#include <string>

#include "lithe/base/files.h"

namespace lithe {

struct AdapterReport {
  std::string model_type;
  int64_t modules = 0, parameters = 0, rank = 0;  // the largest rank
};

/// Writes adapter/ of `run` into the new directory `out`, so that PEFT loads it onto what export_model() makes of the
/// run's base. Projections that are one there get one update of the sum of the ranks. Fails (usage) where the run has
/// no adapter, and where its architecture has no such model.
AdapterReport export_adapter(const Path& run, const Path& out, bool overwrite);

/// Writes what PEFT saved in `from` into the new directory `out`, as `generate --adapter` takes it beside `base`, the
/// run of the model that it was trained on, and beside no other. Fails (usage) on modules that the model has not as
/// linear maps, and on more than low-rank updates.
AdapterReport import_adapter(const Path& from, const Path& base, const Path& out, bool overwrite);

}  // namespace lithe

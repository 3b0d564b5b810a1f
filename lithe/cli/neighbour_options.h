// Options --datastore and what goes with it, of the subcommands that ask a store's neighbours.
#pragma once

#include <optional>

#include "lithe/cli/options.h"
#include "lithe/infer/load.h"
#include "lithe/infer/neighbours.h"

namespace lithe {

struct DatastoreOptions {
  std::string directory;
  NeighbourOptions neighbours;
  std::optional<int64_t> k, probes, effort;
  std::optional<double> weight, temperature;
};
void add_datastore_options(CommandLine& app, DatastoreOptions& options);

/// None without --datastore. Fails (usage) when the store is not of this model and its tokenizer, and on options of
/// neighbours without a store.
std::optional<NeighbourModel> neighbours_of(const DatastoreOptions& options, const Path& run,
                                            const std::string& weights, const LoadedModel& loaded);

}  // namespace lithe

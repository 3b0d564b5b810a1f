#include "lithe/cli/neighbour_options.h"

#include "lithe/cli/command.h"
#include "lithe/infer/weights_file.h"

namespace lithe {

void add_datastore_options(CommandLine& app, DatastoreOptions& o) {
  app.add_option("--datastore", o.directory,
                 "directory that `lithe datastore build` wrote: mix the predictions with the tokens that followed the "
                 "most similar rows (kNN-LM)");
  app.add_option("--knn-k", o.k, "with --datastore: number of neighbours; default 32").positive();
  app.add_option("--knn-weight", o.weight,
                 "with --datastore: share of the neighbours in each probability; default 0.25")
      .share();
  app.add_option("--knn-temperature", o.temperature,
                 "with --datastore: number t in a neighbour's weight exp(-distance^2 / t); default 10");
  app.add_option("--knn-probes", o.probes,
                 "with --datastore: number of lists of its index that are searched; default: all lists, which is the "
                 "exact search")
      .positive();
  app.add_option("--knn-effort", o.effort,
                 "with --datastore: number of candidates that a search in its graph (--index hnsw) keeps, for example "
                 "64; default: the exact search")
      .positive();
}

std::optional<NeighbourModel> neighbours_of(const DatastoreOptions& o, const Path& run, const std::string& weights,
                                            const LoadedModel& loaded) {
  if (o.directory.empty()) {
    check_usage(!o.k && !o.weight && !o.temperature && !o.probes && !o.effort, "datastore",
                "--knn-k, --knn-weight, --knn-temperature, --knn-probes and --knn-effort need --datastore");
    return std::nullopt;
  }
  NeighbourOptions options = o.neighbours;
  take_given(options.k, o.k);
  take_given(options.weight, o.weight);
  take_given(options.temperature, o.temperature);
  take_given(options.probes, o.probes);
  take_given(options.effort, o.effort);
  return open_neighbours(o.directory, options, weights_fingerprint(run, weights), loaded.tokenizer->fingerprint());
}

}  // namespace lithe

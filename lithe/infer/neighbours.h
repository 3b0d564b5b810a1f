// kNN-LM [Khandelwal et al. 2020]: the model's distribution, interpolated with that of the tokens that followed where
// its rows were most alike.
#pragma once

#include <optional>
#include <span>

#include "lithe/infer/datastore.h"
#include "lithe/infer/hnsw_index.h"
#include "lithe/infer/logit_steps.h"

namespace lithe {

struct NeighbourOptions {
  int64_t k = 32;
  double weight = 0.25;     // lambda: p = lambda p_kNN + (1 - lambda) p_LM
  double temperature = 10;  // p_kNN(y) ~ sum over the k entries with value y of exp(-distance^2 / temperature)
  int64_t probes = 0;       // lists that are searched; 0: the exact search
  int64_t effort = 0;       // candidates in the store's graph (HnswIndex); 0: the exact search
};

/// A model and a store of it.
class NeighbourModel {
 public:
  /// Fails (usage) on options that the store cannot serve.
  NeighbourModel(Datastore store, const NeighbourOptions& options, std::optional<HnswIndex> graph = std::nullopt);

  const Datastore& store() const { return store_; }
  /// rows [n, width] of the model, what is predicted and the model's own negative log-likelihood of it -> that of the
  /// mixture.
  std::vector<double> nll(const Tensor& rows, std::span<const int32_t> labels, std::span<const double> own) const;
  /// Logits f32 [n, V] of these rows become log probabilities of the mixture.
  void mix(const Tensor& rows, const Tensor& logits) const;
  void mix(const Tensor& rows, std::span<const std::span<float>> logits) const;

 private:
  Datastore store_;
  NeighbourOptions options_;
  std::optional<HnswIndex> graph_;

  struct Weighed {
    int32_t token;
    double weight;  // of all they sum to 1
  };
  std::vector<std::vector<Weighed>> neighbours(const Tensor& rows) const;
};

/// A store of `lithe datastore build`, with its graph where options.effort asks for it. Fails (usage) when it was not
/// made by the weights and the tokenizer of these fingerprints.
NeighbourModel open_neighbours(const Path& store, const NeighbourOptions& options, uint64_t weights,
                               uint64_t tokenizer);

/// mix() as a step: tokens are chosen from the mixture. `model` outlives it.
std::shared_ptr<const LogitStep> neighbour_step(const NeighbourModel& model);

}  // namespace lithe

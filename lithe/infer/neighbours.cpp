#include "lithe/infer/neighbours.h"

#include <algorithm>
#include <cmath>

#include "lithe/base/error.h"

namespace lithe {

NeighbourModel::NeighbourModel(Datastore store, const NeighbourOptions& options, std::optional<HnswIndex> graph)
    : store_(std::move(store)), options_(options), graph_(std::move(graph)) {
  check_usage(options.weight >= 0 && options.weight <= 1, "datastore",
              "the weight of the neighbours must be in [0, 1], got ", options.weight);
  check_usage(options.temperature > 0 && std::isfinite(options.temperature), "datastore",
              "the temperature must be above 0, got ", options.temperature);
  check_usage(options.k >= 1, "datastore", "there must be a neighbour, got ", options.k);
  check_usage(options.probes == 0 || store_.info().lists > 0, "datastore", options.probes,
              " probes need an index; build the store with --lists, or leave --knn-probes out for the exact search");
  check_usage(options.effort == 0 || graph_, "datastore", "candidates of ", options.effort,
              " need a graph; build the store with --index hnsw");
  check_usage(options.effort == 0 || options.probes == 0, "datastore",
              "--knn-probes searches lists, --knn-effort a graph; give one of them");
}

std::vector<std::vector<NeighbourModel::Weighed>> NeighbourModel::neighbours(const Tensor& rows) const {
  const Tensor queries = as_type(rows, DType::f32);
  const NearestKeys near = options_.effort ? graph_->nearest(queries, options_.k, options_.effort)
                                           : nearest_keys(store_, queries, options_.k, options_.probes);
  std::vector<std::vector<Weighed>> out(size_t(rows.rows()));
  for (size_t i = 0; i < out.size(); ++i) {
    const auto first = i * size_t(near.k);
    double sum = 0;
    for (size_t j = first; j < first + size_t(near.k) && near.entries[j] >= 0; ++j) {
      const double weight =
          std::exp((double(near.distances[first]) - double(near.distances[j])) / options_.temperature);
      out[i].push_back({store_.value(near.entries[j]), weight});
      sum += weight;
    }
    for (Weighed& w : out[i]) w.weight /= sum;
  }
  return out;
}

std::vector<double> NeighbourModel::nll(const Tensor& rows, std::span<const int32_t> labels,
                                        std::span<const double> own) const {
  check(rows.rows() == int64_t(labels.size()) && labels.size() == own.size(), "datastore", rows.rows(), " rows have ",
        labels.size(), " labels");
  std::vector<double> out;
  const auto near = neighbours(rows);
  for (size_t i = 0; i < labels.size(); ++i) {
    double p = 0;
    for (const Weighed& w : near[i]) p += w.token == labels[i] ? w.weight : 0;
    // Without a neighbour (keys that are no numbers) the model speaks alone.
    const double weight = near[i].empty() ? 0 : options_.weight;
    out.push_back(weight == 0 ? own[i] : -std::log(weight * p + (1 - weight) * std::exp(-own[i])));
  }
  return out;
}

void NeighbourModel::mix(const Tensor& rows, const Tensor& logits) const {
  check(logits.dtype() == DType::f32, "datastore", "logits must be f32, got ", logits);
  std::vector<std::span<float>> each;
  for (int64_t i = 0; i < logits.rows(); ++i)
    each.emplace_back(logits.data<float>() + i * logits.cols(), size_t(logits.cols()));
  mix(rows, each);
}

void NeighbourModel::mix(const Tensor& rows, std::span<const std::span<float>> logits) const {
  check(rows.rows() == int64_t(logits.size()), "datastore", rows.rows(), " rows have logits of ", logits.size());
  const auto near = neighbours(rows);
  for (size_t i = 0; i < near.size(); ++i) {
    const std::span<float> row = logits[i];
    check(int64_t(row.size()) >= store_.info().vocab_size, "datastore", "logits must be of the store's ",
          store_.info().vocab_size, " tokens, got ", row.size());
    if (near[i].empty()) continue;
    const double most = *std::max_element(row.begin(), row.end());
    std::vector<double> p(row.size());
    double sum = 0;
    for (size_t c = 0; c < p.size(); ++c) sum += p[c] = std::exp(double(row[c]) - most);
    for (double& share : p) share *= (1 - options_.weight) / sum;
    for (const Weighed& w : near[i]) p[size_t(w.token)] += options_.weight * w.weight;
    for (size_t c = 0; c < p.size(); ++c) row[c] = float(std::log(std::max(p[c], 1e-300)));
  }
}

namespace {

class NeighbourStep final : public LogitStep {
 public:
  explicit NeighbourStep(const NeighbourModel& model) : model_(model) {}
  Needs needs() const override { return {.hidden = true}; }
  // All rows at once: a search reads the store once for all of them.
  void apply(std::span<LogitRow* const> rows) const override {
    const auto width = int64_t(rows[0]->hidden.size());
    const Tensor hidden = empty({int64_t(rows.size()), width}, DType::f32);
    std::vector<std::span<float>> logits;
    for (size_t i = 0; i < rows.size(); ++i) {
      std::copy(rows[i]->hidden.begin(), rows[i]->hidden.end(), hidden.data<float>() + int64_t(i) * width);
      logits.push_back(rows[i]->choice.scores());
    }
    model_.mix(hidden, logits);
  }

 private:
  const NeighbourModel& model_;
};

}  // namespace

NeighbourModel open_neighbours(const Path& directory, const NeighbourOptions& options, uint64_t weights,
                               uint64_t tokenizer) {
  const Datastore store = Datastore::open(directory);
  store.check_made_by(weights, tokenizer);
  std::optional<HnswIndex> graph;
  if (options.effort) graph = HnswIndex::open(directory, store);
  return NeighbourModel(store, options, graph);
}

std::shared_ptr<const LogitStep> neighbour_step(const NeighbourModel& model) {
  return std::make_shared<NeighbourStep>(model);
}

}  // namespace lithe

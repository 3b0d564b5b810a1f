// Predictors of labels and numbers from frozen rows: linear, with one hidden layer, and over spans.
#pragma once

#include <string>
#include <vector>

#include "lithe/autograd/var.h"
#include "lithe/probe/word_rows.h"

namespace lithe::probe {

/// Words [begin, end) of all words that rows were made of.
struct Span {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};

/// What is to be predicted of one span or two.
struct Instance {
  Span first, second;           // second empty: there is none
  std::vector<int32_t> labels;  // classes: one; with sigmoids any number
  double value = 0;             // of a regression
  std::string type;             // the word, for control labels; empty: it has none
};

struct Dataset {
  const WordRows* rows = nullptr;
  std::vector<Instance> instances;
};

struct PredictorConfig {
  /// linear: a linear map of the pooled rows. mlp: with a hidden layer of ReLUs. edge: rows projected, pooled by span,
  /// and a hidden layer [Tenney et al. 2019].
  std::string kind = "linear";
  /// Of a span's rows. linear, mlp: mean (default), sum, max, endpoint (first and last). edge: attention (default),
  /// mean, endpoint.
  std::string pooling;
  int64_t projection = 256, hidden = 256;
  bool sigmoid = false;                               // a yes or no of each class in place of one class
  int64_t epochs = 5, batch = 64, least_steps = 500;  // FitConfig
  double learning_rate = 1e-3;
  uint64_t seed = 1;
};
inline const std::vector<std::string> kPredictors{"linear", "mlp", "edge"};
/// What stands in `pooling` where it is empty. Fails (usage) on a kind or a pooling that is none.
std::string pooling_of(const PredictorConfig& config);
/// Trainable numbers; of a mixture of `mixed` layers one more for each, and a gain (0: there is none).
int64_t predictor_parameters(const PredictorConfig& config, int64_t width, bool pairs, int64_t classes, int64_t mixed);

/// What a predictor says of instances.
struct Outcome {
  std::vector<int32_t> classes;              // of each, the likeliest
  std::vector<std::vector<int32_t>> chosen;  // sigmoid: those of at least 1/2
  std::vector<double> values;                // of a regression
  double nats = 0;                           // the sum of -log p of the labels
};

/// Layers that a predictor reads: one, or a learned mixture of several, g sum_l softmax(w)_l h_l.
using Layers = std::vector<int64_t>;

class Predictor {
 public:
  /// Trains on `train`: minibatches in an order that the seed decides, Adam whose rate falls linearly to 0. `classes`
  /// 0: a regression; of kind linear and one layer it is solved by least squares. Rows of linear and mlp are pooled,
  /// then scaled to mean 0 and deviation 1 over the training instances; of edge, to a mean square of 1.
  Predictor(const PredictorConfig& config, const Dataset& train, int64_t classes, const Layers& layers);
  ~Predictor();
  Predictor(Predictor&&) noexcept;

  Outcome predict(const Dataset& data) const;
  /// The weights of the layers of a mixture; empty: there is one layer.
  std::vector<double> mixture() const;
  int64_t parameters() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Rows pooled by span, [N, p] for spans that follow each other: softmax of `scores` [N, 1] in each.
Var attentive_pool(const Var& x, const Var& scores, const Sequences& spans);
/// g softmax(w): [L] of w [L] and g [1].
Var mixture_weights(const Var& w, const Var& g);

}  // namespace lithe::probe

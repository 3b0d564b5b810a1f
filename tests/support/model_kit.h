// Parts alone, small models, and the bounds that their rounding obeys.
#pragma once

#include <functional>
#include <map>

#include "lithe/model/model.h"
#include "tests/support/numbers.h"

namespace lithe::kit {

// ---- parts alone

/// Parameters and scopes for parts that are built outside a model.
class Bench {
 public:
  explicit Bench(DType dtype = DType::f64, DType compute = DType::f64, Device device = Device::cpu, uint64_t seed = 1);
  Scope scope(const std::string& path = "part") { return Scope(context_, path); }
  BuildContext& context() { return context_; }
  Parameters& parameters() { return parameters_; }
  Tensor operator[](const std::string& name);  // the value of parameter `name`
  /// `options` is YAML, as in a recipe.
  template <class Interface>
  std::unique_ptr<Interface> make(const std::string& type, const typename Interface::Args& args,
                                  const std::string& options = "{}", const std::string& path = "part") {
    return Registry::instance().make<Interface>({type, parse_yaml(options, "test")}, scope(path), args);
  }

 private:
  Parameters parameters_;
  BuildContext context_;
};

/// Gives every parameter generic values (also norm weights and biases, which start as ones and zeros).
void randomise(Parameters& parameters, uint64_t seed, double matrix_deviation = 0.3);
/// Multiplies every parameter by 1 + relative u, u uniform in [-1, 1].
void jitter(Parameters& parameters, double relative, uint64_t seed);
void copy_values(Parameters& to, const Parameters& from);

/// Gradients of every input and every parameter against central differences (spec oracle G: f64, step 1e-5). f gives
/// one or more results; scalars [1] are differentiated with 1, others with fixed random numbers. Returns the largest
/// error, relative to the larger of 1 and the largest gradient of that tensor, and says in *where which element it was.
double gradient_error(Parameters& parameters, const std::function<std::vector<Var>(const std::vector<Var>&)>& f,
                      const std::vector<Tensor>& inputs, std::string* where = nullptr);

// ---- models

constexpr ModelOptions kMeta{.device = Device::meta}, kExact{.dtype = DType::f64, .compute = DType::f64},
    kTrainable{.dtype = DType::f64, .compute = DType::f64, .trainable = true};

/// `more`: "key: value, ..." that replaces keys of `yaml`, or adds some.
ModelConfig model_config(const std::string& yaml, const std::string& more = "");

/// Sequences of these lengths with random ids; labels are the ids one further, none at the ends.
struct Batch {
  Tensor ids, labels;
  Sequences sequences;
  Tensor source = {};  // encoder_decoder: what each sequence is of
  Sequences sources = {};
  // For bounds: the encoder's rows are moved by `jitter`, each number alone, as rounding moves them. Moved weights move
  // all rows alike, which attention does not see.
  double jitter = 0;
  uint64_t jitter_seed = 0;
};
Batch random_batch(const std::vector<int64_t>& lengths, int64_t vocab, uint64_t seed, Device device = Device::cpu);
/// Labels of a head that wants `count` of these sequences: the first of `labels`, made small enough.
Tensor labels_for(const Head::LabelCount& count, const Sequences& sequences, const Tensor& labels);
inline Tensor labels_for(const Model& model, const Batch& batch) {
  return labels_for(model.label_count(batch.sequences), batch.sequences, batch.labels);
}
/// LossArgs of such labels: where they have lengths of their own, half as many as rows, and nothing is smoothed.
LossArgs loss_args(const Head::LabelCount& count, const Sequences& sequences, const Tensor& labels, double smoothing,
                   double scale, LossSums* sums = nullptr);
/// The same with the tokens that a model reads.
Batch random_batch(const std::vector<int64_t>& lengths, const ModelConfig& config, uint64_t seed,
                   Device device = Device::cpu);
/// n tokens as the model's embedding reads them: ids below the vocabulary i32 [n], or codes [n, token_width].
Tensor random_tokens(int64_t n, const ModelConfig& config, uint64_t seed, Device device = Device::cpu);
/// n codes [n, token_width] of the five special tokens and of seven words with random payloads.
Tensor random_codes(int64_t n, const PartInfo& embedding, uint64_t seed, Device device = Device::cpu);
/// Sources with random tokens for an encoder_decoder that has `sequences` sequences, none as long as the one before.
void add_sources(Batch& batch, const ModelConfig& config, uint64_t seed, Device device = Device::cpu);
/// What a model makes of tokens: its rows, or their predictions.
Rows run(const Model& model, const Tensor& ids, const Sequences& sequences, DecodeState* state = nullptr);
inline Var forward(const Model& model, const Tensor& ids, const Sequences& sequences, DecodeState* state = nullptr) {
  return run(model, ids, sequences, state).x;
}
Var logits(const Model& model, const Tensor& ids, const Sequences& sequences, DecodeState* state = nullptr);
/// The loss of tokens, auxiliary losses counted.
Var loss(const Model& model, const Tensor& ids, const Tensor& labels, const Sequences& sequences, double smoothing,
         double scale, LossSums* sums = nullptr, Tensor row_nll = {}, const std::vector<int64_t>& predicted = {});
/// Columns of a treebank for such sequences: what a row has depends on its position alone. Words are single rows, the
/// tree is a heap; of the parser's heads the one in the tree has 0.75.
std::map<std::string, Tensor> tree_columns(const std::vector<std::string>& names, const Sequences& sequences);
/// What a model reads of a batch.
ModelInput input_of(const Model& model, const Batch& batch);
ModelInput input_of(const Batch& batch);
/// The rows of a batch; its loss, scale * the sum over the labels.
Var forward(const Model& model, const Batch& batch);
Var loss(const Model& model, const Batch& batch, const Tensor& labels, double smoothing, double scale,
         LossSums* sums = nullptr);
/// How the tokens of one sequence (ids i32 [T]; read by the encoder if there is one) meet, layer by layer.
std::vector<MixerMaps> maps(const Model& model, const Tensor& ids);
/// Sequence b of a batch, alone.
Batch alone(const Batch& batch, int64_t b);

/// Named numbers that a computation gives.
using Results = std::map<std::string, std::vector<double>>;

/// Loss, rows, logits and the gradient of every parameter of the mean loss over the labelled rows.
Results run_training(Model& model, const Batch& batch, double smoothing = 0);

// ---- bounds

/// What a computation gives exactly, and how far rounding may move each number.
struct Bounded {
  Results exact, bound;
};
/// run(relative, seed) does the computation in f64 after moving its parameters by `relative`; run(0, 0) is exact. The
/// bound of an element is `safety` times the largest distance that one of four draws moved it, plus the same for
/// the root mean square of its tensor (an element's own draws may all be small by chance).
Bounded rounding_bound(const std::function<Results(double relative, uint64_t seed)>& run, double relative,
                       double safety = 4);
/// Relative rounding of a computation in `dtype` whose longest sum has `length` terms. Partial sums in f32 (f64 for
/// f64) round at every term; such errors grow like the root of the length. Values are rounded to dtype on the way: each
/// product's result and each elementwise result after it.
double rounding(DType dtype, int64_t length);
/// Empty when every number lies within its bound; otherwise the worst, with both values and the bound. `closest`
/// receives the largest ratio of an error to its bound.
std::string compare(const Results& got, const Bounded& want, double* closest = nullptr);

}  // namespace lithe::kit

// Parameters with full names, and the scopes that make them.
#pragma once

#include <deque>
#include <map>
#include <set>

#include "lithe/autograd/var.h"
#include "lithe/base/random.h"
#include "lithe/nn/axis.h"
#include "lithe/nn/init.h"

namespace lithe {

/// What the forward pass reads of a parameter in place of its master, made from it once a step: the master in bf16, on
/// a grid of integers, under a mask.
class View {
 public:
  virtual ~View() = default;
  /// Makes it anew from the master's numbers.
  virtual void refresh(const Tensor& master) = 0;
  /// What is read. The gradient of a copy is the master's, straight through: Var(copy, master.ref()). A view that
  /// learns numbers of its own computes here.
  virtual Var read(const Var& master) const = 0;
  /// Its copy, where that is the master in bf16 and no more: whoever writes the master may fill it in the same pass,
  /// and it can be the upper halves of a split one. None by default.
  virtual Tensor rounded() const { return {}; }
  virtual int64_t bytes() const = 0;
};

/// Rows that follow the vectors gathered for them, in place of a gradient: each becomes decay times itself and 1 -
/// decay times the mean of those of a step, at length 1. One for which nothing came stays.
class MovingMeans {
 public:
  MovingMeans(const Shape& shape, double decay, Device device);
  /// A vector of the parameter's columns for one of its rows.
  void gather(int64_t row, const double* vector);
  /// The rows move, and what was gathered is forgotten.
  void step(const Tensor& rows);
  void drop();
  /// What was gathered, to be added to what others gathered: sums [rows, cols] and counts [rows] in f64.
  struct Gathered {
    Tensor sums, counts;
  };
  /// Takes it out; nothing is gathered then.
  Gathered take();
  void put(Gathered gathered);

 private:
  double decay_;
  Tensor sums_, counts_;
};

/// A trainable tensor. `name` is its name in checkpoints ("layers.0.ffn.up.weight").
struct Parameter {
  std::string name;
  Var master;  // what the optimiser updates; for inference it may be packed
  Axes axes;
  InitRole role;
  bool decay;                       // weight decay applies: matrices and tables, not vectors
  bool joins = false;               // its result is added to the residual stream, and with all such zero nothing is
  std::shared_ptr<View> view = {};  // none: the master is read
  std::shared_ptr<MovingMeans> means = {};  // what moves it, of a parameter without gradients
  int64_t zero_row = -1;                    // that stays zero; -1: none
  Tensor rest = {};  // lower halves of a split master (kernels/optimizer), whose upper ones it then holds as bf16

  /// What the forward pass reads; its gradient gathers in the master's.
  Var var() const { return view ? view->read(master) : master; }
  /// From now on through this view; not of a split master.
  void read_through(std::shared_ptr<View> through);
  /// Of the numbers that stand in memory: packed, or master and view or rest.
  int64_t bytes() const;
  /// Splits the master where what is read is its numbers in bf16 (View::rounded): these are the upper halves then, and
  /// there is no view.
  void split();
  /// The master's numbers, joined where they are split; in f32 where they are integers.
  Tensor numbers() const;
  /// Their type.
  DType numbers_type() const;
  /// Sets them; the view stays as it is.
  void assign(const Tensor& numbers);
  /// Sets a row of the table to zero, also in the view.
  void clear_row(int64_t row);

  /// What one pass over the numbers writes: them, or their upper halves and the rest, and them in bf16 where that is
  /// defined.
  struct Storage {
    Tensor numbers, rest, rounded;
  };
  Storage storage() const;
};

/// A part's results for one index of a dimension depend on all of them, or on its place among them (a mean, a softmax,
/// a scale, angles): without some it is another function than with these at zero.
struct Coupling {
  std::string path;  // of the part
  Dimension of;
};

/// All parameters of a model, in order of construction. Pointers to them stay valid.
class Parameters {
 public:
  Parameter* add(Parameter parameter);
  std::deque<Parameter>& all() { return parameters_; }
  const std::deque<Parameter>& all() const { return parameters_; }
  Parameter* find(const std::string& name);
  /// Makes constants of those that a shell pattern names ("embedding.*", "layers.[0-3].*"): they gather no gradients.
  /// Fails (usage) when it names none.
  void freeze(const std::string& pattern);
  int64_t count() const;  // trainable scalars
  int64_t bytes() const;  // of Parameter::bytes()
  /// Makes every view anew.
  void refresh_views();
  /// After a pass that wrote each Storage: moves what follows means, and makes those views anew that it could not fill.
  void stepped();
  /// Forgets what was gathered for means.
  void drop_gathered();
  void couple(Coupling coupling) { couplings_.push_back(std::move(coupling)); }
  const std::vector<Coupling>& couplings() const { return couplings_; }

 private:
  std::deque<Parameter> parameters_;
  std::vector<Coupling> couplings_;
  std::map<std::string, Parameter*> by_name_;
};

/// What all parts of one model are built with.
struct BuildContext {
  Parameters* parameters = nullptr;
  Device device = Device::cpu;
  DType dtype = DType::f32;    // of the parameters
  DType compute = DType::f32;  // of the rows; with bf16, views of f32 matrices are in bf16
  InitConfig init;
  uint64_t seed = 1;
  int64_t layers = 0;
  bool trainable = true;
  bool initialised = true;
  std::set<std::string> integers;  // matrices made without numbers (on the meta device): integer weights come for them
  std::map<std::string, bool> packed;  // matrices made packed for inference, and whether by their rows
};

/// What few parameters need.
struct ParameterOptions {
  const InitConfig* init = nullptr;  // in place of the model's
  bool wide = false;                 // a matrix that no product reads: never rounded to bf16 while training
  bool joins = false;                // Parameter::joins; always of InitRole::residual_output
  double follows = 0;                // > 0: no gradient moves it, but MovingMeans of this decay
};

/// A place in the tree of parts: a path, and the layer it is in.
class Scope {
 public:
  explicit Scope(BuildContext& context, std::string path = "", int64_t layer = -1)
      : context_(&context), path_(std::move(path)), layer_(layer) {}
  Scope operator/(const std::string& name) const { return Scope(*context_, full(name), layer_); }
  Scope in_layer(int64_t layer) const { return Scope(*context_, path_, layer); }
  const std::string& path() const { return path_; }
  int64_t layer() const { return layer_; }
  const BuildContext& context() const { return *context_; }

  /// A new parameter path/name, initialised for its role.
  Parameter* parameter(const std::string& name, const Axes& axes, InitRole role,
                       const ParameterOptions& options = {}) const;
  /// The part of this scope is a Coupling of these.
  void couples(std::initializer_list<Dimension> dimensions) const;

 private:
  BuildContext* context_;
  std::string path_;
  int64_t layer_;
  std::string full(const std::string& name) const { return path_.empty() ? name : path_ + "." + name; }
};

/// y = x W + b with W [in, out].
class Linear {
 public:
  Linear() = default;
  Linear(const Scope& scope, const Axis& in, const Axis& out, bool bias, InitRole role = InitRole::matrix);
  Var operator()(const Var& x) const;
  Parameter* weight = nullptr;
  Parameter* bias = nullptr;
};
/// Each of the maps of the same x.
std::vector<Var> apply_each(std::initializer_list<const Linear*> maps, const Var& x);
/// The parameter's var(), or an undefined Var for none.
Var var_or_none(const Parameter* parameter);

/// Which training step runs: keys all random numbers of the forward pass. Set by the trainer.
struct StepContext {
  uint64_t seed = 0, step = 0;
};
StepContext& step_context();

/// Dropout of one place in the model, keyed by the place and the step.
class Dropout {
 public:
  Dropout() = default;
  Dropout(const Scope& scope, double p)
      : p_(p), layer_(uint32_t(scope.layer() + 1)), purpose_(purpose_of("dropout." + scope.path())) {}
  /// `part` tells apart what one place drops in several calls of a step.
  Var operator()(const Var& x, int64_t part = 0) const;
  /// Drops something in this pass.
  bool active() const { return p_ > 0 && training(); }

 private:
  double p_ = 0;
  uint32_t layer_ = 0, purpose_ = 0;
};

}  // namespace lithe

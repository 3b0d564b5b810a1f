// Parameters with full names, and the scopes that make them.
#pragma once

#include <deque>
#include <map>
#include <set>

#include "lithe/autograd/var.h"
#include "lithe/base/random.h"
#include "lithe/nn/init.h"

namespace lithe {

/// A trainable tensor. `name` is its name in checkpoints ("layers.0.ffn.up.weight").
struct Parameter {
  std::string name;
  Var master;             // what the optimiser updates; for inference it may be packed
  Tensor shadow;          // bf16 copy that products read, when training in bf16; else none
  bool decay;             // weight decay applies: matrices and tables, not vectors
  int64_t zero_row = -1;  // that stays zero; -1: none
  bool by_var = false;    // the model reads var() alone, never the master
  Tensor rest;            // lower halves of a split master (kernels/optimizer), whose upper ones it then holds as bf16

  /// What the forward pass reads; its gradient gathers in the master's.
  Var var() const { return shadow.defined() ? Var(shadow, master.ref()) : master; }
  /// Of the numbers that stand in memory: packed, or master and shadow or rest.
  int64_t bytes() const;
  /// Splits the master, if it has a shadow and is not read but by var(): the upper halves are the shadow then.
  void split();
  /// The master's numbers, joined where they are split.
  Tensor numbers() const;
  /// Sets them; the shadow stays as it is.
  void assign(const Tensor& numbers);
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
  /// Copies every master into its shadow.
  void refresh_shadows();

 private:
  std::deque<Parameter> parameters_;
  std::map<std::string, Parameter*> by_name_;
};

/// What all parts of one model are built with.
struct BuildContext {
  Parameters* parameters = nullptr;
  Device device = Device::cpu;
  DType dtype = DType::f32;    // of the parameters
  DType compute = DType::f32;  // of the rows; bf16 with f32 parameters makes shadows
  InitConfig init;
  uint64_t seed = 1;
  int64_t layers = 0;
  bool trainable = true;
  bool initialised = true;
  std::set<std::string> integers;  // matrices made without numbers (on the meta device): integer weights come for them
  std::map<std::string, bool> packed;  // matrices made packed for inference, and whether by their rows
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

  /// A new parameter path/name, initialised for its role; `init` in place of the model's.
  Parameter* parameter(const std::string& name, const Shape& shape, InitRole role,
                       const InitConfig* init = nullptr) const;

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
  Linear(const Scope& scope, int64_t in, int64_t out, bool bias, InitRole role = InitRole::matrix);
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

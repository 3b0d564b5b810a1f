// One forward through a model: what the batch has beside its tokens, and what parts leave beside their rows.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lithe/autograd/var.h"
#include "lithe/nn/model_input.h"

namespace lithe {

class DecodeState;
class ExitRun;

struct Shortening;

/// What runs between layers: rows [N, D] of all sequences. A compressor makes fewer of them, an expander as many as
/// before.
struct Rows {
  Var x;
  Sequences sequences;
  Var embedded = {};  // of a source: the rows that entered its encoder, where some cross-attention reads them
  std::shared_ptr<const Shortening> shortened = {};  // what the last compressor made them of; null: none did
  const ExitRun* exits = nullptr;  // of rows that Model::run gave: by which exits they left; null: none was tried
  Var log_presence = {};  // [N, 1] in f32 (f64 for f64), the log of how much each row is there, in (0, 1], which its
                          // weight as a key is multiplied by before weights are made to sum to 1; none: wholly
  std::shared_ptr<const ModelInput> read = {};  // of rows that Model::run gave to a head that reads_tokens()
};

/// What became of the rows before a compressor.
struct Shortening {
  Rows before;
  std::vector<int64_t> row_of;  // of each row before, the one that stands for it now; -1: none does
};

/// Something that a layer computes and that others may look at.
struct Tap {
  enum class Kind {
    rows,        // what leaves the layer: [N, D]
    row_of,      // of each row that entered the stack the layer's row that stands for it, -1: none: i32 [N, 1]; where
                 // a compressor left fewer
    input,       // what its mixer reads: [N, D], normed as the wiring says
    queries,     // of attention, as its softmax reads them: [N, heads*d_h]
    keys,        // the same: [N, key heads*d_h]
    values,      // what it mixes: [N, key heads*d_v]
    map,         // attention weights of a sequence: [heads*T, T], row (h, i) has what token i takes from each. While a
                 // tape lives, of every sequence and with gradients; else f32, of the only one
    map_logits,  // the same before the softmax, scaled, -inf where hidden; not while a tape lives
    context,     // of attention: the heads' results, [N, heads*d_h]; for mixers that take them from another
    received,  // the weight that each row gets, the mean over heads and queries: [N, 1] in f32 (f64 for f64). Those of
               // a sequence sum to 1 where every query sees a key
  };
  Kind kind;
  int64_t layer = 0;     // from 0
  int64_t sequence = 0;  // of a map
  auto operator<=>(const Tap&) const = default;
};

/// "queries".
const char* name_of(Tap::Kind kind);

/// A number or several that a part shows of itself, for looking at: the mean over what was added.
struct Statistic {
  std::vector<double> sums;  // of values, times their weights
  double weight = 0;
  void add(const std::vector<double>& values, double weight_of_values);
  std::vector<double> means() const;
};
/// By name and layer, from 0 (of an encoder before a decoder: "encoder." before the name).
using Statistics = std::map<std::pair<std::string, int64_t>, Statistic>;

/// A handle: copies are of the same pass. Every layer runs with one of its own, within().
class Pass {
 public:
  Pass() : shared_(std::make_shared<Shared>()), notes_(std::make_shared<Notes>()) {}
  /// For parts that run outside of a model: nothing is given or wanted, and losses are dropped.
  static Pass& nowhere();

  /// Columns of the input beside its tokens, by name.
  void give(const std::string& name, Tensor column) {
    shared_->columns[name] = std::move(column);
    shared_->kept.clear();
  }
  const Tensor* given(const std::string& name) const;
  /// What parts make of the columns once for all layers: made by the first that asks for `key`.
  template <class T>
  const T& once(const std::string& key, const std::function<T()>& make) const {
    std::shared_ptr<void>& kept = shared_->kept[key];
    if (!kept) kept = std::make_shared<T>(make());
    return *static_cast<T*>(kept.get());
  }

  /// An auxiliary loss, a scalar [1] with its weight: added to the objective's in training.
  /// Losses of one name add up.
  void add_loss(const std::string& name, const Var& loss) const;
  const std::map<std::string, Var>& losses() const { return notes_->losses; }

  /// What the run's log shows of the layer that runs, where somebody wants it: `values`, each a mean over `weight`
  /// rows. Those of one name in a layer are averaged.
  void add_statistic(const std::string& name, const std::vector<double>& values, double weight) const;
  void want_statistics() { shared_->statistics = true; }
  bool wants_statistics() const { return shared_->statistics; }
  const Statistics& statistics() const { return notes_->statistics; }
  /// Those of another pass become this one's, `before` each name.
  void take_statistics(const Statistics& from, const std::string& before = "") const;

  /// Taps are computed when somebody wants them. A layer that does not run puts none.
  void want(Tap tap) { shared_->wanted.insert({tap.kind, tap.layer}); }
  void want(Tap::Kind kind) { shared_->every.insert(kind); }  // of every layer
  bool wants(Tap tap) const { return shared_->every.count(tap.kind) || shared_->wanted.count({tap.kind, tap.layer}); }
  bool wants(Tap::Kind kind) const { return wants({kind, layer_}); }  // of the layer that runs
  /// What reads the tap has its gradient gathered apart, so that it adds up alike where layers are recomputed.
  void put(Tap::Kind kind, const Var& x, int64_t sequence = 0) const;
  /// Undefined when nobody put it.
  Var get(Tap tap) const;

  /// The embedded rows, as they enter the stack. Only where some sub-layer reads_embedding().
  Var embedded() const;
  /// What the mixer of the layer that runs would read of its reference sequence (SubLayer::reference): [R, D];
  /// undefined in the reference's own pass.
  Var reference() const;
  /// The rows of an encoder that cross-attention reads; none while a state keeps what it needs.
  std::optional<Rows> source(const std::string& name) const;
  /// The pass by which the encoder `name` reads its source: what it is to give is wanted there. A handle.
  Pass of_source(const std::string& name) const;

  /// The layer that runs, from 0; -1 outside.
  int64_t layer() const { return layer_; }
  /// What decoding keeps; null while whole sequences run.
  DecodeState* state() const { return shared_->state; }

  /// The rule by which rows leave the model's stack early, at work; null: all run to the end.
  void set_exits(ExitRun* run) { shared_->exits = run; }
  ExitRun* exits() const { return shared_->exits; }

  // ---- for models and stacks

  /// The pass is over once this tap was put: layers and what is left of its own are not run.
  void end_with(Tap tap) { shared_->end = tap; }
  bool ended() const { return shared_->end && (layer_ > shared_->end->layer || notes_->taps.count(*shared_->end)); }
  /// The same pass inside layer `layer`.
  Pass within(int64_t layer) const;
  /// The same, with losses and taps of its own: for code that may run again. The caller hands them on by take().
  Pass apart(int64_t layer) const;
  /// Losses and taps as Vars in a fixed order, and back: what `from` noted becomes this pass's, with `vars` in place of
  /// the values, first at `begin`. Statistics come along.
  std::vector<Var> noted() const;
  bool has_notes() const { return !notes_->losses.empty() || !notes_->taps.empty() || !notes_->statistics.empty(); }
  void take(const Pass& from, const std::vector<Var>& vars, size_t begin) const;
  void set_embedded(Var rows) const { shared_->embedded = std::move(rows); }
  void set_references(std::vector<Var> rows) const { shared_->references = std::move(rows); }
  void set_source(const std::string& name, Rows source) const { shared_->sources[name] = std::move(source); }
  void set_state(DecodeState* state) const { shared_->state = state; }

 private:
  struct Shared {
    std::map<std::string, Tensor> columns;
    std::map<std::string, std::shared_ptr<void>> kept;
    std::set<Tap> wanted;
    std::set<Tap::Kind> every;
    Var embedded;
    std::vector<Var> references;
    std::map<std::string, Rows> sources;
    std::map<std::string, Pass> of_sources;
    DecodeState* state = nullptr;
    std::optional<Tap> end;
    ExitRun* exits = nullptr;
    bool statistics = false;  // wanted
  };
  struct Notes {
    std::map<std::string, Var> losses;
    std::map<Tap, Var> taps;
    Statistics statistics;
  };
  std::shared_ptr<Shared> shared_;
  std::shared_ptr<Notes> notes_, around_;  // around_: of the pass that this one stands apart from; else null
  int64_t layer_ = -1;
};

}  // namespace lithe

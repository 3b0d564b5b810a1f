// Parts that are built on parameters that stand already, and mixers that take their attention map from another.
#pragma once

#include <string>

#include "lithe/nn/sub_layer.h"

namespace lithe {

/// While it lives, Scope::parameter() gives the parameter that stands under the name, so that optimiser, checkpoints
/// and counts see it once and its gradient is the sum over its uses. Fails (usage) where there is none, or one of
/// another shape: `who` shares with something that is not like it.
class SharedParameters {
 public:
  /// Changes nothing unless `on`.
  SharedParameters(bool on, std::string who);
  /// Nobody shares while it lives.
  SharedParameters();
  ~SharedParameters();
  SharedParameters(const SharedParameters&) = delete;
  /// Who shares now; null: nobody.
  static const std::string* sharing();

 private:
  const std::string* around_;
  std::string who_;
  bool on_;
};

/// Attention weights as others use them: whose queries and keys meet, and how.
class AttentionMap {
 public:
  virtual ~AttentionMap() = default;
  virtual int64_t query_heads() const = 0;
  virtual int64_t kv_heads() const = 0;
  /// Of the heads' results.
  virtual int64_t context_size() const = 0;
  /// How the queries and keys that were lent meet in whole sequences; `in` has the rows that were lent, and a pass
  /// whose losses and statistics nobody takes,
  virtual AttendOptions options(const SubLayerInput& in, const Var& q, const Var& k) const = 0;
  /// and queries the keys that the state of the map's mixer keeps.
  virtual AttendOptions options(const SubLayerInput& in, const Var& q, const State& keys) const = 0;
};

/// A mixer whose attention weights others above it may use, or one that uses another's [TB 6.4.4]. Model code finds it
/// by SubLayer::shared_map() and ties both when it has built them.
class SharedMap {
 public:
  /// Taps for queries and keys as the softmax reads them, for the heads' results, and for the rows that the mixer read.
  static constexpr Tap::Kind kQueries = Tap::Kind::queries, kKeys = Tap::Kind::keys, kContext = Tap::Kind::context,
                             kRows = Tap::Kind::input;

  virtual ~SharedMap() = default;
  /// Null: has no queries and keys of its own.
  virtual const AttentionMap* map() const = 0;
  bool borrows() const { return map() == nullptr; }
  /// From now on forward() leaves its queries, keys and rows in the pass. Fails (usage) where they are of a form that
  /// others cannot read.
  virtual void lend() = 0;
  /// Takes the map of `from`, which stands in layer `layer`. Fails (usage) where it does not fit.
  virtual void borrow(const SharedMap& from, int64_t layer) = 0;
  /// The same for their states: `own` reads the keys that `from` keeps.
  virtual void borrow_keys(State& own, const State& from) const = 0;
};

}  // namespace lithe

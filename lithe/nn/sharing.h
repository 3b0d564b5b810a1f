// Parts that are built on parameters that stand already, and mixers that take their attention map from another.
#pragma once

#include <string>

#include "lithe/nn/pass.h"
#include "lithe/nn/state.h"

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

/// A mixer whose attention weights others above it may use, or one that uses another's [TB 6.4.4]. Model code finds it
/// by dynamic_cast and ties both when it has built them.
class SharedMap {
 public:
  /// Taps for queries and keys as the softmax reads them, and for the heads' results; only mixers look at them.
  static constexpr Tap::Kind kQueries = Tap::Kind::queries, kKeys = Tap::Kind::keys, kContext = Tap::Kind::context;

  virtual ~SharedMap() = default;
  /// Has no queries and keys of its own.
  virtual bool borrows() const = 0;
  /// From now on forward() leaves its queries and keys in the pass. Fails (usage) where they are of a form that others
  /// cannot read.
  virtual void lend() = 0;
  /// Takes the map of `from`, which stands in layer `layer`. Fails (usage) where it does not fit.
  virtual void borrow(const SharedMap& from, int64_t layer) = 0;
  /// The same for their states: `own` reads the keys that `from` keeps.
  virtual void borrow_keys(State& own, const State& from) const = 0;
};

}  // namespace lithe

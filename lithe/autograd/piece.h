// Pieces of a forward pass, such as layers: what they read of the world around them, and running them again in the
// backward pass instead of keeping their activations.
#pragma once

#include "lithe/autograd/var.h"

namespace lithe {

/// While it lives, from_outside() notices what the code that runs reads beside its inputs.
class Piece {
 public:
  enum class Mode {
    gather,   // each outside Var gets one alias, in which the gradients of all its uses gather first
    notice,   // a Rehearsal: outside Vars are only noted
    replace,  // a second pass: outside Vars noted before are replaced by detached copies
  };
  /// `outside`: what the first pass noted, for Mode::replace.
  explicit Piece(Mode mode, std::vector<Var> outside = {});
  ~Piece();
  Piece(const Piece&) = delete;
  Piece& operator=(const Piece&) = delete;

  /// What was read, each Var once, in the order of the first reading.
  const std::vector<Var>& outside() const { return outside_; }
  /// After a second pass: hands the gradients of the copies to the Vars that they stand for.
  void give_back(Grads& g) const;

 private:
  friend Var from_outside(const Var&);
  Var read(const Var& x);
  Mode mode_;
  Piece* around_;
  std::vector<Var> outside_, inside_;  // inside_[i] stands for outside_[i]
};

/// A Var that was made outside of the piece that runs and is not among its inputs, as the piece must read it; x itself
/// where no piece runs. Reading one directly would lose its gradient when the piece is run again.
/// Not in a piece within another, where nobody could tell which of both made the Var.
Var from_outside(const Var& x);

using PieceFunction = std::function<std::vector<Var>(const std::vector<Var>&)>;
/// f(inputs), keeping only the inputs and what f reads from outside: backward runs f again (activation checkpointing).
/// f must be a pure function of its inputs, of what it takes from_outside() and of parameters; random numbers are,
/// being keyed. It gives equally many results each time.
std::vector<Var> recompute(const PieceFunction& f, const std::vector<Var>& inputs);

}  // namespace lithe

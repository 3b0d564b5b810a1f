// The sequences of one decode state: the one place where decoding runs the model.
#pragma once

#include "lithe/infer/logit_steps.h"
#include "lithe/model/model.h"
#include "lithe/nn/exits.h"

namespace lithe {

struct SlotShape {
  int64_t capacity = 0;               // tokens of a sequence, at most
  std::optional<DType> cache = {};    // what rows are kept in; none: the type of the rows
  bool cached = true;                 // false: nothing is kept, each read is of the whole sequence
  std::optional<ExitRule> exit = {};  // criterion layer: all rows leave there, and layers above keep nothing
};

class DecodeSlots {
 public:
  /// Fails (usage) where the model has no cache of that type.
  DecodeSlots(const Model& model, int64_t count, const SlotShape& shape);

  int64_t count() const { return count_; }
  /// At least so many; new ones are empty.
  void grow(int64_t count);
  /// Tokens that are kept of a sequence.
  int64_t length(int64_t slot) const { return state_ ? state_->length(slot) : 0; }
  bool cached() const { return state_ != nullptr; }
  /// Whether truncate() works at every length.
  bool truncates() const { return !state_ || state_->truncates(); }
  void truncate(int64_t slot, int64_t tokens);
  /// Sequence `to` goes on from what `from` has, pages shared where they can be. Others stay.
  void copy(int64_t from, int64_t to);
  /// Bytes of what is kept.
  int64_t bytes() const { return state_ ? state_->bytes() : 0; }

  struct Source {
    int64_t slot;
    std::map<std::string, std::span<const int32_t>> tokens;  // by the name of the encoder
  };
  /// encoder_decoder: what empty sequences read from now on. Others keep theirs.
  void read_sources(std::vector<Source> sources);

  struct Piece {
    int64_t slot;
    std::span<const int32_t> tokens;  // that follow what is kept of the sequence
    int64_t wanted;                   // the last so many of them have the tokens after them predicted
  };
  struct Predictions {
    Tensor logits;                           // f32 [wanted of all pieces, V], to be written to
    Tensor hidden;                           // f32 [wanted, D] of the last layer, where it is needed
    std::vector<double> stop_probabilities;  // [wanted], where they are needed
    /// What a choice sees of row i, which follows `tokens`.
    LogitRow row(int64_t i, std::span<const int32_t> tokens, int64_t prompt_tokens) const;
  };
  /// Reads pieces of different slots, in the order of the slots. No row's bits depend on the others'. `exits`: the rule
  /// by which rows leave, null for none.
  Predictions read(const std::vector<Piece>& pieces, ExitRun* exits, LogitStep::Needs needs);

 private:
  const Model& model_;
  SlotShape shape_;
  int64_t count_;
  std::unique_ptr<DecodeState> state_;
  bool used_ = false;            // the state, for something
  std::optional<ExitRun> exit_;  // of shape_.exit

  std::unique_ptr<DecodeState> new_state() const;
};

/// Whether the model's head knows where texts stop.
bool predicts_stops(const Model& model);

}  // namespace lithe

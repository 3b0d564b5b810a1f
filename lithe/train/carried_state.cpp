#include "lithe/train/carried_state.h"

namespace lithe {

CarriedState::CarriedState(const Model& model, int64_t lanes, int64_t capacity)
    : model_(&model), lanes_(lanes), capacity_(capacity), state_(model.make_state(lanes, capacity)) {}

DecodeState& CarriedState::enter(const DeviceBatch& batch) {
  check(int64_t(batch.continues.size()) == lanes_, "carry_state", "the batch has ", batch.continues.size(),
        " lanes, the states are of ", lanes_);
  std::vector<int64_t> from;
  std::vector<bool> anew;
  for (int64_t lane = 0; lane < lanes_; ++lane)
    for (int64_t b = batch.lanes[size_t(lane)]; b < batch.lanes[size_t(lane) + 1]; ++b) {
      from.push_back(lane);
      anew.push_back(b > batch.lanes[size_t(lane)] || !batch.continues[size_t(lane)]);
    }
  state_->reorder(from);
  for (size_t b = 0; b < from.size(); ++b)
    if (anew[b]) state_->truncate(int64_t(b), 0);
  return *state_;
}

void CarriedState::leave(const DeviceBatch& batch) {
  std::vector<int64_t> last;
  for (int64_t lane = 0; lane < lanes_; ++lane) last.push_back(batch.lanes[size_t(lane) + 1] - 1);
  state_->reorder(last);
}

void CarriedState::restore(const NamedTensors& kept) {
  state_ = model_->make_state(lanes_, capacity_);
  state_->restore(kept);
}

void check_carries_states(const Model& model, const TrainConfig& config, int64_t longest) {
  model.check_predicts_next("train.carry_state");
  check_usage(!config.gradient_checkpointing, "train",
              "carry_state brings a state forward once, and gradient_checkpointing runs each layer twice; set one of "
              "them to false");
  const int64_t limit = model.position_limit();
  check_usage(!limit || limit >= longest, "train", "carry_state lets a document of ", longest,
              " tokens go on beyond the ", limit, " positions of this model; give model.position one without a limit ",
              "(rotary, alibi, t5_bias, xl, none), or model.max_position_embeddings: ", longest);
  // A state may grow and shrink by a page or a chunk; one that keeps every token grows sixteenfold.
  const int64_t some = model.state_bytes({int64_t(1) << 20}), more = model.state_bytes({int64_t(1) << 24});
  check_usage(
      some > 0, "train",
      "carry_state is true and no layer keeps a state; give one a mixer that does, as recipes/memory/ has them, "
      "or set it to false");
  check_usage(
      more <= 2 * some, "train",
      "carry_state needs states of bounded size, and a layer keeps all tokens of the past; give its attention a "
      "bounded field (model.mixer.field: {type: span, left: 256}) or a memory, as recipes/memory/ has them");
  try {
    model.make_state(1, 1)->check_differentiable();
  } catch (const Error& error) {
    fail_usage("train", "carry_state: ", error.what());
  }
}

}  // namespace lithe

#include "lithe/infer/decode_slots.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lithe/ops/basic.h"

namespace lithe {
namespace {

std::vector<double> stop_probabilities(const Model& model, const Var& rows) {
  const Tensor logits = model.stop_logits(rows).value();
  std::vector<double> out;
  for (int64_t i = 0; i < logits.rows(); ++i)
    out.push_back(1 / (1 + std::exp(value_at(logits, 2 * i) - value_at(logits, 2 * i + 1))));
  return out;
}

}  // namespace

bool predicts_stops(const Model& model) {
  const NoGrad no_grad;
  const Shape shape{1, model.config().hidden_size};
  return model.stop_logits(Var(zeros(shape, model.compute_dtype(), model.device()))).defined();
}

DecodeSlots::DecodeSlots(const Model& model, int64_t count, const SlotShape& shape)
    : model_(model), shape_(shape), count_(count) {
  if (shape.exit) exit_.emplace(*shape.exit);
  if (shape.cached) state_ = new_state();
}

std::unique_ptr<DecodeState> DecodeSlots::new_state() const {
  return exit_ ? model_.make_short_state(count_, shape_.capacity, shape_.cache, int64_t(exit_->rule.threshold))
               : model_.make_state(count_, shape_.capacity, shape_.cache);
}

void DecodeSlots::grow(int64_t count) {
  const int64_t had = std::exchange(count_, std::max(count, count_));
  if (!state_ || had == count_) return;
  if (!used_) {
    state_ = new_state();
    return;
  }
  // New sequences begin as copies of the first, and forget it.
  std::vector<int64_t> from(static_cast<size_t>(count_), 0);
  for (int64_t slot = 0; slot < had; ++slot) from[size_t(slot)] = slot;
  state_->reorder(from);
  for (int64_t slot = had; slot < count_; ++slot) state_->truncate(slot, 0);
}

void DecodeSlots::truncate(int64_t slot, int64_t tokens) {
  if (state_) state_->truncate(slot, tokens);
}

void DecodeSlots::copy(int64_t from, int64_t to) {
  std::vector<int64_t> order(static_cast<size_t>(count_));
  std::iota(order.begin(), order.end(), 0);
  order[size_t(to)] = from;
  state_->reorder(order);
}

void DecodeSlots::read_sources(std::vector<Source> sources) {
  std::sort(sources.begin(), sources.end(), [](const Source& a, const Source& b) { return a.slot < b.slot; });
  std::map<std::string, ModelInput> inputs;
  for (const std::string& name : model_.config().source_names()) {
    std::vector<int32_t> ids;
    std::vector<int64_t> offsets(size_t(count_) + 1, 0);
    for (const Source& source : sources) {
      const std::span<const int32_t> own = source.tokens.at(name);
      ids.insert(ids.end(), own.begin(), own.end());
      offsets[size_t(source.slot) + 1] = int64_t(own.size());
    }
    std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
    inputs[name] = {tensor_of({int64_t(ids.size())}, ids), Sequences(offsets)};
  }
  used_ = true;
  model_.read_sources(*state_, inputs);
}

DecodeSlots::Predictions DecodeSlots::read(const std::vector<Piece>& pieces, ExitRun* exits, LogitStep::Needs needs) {
  std::vector<int32_t> ids;
  std::vector<int64_t> counts(size_t(count_), 0), offsets{0}, wanted;
  for (const Piece& piece : pieces) {
    ids.insert(ids.end(), piece.tokens.begin(), piece.tokens.end());
    counts[size_t(piece.slot)] = int64_t(piece.tokens.size());
    offsets.push_back(int64_t(ids.size()));
    for (int64_t row = offsets.back() - piece.wanted; row < offsets.back(); ++row) wanted.push_back(row);
  }
  used_ = true;
  const NoGrad no_grad;
  const Shape shape{int64_t(ids.size())};
  const bool meta = model_.device() == Device::meta;
  const Sequences sequences =
      state_ ? model_.continue_sequences(*state_, counts) : Sequences(offsets, {}, model_.device());
  Pass pass;
  pass.set_exits(exit_ ? &*exit_ : exits);
  const Rows rows = model_.run({meta ? empty(shape, DType::i32, Device::meta) : tensor_of(shape, ids), sequences}, pass,
                               state_.get());
  if (wanted.empty()) return {};
  Predictions out;
  if (needs.hidden || needs.stop_probability) {
    const Var last = pick_rows(rows.x, wanted);
    if (needs.stop_probability) out.stop_probabilities = stop_probabilities(model_, last);
    if (needs.hidden) out.hidden = cast(last, DType::f32).value();
  }
  out.logits = cast(model_.logits(rows, wanted), DType::f32).value();
  return out;
}

LogitRow DecodeSlots::Predictions::row(int64_t i, std::span<const int32_t> tokens, int64_t prompt_tokens) const {
  const auto of = [i](const Tensor& t) {
    return t.is_meta() ? std::span<float>() : std::span<float>(t.data<float>() + i * t.cols(), size_t(t.cols()));
  };
  LogitRow out{.choice = TokenChoice(of(logits)), .tokens = tokens, .prompt_tokens = prompt_tokens};
  if (hidden.defined()) out.hidden = of(hidden);
  if (!stop_probabilities.empty()) out.stop_probability = stop_probabilities[size_t(i)];
  return out;
}

}  // namespace lithe

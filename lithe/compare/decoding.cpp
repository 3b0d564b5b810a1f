#include "lithe/compare/decoding.h"

#include "lithe/ops/basic.h"

namespace lithe::compare {

Decoding::Decoding(const Model& model, int64_t batch, int64_t prompt, int64_t tokens, std::vector<int32_t> ids)
    : model_(model), batch_(batch), prompt_(prompt), ids_(std::move(ids)) {
  state_ = model.make_state(batch, prompt + tokens);
}

void Decoding::feed(int64_t tokens) {
  const NoGrad no_grad;
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < tokens * batch_; ++i) ids.push_back(ids_[next_++ % ids_.size()]);
  const Sequences sequences = model_.continue_sequences(*state_, std::vector<int64_t>(size_t(batch_), tokens));
  const Shape shape{int64_t(ids.size())};
  const Tensor rows = model_.device() == Device::meta ? empty(shape, DType::i32, Device::meta) : tensor_of(shape, ids);
  const Var out = model_.forward(rows, sequences, state_.get());
  model_.logits(pick_rows(out, sequences.last_rows()));
}

}  // namespace lithe::compare

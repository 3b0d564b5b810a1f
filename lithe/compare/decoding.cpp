#include "lithe/compare/decoding.h"

namespace lithe::compare {
namespace {

// Sequence b of `batch`: what follows is known, whatever the model says.
class Given final : public RowStep {
 public:
  Given(const std::vector<int32_t>& ids, int64_t batch, int64_t b) : ids_(ids), batch_(batch), b_(b) {}
  void apply(LogitRow& row) const override {
    const int64_t added = int64_t(row.tokens.size()) - row.prompt_tokens;
    row.choice.take(ids_[size_t(batch_ * (row.prompt_tokens + added) + b_) % ids_.size()]);
  }

 private:
  std::vector<int32_t> ids_;
  int64_t batch_, b_;
};

}  // namespace

Decoding::Decoding(const Model& model, int64_t batch, int64_t prompt, int64_t tokens, const std::vector<int32_t>& ids,
                   std::optional<DType> cache)
    : loop_(model, {.slots = batch, .longest = prompt + tokens + 1, .cache = cache, .prefill_tokens = batch * prompt}) {
  for (int64_t b = 0; b < batch; ++b) {
    DecodeRequest request{.config = {.max_new_tokens = tokens + 1, .do_sample = false, .prefill_tokens = prompt}};
    for (int64_t i = b * prompt; i < (b + 1) * prompt; ++i) request.tokens.push_back(ids[size_t(i) % ids.size()]);
    request.steps = {std::make_shared<Given>(ids, batch, b)};
    loop_.submit(std::move(request));
  }
}

}  // namespace lithe::compare

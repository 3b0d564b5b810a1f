#include "tests/conformance/checks.h"

namespace lithe::conformance {
namespace {

Tensor rows(const Model& model, const kit::Batch& batch) { return kit::forward(model, batch).value(); }

// The batch with another token at t: the next id, or a special token.
kit::Batch changed(kit::Batch batch, int64_t t, const ModelConfig& config) {
  const Tensor tokens = batch.ids, out = clone(tokens);
  const int64_t width = tokens.numel() / tokens.dim(0);
  int32_t* token = out.data<int32_t>() + t * width;
  token[0] = int32_t((token[0] + 1) % (width == 1 ? config.vocab_size : 5));
  std::fill(token + 1, token + width, 0);
  batch.ids = out;
  return batch;
}

std::string causality(const Model& model, const std::string& how) {
  const int64_t n = 9;
  const kit::Batch batch = kit::random_batch({n}, model.config(), 3);
  const Tensor before = rows(model, batch);
  bool any = false;
  for (int64_t t = 0; t < n; ++t) {
    const auto touched = kit::changed_rows(before, rows(model, changed(batch, t, model.config())));
    if (!touched.empty() && touched[0] < t) return cat("changing token ", t, " changes row ", touched[0], " ", how);
    any = any || !touched.empty();
  }
  return any ? "" : "no token changes any row " + how;
}

}  // namespace

std::string check_causality(const PartCase& c) {
  for (DType compute : {DType::f32, DType::bf16}) {
    const auto model = build(c, DType::f32, compute);
    if (const std::string why = causality(*model, cat("in ", compute)); !why.empty()) return why;
    Tape tape;
    if (const std::string why = causality(*model, cat("in ", compute, " with a tape")); !why.empty()) return why;
  }
  return "";
}

std::string check_batch_independence(const PartCase& c) {
  for (DType compute : {DType::f32, DType::bf16}) {
    const auto model = build(c, DType::f32, compute);
    const kit::Batch batch = kit::random_batch({5, 1, 7}, model->config(), 4);
    const Tensor packed = rows(*model, batch);
    for (int64_t b = 0; b < 3; ++b) {
      const kit::Batch one = kit::alone(batch, b);
      const Tensor mine = packed.slice(batch.sequences.offset(b), batch.sequences.offset(b + 1));
      const std::string difference = kit::bit_difference(rows(*model, one), clone(mine));
      if (!difference.empty()) return cat("in ", compute, " sequence ", b, " alone and packed: ", difference);
    }
    // The other way round: tokens of another sequence change nothing here, also while training.
    Tape tape;
    const Tensor before = rows(*model, batch);
    for (int64_t t = 0; t < batch.ids.dim(0); ++t) {
      const auto touched = kit::changed_rows(before, rows(*model, changed(batch, t, model->config())));
      int64_t b = 0;
      while (batch.sequences.offset(b + 1) <= t) ++b;
      for (int64_t row : touched)
        if (row < batch.sequences.offset(b) || row >= batch.sequences.offset(b + 1))
          return cat("in ", compute, " with a tape, token ", t, " of sequence ", b, " changes row ", row,
                     " of another");
    }
  }
  return "";
}

std::string check_bidirectional(const PartCase& part) {
  const auto alone = build_mixer(part, Sight::bidirectional);
  const Sequences sequences({0, 4, 9});
  const auto run_of = [&](const Tensor& x, const Sequences& of) {
    Pass pass;
    give_columns(pass, *alone->mixer, of);
    return alone->mixer->forward({x, of, nullptr, pass}).value();
  };
  const auto run = [&](const Tensor& x) { return run_of(x, sequences); };
  const Tensor x = kit::normal({9, alone->width}, DType::f32, 1);
  const Tensor before = run(x);
  Tensor moved = clone(x);
  for (int64_t i = 8 * alone->width; i < 9 * alone->width; ++i) set_value(moved, i, value_at(moved, i) + 1);
  const auto touched = kit::changed_rows(before, run(moved));
  for (int64_t row : touched)
    if (row < 4) return cat("row 8 of the second sequence changes row ", row, " of the first");
  if (Registry::instance().get(part.slot, part.name, {}).info.per_token) {
    if (touched != std::vector<int64_t>{8}) return "the last row changes others, which a mixer per token must not";
  } else if (touched.empty() || touched[0] == 8) {
    return "the last row changes none before it";
  }
  for (const auto& [begin, end] : {std::pair{0, 4}, {4, 9}}) {
    const Tensor mine = run_of(clone(x.slice(begin, end)), Sequences::single(end - begin));
    if (const std::string difference = kit::bit_difference(mine, clone(before.slice(begin, end))); !difference.empty())
      return cat("rows ", begin, " to ", end, " alone and packed: ", difference);
  }
  return "";
}

}  // namespace lithe::conformance

#include "lithe/infer/write_answers.h"

#include <algorithm>

#include "lithe/base/stop.h"

namespace lithe {
namespace {

int32_t likeliest(const Tensor& logits, int64_t row) {
  int64_t best = 0;
  for (int64_t c = 1; c < logits.cols(); ++c)
    if (value_at(logits, row * logits.cols() + c) > value_at(logits, row * logits.cols() + best)) best = c;
  return int32_t(best);
}

// Columns of as many rows, all 0.
std::map<std::string, Tensor> no_columns(const std::map<std::string, Tensor>& like, int64_t rows) {
  std::map<std::string, Tensor> out;
  for (const auto& [name, column] : like) {
    const Shape shape = column.numel() == column.dim(0) ? Shape{rows} : Shape{rows, column.cols()};
    out[name] = zeros(shape, column.dtype(), column.device());
  }
  return out;
}

}  // namespace

std::vector<std::vector<int32_t>> write_answers(const Model& model, const ModelInput& prompts, int32_t end,
                                                int64_t most) {
  check_usage(model.label_count(prompts.sequences).labels == prompts.sequences.rows() &&
                  model.config().architecture != Architecture::encoder,
              "answer", "needs a model that predicts next tokens (head lm); this one is of architecture ",
              model.config().architecture, " with head ", model.config().head.type);
  const NoGrad no_grad;
  const int64_t count = prompts.sequences.count(), limit = model.position_limit();
  std::vector<int64_t> lengths, left;  // tokens that each may still get
  int64_t longest = 0;
  for (int64_t b = 0; b < count; ++b) {
    lengths.push_back(prompts.sequences.length(b));
    left.push_back(limit ? std::min(most, limit - lengths.back()) : most);
    longest = std::max(longest, lengths.back() + most);
  }
  const auto state = model.make_state(count, limit ? std::min(longest, limit) : longest);
  if (!prompts.sources.empty()) model.read_sources(*state, prompts.sources);
  ModelInput input = prompts;
  input.sources.clear();
  std::vector<std::vector<int32_t>> out(static_cast<size_t>(count));
  std::vector<int64_t> running;  // those that the rows to be predicted are of
  for (int64_t b = 0; b < count; ++b) running.push_back(b);
  while (!running.empty() && !stop_signal()) {
    input.sequences = model.continue_sequences(*state, lengths);
    std::vector<int64_t> last;
    for (const int64_t b : running) last.push_back(input.sequences.offset(b + 1) - 1);
    Pass pass;
    const Rows rows = model.run(input, pass, state.get());
    const Tensor logits = model.logits(rows, last).value();
    std::vector<int32_t> tokens;
    std::vector<int64_t> go_on;
    std::fill(lengths.begin(), lengths.end(), 0);
    for (size_t i = 0; i < running.size(); ++i) {
      const int64_t b = running[i];
      const int32_t token = likeliest(logits, int64_t(i));
      if (token == end || left[size_t(b)] <= 0) continue;
      out[size_t(b)].push_back(token);
      if (--left[size_t(b)] == 0) continue;
      tokens.push_back(token);
      go_on.push_back(b);
      lengths[size_t(b)] = 1;
    }
    running = std::move(go_on);
    const auto next = int64_t(tokens.size());
    input = {.tokens = tensor_of({next}, tokens), .sequences = {}, .columns = no_columns(prompts.columns, next)};
  }
  return out;
}

}  // namespace lithe

#include "lithe/eval/token_likelihoods.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lithe/base/stop.h"
#include "lithe/eval/python_value.h"
#include "lithe/ops/basic.h"

namespace lithe {
namespace {

void check_request(const TokenRequest& r, int64_t vocabulary, int64_t positions) {
  check_usage(r.begin >= 1 && r.begin <= r.tokens.size() && r.tokens.size() > 1, "score", "a text of ", r.tokens.size(),
              " tokens is scored from token ", r.begin,
              " on; it needs two tokens at least, and the first is never scored");
  check_usage(!positions || int64_t(r.tokens.size()) <= positions + 1, "score", "a text has ", r.tokens.size(),
              " tokens, the model has positions for ", positions, " and predicts one more; cut the text");
  for (const int32_t token : r.tokens)
    check_usage(token >= 0 && token < vocabulary, "score", "a text has token ", token, ", the model has ", vocabulary);
}

void run(const Model& model, const std::vector<TokenRequest*>& batch) {
  const NoGrad no_grad;
  std::vector<int32_t> ids;
  std::vector<int64_t> offsets{0}, predicted;
  std::vector<std::pair<TokenRequest*, int32_t>> labels;
  for (TokenRequest* r : batch) {
    for (size_t i = 0; i + 1 < r->tokens.size(); ++i) {
      if (i + 1 >= r->begin) {
        predicted.push_back(int64_t(ids.size()));
        labels.push_back({r, r->tokens[i + 1]});
      }
      ids.push_back(r->tokens[i]);
    }
    offsets.push_back(int64_t(ids.size()));
  }
  const Sequences sequences(offsets);
  Pass pass;
  const Rows rows = model.run({tensor_of({int64_t(ids.size())}, std::span<const int32_t>(ids)), sequences}, pass);
  for (size_t first = 0; first < predicted.size(); first += size_t(kRowsOfLogits)) {
    const size_t end = std::min(predicted.size(), first + size_t(kRowsOfLogits));
    const std::vector<int64_t> some(predicted.begin() + int64_t(first), predicted.begin() + int64_t(end));
    const Tensor logits = cast(model.logits(rows, some), DType::f32).value();
    for (size_t i = first; i < end; ++i) {
      const float* row = logits.data<float>() + int64_t(i - first) * logits.cols();
      const float* best = std::max_element(row, row + logits.cols());
      double sum = 0;
      for (int64_t c = 0; c < logits.cols(); ++c) sum += std::exp(double(row[c]) - double(*best));
      auto& [request, label] = labels[i];
      request->each.push_back(double(row[label]) - double(*best) - std::log(sum));
      request->log_likelihood += request->each.back();
      request->greedy = request->greedy && best - row == label;
    }
  }
}

}  // namespace

int32_t token_of_beginning(const Tokenizer& tokenizer) {
  const Specials& specials = tokenizer.specials();
  const std::optional<int32_t> start = specials.bos ? specials.bos : specials.eos;
  check(start.has_value(), "eval", "the tokenizer has no token to begin a text with (bos or eos)");
  return *start;
}

TokenRequest continuation_request(const Model& model, const Tokenizer& tokenizer, std::string text, std::string target,
                                  bool add_bos_token) {
  const std::string kept = python_strip(text, false, true);
  target.insert(0, text, kept.size());
  text = kept;
  const std::vector<int32_t> whole = tokenizer.encode(text + target), before = tokenizer.encode(text);
  TokenRequest out;
  if (add_bos_token || before.empty()) out.tokens.push_back(token_of_beginning(tokenizer));
  out.begin = out.tokens.size() + std::min(before.size(), whole.size());
  out.tokens.insert(out.tokens.end(), whole.begin(), whole.end());
  check(out.begin < out.tokens.size(), "eval", "'", target, "' adds no token to '", text, "'");
  // One more than the model reads: the last token is only predicted.
  const auto most = size_t(model.config().max_position_embeddings);
  if (out.tokens.size() > most + 1) {
    const size_t cut = out.tokens.size() - most - 1;
    check(out.begin > cut, "eval", "a target of ", out.tokens.size() - out.begin, " tokens is longer than the model's ",
          most, " positions");
    out.tokens.erase(out.tokens.begin(), out.tokens.begin() + int64_t(cut));
    out.begin -= cut;
  }
  return out;
}

void score_tokens(const Model& model, std::vector<TokenRequest>& requests, int64_t batch_tokens) {
  model.check_predicts_next("score");
  for (const TokenRequest& r : requests) check_request(r, model.config().vocab_size, model.position_limit());
  std::vector<size_t> order(requests.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return requests[a].tokens.size() > requests[b].tokens.size(); });
  for (size_t first = 0; first < order.size();) {
    check(stop_signal() == 0, "eval", "stopped by signal ", stop_signal());
    std::vector<TokenRequest*> batch;
    size_t rows = 0;
    do {
      batch.push_back(&requests[order[first]]);
      rows += batch.back()->tokens.size() - 1;
      ++first;
    } while (first < order.size() && int64_t(rows + requests[order[first]].tokens.size() - 1) <= batch_tokens);
    run(model, batch);
  }
}

}  // namespace lithe

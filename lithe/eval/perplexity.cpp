#include "lithe/eval/perplexity.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "lithe/base/stop.h"
#include "lithe/nn/state.h"

namespace lithe {

double Perplexity::token_perplexity() const { return std::exp(loss()); }
double Perplexity::word_perplexity() const { return words ? std::exp(nll / double(words)) : 0; }
double Perplexity::word_and_line_perplexity() const {
  return words + lines ? std::exp(nll / double(words + lines)) : 0;
}
double Perplexity::bits_per_byte() const { return bytes ? nll / std::numbers::ln2 / double(bytes) : 0; }

namespace {

// Windows gathered until the budget of rows is full, then run together. Sums are taken in the order of the text, not of
// the batches, so that the result has the same bits for every budget.
class Scorer {
 public:
  Scorer(const Model& model, const EvalConfig& config, std::vector<TextPiece>* pieces, TokenScores* each)
      : model_(model),
        budget_(config.batch_tokens),
        cache_(cache_type_named(config.cache_dtype)),
        pieces_(pieces),
        each_(each) {}

  void add(const int32_t* inputs, const int32_t* labels, int64_t rows, int64_t scored, int64_t document) {
    if (!ids_.empty() && int64_t(ids_.size()) + rows > budget_) run();
    ids_.insert(ids_.end(), inputs, inputs + rows);
    labels_.insert(labels_.end(), size_t(rows - scored), -1);
    labels_.insert(labels_.end(), labels + rows - scored, labels + rows);
    offsets_.push_back(int64_t(ids_.size()));
    documents_.push_back(int32_t(document));
  }

  void run() {
    if (ids_.empty()) return;
    check(!stop_signal(), "eval", "stopped by signal ", stop_signal());
    const NoGrad no_grad;
    const Shape shape{int64_t(ids_.size())};
    const Tensor row_nll = empty(shape, wide_of(model_.compute_dtype()));
    const std::unique_ptr<DecodeState> state = cache_ ? new_state() : nullptr;
    const Sequences sequences = state ? model_.continue_sequences(*state, lengths()) : Sequences(offsets_);
    const Var rows = model_.forward(tensor_of(shape, ids_), sequences, state.get());
    model_.loss_of(rows, {}, {.sequences = sequences, .labels = tensor_of(shape, labels_), .row_nll = row_nll});
    for (size_t i = 0; i < labels_.size(); ++i)
      if (labels_[i] >= 0) {
        nll += value_at(row_nll, int64_t(i));
        ++tokens;
      }
    if (pieces_) gather_pieces(row_nll);
    if (each_) gather_tokens(row_nll, each_->with_logits ? model_.logits(rows, sequences).value() : Tensor());
    ids_.clear();
    labels_.clear();
    offsets_ = {0};
    documents_.clear();
  }

  double nll = 0;
  int64_t tokens = 0;

 private:
  const Model& model_;
  int64_t budget_;
  std::optional<DType> cache_;
  std::vector<TextPiece>* pieces_;
  TokenScores* each_;
  std::vector<int32_t> ids_, labels_, documents_;
  std::vector<int64_t> offsets_{0};

  std::vector<int64_t> lengths() const {
    std::vector<int64_t> out;
    for (size_t w = 1; w < offsets_.size(); ++w) out.push_back(offsets_[w] - offsets_[w - 1]);
    return out;
  }

  std::unique_ptr<DecodeState> new_state() const {
    const std::vector<int64_t> all = lengths();
    return model_.make_state(int64_t(all.size()), *std::max_element(all.begin(), all.end()), cache_);
  }

  void gather_tokens(const Tensor& row_nll, const Tensor& logits) {
    for (size_t w = 1; w < offsets_.size(); ++w)
      for (int64_t i = offsets_[w - 1]; i < offsets_[w]; ++i) {
        if (labels_[size_t(i)] < 0) continue;
        each_->tokens.push_back(labels_[size_t(i)]);
        each_->documents.push_back(documents_[w - 1]);
        each_->positions.push_back(int32_t(i - offsets_[w - 1]));
        each_->nll.push_back(float(value_at(row_nll, i)));
        for (int64_t c = 0; logits.defined() && c < logits.cols(); ++c)
          each_->logits.push_back(float(value_at(logits, i * logits.cols() + c)));
      }
  }

  void gather_pieces(const Tensor& row_nll) {
    for (size_t w = 1; w < offsets_.size(); ++w) {
      TextPiece piece;
      for (int64_t i = offsets_[w - 1]; i < offsets_[w]; ++i)
        if (labels_[size_t(i)] >= 0) {
          piece.nll += value_at(row_nll, i);
          ++piece.tokens;
        }
      pieces_->push_back(piece);
    }
  }
};

}  // namespace

// spec: app.lm | metric | perplexity per token, word and byte with a sliding window | TB 6.5.1, Eq 6.198-6.201; MP
// stride
Perplexity perplexity(const Model& model, const TokenStore& text, const EvalConfig& config, int64_t default_context,
                      const std::function<void(int64_t, int64_t)>& progress, std::vector<TextPiece>* pieces,
                      TokenScores* each) {
  model.check_predicts_next("eval");
  check_usage(text.token_width() == 1, "eval", "the text's tokens are codes of ", text.token_width(),
              " ints, which no model predicts");
  const int64_t context = config.context_length ? config.context_length : default_context;
  check_usage(context >= 1, "eval", "context_length must be at least 1, got ", context);
  const int64_t stride = config.stride ? config.stride : context, limit = model.position_limit();
  check_usage(stride <= context, "eval", "stride ", stride, " must not exceed context_length ", context);
  check_usage(!limit || context <= limit, "eval", "context_length ", context, " is beyond the model's ", limit,
              " positions; choose that or less");
  check_usage(text.info().vocab_size <= model.config().vocab_size, "eval", "the text's ids go up to ",
              text.info().vocab_size, ", the model's vocabulary has ", model.config().vocab_size);

  Scorer scorer(model, config, pieces, each);
  int64_t done = 0;
  for (int64_t d = 0; d < text.documents(); ++d) {
    std::vector<int32_t> string;
    const int64_t first = text.document_begin(d), count = text.document_end(d) - first;
    if (text.begin_of_text()) string.push_back(*text.begin_of_text());
    string.resize(string.size() + size_t(count));
    text.copy(first, count, string.data() + (string.size() - size_t(count)));
    if (text.end_of_text()) string.push_back(*text.end_of_text());
    const int64_t rows = int64_t(string.size()) - 1;
    for (int64_t scored = 0; scored < rows;) {
      // The first window scores all its rows; later ones end `stride` rows further on.
      const int64_t end = std::min(rows, scored == 0 ? context : scored + stride),
                    begin = std::max<int64_t>(0, end - context);
      scorer.add(string.data() + begin, string.data() + begin + 1, end - begin, end - scored, d);
      scored = end;
      if (progress) progress(done + scored, text.tokens() + text.documents());
    }
    done += rows;
  }
  scorer.run();
  check(scorer.tokens > 0, "eval", "the text has no token to predict");
  return {scorer.nll, scorer.tokens, text.info().words, text.info().lines, text.info().bytes};
}

}  // namespace lithe

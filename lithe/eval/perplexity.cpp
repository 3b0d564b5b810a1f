#include "lithe/eval/perplexity.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "lithe/base/stop.h"
#include "lithe/eval/held_out.h"
#include "lithe/eval/neighbour_perplexity.h"
#include "lithe/model/exits.h"
#include "lithe/nn/state.h"
#include "lithe/ops/basic.h"
#include "lithe/parallel/gather.h"

namespace lithe {

double Perplexity::token_perplexity() const { return std::exp(loss()); }
double Perplexity::word_perplexity() const { return words ? std::exp(nll / double(words)) : 0; }
double Perplexity::word_and_line_perplexity() const {
  return words + lines ? std::exp(nll / double(words + lines)) : 0;
}
double Perplexity::bits_per_byte() const { return bytes ? nll / std::numbers::ln2 / double(bytes) : 0; }
Json Perplexity::json() const {
  Json out = {{"loss", finite_or_null(loss())},
              {"token_perplexity", finite_or_null(token_perplexity())},
              {"word_perplexity", finite_or_null(word_perplexity())},
              {"word_perplexity_with_line_ends", finite_or_null(word_and_line_perplexity())},
              {"bits_per_byte", finite_or_null(bits_per_byte())},
              {"tokens", tokens},
              {"words", words},
              {"lines", lines},
              {"bytes", bytes},
              {"carry_state", carry_state}};
  if (!carry_state) out["context_length"] = windows.context, out["stride"] = windows.stride;
  if (mean_layers > 0) out["mean_layers"] = mean_layers;
  return out;
}

namespace {

// Windows gathered until the budget of rows is full, then run together. Sums are taken in the order of the text, not of
// the batches, so that the result has the same bits for every budget.
class Scorer {
 public:
  Scorer(const Model& model, const EvalConfig& config, int64_t context, std::vector<TextPiece>* pieces,
         TokenScores* each, const NeighbourModel* neighbours)
      : model_(model),
        exits_(exit_run_of(model, config.exit)),
        budget_(exits_ ? std::min(config.batch_tokens, kExitRows) : config.batch_tokens),
        cache_(cache_type_named(config.cache_dtype)),
        carried_piece_(config.carry_state ? context : 0),
        pieces_(pieces),
        each_(each),
        neighbours_(neighbours),
        ranks_(DividedEvaluation::ranks()) {
    if (ranks_ && ranks_->size() == 1) ranks_ = nullptr;
    check_usage(!ranks_ || (!exits_ && !neighbours_ && !(each_ && each_->with_logits)), "eval",
                "early exits, a datastore and logits of each token are not divided among ranks; run it on one");
  }

  void add(const int32_t* inputs, const int32_t* labels, int64_t rows, int64_t scored, int64_t document) {
    if (!ids_.empty() && int64_t(ids_.size()) + rows > budget_) end_batch();
    ids_.insert(ids_.end(), inputs, inputs + rows);
    labels_.insert(labels_.end(), size_t(rows - scored), -1);
    labels_.insert(labels_.end(), labels + rows - scored, labels + rows);
    offsets_.push_back(int64_t(ids_.size()));
    documents_.push_back(int32_t(document));
  }

  /// Rows of a document that run in pieces, each from the state of the one before.
  void add_carried(const std::vector<int32_t>& string, int64_t document,
                   const std::function<void(int64_t rows)>& progress) {
    end_batch();
    const int64_t rows = int64_t(string.size()) - 1;
    const std::unique_ptr<DecodeState> state = mine() ? model_.make_state(1, rows, cache_) : nullptr;
    for (int64_t begin = 0; begin < rows; begin += budget_) {
      const int64_t count = std::min(budget_, rows - begin);
      add(string.data() + begin, string.data() + begin + 1, count, count, document);
      run(state.get(), true);
      progress(count);
    }
    if (!ranks_) end_piece();
    if (ranks_) kept_.back().ends = true;
    ++batches_;
  }

  void end_batch() {
    if (ids_.empty()) return;
    run(nullptr, false);
    ++batches_;
  }

  // What other ranks ran comes here, and all is summed in the order of the text.
  void end() {
    end_batch();
    if (!ranks_) return;
    for (const std::vector<int>& signal : gather<int>(*ranks_, {stop_signal()}))
      check(!signal[0], "eval", "stopped by signal ", signal[0]);
    const std::vector<std::vector<double>> all = gather(*ranks_, own_);
    std::vector<size_t> at(all.size());
    for (Kept& kept : kept_) {
      labels_ = std::move(kept.labels);
      offsets_ = std::move(kept.offsets);
      documents_ = std::move(kept.documents);
      const auto rank = size_t(kept.batch % ranks_->size());
      const Tensor row_nll = empty({int64_t(labels_.size())}, DType::f64);
      for (size_t i = 0; i < labels_.size(); ++i)
        if (labels_[i] >= 0) row_nll.data<double>()[i] = all.at(rank).at(at[rank]++);
      take(row_nll, {}, kept.goes_on);
      if (kept.ends) end_piece();
    }
  }

  double nll = 0;
  int64_t tokens = 0;
  double mean_layers() const { return exits_ ? exits_->mean_layers() : 0; }

 private:
  // `goes_on`: the rows are of one document, of which `carried` is the state.
  void run(DecodeState* carried, bool goes_on) {
    check(ranks_ || !stop_signal(), "eval", "stopped by signal ", stop_signal());
    const NoGrad no_grad;
    if (!mine() || stop_signal()) {
      keep(goes_on);
      return;
    }
    const Shape shape{int64_t(ids_.size())};
    const Tensor row_nll = empty(shape, wide_of(model_.compute_dtype()));
    const std::unique_ptr<DecodeState> own = cache_ && !carried ? new_state() : nullptr;
    DecodeState* state = carried ? carried : own.get();
    const Sequences sequences = state ? model_.continue_sequences(*state, lengths()) : Sequences(offsets_);
    Pass pass;
    pass.set_exits(exits_ ? &*exits_ : nullptr);
    const Rows rows = model_.run({tensor_of(shape, ids_), sequences}, pass, state);
    if (exits_)
      cross_entropy(model_.logits(rows), tensor_of(shape, labels_), 0, 1, nullptr, row_nll);
    else
      model_.loss_of(rows, {}, {.labels = tensor_of(shape, labels_), .row_nll = row_nll});
    if (neighbours_) ask_neighbours(rows.x, row_nll);
    if (ranks_) {
      for (size_t i = 0; i < labels_.size(); ++i)
        if (labels_[i] >= 0) own_.push_back(value_at(row_nll, int64_t(i)));
      keep(goes_on);
      return;
    }
    take(row_nll, each_ && each_->with_logits ? model_.logits(rows).value() : Tensor(), goes_on);
  }

  bool mine() const { return !ranks_ || batches_ % ranks_->size() == ranks_->rank(); }

  void keep(bool goes_on) {
    kept_.push_back({std::move(labels_), std::move(documents_), std::move(offsets_), batches_, goes_on});
    clear();
  }

  void take(const Tensor& row_nll, const Tensor& logits, bool goes_on) {
    for (size_t i = 0; i < labels_.size(); ++i)
      if (labels_[i] >= 0) {
        nll += value_at(row_nll, int64_t(i));
        ++tokens;
      }
    if (pieces_) gather_pieces(row_nll, goes_on);
    if (each_) gather_tokens(row_nll, logits);
    clear();
  }

  void clear() {
    ids_.clear();
    labels_.clear();
    offsets_ = {0};
    documents_.clear();
  }

  static constexpr int64_t kExitRows = 1024;  // whose predictions stand in memory together
  const Model& model_;
  std::optional<ExitRun> exits_;
  int64_t budget_;
  std::optional<DType> cache_;
  int64_t carried_piece_;  // 0: windows
  TextPiece piece_;
  std::vector<TextPiece>* pieces_;
  TokenScores* each_;
  const NeighbourModel* neighbours_;
  std::vector<int32_t> ids_, labels_, documents_;
  std::vector<int64_t> offsets_{0};
  // Of several ranks: batches are theirs in turn, and the pieces of a carried document are one.
  struct Kept {
    std::vector<int32_t> labels, documents;
    std::vector<int64_t> offsets;
    int64_t batch = 0;
    bool goes_on = false, ends = false;
  };
  Communicator* ranks_;
  int64_t batches_ = 0;
  std::vector<Kept> kept_;
  std::vector<double> own_;  // losses of the rows with labels that this rank ran

  std::vector<int64_t> lengths() const {
    std::vector<int64_t> out;
    for (size_t w = 1; w < offsets_.size(); ++w) out.push_back(offsets_[w] - offsets_[w - 1]);
    return out;
  }

  std::unique_ptr<DecodeState> new_state() const {
    const std::vector<int64_t> all = lengths();
    return model_.make_state(int64_t(all.size()), *std::max_element(all.begin(), all.end()), cache_);
  }

  // The losses of scored rows become those of the mixture.
  void ask_neighbours(const Var& rows, const Tensor& row_nll) const {
    std::vector<int64_t> scored;
    std::vector<int32_t> labels;
    std::vector<double> own;
    for (size_t i = 0; i < labels_.size(); ++i)
      if (labels_[i] >= 0) {
        scored.push_back(int64_t(i));
        labels.push_back(labels_[i]);
        own.push_back(value_at(row_nll, int64_t(i)));
      }
    const Tensor asked = cast(pick_rows(rows, scored), DType::f32).value();
    const std::vector<double> mixed = neighbours_->nll(asked, labels, own);
    for (size_t i = 0; i < scored.size(); ++i) set_value(row_nll, scored[i], mixed[i]);
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

  // A window; of documents that run whole, as many rows as a window would have.
  void gather_pieces(const Tensor& row_nll, bool goes_on) {
    for (size_t w = 1; w < offsets_.size(); ++w) {
      for (int64_t i = offsets_[w - 1]; i < offsets_[w]; ++i) {
        if (labels_[size_t(i)] >= 0) {
          piece_.nll += value_at(row_nll, i);
          ++piece_.tokens;
        }
        if (carried_piece_ && piece_.tokens == carried_piece_) end_piece();
      }
      if (!goes_on) end_piece();
    }
  }
  void end_piece() {
    if (pieces_ && (piece_.tokens || !carried_piece_)) pieces_->push_back(piece_);
    piece_ = {};
  }
};

}  // namespace

// spec: app.lm | metric | perplexity per token, word and byte with a sliding window | TB 6.5.1, Eq 6.198-6.201; MP
// stride
Perplexity perplexity(const Model& model, const TokenStore& text, const EvalConfig& config, int64_t default_context,
                      const std::function<void(int64_t, int64_t)>& progress, std::vector<TextPiece>* pieces,
                      TokenScores* each) {
  return perplexity(model, text, config, default_context, nullptr, progress, pieces, each);
}

Perplexity perplexity(const Model& model, const TokenStore& text, const EvalConfig& config, int64_t default_context,
                      const NeighbourModel* neighbours, const std::function<void(int64_t, int64_t)>& progress,
                      std::vector<TextPiece>* pieces, TokenScores* each) {
  check_usage(!config.carry_state || (!config.stride && !config.context_length), "eval",
              "carry_state runs every document once, without windows; leave context_length and stride out");
  const WindowSizes sizes = window_sizes("eval", model, text, config, default_context);
  check_usage(
      !neighbours || config.exit.empty(), "eval",
      "a datastore is asked by rows of all layers, which tokens that leave early lack; leave out one of exits and "
      "datastore");
  Scorer scorer(model, config, sizes.context, pieces, each, neighbours);
  int64_t done = 0;
  const auto scored = [&](int64_t rows) {
    done += rows;
    if (progress) progress(done, text.tokens() + text.documents());
  };
  if (config.carry_state)
    for_each_document(text, [&](const std::vector<int32_t>& string, int64_t document) {
      const int64_t rows = int64_t(string.size()) - 1, limit = model.position_limit();
      check_usage(!limit || rows <= limit, "eval", "carry_state runs a document of ", rows,
                  " tokens in one go, and the model has ", limit,
                  " positions; evaluate it in windows, without carry_state");
      if (rows > config.batch_tokens) {
        scorer.add_carried(string, document, scored);
      } else if (rows > 0) {
        scorer.add(string.data(), string.data() + 1, rows, rows, document);
        scored(rows);
      }
    });
  else
    for_each_window(text, sizes,
                    [&](const int32_t* inputs, const int32_t* labels, int64_t rows, int64_t fresh, int64_t document) {
                      scorer.add(inputs, labels, rows, fresh, document);
                      scored(fresh);
                    });
  scorer.end();
  check(scorer.tokens > 0, "eval", "the text has no token to predict");
  return {.nll = scorer.nll,
          .tokens = scorer.tokens,
          .words = text.info().words,
          .lines = text.info().lines,
          .bytes = text.info().bytes,
          .mean_layers = scorer.mean_layers(),
          .windows = sizes,
          .carry_state = config.carry_state};
}

}  // namespace lithe

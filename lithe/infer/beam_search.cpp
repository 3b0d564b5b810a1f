#include "lithe/infer/beam_search.h"

#include <algorithm>
#include <cmath>

#include "lithe/base/stop.h"
#include "lithe/base/threads.h"
#include "lithe/kernels/cross_entropy/cross_entropy.h"
#include "lithe/ops/basic.h"

namespace lithe {
namespace {

// A token that may follow hypothesis `parent` (of its input), and the log-probability of all of them then.
struct Candidate {
  double sum;
  int32_t token;
  size_t parent;
};

constexpr int64_t kBlock = 64;

// Without branches, in vectors.
template <class T>
bool any_above(const T* block, T least) {
  int above = 0;
  for (int64_t i = 0; i < kBlock; ++i) above |= int(block[i] > least);
  return above != 0;
}

// The highest numbers of a row [n], highest first, of equals the lower place first; none that is -inf or NaN.
template <class T>
void best_of(const T* row, int64_t n, size_t count, std::vector<std::pair<T, int32_t>>& best) {
  best.clear();
  T least = -std::numeric_limits<T>::infinity();
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    if (begin + kBlock <= n && !any_above(row + begin, least)) continue;  // as most are
    for (int64_t i = begin; i < std::min(n, begin + kBlock); ++i) {
      if (!(row[i] > least)) continue;
      const auto at =
          std::upper_bound(best.begin(), best.end(), row[i], [](T x, const auto& other) { return x > other.first; });
      best.insert(at, {row[i], int32_t(i)});
      if (best.size() > count) best.pop_back();
      if (best.size() == count) least = best.back().first;
    }
  }
}

struct Open {
  std::vector<int32_t> tokens;
  double sum = 0;
};

// One input on its way; its open hypotheses are consecutive sequences of the state.
struct Running {
  size_t input;
  std::vector<Open> open;
  std::vector<Hypothesis> ended;  // the best, highest score first
};

// spec: search.beam | search | the k best partial hypotheses at each step, scored by length | TB Eq 6.49, 6.198-6.199
class BeamSearch {
 public:
  BeamSearch(const Model& model, std::span<const SearchInput> inputs, const BeamSearchConfig& config,
             const std::map<std::string, ModelInput>& sources)
      : model_(model), inputs_(inputs), config_(config), sources_(sources), results_(inputs.size()) {}

  std::vector<std::vector<Hypothesis>> run() {
    std::vector<Running> running;
    int64_t capacity = 0;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      running.push_back({.input = i, .open = {Open{}}, .ended = {}});
      // Nothing follows the last token, so that it is never read.
      capacity = std::max(capacity, int64_t(inputs_[i].prompt.size()) + inputs_[i].max_new_tokens - 1);
    }
    const auto state = model_.make_state(int64_t(inputs_.size()), capacity);
    Tensor rows = begin(*state);
    while (!stop_signal()) {
      const std::vector<std::vector<Candidate>> candidates = candidates_of(running, rows);
      std::vector<int64_t> from;
      std::vector<int32_t> tokens;
      std::vector<Running> rest;
      int64_t first = 0;  // sequence of the state
      for (size_t r = 0; r < running.size(); ++r) {
        const auto parents = int64_t(running[r].open.size());
        const std::vector<size_t> kept = advance(running[r], candidates[r]);
        for (size_t i = 0; i < kept.size(); ++i) {
          from.push_back(first + int64_t(kept[i]));
          tokens.push_back(running[r].open[i].tokens.back());
        }
        first += parents;
        if (!kept.empty()) rest.push_back(std::move(running[r]));
      }
      running = std::move(rest);
      if (running.empty()) break;
      bool same = int64_t(from.size()) == state->sequences();
      for (size_t i = 0; i < from.size(); ++i) same = same && from[i] == int64_t(i);
      if (!same) state->reorder(from);
      rows = log_probabilities(*state, tokens, std::vector<int64_t>(tokens.size(), 1));
    }
    return std::move(results_);
  }

 private:
  const Model& model_;
  std::span<const SearchInput> inputs_;
  const BeamSearchConfig& config_;
  const std::map<std::string, ModelInput>& sources_;
  std::vector<std::vector<Hypothesis>> results_;

  // Reads sources and prompts.
  Tensor begin(DecodeState& state) const {
    std::vector<int32_t> prompts;
    std::vector<int64_t> counts;
    for (const SearchInput& input : inputs_) {
      prompts.insert(prompts.end(), input.prompt.begin(), input.prompt.end());
      counts.push_back(int64_t(input.prompt.size()));
    }
    if (!sources_.empty()) {
      model_.read_sources(state, sources_);
      return log_probabilities(state, prompts, counts);
    }
    std::map<std::string, ModelInput> sources;
    for (const std::string& name : model_.config().source_names()) {
      std::vector<int32_t> tokens;
      std::vector<int64_t> offsets{0};
      for (const SearchInput& input : inputs_) {
        const std::vector<int32_t>& own = name == kSource ? input.source : input.further.at(name);
        tokens.insert(tokens.end(), own.begin(), own.end());
        offsets.push_back(int64_t(tokens.size()));
      }
      sources[name] = {tensor_of({int64_t(tokens.size())}, tokens), Sequences(offsets)};
    }
    for (auto& [name, source] : sources) add_columns(name, source);
    if (!sources.empty()) model_.read_sources(state, sources);
    return log_probabilities(state, prompts, counts);
  }

  void add_columns(const std::string& of, ModelInput& source) const {
    const int64_t rows = source.sequences.rows();
    std::map<std::string, std::vector<int32_t>> columns;
    for (const SearchInput& input : inputs_) {
      const auto own = input.columns.find(of);
      if (own == input.columns.end()) continue;
      for (const auto& [name, column] : own->second)
        columns[name].insert(columns[name].end(), column.begin(), column.end());
    }
    for (const auto& [name, column] : columns) {
      const int64_t width = int64_t(column.size()) / rows;
      check(width * rows == int64_t(column.size()), "beam search", "the column '", name, "' has ", column.size(),
            " numbers for ", rows, " tokens; give it to every source");
      source.columns[name] = tensor_of(width == 1 ? Shape{rows} : Shape{rows, width}, column);
    }
  }

  // log p [sequences, V], f32 or f64, of what follows counts[b] more tokens of each sequence.
  Tensor log_probabilities(DecodeState& state, const std::vector<int32_t>& tokens,
                           const std::vector<int64_t>& counts) const {
    const NoGrad no_grad;
    const Sequences sequences = model_.continue_sequences(state, counts);
    Pass pass;
    const Rows rows = model_.run({tensor_of({int64_t(tokens.size())}, tokens), sequences}, pass, &state);
    const Var logits = model_.logits(rows, sequences.last_rows());
    const Tensor x = (model_.compute_dtype() == DType::f64 ? logits : cast(logits, DType::f32)).value();
    kernels::softmax({.x = x, .y = x, .log = true});
    return x;
  }

  // What may follow the hypotheses of each input, most likely first: enough that num_beams go on whatever ends.
  std::vector<std::vector<Candidate>> candidates_of(const std::vector<Running>& running, const Tensor& rows) const {
    std::vector<size_t> first_row(running.size() + 1);
    for (size_t r = 0; r < running.size(); ++r) first_row[r + 1] = first_row[r] + running[r].open.size();
    const int64_t vocab = config_.vocab_size ? config_.vocab_size : rows.cols();
    const auto count = size_t(std::min(config_.num_beams + int64_t(config_.stop.size()), vocab));
    std::vector<std::vector<Candidate>> out(running.size());
    const auto fill = [&]<class T>() {
      parallel_for(int64_t(running.size()), 1, [&](int64_t begin, int64_t end, int) {
        std::vector<std::pair<T, int32_t>> best;
        for (auto r = size_t(begin); r < size_t(end); ++r) {
          std::vector<Candidate>& mine = out[r];
          for (size_t h = 0; h < running[r].open.size(); ++h) {
            T* row = rows.data<T>() + int64_t(first_row[r] + h) * rows.cols();
            if (config_.rescore) {
              std::vector<double> wide(row, row + vocab);
              config_.rescore(running[r].input, running[r].open[h].tokens, wide);
              for (int64_t v = 0; v < vocab; ++v) row[v] = T(wide[size_t(v)]);
            }
            for (const int32_t token : config_.never) row[token] = -std::numeric_limits<T>::infinity();
            if (int64_t(running[r].open[h].tokens.size()) < inputs_[running[r].input].min_new_tokens)
              for (const int32_t token : config_.stop) row[token] = -std::numeric_limits<T>::infinity();
            best_of(row, vocab, count, best);
            for (const auto& [p, token] : best)
              mine.push_back({running[r].open[h].sum + std::min(double(p), 0.0), token, h});
          }
          const auto better = [](const Candidate& a, const Candidate& b) {
            return std::tie(b.sum, a.token, a.parent) < std::tie(a.sum, b.token, b.parent);
          };
          const auto keep =
              long(std::min(mine.size(), size_t(config_.num_beams) + running[r].open.size() * config_.stop.size()));
          std::partial_sort(mine.begin(), mine.begin() + keep, mine.end(), better);
          mine.resize(size_t(keep));
        }
      });
    };
    if (rows.dtype() == DType::f64)
      fill.operator()<double>();
    else
      fill.operator()<float>();
    for (const auto& mine : out)
      check(!mine.empty(), "beam search", "the model's logits are not finite; its weights are damaged or diverged");
    return out;
  }

  bool stops(int32_t token) const {
    return std::find(config_.stop.begin(), config_.stop.end(), token) != config_.stop.end();
  }
  double score(double sum, int64_t tokens) const { return length_score(sum, tokens, config_.length_penalty); }

  // One step of an input. Returns the parents of its new open hypotheses; none: it is done.
  std::vector<size_t> advance(Running& r, const std::vector<Candidate>& candidates) {
    const auto beams = size_t(config_.num_beams);
    const int64_t length = int64_t(r.open[0].tokens.size()) + 1, most = inputs_[r.input].max_new_tokens;
    std::vector<Open> open;
    std::vector<size_t> parents;
    for (size_t rank = 0; rank < candidates.size() && open.size() < beams; ++rank) {
      const auto& [sum, token, parent] = candidates[rank];
      std::vector<int32_t> tokens = r.open[parent].tokens;
      if (!stops(token)) {
        tokens.push_back(token);
        open.push_back({std::move(tokens), sum});
        parents.push_back(parent);
      } else if (rank < beams) {
        set_aside(r, {std::move(tokens), true, sum, score(sum, length)});
      }
    }
    r.open = std::move(open);
    if (length < most && !is_settled(r, length, most)) return parents;
    for (Open& o : r.open)
      if (length == most) r.ended.push_back({std::move(o.tokens), false, o.sum, score(o.sum, length)});
    r.ended.resize(std::min(r.ended.size(), size_t(config_.num_return_sequences)));
    results_[r.input] = std::move(r.ended);
    return {};
  }

  void set_aside(Running& r, Hypothesis hypothesis) const {
    const auto at = std::upper_bound(r.ended.begin(), r.ended.end(), hypothesis.score,
                                     [](double x, const Hypothesis& other) { return x > other.score; });
    r.ended.insert(at, std::move(hypothesis));
    if (r.ended.size() > size_t(config_.num_beams)) r.ended.pop_back();
  }

  // No open hypothesis, the first being the most likely, can become one of the best. What follows has log-probability 0
  // at best; a penalty above 0 then rewards the greatest length, one below 0 the least.
  bool is_settled(const Running& r, int64_t length, int64_t most) const {
    if (r.open.empty()) return true;
    if (r.ended.size() < size_t(config_.num_beams)) return false;
    if (config_.num_beams == 1 || config_.early_stopping) return true;
    return score(r.open[0].sum, config_.length_penalty > 0 ? most : length + 1) <= r.ended.back().score;
  }
};

void check_search(const Model& model, std::span<const SearchInput> inputs, const BeamSearchConfig& config, bool given) {
  const bool translates = reads_source(model.config().architecture);
  if (!translates) model.check_predicts_next("beam search");
  const int64_t vocab = model.config().vocab_size;
  check_usage(
      config.num_beams >= 1 && config.num_return_sequences >= 1 && config.num_return_sequences <= config.num_beams,
      "beam search", "num_return_sequences must be between 1 and num_beams ", config.num_beams, ", got ",
      config.num_return_sequences);
  check_usage(std::isfinite(config.length_penalty), "beam search", "length_penalty must be a number, got ",
              config.length_penalty);
  check_usage(config.vocab_size >= 0 && config.vocab_size <= vocab, "beam search",
              "vocab_size must be at most the "
              "model's ",
              vocab, ", got ", config.vocab_size);
  for (const auto* tokens : {&config.stop, &config.never})
    for (const int32_t token : *tokens)
      check_usage(token >= 0 && token < vocab, "beam search", "token ", token, " is not among the model's ", vocab);
  for (size_t i = 0; i < inputs.size(); ++i) {
    check_usage(!inputs[i].prompt.empty() && inputs[i].max_new_tokens >= 1, "beam search", "input ", i,
                " must have a prompt and max_new_tokens of at least 1, got ", inputs[i].prompt.size(), " and ",
                inputs[i].max_new_tokens);
    check_usage(inputs[i].min_new_tokens >= 0 && inputs[i].min_new_tokens <= inputs[i].max_new_tokens, "beam search",
                "input ", i, " must have min_new_tokens from 0 to max_new_tokens ", inputs[i].max_new_tokens, ", got ",
                inputs[i].min_new_tokens);
    check_usage(inputs[i].source.empty() != (translates && !given), "beam search", "input ", i, " has a source of ",
                inputs[i].source.size(), " tokens; architecture ", model.config().architecture,
                given        ? " was given sources beside the inputs"
                : translates ? " needs one"
                             : " reads none");
    if (given) continue;
    for (const std::string& name : model.config().source_names()) {
      const auto own = inputs[i].further.find(name);
      check_usage(name == kSource || (own != inputs[i].further.end() && !own->second.empty()), "beam search", "input ",
                  i, " has no tokens of ", name, ", which an encoder of the model reads; give it some");
    }
  }
}

}  // namespace

std::vector<int32_t> never_written(const Specials& specials, int32_t end) {
  std::vector<int32_t> out;
  for (const auto& role : {specials.bos, specials.pad})
    if (role && *role != end) out.push_back(*role);
  return out;
}

double length_score(double log_probability, int64_t tokens, double length_penalty) {
  return log_probability / std::pow(double(5 + tokens) / 6, length_penalty);
}

std::vector<std::vector<Hypothesis>> beam_search(const Model& model, std::span<const SearchInput> inputs,
                                                 const BeamSearchConfig& config,
                                                 const std::map<std::string, ModelInput>& sources) {
  check_search(model, inputs, config, !sources.empty());
  if (inputs.empty()) return {};
  return BeamSearch(model, inputs, config, sources).run();
}

}  // namespace lithe

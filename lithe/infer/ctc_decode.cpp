#include "lithe/infer/ctc_decode.h"

#include <algorithm>
#include <cmath>

#include "lithe/base/error.h"
#include "lithe/infer/log_space.h"
#include "lithe/kernels/ctc/ctc.h"

namespace lithe {
namespace {

// Logarithms of the probabilities of rows [begin, end): [rows][classes].
std::vector<std::vector<double>> row_log_probabilities(const Tensor& logits, int64_t begin, int64_t end) {
  std::vector<std::vector<double>> out;
  for (int64_t t = begin; t < end; ++t) log_probabilities_of_row(logits, t, out.emplace_back(size_t(logits.cols())));
  return out;
}

// The labels that classes write, row by row.
std::vector<PlacedLabel> placed(const std::vector<std::vector<double>>& rows, const std::vector<int32_t>& classes,
                                int32_t blank) {
  std::vector<PlacedLabel> out;
  for (size_t t = 0; t < classes.size(); ++t) {
    if (classes[t] == blank) continue;
    if (t == 0 || classes[t] != classes[t - 1]) out.push_back({classes[t], int64_t(t), int64_t(t), 0});
    out.back().end = int64_t(t) + 1;
    out.back().log_probability += rows[t][size_t(classes[t])];
  }
  for (PlacedLabel& of : out) of.log_probability /= double(of.end - of.begin);
  return out;
}

}  // namespace

void log_probabilities_of_row(const Tensor& logits, int64_t row, std::span<double> out) {
  for (size_t c = 0; c < out.size(); ++c) out[c] = value_at(logits, row * logits.cols() + int64_t(c));
  check(log_normalise(out), "ctc", "row ", row, " of the logits is not finite");
}

std::vector<PlacedLabel> ctc_greedy(const Tensor& logits, int64_t begin, int64_t end) {
  const auto rows = row_log_probabilities(logits, begin, end);
  std::vector<int32_t> best;
  for (const auto& row : rows) best.push_back(int32_t(std::max_element(row.begin(), row.end()) - row.begin()));
  return placed(rows, best, int32_t(logits.cols()) - 1);
}

// spec: app.ctc | search | alignments, prefix beams with label n-grams, labels placed in time | TB 6.5.3
std::vector<PlacedLabel> ctc_alignment(const Tensor& logits, int64_t begin, int64_t end,
                                       const std::vector<int32_t>& labels) {
  const auto rows = row_log_probabilities(logits, begin, end);
  const auto U = labels.size(), S = 2 * U + 1, T = rows.size();
  const auto needed = kernels::ctc_rows(labels.data(), int64_t(U));
  check(int64_t(T) >= needed, "ctc_alignment", U, " labels need ", needed, " rows (one each, and one between equal ",
        "neighbours), there are ", T);
  const int32_t blank = int32_t(logits.cols()) - 1;
  const auto class_of = [&](size_t s) { return s % 2 ? labels[s / 2] : blank; };
  std::vector<std::vector<double>> best(T, std::vector<double>(S, kNever));
  std::vector<std::vector<size_t>> from(T, std::vector<size_t>(S, 0));
  for (size_t t = 0; t < T; ++t)
    for (size_t s = 0; s < S; ++s) {
      double before = t ? best[t - 1][s] : s < 2 ? 0 : kNever;
      from[t][s] = s;
      const bool skips = s % 2 && s >= 3 && labels[s / 2] != labels[s / 2 - 1];
      for (const size_t step : {size_t(1), size_t(2)})
        if (t && s >= step && (step == 1 || skips) && best[t - 1][s - step] > before)
          before = best[t - 1][s - step], from[t][s] = s - step;
      best[t][s] = before + rows[t][size_t(class_of(s))];
    }
  std::vector<PlacedLabel> out(U);
  for (size_t u = 0; u < U; ++u) out[u] = {labels[u], int64_t(T), 0, 0};
  size_t s = T && U && best[T - 1][S - 2] > best[T - 1][S - 1] ? S - 2 : S - 1;
  for (size_t t = T; t-- > 0; s = from[t][s]) {
    if (s % 2 == 0) continue;
    PlacedLabel& of = out[s / 2];
    of.begin = int64_t(t), of.end = std::max(of.end, int64_t(t) + 1);
    of.log_probability += rows[t][size_t(of.label)];
  }
  for (PlacedLabel& of : out) of.log_probability /= double(of.end - of.begin);
  return out;
}

LabelNgrams::LabelNgrams(const std::vector<std::vector<int32_t>>& sequences, int64_t order, int64_t labels)
    : order_(order), labels_(labels) {
  check_usage(order >= 1 && order <= 8, "ngrams", "the order must be 1 to 8, got ", order);
  for (const auto& sequence : sequences)
    for (size_t i = 0; i <= sequence.size(); ++i) {
      const int32_t next = i < sequence.size() ? sequence[i] : end();
      check(next >= 0 && next <= end(), "ngrams", "label ", next, " is not below ", labels);
      for (size_t n = 0; n < size_t(order) && n <= i; ++n) {
        Followers& after = contexts_[{sequence.begin() + int64_t(i - n), sequence.begin() + int64_t(i)}];
        ++after.count, ++after.of[next];
      }
    }
}

double LabelNgrams::log_probability(const std::vector<int32_t>& before, int32_t next) const {
  double p = 1 / double(labels_ + 1);
  for (size_t n = 0; n < size_t(order_) && n <= before.size(); ++n) {
    const auto found = contexts_.find({before.end() - int64_t(n), before.end()});
    if (found == contexts_.end()) break;
    const Followers& after = found->second;
    const auto seen = after.of.find(next);
    const auto kinds = double(after.of.size());
    p = ((seen == after.of.end() ? 0 : double(seen->second)) + kinds * p) / (double(after.count) + kinds);
  }
  return std::log(p);
}

std::vector<CtcHypothesis> ctc_beam_search(const Tensor& logits, int64_t begin, int64_t end, const CtcSearch& search) {
  check_usage(search.num_beams >= 1, "ctc_beam_search", "num_beams must be at least 1, got ", search.num_beams);
  // Of the alignments that write a prefix: those that end in the blank, and those that end in its last label.
  struct Prefix {
    double blank = kNever, label = kNever, extra = 0;  // extra: of n-grams and bonus
    double total() const { return log_add(blank, label); }
  };
  using Prefixes = std::map<std::vector<int32_t>, Prefix>;
  const int32_t C = int32_t(logits.cols()) - 1;
  Prefixes kept{{{}, {.blank = 0}}};
  const auto added = [&](const std::vector<int32_t>& before, int32_t label) {
    return search.label_bonus +
           (search.ngrams ? search.ngram_weight * search.ngrams->log_probability(before, label) : 0);
  };
  for (const auto& row : row_log_probabilities(logits, begin, end)) {
    Prefixes next;
    for (const auto& [labels, of] : kept) {
      Prefix& same = next[labels];
      same.extra = of.extra;
      same.blank = log_add(same.blank, of.total() + row[size_t(C)]);
      if (!labels.empty()) same.label = log_add(same.label, of.label + row[size_t(labels.back())]);
      std::vector<int32_t> longer = labels;
      longer.push_back(0);
      for (int32_t c = 0; c < C; ++c) {
        // A repeated label is a new one only behind a blank.
        const double p = (!labels.empty() && labels.back() == c ? of.blank : of.total()) + row[size_t(c)];
        if (p == kNever) continue;
        longer.back() = c;
        Prefix& extended = next[longer];
        extended.label = log_add(extended.label, p);
        extended.extra = of.extra + added(labels, c);
      }
    }
    std::vector<std::pair<double, const std::vector<int32_t>*>> order;
    for (const auto& [labels, of] : next) order.emplace_back(of.total() + of.extra, &labels);
    const auto most = std::min(order.size(), size_t(search.num_beams));
    std::partial_sort(order.begin(), order.begin() + int64_t(most), order.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first > b.first : *a.second < *b.second;
    });
    kept.clear();
    for (size_t i = 0; i < most; ++i) kept.emplace(*order[i].second, next.at(*order[i].second));
  }
  std::vector<CtcHypothesis> out;
  for (const auto& [labels, of] : kept) {
    const double ending =
        search.ngrams ? search.ngram_weight * search.ngrams->log_probability(labels, search.ngrams->end()) : 0;
    out.push_back({labels, of.total(), of.total() + of.extra + ending});
  }
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.score > b.score; });
  return out;
}

}  // namespace lithe

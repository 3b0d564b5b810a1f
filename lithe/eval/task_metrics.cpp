#include "lithe/eval/task_metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "lithe/base/error.h"
#include "lithe/text/pattern.h"
#include "lithe/text/unicode.h"
#include "lithe/text/utf8.h"

namespace lithe {
namespace {

using Classes = std::span<const int32_t>;
using Values = std::span<const double>;

constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();

template <class T>
void check_counts(const char* metric, std::span<const T> truth, std::span<const T> predicted) {
  check(truth.size() == predicted.size(), metric, "there must be a prediction for each of ", truth.size(),
        " examples, got ", predicted.size());
}

// Of one class: how often it is true, how often it is predicted, how often both.
struct Counts {
  double truth = 0, predicted = 0, both = 0;
  double f1() const { return truth + predicted > 0 ? 2 * both / (truth + predicted) : 0; }
};

std::map<int32_t, Counts> count_classes(const char* metric, Classes truth, Classes predicted) {
  check_counts(metric, truth, predicted);
  std::map<int32_t, Counts> classes;
  for (size_t i = 0; i < truth.size(); ++i) {
    ++classes[truth[i]].truth;
    ++classes[predicted[i]].predicted;
    if (truth[i] == predicted[i]) ++classes[truth[i]].both;
  }
  return classes;
}

bool all_finite(Values values) {
  return std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
}

// The rank of each value from 1; equal values share the mean of theirs.
std::vector<double> ranks(Values values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> out(values.size());
  for (size_t begin = 0, end; begin < order.size(); begin = end) {
    for (end = begin + 1; end < order.size() && values[order[end]] == values[order[begin]];) ++end;
    for (size_t i = begin; i < end; ++i) out[order[i]] = double(begin + 1 + end) / 2;
  }
  return out;
}

std::vector<std::string> answer_words(std::string_view text) {
  std::vector<std::string> words;
  const std::string normal = normalize_answer(text);
  for (size_t begin = 0; begin < normal.size();) {
    const size_t end = std::min(normal.find(' ', begin), normal.size());
    words.push_back(normal.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

// A marked span: type, first word, end.
using Entity = std::tuple<std::string, size_t, size_t>;

std::set<Entity> entities(Classes tags, const std::vector<std::string>& labels) {
  std::set<Entity> out;
  std::string type;  // of the open span; empty: none
  size_t begin = 0;
  const auto close = [&](size_t end) {
    if (!type.empty()) out.emplace(type, begin, end);
    type.clear();
  };
  for (size_t i = 0; i < tags.size(); ++i) {
    const std::string tag = tags[i] < 0 ? "O" : labels[size_t(tags[i])];  // no span: the word was not read
    // The '-' stays in front of the type, so that no type is empty.
    const std::string of = tag == "O" ? "" : tag.substr(1);
    if (tag[0] == 'B' || of != type) {
      close(i);
      type = of;
      begin = i;
    }
  }
  close(tags.size());
  return out;
}

}  // namespace

// ---- classes

double accuracy(Classes truth, Classes predicted) {
  check_counts("accuracy", truth, predicted);
  size_t right = 0;
  for (size_t i = 0; i < truth.size(); ++i) right += truth[i] == predicted[i];
  return truth.empty() ? kUndefined : double(right) / double(truth.size());
}

double f1_binary(Classes truth, Classes predicted) { return count_classes("f1", truth, predicted)[1].f1(); }

double macro_f1(Classes truth, Classes predicted) {
  const auto classes = count_classes("macro_f1", truth, predicted);
  double sum = 0;
  for (const auto& [label, counts] : classes) sum += counts.f1();
  return classes.empty() ? kUndefined : sum / double(classes.size());
}

double micro_f1(Classes truth, Classes predicted) { return accuracy(truth, predicted); }

// With N examples, R right ones, and t_k, p_k the counts of class k in truth and predictions (Gorodkin 2004):
//   (N R - sum t_k p_k) / sqrt((N^2 - sum t_k^2) (N^2 - sum p_k^2))
double matthews(Classes truth, Classes predicted) {
  const double n = double(truth.size());
  double right = 0, product = 0, truths = 0, predictions = 0;
  for (const auto& [label, counts] : count_classes("matthews", truth, predicted)) {
    right += counts.both;
    product += counts.truth * counts.predicted;
    truths += counts.truth * counts.truth;
    predictions += counts.predicted * counts.predicted;
  }
  const double spread = std::sqrt(n * n - truths) * std::sqrt(n * n - predictions);
  return spread > 0 ? (n * right - product) / spread : 0;
}

// ---- values

double pearson(Values truth, Values predicted) {
  check_counts("pearson", truth, predicted);
  const auto constant = [](Values v) { return std::all_of(v.begin(), v.end(), [&](double x) { return x == v[0]; }); };
  if (truth.size() < 2 || !all_finite(truth) || !all_finite(predicted) || constant(truth) || constant(predicted))
    return kUndefined;
  // Scaled by the largest deviation first: squares of any finite values stay finite.
  const auto centred = [](Values v) {
    const double n = double(v.size());
    double mean = 0, largest = 0;
    for (const double x : v) mean += x / n;
    std::vector<double> out;
    for (const double x : v) out.push_back(x - mean);
    for (const double d : out) largest = std::max(largest, std::abs(d));
    for (double& d : out) d /= largest;
    return out;
  };
  const std::vector<double> a = centred(truth), b = centred(predicted);
  const auto dot = [](const auto& x, const auto& y) { return std::inner_product(x.begin(), x.end(), y.begin(), 0.0); };
  return std::clamp(dot(a, b) / std::sqrt(dot(a, a)) / std::sqrt(dot(b, b)), -1.0, 1.0);
}

double spearman(Values truth, Values predicted) {
  check_counts("spearman", truth, predicted);
  if (!all_finite(truth) || !all_finite(predicted)) return kUndefined;
  return pearson(ranks(truth), ranks(predicted));
}

double mean_squared_error(Values truth, Values predicted) {
  check_counts("mse", truth, predicted);
  double sum = 0;
  for (size_t i = 0; i < truth.size(); ++i) sum += (truth[i] - predicted[i]) * (truth[i] - predicted[i]);
  return truth.empty() ? kUndefined : sum / double(truth.size());
}

// ---- answers

std::string normalize_answer(std::string_view text) {
  static const Pattern article("\\b(?:a|an|the)\\b", "normalize_answer");
  std::string lower, without_articles, out;
  for_each_character(valid_utf8(text), [&](uint32_t c) {
    const bool ascii_punctuation =
        (c >= 0x21 && c <= 0x2F) || (c >= 0x3A && c <= 0x40) || (c >= 0x5B && c <= 0x60) || (c >= 0x7B && c <= 0x7E);
    if (!ascii_punctuation) append_lower_case(lower, c);
  });
  size_t from = 0, begin = 0, end = 0;
  for (; article.find(lower, from, begin, end); from = end) {
    without_articles.append(lower, from, begin - from);
    without_articles += ' ';
  }
  without_articles.append(lower, from);
  bool space = false;
  for_each_character(without_articles, [&](uint32_t c) {
    if (is_white_space(c)) {
      space = true;
      return;
    }
    if (space && !out.empty()) out += ' ';
    space = false;
    append_utf8(out, c);
  });
  return out;
}

double exact_match(std::string_view truth, std::string_view predicted) {
  return normalize_answer(truth) == normalize_answer(predicted) ? 1 : 0;
}

double answer_f1(std::string_view truth, std::string_view predicted) {
  std::vector<std::string> a = answer_words(truth), b = answer_words(predicted), common;
  if (a.empty() || b.empty()) return a == b ? 1 : 0;
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(common));
  return 2 * double(common.size()) / double(a.size() + b.size());
}

// ---- tags

int64_t edit_distance(Classes truth, Classes predicted) {
  std::vector<int64_t> row(predicted.size() + 1);  // of the first labels of truth to those of predicted
  std::iota(row.begin(), row.end(), int64_t(0));
  for (size_t i = 0; i < truth.size(); ++i) {
    int64_t diagonal = std::exchange(row[0], int64_t(i) + 1);
    for (size_t j = 0; j < predicted.size(); ++j) {
      const int64_t substituted = diagonal + (truth[i] != predicted[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j + 1] + 1, row[j] + 1, substituted});
    }
  }
  return row.back();
}

bool is_bio_tag(std::string_view tag) {
  return tag == "O" || (tag.size() >= 2 && (tag[0] == 'B' || tag[0] == 'I') && tag[1] == '-');
}

double entity_f1(const std::vector<Classes>& truth, const std::vector<Classes>& predicted,
                 const std::vector<std::string>& labels) {
  check(truth.size() == predicted.size(), "f1", "there must be a prediction for each of ", truth.size(),
        " sentences, got ", predicted.size());
  for (const std::string& label : labels)
    check(is_bio_tag(label), "f1", "tags must be O, B-x or I-x, got '", label, "'; measure accuracy instead");
  Counts counts;
  for (size_t i = 0; i < truth.size(); ++i) {
    check_counts("f1", truth[i], predicted[i]);
    const std::set<Entity> a = entities(truth[i], labels), b = entities(predicted[i], labels);
    counts.truth += double(a.size());
    counts.predicted += double(b.size());
    counts.both += double(std::count_if(a.begin(), a.end(), [&](const Entity& e) { return b.count(e) > 0; }));
  }
  return counts.f1();
}

}  // namespace lithe

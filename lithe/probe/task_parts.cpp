// What tasks are made of beside instances: texts, swaps, bins, numbers, and what trivial methods score.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>

#include "lithe/probe/tasks.h"

namespace lithe::probe {
namespace {

constexpr auto kNaN = std::numeric_limits<double>::quiet_NaN();

}  // namespace

std::vector<int64_t> Corpus::first_words() const {
  std::vector<int64_t> out;
  int64_t words = 0;
  for (const TreeSentence& s : sentences) {
    out.push_back(words);
    words += int64_t(s.words.size());
  }
  return out;
}

std::vector<Sentence> Corpus::texts() const {
  std::vector<Sentence> out;
  for (const TreeSentence& s : sentences) out.push_back(sentence_of(s));
  return out;
}

std::vector<Swap> draw_swaps(const Corpus& corpus, uint64_t seed) {
  std::vector<Swap> out;
  for (size_t s = 0; s < corpus.sentences.size(); ++s) {
    const std::vector<std::string>& words = corpus.sentences[s].words;
    const RandomKey key{seed, uint64_t(s), 0, purpose_of("probe.swap")};
    Swap swap{.swap = random_uniform(key, 0) < 0.5};
    // Not the first word, whose capital would tell, nor the last, which is often a full stop.
    if (words.size() >= 4) {
      const auto at = int64_t(1 + random_below(key, 2, uint64_t(words.size() - 3)));
      if (words[size_t(at)] != words[size_t(at + 1)]) swap.at = at;
    }
    out.push_back(swap);
  }
  return out;
}

std::vector<Sentence> swapped(const Corpus& corpus, const std::vector<Swap>& swaps) {
  std::vector<Sentence> out = corpus.texts();
  for (size_t s = 0; s < out.size(); ++s) {
    out[s].tree = nullptr;  // of words in another order
    if (swaps[s].swap && swaps[s].at >= 0)
      std::swap(out[s].words[size_t(swaps[s].at)], out[s].words[size_t(swaps[s].at + 1)]);
  }
  return out;
}

std::vector<TaskBaselineScore> trivial_scores(const Task& task) {
  const auto n = double(task.test.size());
  if (task.regression) {
    double mean = 0, error = 0;
    for (const Instance& i : task.train) mean += i.value / double(task.train.size());
    for (const Instance& i : task.test) error += (i.value - mean) * (i.value - mean) / n;
    return {{"mean", error}};
  }
  std::vector<int64_t> counts(task.labels.size(), 0);
  std::map<std::string, std::vector<int64_t>> of_type;
  for (const Instance& i : task.train)
    for (const int32_t label : i.labels) {
      ++counts[size_t(label)];
      std::vector<int64_t>& of = of_type[i.type];
      of.resize(counts.size(), 0);
      ++of[size_t(label)];
    }
  const auto most = [](const std::vector<int64_t>& of) {
    return int32_t(std::max_element(of.begin(), of.end()) - of.begin());
  };
  const int32_t usual = most(counts);
  double right = 0, by_type = 0;
  bool typed = false;
  for (const Instance& i : task.test) {
    right += i.labels == std::vector<int32_t>{usual};
    typed = typed || !i.type.empty();
    const auto found = i.type.empty() ? of_type.end() : of_type.find(i.type);
    by_type += i.labels == std::vector<int32_t>{found == of_type.end() ? usual : most(found->second)};
  }
  std::vector<TaskBaselineScore> out = {{"majority", right / n}};
  if (typed) out.push_back({"most frequent label of the word", by_type / n});
  return out;
}

int32_t length_bin(int64_t length, const std::vector<int64_t>& longest) {
  return int32_t(std::lower_bound(longest.begin(), longest.end(), length) - longest.begin());
}

double number_of(const std::string& word) {
  static const std::map<std::string, double> names = {
      {"zero", 0},      {"one", 1},       {"two", 2},       {"three", 3},    {"four", 4},      {"five", 5},
      {"six", 6},       {"seven", 7},     {"eight", 8},     {"nine", 9},     {"ten", 10},      {"eleven", 11},
      {"twelve", 12},   {"thirteen", 13}, {"fourteen", 14}, {"fifteen", 15}, {"sixteen", 16},  {"seventeen", 17},
      {"eighteen", 18}, {"nineteen", 19}, {"twenty", 20},   {"thirty", 30},  {"forty", 40},    {"fifty", 50},
      {"sixty", 60},    {"seventy", 70},  {"eighty", 80},   {"ninety", 90},  {"hundred", 100}, {"thousand", 1000},
      {"million", 1e6}, {"billion", 1e9}};
  std::string digits, lower;
  for (const char c : word) {
    lower += char(c >= 'A' && c <= 'Z' ? c + 32 : c);
    if (c != ',') digits += c;
  }
  if (const auto found = names.find(lower); found != names.end()) return found->second;
  const size_t sign = !digits.empty() && digits[0] == '-';
  if (digits.size() <= sign || digits[sign] < '0' || digits[sign] > '9') return kNaN;
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return error == std::errc() && end == digits.data() + digits.size() && std::isfinite(value) ? value : kNaN;
}

}  // namespace lithe::probe

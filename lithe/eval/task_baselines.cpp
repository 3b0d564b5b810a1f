#include "lithe/eval/task_baselines.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>

#include "lithe/base/error.h"
#include "lithe/data/permutation.h"
#include "lithe/text/word_cutter.h"

namespace lithe {
namespace {

int32_t most_frequent(const std::vector<int64_t>& counts) {
  return int32_t(std::max_element(counts.begin(), counts.end()) - counts.begin());
}

// Texts to the features that they have, numbered as training meets them.
class Features {
 public:
  explicit Features(bool learns) : learns_(learns) {}
  void freeze() { learns_ = false; }
  size_t count() const { return ids_.size(); }

  std::vector<int32_t> of(const Example& e) {
    std::vector<int32_t> out;
    const std::vector<std::string> first = words_of(e.text);
    add(first, e.has_pair ? "1 " : "", out);
    if (e.has_pair) {
      const std::vector<std::string> second = words_of(e.pair);
      add(second, "2 ", out);
      for (const std::string& word : first)
        if (std::find(second.begin(), second.end(), word) != second.end()) add_one("both " + word, out);
    }
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  }

 private:
  bool learns_;
  WordCutter cutter_{true};
  std::unordered_map<std::string, int32_t> ids_;

  std::vector<std::string> words_of(const std::string& text) const {
    std::vector<std::string> out;
    cutter_.words(text, [&](auto words) { out.insert(out.end(), words.begin(), words.end()); });
    return out;
  }
  void add(const std::vector<std::string>& words, const std::string& prefix, std::vector<int32_t>& out) {
    for (size_t i = 0; i < words.size(); ++i) {
      add_one(prefix + words[i], out);
      if (i) add_one(prefix + words[i - 1] + " " + words[i], out);
    }
  }
  void add_one(const std::string& feature, std::vector<int32_t>& out) {
    if (learns_)
      out.push_back(ids_.try_emplace(feature, int32_t(ids_.size())).first->second);
    else if (const auto found = ids_.find(feature); found != ids_.end())
      out.push_back(found->second);
  }
};

class LogisticRegression {
 public:
  LogisticRegression(size_t features, size_t classes)
      : classes_(classes), weights_((features + 1) * classes), squares_(weights_.size(), 1e-8) {}

  int32_t predict(const std::vector<int32_t>& features) const {
    const std::vector<double> scores = scores_of(features);
    return int32_t(std::max_element(scores.begin(), scores.end()) - scores.begin());
  }

  // AdaGrad: rare features keep large steps. The decay is of the features that an example has.
  void learn(const std::vector<int32_t>& features, int32_t label) {
    constexpr double kRate = 0.1, kDecay = 1e-5;
    std::vector<double> p = scores_of(features);
    const double best = *std::max_element(p.begin(), p.end());
    double sum = 0;
    for (double& x : p) sum += x = std::exp(x - best);
    for (size_t c = 0; c < classes_; ++c) {
      const double gradient = p[c] / sum - (int32_t(c) == label);
      const auto step = [&](size_t feature) {
        double &w = weights_[feature * classes_ + c], &s = squares_[feature * classes_ + c];
        const double g = gradient + kDecay * w;
        s += g * g;
        w -= kRate * g / std::sqrt(s);
      };
      step(weights_.size() / classes_ - 1);  // the bias
      for (const int32_t f : features) step(size_t(f));
    }
  }

 private:
  size_t classes_;
  std::vector<double> weights_, squares_;

  std::vector<double> scores_of(const std::vector<int32_t>& features) const {
    std::vector<double> out(weights_.end() - long(classes_), weights_.end());
    for (const int32_t f : features)
      for (size_t c = 0; c < classes_; ++c) out[c] += weights_[size_t(f) * classes_ + c];
    return out;
  }
};

std::vector<Prediction> by_logistic_regression(const std::vector<Example>& train, const std::vector<Example>& asked,
                                               size_t classes) {
  constexpr int kEpochs = 8;
  Features features(true);
  std::vector<std::vector<int32_t>> known;
  for (const Example& e : train) known.push_back(features.of(e));
  features.freeze();
  LogisticRegression model(features.count(), classes);
  for (int epoch = 0; epoch < kEpochs; ++epoch)
    for (const int64_t i : permutation({1, uint64_t(epoch), 0, purpose_of("baseline")}, int64_t(train.size())))
      model.learn(known[size_t(i)], train[size_t(i)].label);
  std::vector<Prediction> out(asked.size());
  for (size_t i = 0; i < asked.size(); ++i) out[i].label = model.predict(features.of(asked[i]));
  return out;
}

std::vector<TaskBaseline> of_tagging(const std::vector<Example>& train, const std::vector<Example>& asked,
                                     size_t classes) {
  std::vector<int64_t> all(classes, 0);
  std::map<std::string, std::vector<int64_t>> by_word;
  for (const Example& e : train)
    for (size_t w = 0; w < e.words.size(); ++w) {
      if (e.tags[w] < 0) continue;
      ++all[size_t(e.tags[w])];
      ++by_word.try_emplace(e.words[w], classes, 0).first->second[size_t(e.tags[w])];
    }
  TaskBaseline majority{"majority", std::vector<Prediction>(asked.size())},
      words{"most frequent tag of a word", std::vector<Prediction>(asked.size())};
  const int32_t most = most_frequent(all);
  for (size_t i = 0; i < asked.size(); ++i)
    for (const std::string& word : asked[i].words) {
      const auto found = by_word.find(word);
      majority.predictions[i].tags.push_back(most);
      words.predictions[i].tags.push_back(found == by_word.end() ? most : most_frequent(found->second));
    }
  return {std::move(majority), std::move(words)};
}

// Every word hangs on the one before it, or on the one behind it; its label is its own most frequent one.
std::vector<TaskBaseline> of_parsing(const std::vector<Example>& train, const std::vector<Example>& asked,
                                     size_t classes) {
  std::vector<Prediction> left = of_tagging(train, asked, classes)[1].predictions, right = left;
  for (size_t i = 0; i < asked.size(); ++i)
    for (size_t w = 0, m = asked[i].words.size(); w < m; ++w) {
      left[i].heads.push_back(int32_t(w));
      right[i].heads.push_back(w + 1 == m ? 0 : int32_t(w) + 2);
    }
  return {{"the word before", std::move(left)}, {"the word behind", std::move(right)}};
}

}  // namespace

std::vector<TaskBaseline> task_baselines(TaskType type, const std::vector<Example>& train,
                                         const std::vector<Example>& asked, size_t classes) {
  if (train.empty() || asked.empty() || type == TaskType::span || type == TaskType::transcription) return {};
  if (type == TaskType::parsing) return of_parsing(train, asked, classes);
  if (type == TaskType::tagging) return of_tagging(train, asked, classes);
  Prediction usual;
  if (type == TaskType::text) {
    std::map<std::string, int64_t> answers;
    for (const Example& e : train) ++answers[e.answers.at(0).text];
    usual.text = std::ranges::max_element(answers, {}, [](const auto& of) { return of.second; })->first;
    return {{"majority", std::vector<Prediction>(asked.size(), usual)}};
  }
  if (type == TaskType::regression) {
    for (const Example& e : train) usual.value += e.value / double(train.size());
    return {{"mean", std::vector<Prediction>(asked.size(), usual)}};
  }
  std::vector<int64_t> counts(classes, 0);
  for (const Example& e : train) ++counts[size_t(e.label)];
  usual.label = most_frequent(counts);
  std::vector<TaskBaseline> out{{"majority", std::vector<Prediction>(asked.size(), usual)}};
  if (std::ranges::any_of(train, [](const Example& e) { return !e.text.empty() || !e.pair.empty(); }))
    out.push_back({"logistic regression", by_logistic_regression(train, asked, classes)});
  return out;
}

std::vector<int64_t> confusion(TaskType type, const std::vector<Example>& examples,
                               const std::vector<Prediction>& predictions, size_t classes) {
  check(examples.size() == predictions.size(), "task", "there are ", predictions.size(), " predictions for ",
        examples.size(), " examples");
  std::vector<int64_t> out(classes * classes, 0);
  const auto count = [&](int32_t truth, int32_t predicted) {
    if (truth >= 0 && predicted >= 0) ++out[size_t(truth) * classes + size_t(predicted)];
  };
  for (size_t i = 0; i < examples.size(); ++i)
    if (type == TaskType::tagging)
      for (size_t w = 0; w < examples[i].tags.size(); ++w) count(examples[i].tags[w], predictions[i].tags[w]);
    else
      count(examples[i].label, predictions[i].label);
  return out;
}

std::vector<ClassScore> class_scores(const std::vector<int64_t>& confusion, size_t classes) {
  std::vector<ClassScore> out(classes);
  for (size_t c = 0; c < classes; ++c) {
    int64_t taken = 0;
    for (size_t k = 0; k < classes; ++k) {
      out[c].examples += confusion[c * classes + k];
      taken += confusion[k * classes + c];
    }
    const auto right = double(confusion[c * classes + c]);
    if (taken) out[c].precision = right / double(taken);
    if (out[c].examples) out[c].recall = right / double(out[c].examples);
    if (right > 0) out[c].f1 = 2 * out[c].precision * out[c].recall / (out[c].precision + out[c].recall);
  }
  return out;
}

}  // namespace lithe

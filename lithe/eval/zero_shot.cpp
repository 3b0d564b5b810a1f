#include "lithe/eval/zero_shot.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lithe/eval/bootstrap_error.h"
#include "lithe/eval/python_value.h"
#include "lithe/eval/token_likelihoods.h"
#include "lithe/eval/zero_shot_documents.h"
#include "lithe/eval/zero_shot_generation.h"
#include "lithe/eval/zero_shot_metrics.h"
#include "lithe/text/utf8.h"

namespace lithe {
namespace {

// ---- likelihoods

using Request = TokenRequest;

class Scorer {
 public:
  Scorer(const Model& model, const Tokenizer& tokenizer, const ZeroShotOptions& options)
      : model_(model), tokenizer_(tokenizer), options_(options) {
    most_ = size_t(model.config().max_position_embeddings);
  }
  size_t most() const { return most_; }
  int32_t start() const { return token_of_beginning(tokenizer_); }

  Request request(const std::string& text, const std::string& target) const {
    return continuation_request(model_, tokenizer_, text, target, options_.add_bos_token);
  }

  void score(std::vector<Request>& requests) const { score_tokens(model_, requests, options_.batch_tokens); }

 private:
  const Model& model_;
  const Tokenizer& tokenizer_;
  const ZeroShotOptions& options_;
  size_t most_ = 0;
};

}  // namespace

ZeroShotMetric mean_of(const std::string& name, const std::vector<double>& values) {
  const double n = double(values.size()), mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double squares = 0;
  for (const double v : values) squares += (v - mean) * (v - mean);
  ZeroShotMetric out{.name = name, .value = mean, .stderr_ = {}};
  if (values.size() > 1) out.stderr_ = std::sqrt(squares / (n - 1) / n);
  return out;
}

namespace {

int64_t characters(const std::string& text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (uint8_t(c) & 0xc0) != 0x80; });
}

std::vector<std::vector<ChoiceScore>> scored(const Scorer& scorer, const ZeroShotTask& task, const TaskTexts& texts,
                                             const std::vector<Json>& docs) {
  std::vector<Request> requests;
  std::vector<std::vector<ChoiceScore>> out;
  const std::vector<std::vector<std::string>> contexts = texts.contexts();
  for (size_t d = 0; d < docs.size(); ++d) {
    out.emplace_back();
    const std::vector<std::string> choices = texts.choices(docs[d]);
    const std::string target = texts.multiple_inputs() ? python_text(texts.target(docs[d])) : "";
    for (size_t i = 0; i < choices.size(); ++i) {
      // Of several inputs the target is the same.
      requests.push_back(texts.multiple_inputs() ? scorer.request(contexts[d][i], task.target_delimiter + target)
                                                 : scorer.request(contexts[d][0], task.target_delimiter + choices[i]));
      out.back().push_back({.choice = choices[i],
                            .tokens = int64_t(requests.back().tokens.size() - requests.back().begin),
                            .characters = characters(choices[i]),
                            .bytes = int64_t(choices[i].size())});
    }
  }
  scorer.score(requests);
  size_t at = 0;
  for (std::vector<ChoiceScore>& choices : out)
    for (ChoiceScore& choice : choices) {
      choice.log_likelihood = requests[at].log_likelihood;
      choice.greedy = requests[at].greedy;
      ++at;
    }
  return out;
}

// The choices behind nothing.
void score_alone(const Scorer& scorer, const ZeroShotTask& task, std::vector<ChosenDocument>& documents) {
  std::vector<Request> requests;
  for (const ChosenDocument& d : documents)
    for (const std::string& choice : d.choices) requests.push_back(scorer.request("", task.target_delimiter + choice));
  scorer.score(requests);
  size_t at = 0;
  for (ChosenDocument& d : documents)
    for (size_t i = 0; i < d.choices.size(); ++i) d.alone.push_back(requests[at++].log_likelihood);
}

std::vector<ZeroShotMetric> choose(const Scorer& scorer, const ZeroShotTask& task, const std::vector<Json>& docs) {
  const TaskTexts texts(task, docs);
  std::vector<ChosenDocument> documents;
  for (const std::vector<ChoiceScore>& choices : scored(scorer, task, texts, docs)) {
    ChosenDocument& d = documents.emplace_back();
    for (const ChoiceScore& choice : choices) {
      d.log_likelihoods.push_back(choice.log_likelihood);
      d.greedy.push_back(choice.greedy);
      d.choices.push_back(choice.choice);
    }
    d.right = texts.right_choices(docs[documents.size() - 1], d.choices);
  }
  const bool some = std::any_of(documents.begin(), documents.end(), [](const auto& d) { return !d.right.empty(); });
  check(some, "eval", task.task, ": doc_to_target gives '", python_text(texts.target(docs[0])),
        "', which is none of the ", documents[0].choices.size(), " choices, nor is that of any other document");
  if (std::find(task.metrics.begin(), task.metrics.end(), "acc_mutual_info") != task.metrics.end())
    score_alone(scorer, task, documents);
  std::vector<ZeroShotMetric> out;
  for (const std::string& metric : task.metrics) out.push_back(choice_metric(metric, documents, task.task));
  return out;
}

std::vector<ZeroShotMetric> follow(const Scorer& scorer, const ZeroShotTask& task, const std::vector<Json>& docs) {
  const TaskTexts texts(task, docs);
  const std::vector<std::vector<std::string>> contexts = texts.contexts();
  std::vector<Request> requests;
  for (size_t d = 0; d < docs.size(); ++d)
    requests.push_back(scorer.request(contexts[d][0], python_text(texts.target(docs[d]))));
  scorer.score(requests);
  std::vector<double> greedy, likelihood;
  for (const Request& r : requests) greedy.push_back(r.greedy), likelihood.push_back(r.log_likelihood);
  const auto perplexity = [&](const std::vector<size_t>& drawn) {
    double sum = 0;
    for (const size_t i : drawn) sum += likelihood[i];
    return std::exp(-sum / double(drawn.size()));
  };
  std::vector<ZeroShotMetric> out;
  if (std::find(task.metrics.begin(), task.metrics.end(), "perplexity") != task.metrics.end())
    out.push_back(bootstrapped("perplexity", likelihood.size(), kResamples, perplexity));
  out.push_back(mean_of("acc", greedy));
  return out;
}

std::vector<ZeroShotMetric> roll(const Scorer& scorer, const Tokenizer& tokenizer, const ZeroShotTask& task,
                                 const std::vector<Json>& docs) {
  std::vector<Request> requests;
  double words = 0, bytes = 0;
  ZeroShotTask whole = task;
  if (whole.doc_to_target.empty()) whole.doc_to_target = whole.doc_to_text;
  const TaskTexts texts(whole, docs);
  for (const Json& doc : docs) {
    const std::string text = python_text(texts.target(doc));
    bytes += double(text.size());
    // As the harness counts: the pieces between runs of white space, which may be empty at the ends.
    bool inside = false;
    ++words;
    for_each_character(text, [&](uint32_t c) {
      const bool space = is_python_space(c);
      words += space && !inside;
      inside = space;
    });
    // Windows whose scored tokens do not overlap, each with as many tokens before its last as the model can read.
    const std::vector<int32_t> tokens = tokenizer.encode(text);
    for (size_t begin = 0; begin < tokens.size(); begin += scorer.most()) {
      const size_t end = std::min(tokens.size(), begin + scorer.most()), from = end - std::min(end, scorer.most());
      Request r;
      r.begin = begin - from + 1;
      r.tokens.push_back(from ? tokens[from - 1] : scorer.start());
      r.tokens.insert(r.tokens.end(), tokens.begin() + int64_t(from), tokens.begin() + int64_t(end));
      requests.push_back(std::move(r));
    }
  }
  scorer.score(requests);
  double sum = 0;
  for (const Request& r : requests) sum += r.log_likelihood;
  return {{.name = "word_perplexity", .value = std::exp(-sum / words), .stderr_ = {}},
          {.name = "byte_perplexity", .value = std::exp(-sum / bytes), .stderr_ = {}},
          {.name = "bits_per_byte", .value = -sum / bytes / std::log(2.0), .stderr_ = {}}};
}

std::vector<Json> some_documents(const ZeroShotTask& task, const ZeroShotOptions& options, ZeroShotResult& counts) {
  std::vector<Json> docs = zero_shot_documents(task.data_files);
  counts.all_documents = int64_t(docs.size());
  if (options.limit && int64_t(docs.size()) > options.limit) docs.resize(size_t(options.limit));
  check_usage(!docs.empty(), "eval", task.task, ": its files hold no documents");
  counts.documents = int64_t(docs.size());
  return docs;
}

}  // namespace

ZeroShotTask choices_task(const Path& file) {
  check_usage(std::filesystem::is_regular_file(file), "eval", "'", file.string(),
              "' is no file; --choices takes JSON lines with query and choices");
  ZeroShotTask out;
  out.task = cat("'", file.string(), "'");
  out.data_files = {file.string()};
  out.output_type = "multiple_choice";
  out.doc_to_text = "query";
  out.doc_to_choice = Node::scalar("choices", {}, true);
  return out;
}

std::vector<std::vector<ChoiceScore>> score_choices(const Model& model, const Tokenizer& tokenizer,
                                                    const ZeroShotTask& task, const ZeroShotOptions& options) {
  model.check_predicts_next("eval");
  ZeroShotResult counts;
  const std::vector<Json> docs = some_documents(task, options, counts);
  return scored(Scorer(model, tokenizer, options), task, TaskTexts(task, docs), docs);
}

ZeroShotResult evaluate_zero_shot(const Model& model, const Tokenizer& tokenizer, const ZeroShotTask& task,
                                  const ZeroShotOptions& options) {
  model.check_predicts_next("eval");
  ZeroShotResult out;
  const std::vector<Json> docs = some_documents(task, options, out);
  const Scorer scorer(model, tokenizer, options);
  out.metrics = task.output_type == "multiple_choice"  ? choose(scorer, task, docs)
                : task.output_type == "loglikelihood"  ? follow(scorer, task, docs)
                : task.output_type == "generate_until" ? answer(model, tokenizer, task, docs, options)
                                                       : roll(scorer, tokenizer, task, docs);
  // Those that the task asks for, in its order, once for each filter.
  if (task.output_type == "generate_until") return out;
  std::vector<ZeroShotMetric> asked;
  for (const AnswerFilter& filter : task.filters)
    for (const std::string& name : task.metrics)
      for (const ZeroShotMetric& m : out.metrics)
        if (m.name == name) asked.push_back(m), asked.back().filter = filter.name;
  out.metrics = asked;
  return out;
}

}  // namespace lithe

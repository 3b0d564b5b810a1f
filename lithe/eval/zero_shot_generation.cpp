#include "lithe/eval/zero_shot_generation.h"

#include <algorithm>
#include <memory>

#include "lithe/base/stop.h"
#include "lithe/eval/bleu.h"
#include "lithe/eval/bootstrap_error.h"
#include "lithe/eval/chrf.h"
#include "lithe/eval/python_value.h"
#include "lithe/eval/translation_edit_rate.h"
#include "lithe/eval/zero_shot_documents.h"
#include "lithe/infer/generate.h"

namespace lithe {
namespace {

constexpr int64_t kAnswerSeed = 1234;  // of draws, as of the harness

// The first right answer of every document, then the second, ...
TextReferences references_of(const ZeroShotTask& task, const std::vector<std::vector<std::string>>& all) {
  TextReferences out;
  for (const std::vector<std::string>& rights : all) {
    if (out.empty()) out.resize(rights.size());
    check(rights.size() == out.size(), "eval", task.task, ": a document has ", rights.size(),
          " right answers, others have ", out.size(), "; BLEU, chrF and TER need as many for each");
    for (size_t i = 0; i < rights.size(); ++i) out[i].push_back(rights[i]);
  }
  return out;
}

ZeroShotMetric corpus_metric(const std::string& name, const std::vector<std::string>& hypotheses,
                             const TextReferences& references) {
  std::unique_ptr<TextMetric> metric = std::make_unique<Chrf>(ChrfOptions{.word_order = name == "chrf++" ? 2 : 0});
  if (name == "bleu") metric = std::make_unique<Bleu>();
  if (name == "ter") metric = std::make_unique<TranslationEditRate>();
  const std::vector<TextCounts> segments = segment_counts(*metric, hypotheses, references);
  return bootstrapped(name, segments.size(), kCorpusResamples, [&](const std::vector<size_t>& drawn) {
    return metric->score(sum_drawn(segments, [&](size_t i) { return drawn[i]; }));
  });
}

// What the model writes after each document's text, `repeats` times.
std::vector<std::vector<std::string>> written_answers(const Model& model, const Tokenizer& tokenizer,
                                                      const ZeroShotTask& task, const TaskTexts& texts,
                                                      const ZeroShotOptions& options) {
  // As in the harness, the beginning of a long text goes, so that the answer has positions.
  const int64_t positions = model.config().max_position_embeddings, most = positions - task.max_gen_toks;
  check_usage(most > 0, "eval", task.task, ": max_gen_toks ", task.max_gen_toks, " leaves nothing of the model's ",
              positions, " positions for a text; lower it");
  std::vector<std::string> ends = task.until;
  std::erase(ends, "");
  const GenerateConfig config = {.max_new_tokens = task.max_gen_toks,
                                 .do_sample = task.do_sample,
                                 .temperature = task.temperature,
                                 .top_k = task.top_k,
                                 .top_p = task.top_p,
                                 .stop = ends,
                                 .seed = kAnswerSeed,
                                 .add_bos_token = options.add_bos_token};
  // Written greedily, the answers to a text are all the same.
  const size_t draws = task.do_sample ? size_t(task.repeats) : 1;
  std::vector<std::vector<int32_t>> prompts;
  for (const std::vector<std::string>& context : texts.contexts()) {
    std::vector<int32_t> tokens = prompt_tokens(tokenizer, context[0], config);
    check_usage(!tokens.empty(), "eval", task.task,
                ": a document has no text, and the tokenizer no token to begin with");
    if (int64_t(tokens.size()) > most) tokens.erase(tokens.begin(), tokens.end() - most);
    prompts.insert(prompts.end(), draws, tokens);
  }
  std::vector<std::vector<std::string>> out;
  size_t at = 0;
  for (Generation& result : continue_tokens(model, tokenizer, prompts, config)) {
    check(result.finish != Finish::interrupted, "eval", "stopped by signal ", stop_signal());
    if (at++ % draws == 0) out.emplace_back();
    out.back().push_back(std::move(result.text));
  }
  for (std::vector<std::string>& answers : out) answers.resize(size_t(task.repeats), answers[0]);
  return out;
}

// The one text that is compared: a list of one, which no step took, counts as its text.
std::string text_of(const Json& answer, const ZeroShotTask& task, const AnswerFilter& filter) {
  const Json& one = answer.is_array() && answer.size() == 1 ? answer[0] : answer;
  check_usage(one.is_string(), "eval", task.task, ": filter '", filter.name, "' gives ", python_repr(answer),
              ", which is no text; end it with take_first");
  return one.get<std::string>();
}

// The share of the answers that are one of `rights`: of several, where one of them is.
double matched(const Json& answer, const std::vector<std::string>& rights, const ZeroShotTask& task,
               const AnswerFilter& filter) {
  double matches = 0;
  const Json all = answer.is_array() ? answer : Json::array({answer});
  for (const Json& one : all) {
    const std::string text = text_of(one, task, filter);
    matches += std::any_of(rights.begin(), rights.end(),
                           [&](const std::string& right) { return task.exact_match(text, right); });
  }
  return rights.size() > 1 ? double(matches > 0) : matches / double(all.size());
}

// accuracy and f1 of one document: the number of a class against the number of the right one.
double same_class(const Json& answer, const std::string& right, const ZeroShotTask& task, const AnswerFilter& filter) {
  const std::optional<int64_t> given = python_integer(answer);
  const std::optional<Json> wanted = python_literal(right);
  check_usage(given && wanted && python_integer(*wanted), "eval", task.task,
              ": accuracy and f1 of answers compare the ", "numbers of classes, and get ", python_repr(answer),
              " of filter '", filter.name, "' and '", right, "'");
  return double(*given == *python_integer(*wanted));
}

}  // namespace

std::vector<ZeroShotMetric> score_answers(const ZeroShotTask& task, const std::vector<Json>& documents,
                                          const std::vector<std::vector<std::string>>& written) {
  const TaskTexts texts(task, documents);
  std::vector<std::vector<std::string>> rights;
  for (const Json& document : documents) rights.push_back(texts.right_answers(document));
  std::vector<ZeroShotMetric> out;
  for (const AnswerFilter& filter : task.filters) {
    std::vector<Json> answers;
    for (size_t i = 0; i < documents.size(); ++i) answers.push_back(filtered(filter, written[i], documents[i]));
    for (const std::string& metric : task.metrics) {
      std::vector<double> values;
      std::vector<std::string> hypotheses;
      for (size_t i = 0; i < documents.size(); ++i) {
        if (metric == "exact_match")
          values.push_back(matched(answers[i], rights[i], task, filter));
        else if (metric == "accuracy" || metric == "f1")
          values.push_back(same_class(answers[i], rights[i][0], task, filter));
        else
          hypotheses.push_back(text_of(answers[i], task, filter));
      }
      if (values.empty())
        out.push_back(corpus_metric(metric, hypotheses, references_of(task, rights)));
      else
        out.push_back(mean_of(metric, values));
      out.back().filter = filter.name;
    }
  }
  return out;
}

std::vector<ZeroShotMetric> answer(const Model& model, const Tokenizer& tokenizer, const ZeroShotTask& task,
                                   const std::vector<Json>& documents, const ZeroShotOptions& options) {
  const TaskTexts texts(task, documents);
  return score_answers(task, documents, written_answers(model, tokenizer, task, texts, options));
}

}  // namespace lithe

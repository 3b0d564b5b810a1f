#include "lithe/eval/zero_shot_generation.h"

#include <algorithm>

#include "lithe/base/stop.h"
#include "lithe/eval/bleu.h"
#include "lithe/eval/chrf.h"
#include "lithe/eval/zero_shot_documents.h"
#include "lithe/infer/generate.h"

namespace lithe {
namespace {

// The first right answer of every document, then the second, ...
TextReferences references_of(const ZeroShotTask& task, const TaskTexts& texts, const std::vector<Json>& documents) {
  TextReferences out;
  for (const Json& document : documents) {
    const std::vector<std::string> rights = texts.right_answers(document);
    if (out.empty()) out.resize(rights.size());
    check(rights.size() == out.size(), "eval", task.task, ": a document has ", rights.size(),
          " right answers, others have ", out.size(), "; BLEU and chrF need as many for each");
    for (size_t i = 0; i < rights.size(); ++i) out[i].push_back(rights[i]);
  }
  return out;
}

}  // namespace

std::vector<ZeroShotMetric> answer(const Model& model, const Tokenizer& tokenizer, const ZeroShotTask& task,
                                   const std::vector<Json>& documents, const ZeroShotOptions& options) {
  // As in the harness, the beginning of a long text goes, so that the answer has positions.
  const int64_t positions = model.config().max_position_embeddings, most = positions - task.max_gen_toks;
  check_usage(most > 0, "eval", task.task, ": max_gen_toks ", task.max_gen_toks, " leaves nothing of the model's ",
              positions, " positions for a text; lower it");
  std::vector<std::string> ends = task.until;
  std::erase(ends, "");
  const GenerateConfig config = {
      .max_new_tokens = task.max_gen_toks, .do_sample = false, .stop = ends, .add_bos_token = options.add_bos_token};
  std::vector<std::vector<int32_t>> prompts;
  const TaskTexts texts(task, documents);
  for (const std::vector<std::string>& context : texts.contexts()) {
    std::vector<int32_t> tokens = prompt_tokens(tokenizer, context[0], config);
    check_usage(!tokens.empty(), "eval", task.task,
                ": a document has no text, and the tokenizer no token to begin with");
    if (int64_t(tokens.size()) > most) tokens.erase(tokens.begin(), tokens.end() - most);
    prompts.push_back(std::move(tokens));
  }
  std::vector<std::string> written;
  for (Generation& result : continue_tokens(model, tokenizer, prompts, config)) {
    check(result.finish != Finish::interrupted, "eval", "stopped by signal ", stop_signal());
    written.push_back(std::move(result.text));
  }

  std::vector<ZeroShotMetric> out;
  for (const AnswerFilter& filter : task.filters) {
    std::vector<std::string> answers;
    for (const std::string& text : written) answers.push_back(filtered(filter, text));
    for (const std::string& metric : task.metrics) {
      if (metric == "exact_match") {
        std::vector<double> right;
        for (size_t i = 0; i < documents.size(); ++i) {
          const auto rights = texts.right_answers(documents[i]);
          right.push_back(std::any_of(rights.begin(), rights.end(),
                                      [&](const std::string& one) { return task.exact_match(answers[i], one); }));
        }
        out.push_back(mean_of(metric, right));
      } else {
        const TextReferences references = references_of(task, texts, documents);
        const double score =
            metric == "bleu" ? corpus_bleu(answers, references).score : corpus_chrf(answers, references);
        out.push_back({.name = metric, .value = score, .stderr_ = {}});
      }
      out.back().filter = filter.name;
    }
  }
  return out;
}

}  // namespace lithe

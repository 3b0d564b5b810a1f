#include "lithe/eval/zero_shot_generation.h"

#include <algorithm>

#include "lithe/base/stop.h"
#include "lithe/eval/bleu.h"
#include "lithe/eval/chrf.h"
#include "lithe/eval/zero_shot_documents.h"
#include "lithe/infer/generate.h"

namespace lithe {
namespace {

std::vector<Node> items_of(const Node& node) { return node.is_list() ? node.items() : std::vector<Node>{node}; }

void read_settings(const Node& settings, ZeroShotTask& task) {
  bool do_sample = false;
  double temperature = 0, top_p = 1;
  int64_t top_k = 0;
  read_fields(settings, "generation_kwargs", [&](Fields& f) {
    f("until", task.until, "texts before which an answer ends");
    f("max_gen_toks", task.max_gen_toks, "tokens of an answer at most", at_least(1));
    f("do_sample", do_sample, "draw tokens: not supported");
    // Without draws they change nothing.
    f("temperature", temperature, "of draws");
    f("top_p", top_p, "of draws");
    f("top_k", top_k, "of draws");
  });
  check_usage(!do_sample, "eval", to_string(settings.mark()), ": answers are written greedily; leave out do_sample");
}

// A map with `key`, its value taken out.
std::string name_in(Node& node, const char* key, const char* list) {
  const Node* name = node.find(key);
  check_usage(name && name->is_scalar(), "eval", to_string(node.mark()), ": an entry of ", list, " needs a ", key);
  const std::string out = name->text();
  node.erase(key);
  return out;
}

AnswerStep step_of(Node node) {
  const std::string place = to_string(node.mark()), name = name_in(node, "function", "filter");
  AnswerStep out;
  std::string pattern = R"(#### (\-?[0-9\.\,]+))";
  if (name == "regex") {
    out.kind = AnswerStep::Kind::regex;
    read_fields(node, "filter", [&](Fields& f) {
      f("regex_pattern", pattern, "what is looked for, as Python's re has it");
      f("group_select", out.group_select, "which match is taken; -1: the last");
      f("fallback", out.fallback, "the answer where nothing matches");
    });
    out.pattern.push_back(Pattern::python(pattern, place));
    return out;
  }
  read_fields(node, "filter " + name, [](Fields&) {});
  if (name == "take_first")
    out.kind = AnswerStep::Kind::take_first;
  else if (name == "remove_whitespace")
    out.kind = AnswerStep::Kind::remove_whitespace;
  else if (name == "lowercase")
    out.kind = AnswerStep::Kind::lowercase;
  else
    fail_usage("eval", place, ": filter '", name,
               "' is not supported; take_first, remove_whitespace, lowercase and regex are");
  return out;
}

void read_filter(const Node& node, ZeroShotTask& task) {
  AnswerFilter filter;
  Node steps;
  read_fields(node, "filter_list", [&](Fields& f) {
    f("name", filter.name, "what its results are called");
    f.free("filter", steps, "list of steps");
  });
  check_usage(steps.is_list(), "eval", to_string(node.mark()), ": an entry of filter_list needs a list named filter");
  for (const Node& step : steps.items()) filter.steps.push_back(step_of(step));
  task.filters.push_back(std::move(filter));
}

void read_metric(Node node, ZeroShotTask& task) {
  const std::string place = to_string(node.mark()), name = name_in(node, "metric", "metric_list");
  check_usage(name == "exact_match" || name == "bleu" || name == "chrf", "eval", place, ": metric '", name,
              "' is not supported for generate_until; exact_match, bleu and chrf are");
  task.metrics.push_back(name);
  std::string aggregation;
  bool higher_is_better = true;
  std::vector<std::string> ignored;
  read_fields(node, "metric_list", [&](Fields& f) {
    f("aggregation", aggregation, "of documents: that of the metric", one_of({"", "mean", name}));
    f("higher_is_better", higher_is_better, "of no effect here");
    if (name != "exact_match") return;
    f("ignore_case", task.exact_match.ignore_case, "compare in lower case");
    f("ignore_punctuation", task.exact_match.ignore_punctuation, "compare without ASCII punctuation");
    f("ignore_numbers", task.exact_match.ignore_numbers, "compare without ASCII digits");
    f("regexes_to_ignore", ignored, "compare without what these match");
  });
  for (const std::string& pattern : ignored)
    task.exact_match.regexes_to_ignore.push_back(Pattern::python(pattern, place));
}

// The first right answer of every document, then the second, ...
TextReferences references_of(const ZeroShotTask& task, const std::vector<Json>& documents) {
  TextReferences out;
  for (const Json& document : documents) {
    const std::vector<std::string> rights = right_answers(task, document);
    if (out.empty()) out.resize(rights.size());
    check(rights.size() == out.size(), "eval", task.task, ": a document has ", rights.size(),
          " right answers, others have ", out.size(), "; BLEU and chrF need as many for each");
    for (size_t i = 0; i < rights.size(); ++i) out[i].push_back(rights[i]);
  }
  return out;
}

}  // namespace

void read_generation(Node& node, ZeroShotTask& task) {
  const auto take = [&](const char* key, auto&& read) {
    if (const Node* found = node.find(key)) {
      const Node taken = *found;
      node.erase(key);
      read(taken);
    }
  };
  take("generation_kwargs", [&](const Node& settings) { read_settings(settings, task); });
  take("filter_list", [&](const Node& list) {
    for (const Node& one : items_of(list)) read_filter(one, task);
  });
  take("metric_list", [&](const Node& list) {
    for (const Node& one : items_of(list)) read_metric(one, task);
  });
  if (task.filters.empty()) task.filters.push_back({});
  if (task.metrics.empty()) task.metrics.push_back("exact_match");
}

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
  for (const Json& document : documents) {
    std::vector<int32_t> tokens = prompt_tokens(tokenizer, rendered(task.doc_to_text, document, task.task), config);
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
          const auto rights = right_answers(task, documents[i]);
          right.push_back(std::any_of(rights.begin(), rights.end(),
                                      [&](const std::string& one) { return task.exact_match(answers[i], one); }));
        }
        out.push_back(mean_of(metric, right));
      } else {
        const TextReferences references = references_of(task, documents);
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

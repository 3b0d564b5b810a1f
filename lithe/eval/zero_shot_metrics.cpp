#include "lithe/eval/zero_shot_metrics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "lithe/base/error.h"
#include "lithe/eval/bootstrap_error.h"
#include "lithe/text/utf8.h"

namespace lithe {
namespace {

std::vector<Node> items_of(const Node& node) { return node.is_list() ? node.items() : std::vector<Node>{node}; }

// ---- reading

// As the harness reads generation_kwargs for a model of transformers.
void read_settings(const Node& settings, ZeroShotTask& task) {
  std::string do_sample;
  std::optional<double> temperature;
  int64_t max_new_tokens = 0, max_tokens = 0, num_beams = 1;
  read_fields(settings, "generation_kwargs", [&](Fields& f) {
    f("until", task.until, "texts before which an answer ends");
    f("max_new_tokens", max_new_tokens, "another name of max_gen_toks", at_least(1));
    f("max_tokens", max_tokens, "another name of max_gen_toks", at_least(1));
    f("max_gen_toks", task.max_gen_toks, "tokens of an answer at most", at_least(1));
    f("do_sample", do_sample, "draw tokens", one_of({"true", "false", "True", "False"}));
    f("temperature", temperature, "of draws", at_least(0));
    f("top_p", task.top_p, "of draws", between(0, 1));
    f("top_k", task.top_k, "of draws; 0: all tokens", at_least(0));
    f("num_beams", num_beams, "1 alone: answers are not searched for", between(1, 1));
  });
  if (!settings.find("max_gen_toks") && max_new_tokens + max_tokens)
    task.max_gen_toks = max_new_tokens ? max_new_tokens : max_tokens;
  task.do_sample = do_sample.empty() ? temperature.value_or(0) > 0 : do_sample == "true" || do_sample == "True";
  if (!task.do_sample) return;
  task.temperature = temperature.value_or(1);
  check_usage(task.temperature > 0, "eval", to_string(settings.mark()),
              ": temperature is 0 where do_sample is true; leave do_sample out, or raise it");
}

// A map with `key`, its value taken out.
std::string name_in(Node& node, const char* key, const char* list) {
  const Node* name = node.find(key);
  check_usage(name && name->is_scalar(), "eval", to_string(node.mark()), ": an entry of ", list, " needs a ", key);
  const std::string out = name->text();
  node.erase(key);
  return out;
}

std::vector<Pattern> patterns_of(const std::vector<std::string>& texts, const std::string& place) {
  std::vector<Pattern> out;
  for (const std::string& text : texts) out.push_back(Pattern::python(text, place));
  return out;
}

AnswerStep regex_step(const Node& node, const std::string& place, AnswerStep::Kind kind) {
  AnswerStep out;
  std::string pattern = R"(#### (\-?[0-9\.\,]+))";
  std::vector<std::string> ignored;
  out.kind = kind;
  read_fields(node, kind == AnswerStep::Kind::regex ? "filter regex" : "filter multi_choice_regex", [&](Fields& f) {
    f("regex_pattern", pattern, "what is looked for, as Python's re has it");
    f("group_select", out.group_select, "which match is taken; -1: the last");
    f("fallback", out.fallback, "the answer where nothing matches");
    if (kind == AnswerStep::Kind::regex) return;
    f("ignore_case", out.ignore_case, "look for choices in lower case");
    f("ignore_punctuation", out.ignore_punctuation, "look for choices without punctuation");
    f("regexes_to_ignore", ignored, "look for choices without what these match");
  });
  out.pattern = patterns_of({pattern}, place);
  out.regexes_to_ignore = patterns_of(ignored, place);
  return out;
}

AnswerStep step_of(Node node, const ZeroShotTask& task) {
  using Kind = AnswerStep::Kind;
  const std::string place = to_string(node.mark()), name = name_in(node, "function", "filter");
  check_usage(task.output_type == "generate_until" || name == "take_first", "eval", place, ": filter '", name,
              "' is for generate_until; tasks that score likelihoods have take_first");
  if (name == "regex") return regex_step(node, place, Kind::regex);
  if (name == "multi_choice_regex") return regex_step(node, place, Kind::multi_choice_regex);
  static const std::map<std::string, Kind> others{{"take_first", Kind::take_first},
                                                  {"take_first_k", Kind::take_first_k},
                                                  {"majority_vote", Kind::majority_vote},
                                                  {"remove_whitespace", Kind::remove_whitespace},
                                                  {"lowercase", Kind::lowercase},
                                                  {"uppercase", Kind::uppercase},
                                                  {"map", Kind::map}};
  const auto found = others.find(name);
  check_usage(found != others.end(), "eval", place, ": filter '", name,
              "' is not supported; take_first, take_first_k, majority_vote, remove_whitespace, lowercase, uppercase, "
              "map, regex and multi_choice_regex are");
  AnswerStep out;
  out.kind = found->second;
  Node mapping, otherwise;
  read_fields(node, "filter " + name, [&](Fields& f) {
    if (out.kind == Kind::take_first_k) f("k", out.k, "of how many answers", Rule{.min = 1, .required = true});
    if (out.kind != Kind::map) return;
    f.free("mapping_dict", mapping, "what each answer becomes");
    f.free("default_value", otherwise, "what others become");
  });
  check_usage(out.k <= task.repeats, "eval", place, ": filter '", name, "' takes ", out.k, " of ", task.repeats,
              " answers; raise repeats");
  check_usage(mapping.is_null() || mapping.is_map(), "eval", place, ": mapping_dict of filter map must be a map");
  if (mapping.is_map()) out.mapping = parse_json(to_json(mapping), place);
  out.default_value = parse_json(to_json(otherwise), place);
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
  for (const Node& step : steps.items()) filter.steps.push_back(step_of(step, task));
  task.filters.push_back(std::move(filter));
}

// By output_type: metrics and how their documents are put together, the usual ones first.
struct KnownMetrics {
  const char* output_type;
  size_t usual;
  std::vector<std::pair<std::string, std::string>> metrics;
};
const KnownMetrics& known_metrics(const std::string& output_type) {
  static const KnownMetrics all[] = {{"multiple_choice",
                                      2,
                                      {{"acc", "mean"},
                                       {"acc_norm", "mean"},
                                       {"acc_bytes", "mean"},
                                       {"acc_mutual_info", "mean"},
                                       {"exact_match", "mean"},
                                       {"f1", "f1"},
                                       {"mcc", "matthews_corrcoef"},
                                       {"brier_score", "brier_score"}}},
                                     {"loglikelihood", 2, {{"perplexity", "perplexity"}, {"acc", "mean"}}},
                                     {"loglikelihood_rolling",
                                      3,
                                      {{"word_perplexity", "weighted_perplexity"},
                                       {"byte_perplexity", "weighted_perplexity"},
                                       {"bits_per_byte", "bits_per_byte"}}},
                                     {"generate_until",
                                      1,
                                      {{"exact_match", "mean"},
                                       {"bleu", "bleu"},
                                       {"chrf", "chrf"},
                                       {"chrf++", "chrf++"},
                                       {"ter", "ter"},
                                       {"accuracy", "mean"},
                                       {"f1", "mean"}}}};
  return *std::find_if(std::begin(all), std::end(all),
                       [&](const KnownMetrics& k) { return k.output_type == output_type; });
}

void read_metric(Node node, ZeroShotTask& task) {
  const std::string place = to_string(node.mark()), name = name_in(node, "metric", "metric_list");
  const KnownMetrics& known = known_metrics(task.output_type);
  std::vector<std::string> names;
  std::string usual;
  for (const auto& [metric, aggregation] : known.metrics) {
    names.push_back(metric);
    if (metric == name) usual = aggregation;
  }
  check_usage(!usual.empty(), "eval", place, ": metric '", name, "' is not supported for ", task.output_type, "; ",
              join(names), " are");
  if (std::find(task.metrics.begin(), task.metrics.end(), name) == task.metrics.end()) task.metrics.push_back(name);
  std::string aggregation;
  bool higher_is_better = true, weight_by_size = true, evaluated = false;
  std::string average;
  std::vector<std::string> ignored;
  const bool of_classes = task.output_type == "generate_until" && (name == "accuracy" || name == "f1");
  const bool matches = name == "exact_match" && task.output_type == "generate_until";
  read_fields(node, "metric_list", [&](Fields& f) {
    f("aggregation", aggregation, "of documents: that of the metric", one_of({"", usual}));
    f("higher_is_better", higher_is_better, "of no effect here");
    f("weight_by_size", weight_by_size, "of no effect here: groups weigh");
    f("average", average, "of f1 of answers: micro; else of no effect");
    f("hf_evaluate", evaluated, "accuracy and f1 of answers: the metric of the library evaluate");
    if (!matches) return;
    f("ignore_case", task.exact_match.ignore_case, "compare in lower case");
    f("ignore_punctuation", task.exact_match.ignore_punctuation, "compare without ASCII punctuation");
    f("ignore_numbers", task.exact_match.ignore_numbers, "compare without ASCII digits");
    f("regexes_to_ignore", ignored, "compare without what these match");
  });
  check_usage(evaluated == of_classes, "eval", place, ": metric '", name, "' ",
              of_classes ? "of generate_until needs hf_evaluate: true" : "is not one of hf_evaluate");
  check_usage(!of_classes || name != "f1" || average == "micro", "eval", place,
              ": f1 of generate_until is of single documents, for which average must be micro, got '", average, "'");
  for (Pattern& pattern : patterns_of(ignored, place)) task.exact_match.regexes_to_ignore.push_back(std::move(pattern));
}

// ---- scores

size_t most_of(const std::vector<double>& values) {
  return size_t(std::max_element(values.begin(), values.end()) - values.begin());
}

double length_of(const std::string& text, bool bytes) {
  if (bytes) return double(text.size());
  return double(std::count_if(text.begin(), text.end(), [](char c) { return (uint8_t(c) & 0xc0) != 0x80; }));
}

bool is_right(const ChosenDocument& d, size_t choice) {
  return std::find(d.right.begin(), d.right.end(), int64_t(choice)) != d.right.end();
}

double share_of(const std::string& name, const ChosenDocument& d) {
  std::vector<double> scores = d.log_likelihoods;
  if (name == "exact_match")
    return std::any_of(d.right.begin(), d.right.end(), [&](int64_t i) { return d.greedy[size_t(i)]; });
  for (size_t i = 0; i < scores.size(); ++i) {
    if (name == "acc_norm" || name == "acc_bytes") scores[i] /= length_of(d.choices[i], name == "acc_bytes");
    if (name == "acc_mutual_info") scores[i] -= d.alone[i];
  }
  return is_right(d, most_of(scores));
}

constexpr int64_t kNoChoice = -100;  // the class of documents without a right choice, as in the harness

// Right and chosen classes, one each a document.
std::vector<std::pair<int64_t, int64_t>> classes(const std::vector<ChosenDocument>& documents, const std::string& name,
                                                 const std::string& task) {
  std::vector<std::pair<int64_t, int64_t>> out;
  for (const ChosenDocument& d : documents) {
    check(d.right.size() <= 1, "eval", task, ": ", name, " needs one right choice of each document, got ",
          d.right.size());
    out.push_back({d.right.empty() ? kNoChoice : d.right[0], int64_t(most_of(d.log_likelihoods))});
  }
  return out;
}

// Of class 1 against 0, of the pairs that were drawn.
double f1_of(const std::vector<std::pair<int64_t, int64_t>>& pairs, const std::vector<size_t>& drawn,
             const std::string& task) {
  double both = 0, right = 0, chosen = 0;
  for (const size_t i : drawn) {
    const auto [gold, pick] = pairs[i];
    check(gold >= 0 && gold <= 1 && pick <= 1, "eval", task, ": f1 is of two classes, and a document has class ",
          std::max(gold, pick));
    both += gold == 1 && pick == 1, right += gold == 1, chosen += pick == 1;
  }
  return right + chosen > 0 ? 2 * both / (right + chosen) : 0;
}

// Matthews' correlation, of any number of classes.
double mcc_of(const std::vector<std::pair<int64_t, int64_t>>& pairs, const std::vector<size_t>& drawn) {
  std::map<int64_t, double> right, chosen;
  double hits = 0;
  const double n = double(drawn.size());
  for (const size_t i : drawn)
    ++right[pairs[i].first], ++chosen[pairs[i].second], hits += pairs[i].first == pairs[i].second;
  double crossed = 0, of_right = 0, of_chosen = 0;
  for (const auto& [k, count] : right) crossed += count * (chosen.count(k) ? chosen[k] : 0), of_right += count * count;
  for (const auto& [k, count] : chosen) of_chosen += count * count;
  const double below = (n * n - of_chosen) * (n * n - of_right);
  return below > 0 ? (hits * n - crossed) / std::sqrt(below) : 0;
}

double brier_of(const std::vector<ChosenDocument>& documents, const std::string& task) {
  double sum = 0;
  for (const ChosenDocument& d : documents) {
    check(d.right.size() == 1 && d.choices.size() == documents[0].choices.size(), "eval", task,
          ": brier_score needs one right choice, and as many choices in each document");
    const double most = d.log_likelihoods[most_of(d.log_likelihoods)];
    double total = 0;
    for (const double l : d.log_likelihoods) total += std::exp(l - most);
    for (size_t i = 0; i < d.choices.size(); ++i) {
      const double apart = std::exp(d.log_likelihoods[i] - most) / total - double(int64_t(i) == d.right[0]);
      sum += apart * apart;
    }
  }
  return sum / double(documents.size());
}

}  // namespace

Node take_measures(Node& node) {
  Node out = Node::map();
  for (const char* key : {"generation_kwargs", "filter_list", "metric_list"})
    if (const Node* found = node.find(key)) {
      if (!found->is_null()) out.set(key, *found);
      node.erase(key);
    }
  return out;
}

void read_measures(const Node& measures, ZeroShotTask& task) {
  task.until = {task.fewshot_delimiter};
  const bool written = task.output_type == "generate_until";
  if (const Node* settings = measures.find("generation_kwargs"); settings && written) read_settings(*settings, task);
  if (const Node* list = measures.find("filter_list"))
    for (const Node& one : items_of(*list)) read_filter(one, task);
  if (const Node* list = measures.find("metric_list"))
    for (const Node& one : items_of(*list)) read_metric(one, task);
  if (task.filters.empty()) task.filters.push_back({});
  const KnownMetrics& known = known_metrics(task.output_type);
  for (size_t i = 0; task.metrics.size() < known.usual && i < known.usual && !measures.find("metric_list"); ++i)
    task.metrics.push_back(known.metrics[i].first);
}

ZeroShotMetric choice_metric(const std::string& name, const std::vector<ChosenDocument>& documents,
                             const std::string& task) {
  ZeroShotMetric out{.name = name, .value = 0, .stderr_ = {}};
  if (name == "f1" || name == "mcc") {
    const std::vector<std::pair<int64_t, int64_t>> all = classes(documents, name, task);
    return bootstrapped(name, all.size(), kResamples, [&](const std::vector<size_t>& drawn) {
      return name == "f1" ? f1_of(all, drawn, task) : mcc_of(all, drawn);
    });
  }
  if (name == "brier_score") return out.value = brier_of(documents, task), out;
  std::vector<double> shares;
  for (const ChosenDocument& d : documents) shares.push_back(share_of(name, d));
  return mean_of(name, shares);
}

}  // namespace lithe
